CREATE TABLE profile (id INTEGER PRIMARY KEY AUTOINCREMENT,
    first_name TEXT, last_name TEXT, email TEXT, phone TEXT, city TEXT, birthday TEXT, company TEXT);
CREATE TABLE passwords (id INTEGER PRIMARY KEY AUTOINCREMENT, app TEXT UNIQUE, password TEXT);
