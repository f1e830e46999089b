CREATE TABLE accounts (id INTEGER PRIMARY KEY AUTOINCREMENT, site TEXT, username TEXT, password TEXT,
    name TEXT, role TEXT);
