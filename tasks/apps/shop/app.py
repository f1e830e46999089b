"""``Shop``: products, a cart, orders and a wish list."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pydantic

from ....errors import ToolError
from ..world.app import App, Body, Id, Maybe, Money, Page, Words, call, cents, day, money
from . import goods, orders

Category = Literal["kitchen", "garden", "office", "sports", "home", "travel"]
Status = Literal["placed", "shipped", "delivered", "cancelled"]
Stars = Annotated[int, pydantic.Field(ge=1, le=5)]
Rating = Annotated[float, pydantic.Field(ge=1, le=5)]
SORTS = {"name": "name", "price": "price", "rating": "rating DESC"}


class Shop(App):
    """A shop where the user has an account."""

    name = "shop"
    about = "a shop: products, reviews, cart, orders, returns, wish list"
    ids: ClassVar[dict[str, str]] = {
        "product_id": "products",
        "variant_id": "variants",
        "order_id": "orders",
        "order_item_id": "order_items",
        "address_id": "shop_addresses",
        "card_id": "cards",
    }
    keys: ClassVar[dict[str, tuple[str, ...]]] = {"cart_items": ("variant_id",), "wishes": ("product_id",)}
    stray = ("shop_add_address", {"label": "nobody", "street": "No Street 1", "city": "Nowhere"})
    schema: ClassVar[str] = """
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
    """

    @call
    def search(
        self,
        words: Maybe = "",
        category: Category | None = None,
        max_price: Money | None = None,
        min_rating: Rating | None = None,
        in_stock: bool = False,
        sort: Literal["name", "price", "rating"] = "name",
        page: Page = 1,
    ) -> dict[str, Any]:
        """Find products; several conditions must all hold.

        Args:
            words: a part of the name, which begins with the brand.
            category: of the product.
            max_price: it costs at most this.
            min_rating: the average of the stars in its reviews is at least this.
            in_stock: leave out what is sold out in every variant.
            sort: by name, by price (cheapest first) or by rating (best first).
            page: of the listing.
        """
        rows = self.db.rows(
            f"""SELECT * FROM ({goods.PRODUCTS}) WHERE (instr(lower(name), lower(?1)) OR ?1 = '')
                AND (category = ?2 OR ?2 IS NULL) AND (price <= ?3 OR ?3 IS NULL) AND (rating >= ?4 OR ?4 IS NULL)
                AND stock >= ?5 ORDER BY {SORTS[sort]}, id""",
            words,
            category,
            max_price and cents(max_price, "max_price"),
            min_rating,
            int(in_stock),
        )
        return self.paged([goods.product(row) for row in rows], page)

    @call
    def get_product(self, product_id: Id) -> dict[str, Any]:
        """A product with its variants and how many there are of each.

        Args:
            product_id: which.
        """
        row = self.find(f"({goods.PRODUCTS})", product_id, "product")
        rows = self.db.rows("SELECT id, label, stock FROM variants WHERE product_id = ? ORDER BY id", product_id)
        variants = [{"variant_id": one["id"], "variant": one["label"], "stock": one["stock"]} for one in rows]
        return {**goods.product(row), "brand": row["brand"], "variants": variants}

    @call
    def list_reviews(self, product_id: Id, page: Page = 1) -> dict[str, Any]:
        """What people say about a product, newest first.

        Args:
            product_id: which.
            page: of the listing.
        """
        self.find("products", product_id, "product")
        rows = self.db.rows(
            """SELECT author, stars, text, created_at AS at FROM reviews WHERE product_id = ?
               ORDER BY created_at DESC, id DESC""",
            product_id,
        )
        return self.paged(rows, page)

    @call
    def add_review(self, product_id: Id, stars: Stars, text: Body = "") -> dict[str, Any]:
        """Review a product that was delivered to the user, once.

        Args:
            product_id: which.
            stars: from 1 to 5.
            text: what to say about it.
        """
        self.find("products", product_id, "product")
        delivered = self.db.rows("SELECT id FROM orders WHERE status = 'delivered'")
        if not any(product_id == item["product_id"] for row in delivered for item in orders.items(self.db, row["id"])):
            raise ToolError(f"409 product {product_id} was never delivered to the user")
        author = str(self.db.value("SELECT first_name || ' ' || last_name FROM profile"))
        if self.db.row("SELECT id FROM reviews WHERE product_id = ? AND author = ?", product_id, author):
            raise ToolError(f"409 the user has reviewed product {product_id} already")
        columns = {"product_id": product_id, "author": author, "stars": stars, "text": text}
        return {"review_id": self.db.insert("reviews", **columns, created_at=self.stamp)}

    @call
    def show_cart(self) -> dict[str, Any]:
        """What is in the cart, and what it costs. Shipping is 4.90, and free from 50.00 on."""
        return goods.cart(self.db)

    @call
    def set_quantity(self, variant_id: Id, quantity: Annotated[int, pydantic.Field(ge=0, le=50)]) -> dict[str, Any]:
        """Put a variant of a product into the cart, change how many there are in it, or take it out.

        Args:
            variant_id: which.
            quantity: how many there are in the cart then, at most as many as are in stock; 0 takes it out.
        """
        row = self.find("variants", variant_id, "variant")
        found = self.db.row("SELECT * FROM cart_items WHERE variant_id = ?", variant_id)
        if quantity > row["stock"]:
            raise ToolError(f"409 only {row['stock']} of variant {variant_id} are in stock")
        if found is None and quantity:
            self.db.insert("cart_items", variant_id=variant_id, quantity=quantity)
        elif found is None:
            raise ToolError(f"404 variant {variant_id} is not in the cart")
        elif quantity:
            self.db.update("cart_items", found["id"], quantity=quantity)
        else:
            self.db.delete("cart_items", found["id"])
        return goods.cart(self.db)

    @call
    def list_addresses(self) -> list[dict[str, Any]]:
        """Where the user lets things be sent."""
        return self.db.rows("SELECT id AS address_id, label, street, city FROM shop_addresses ORDER BY id")

    @call
    def add_address(self, label: Words, street: Words, city: Words) -> dict[str, Any]:
        """Add a place where things can be sent.

        Args:
            label: a word for it that no other has, such as "home".
            street: with the number of the house.
            city: its name.
        """
        if self.db.row("SELECT id FROM shop_addresses WHERE label = ?", label):
            raise ToolError(f"409 there is an address {label!r} already")
        return {"address_id": self.db.insert("shop_addresses", label=label, street=street, city=city)}

    @call
    def list_cards(self) -> list[dict[str, Any]]:
        """The cards with which the user can pay, and the month in which each ends."""
        return self.db.rows("SELECT id AS card_id, brand, last_digits, valid_until FROM cards ORDER BY id")

    @call
    def checkout(
        self, address_id: Id, pay_with: Literal["wallet", "card"], card_id: Id | None = None
    ) -> dict[str, Any]:
        """Order and pay everything that is in the cart, with shipping.

        Args:
            address_id: where to.
            pay_with: the user's wallet, whose balance and monthly limit must allow it, or a card.
            card_id: which card, if one pays.
        """
        self.find("shop_addresses", address_id, "address")
        if (pay_with == "card") != (card_id is not None):
            raise ToolError("422 give a card_id if a card pays, and only then")
        if card_id is not None and self.find("cards", card_id, "card")["valid_until"] < self.stamp[:7]:
            raise ToolError(f"409 card {card_id} is not valid any more")
        return orders.brief(self.find("orders", orders.place(self.db, self.now, address_id, card_id), "order"))

    @call
    def list_orders(
        self, status: Status | None = None, since: Maybe = "", until: Maybe = "", page: Page = 1
    ) -> dict[str, Any]:
        """The user's orders, newest first; several conditions must all hold.

        Args:
            status: of the order.
            since: ordered on this day or later, such as 2025-05-14.
            until: ordered on this day or earlier.
            page: of the listing.
        """
        rows = self.db.rows(
            """SELECT * FROM orders WHERE (status = ?1 OR ?1 IS NULL) AND substr(created_at, 1, 10) >= ?2
               AND (substr(created_at, 1, 10) <= ?3 OR ?3 = '') ORDER BY created_at DESC, id DESC""",
            status,
            since and day(since, "since"),
            until and day(until, "until"),
        )
        return self.paged([orders.brief(row) for row in rows], page)

    @call
    def get_order(self, order_id: Id) -> dict[str, Any]:
        """An order with its items, when it was shipped and delivered, and how it was paid.

        Args:
            order_id: which.
        """
        return orders.full(self.db, self.find("orders", order_id, "order"))

    @call
    def cancel_order(self, order_id: Id) -> dict[str, Any]:
        """Cancel an order that has not been shipped yet; the money goes back to where it came from.

        Args:
            order_id: which.
        """
        row = self.find("orders", order_id, "order")
        if row["status"] != "placed":
            raise ToolError(f"409 order {order_id} cannot be cancelled: it is {row['status']}")
        orders.cancel(self.db, self.stamp, row)
        return {"order_id": order_id, "refunded": money(row["total"])}

    @call
    def return_item(self, order_item_id: Id) -> dict[str, Any]:
        """Return an item of an order, all pieces of it, within 30 days of its delivery; its price is paid back.

        Args:
            order_item_id: which, as shop_get_order gives it.
        """
        item = self.find("order_items", order_item_id, "item of an order")
        order = self.find("orders", item["order_id"], "order")
        if item["returned"]:
            raise ToolError(f"409 item {order_item_id} is returned already")
        if order["status"] != "delivered":
            raise ToolError(f"409 item {order_item_id} cannot be returned: its order is {order['status']}")
        if not orders.returnable(order, self.now.date()):
            raise ToolError(f"409 item {order_item_id} was delivered more than {orders.RETURN_DAYS} days ago")
        return {"refunded": money(orders.give_back(self.db, self.stamp, order, item))}

    @call
    def list_wishes(self, page: Page = 1) -> dict[str, Any]:
        """The products on the wish list, by name.

        Args:
            page: of the listing.
        """
        wished = "SELECT product_id FROM wishes"
        rows = self.db.rows(f"SELECT * FROM ({goods.PRODUCTS}) WHERE id IN ({wished}) ORDER BY name, id")
        return self.paged([goods.product(row) for row in rows], page)

    @call
    def set_wish(self, product_id: Id, wished: bool) -> dict[str, Any]:
        """Put a product on the wish list, or take it off.

        Args:
            product_id: which.
            wished: whether it is on the list then.
        """
        self.find("products", product_id, "product")
        found = self.db.row("SELECT id FROM wishes WHERE product_id = ?", product_id)
        if wished == (found is not None):
            raise ToolError(
                f"409 product {product_id} is {'on the wish list already' if wished else 'not on the wish list'}"
            )
        if found is None:
            self.db.insert("wishes", product_id=product_id)
        else:
            self.db.delete("wishes", found["id"])
        return {"product_id": product_id, "wished": wished}
