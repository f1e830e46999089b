CREATE TABLE shop_products (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, brand TEXT, category TEXT,
    color TEXT, price INTEGER, stock INTEGER);
CREATE TABLE shop_reviews (id INTEGER PRIMARY KEY AUTOINCREMENT, product_id INTEGER, author TEXT,
    stars INTEGER, text TEXT, created_at TEXT);
CREATE TABLE shop_addresses (id INTEGER PRIMARY KEY AUTOINCREMENT, account_id INTEGER, label TEXT,
    street TEXT, city TEXT);
CREATE TABLE shop_cart (id INTEGER PRIMARY KEY AUTOINCREMENT, account_id INTEGER, product_id INTEGER,
    quantity INTEGER);
CREATE TABLE shop_wishes (id INTEGER PRIMARY KEY AUTOINCREMENT, account_id INTEGER, product_id INTEGER);
CREATE TABLE shop_orders (id INTEGER PRIMARY KEY AUTOINCREMENT, account_id INTEGER, status TEXT, total INTEGER,
    delivery TEXT, address_id INTEGER, created_at TEXT);
CREATE TABLE shop_order_lines (id INTEGER PRIMARY KEY AUTOINCREMENT, order_id INTEGER, product_id INTEGER,
    quantity INTEGER, price INTEGER);
CREATE INDEX shop_reviews_by_product ON shop_reviews (product_id);
CREATE INDEX shop_lines_by_order ON shop_order_lines (order_id);
