CREATE TABLE forum_boards (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, about TEXT, moderator_id INTEGER);
CREATE TABLE forum_threads (id INTEGER PRIMARY KEY AUTOINCREMENT, board_id INTEGER, account_id INTEGER,
    title TEXT, pinned INTEGER, locked INTEGER, created_at TEXT);
CREATE TABLE forum_posts (id INTEGER PRIMARY KEY AUTOINCREMENT, thread_id INTEGER, account_id INTEGER,
    text TEXT, hidden INTEGER, created_at TEXT);
CREATE TABLE forum_likes (id INTEGER PRIMARY KEY AUTOINCREMENT, post_id INTEGER, account_id INTEGER);
CREATE TABLE forum_follows (id INTEGER PRIMARY KEY AUTOINCREMENT, thread_id INTEGER, account_id INTEGER);
CREATE TABLE forum_reports (id INTEGER PRIMARY KEY AUTOINCREMENT, post_id INTEGER, account_id INTEGER,
    reason TEXT, remark TEXT, state TEXT, created_at TEXT);
CREATE TABLE forum_profiles (id INTEGER PRIMARY KEY AUTOINCREMENT, account_id INTEGER, town TEXT, motto TEXT,
    joined TEXT);
CREATE INDEX forum_posts_by_thread ON forum_posts (thread_id);
CREATE INDEX forum_likes_by_post ON forum_likes (post_id);
