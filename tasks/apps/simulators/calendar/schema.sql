CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT, place TEXT, starts_at TEXT,
    ends_at TEXT, organizer TEXT, notes TEXT, status TEXT, created_at TEXT);
CREATE INDEX events_by_start ON events (starts_at);
CREATE TABLE guests (id INTEGER PRIMARY KEY AUTOINCREMENT, event_id INTEGER, email TEXT, response TEXT,
    UNIQUE (event_id, email));
