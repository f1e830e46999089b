CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, folder TEXT, sender TEXT, recipients TEXT,
    subject TEXT, body TEXT, sent_at TEXT, unread INTEGER, starred INTEGER, reply_to INTEGER,
    forward_of INTEGER, created_at TEXT);
CREATE INDEX messages_by_folder ON messages (folder, sent_at);
CREATE TABLE labels (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id INTEGER, label TEXT,
    UNIQUE (message_id, label));
