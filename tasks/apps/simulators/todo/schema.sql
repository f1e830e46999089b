CREATE TABLE todo_lists (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, created_at TEXT);
CREATE TABLE todo_items (id INTEGER PRIMARY KEY AUTOINCREMENT, list_id INTEGER, title TEXT, notes TEXT,
    due TEXT, priority TEXT, done INTEGER, created_at TEXT);
CREATE INDEX todo_items_by_list ON todo_items (list_id);
