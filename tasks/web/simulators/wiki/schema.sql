CREATE TABLE wiki_pages (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT, section TEXT, protected_by TEXT);
CREATE TABLE wiki_facts (id INTEGER PRIMARY KEY AUTOINCREMENT, page_id INTEGER, label TEXT, value TEXT,
    to_page_id INTEGER);
CREATE TABLE wiki_parts (id INTEGER PRIMARY KEY AUTOINCREMENT, page_id INTEGER, position INTEGER, head TEXT,
    body TEXT);
CREATE TABLE wiki_revisions (id INTEGER PRIMARY KEY AUTOINCREMENT, page_id INTEGER, part_id INTEGER, what TEXT,
    author TEXT, note TEXT, body TEXT, created_at TEXT);
CREATE TABLE wiki_comments (id INTEGER PRIMARY KEY AUTOINCREMENT, page_id INTEGER, author TEXT, text TEXT,
    created_at TEXT);
CREATE TABLE wiki_watches (id INTEGER PRIMARY KEY AUTOINCREMENT, account_id INTEGER, page_id INTEGER);
CREATE INDEX wiki_facts_by_page ON wiki_facts (page_id);
CREATE INDEX wiki_parts_by_page ON wiki_parts (page_id);
CREATE INDEX wiki_revisions_by_page ON wiki_revisions (page_id);
