CREATE TABLE wallets (id INTEGER PRIMARY KEY AUTOINCREMENT, balance INTEGER, monthly_limit INTEGER);
CREATE TABLE wallet_members (id INTEGER PRIMARY KEY AUTOINCREMENT, email TEXT UNIQUE);
CREATE TABLE transactions (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT, party TEXT, amount INTEGER,
    note TEXT, reference TEXT, created_at TEXT);
CREATE TABLE money_requests (id INTEGER PRIMARY KEY AUTOINCREMENT, direction TEXT, person TEXT, amount INTEGER,
    note TEXT, status TEXT, created_at TEXT);
