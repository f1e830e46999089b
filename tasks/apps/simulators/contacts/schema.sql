CREATE TABLE contacts (id INTEGER PRIMARY KEY AUTOINCREMENT, first_name TEXT, last_name TEXT, email TEXT,
    phone TEXT, city TEXT, birthday TEXT, company TEXT, relation TEXT, favorite INTEGER);
CREATE TABLE groups (id INTEGER PRIMARY KEY AUTOINCREMENT, contact_id INTEGER, name TEXT,
    UNIQUE (contact_id, name));
