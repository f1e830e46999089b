CREATE TABLE products (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, brand TEXT, category TEXT,
    price INTEGER);
CREATE TABLE variants (id INTEGER PRIMARY KEY AUTOINCREMENT, product_id INTEGER, label TEXT, stock INTEGER);
CREATE INDEX variants_by_product ON variants (product_id);
CREATE TABLE reviews (id INTEGER PRIMARY KEY AUTOINCREMENT, product_id INTEGER, author TEXT, stars INTEGER,
    text TEXT, created_at TEXT);
CREATE INDEX reviews_by_product ON reviews (product_id);
CREATE TABLE cart_items (id INTEGER PRIMARY KEY AUTOINCREMENT, variant_id INTEGER UNIQUE, quantity INTEGER);
CREATE TABLE wishes (id INTEGER PRIMARY KEY AUTOINCREMENT, product_id INTEGER UNIQUE);
CREATE TABLE shop_addresses (id INTEGER PRIMARY KEY AUTOINCREMENT, label TEXT UNIQUE, street TEXT, city TEXT);
CREATE TABLE cards (id INTEGER PRIMARY KEY AUTOINCREMENT, brand TEXT, last_digits TEXT, valid_until TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, status TEXT, total INTEGER, shipping INTEGER,
    refunded INTEGER, paid_with TEXT, address_id INTEGER, card_id INTEGER, created_at TEXT, shipped_at TEXT,
    delivered_at TEXT);
CREATE TABLE order_items (id INTEGER PRIMARY KEY AUTOINCREMENT, order_id INTEGER, variant_id INTEGER,
    quantity INTEGER, price INTEGER, returned INTEGER);
CREATE INDEX order_items_by_order ON order_items (order_id);
