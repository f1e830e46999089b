CREATE TABLE cms_categories (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, review INTEGER, head TEXT);
CREATE TABLE cms_authors (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, email TEXT, phone TEXT);
CREATE TABLE cms_articles (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT, slug TEXT, category TEXT,
    author_id INTEGER, status TEXT, publish_on TEXT, lead TEXT, text TEXT, views INTEGER, created_at TEXT);
CREATE TABLE cms_tags (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT);
CREATE TABLE cms_taggings (id INTEGER PRIMARY KEY AUTOINCREMENT, article_id INTEGER, tag_id INTEGER);
CREATE TABLE cms_comments (id INTEGER PRIMARY KEY AUTOINCREMENT, article_id INTEGER, author TEXT, text TEXT,
    status TEXT, created_at TEXT);
CREATE TABLE cms_banners (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, place TEXT, begins TEXT, ends TEXT);
CREATE TABLE cms_media (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, kind TEXT, kilobytes INTEGER,
    credit TEXT, article_id INTEGER);
