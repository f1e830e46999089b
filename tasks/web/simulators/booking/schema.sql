CREATE TABLE booking_places (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, city TEXT, street TEXT,
    stars INTEGER, amenities TEXT, free_days INTEGER);
CREATE TABLE booking_rooms (id INTEGER PRIMARY KEY AUTOINCREMENT, place_id INTEGER, name TEXT, sleeps INTEGER,
    price INTEGER, weekend INTEGER, count INTEGER);
CREATE TABLE booking_closures (id INTEGER PRIMARY KEY AUTOINCREMENT, room_id INTEGER, since TEXT, until TEXT);
CREATE TABLE booking_reviews (id INTEGER PRIMARY KEY AUTOINCREMENT, place_id INTEGER, author TEXT,
    points INTEGER, text TEXT, created_at TEXT);
CREATE TABLE booking_stays (id INTEGER PRIMARY KEY AUTOINCREMENT, account_id INTEGER, room_id INTEGER,
    check_in TEXT, check_out TEXT, guests INTEGER, guest_name TEXT, email TEXT, phone TEXT, note TEXT,
    total INTEGER, status TEXT, created_at TEXT);
CREATE TABLE booking_saved (id INTEGER PRIMARY KEY AUTOINCREMENT, account_id INTEGER, place_id INTEGER);
CREATE TABLE booking_alerts (id INTEGER PRIMARY KEY AUTOINCREMENT, account_id INTEGER, city TEXT, most INTEGER);
CREATE INDEX booking_rooms_by_place ON booking_rooms (place_id);
CREATE INDEX booking_closures_by_room ON booking_closures (room_id);
CREATE INDEX booking_stays_by_room ON booking_stays (room_id);
