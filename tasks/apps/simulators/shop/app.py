"""``Shop``: products, a cart, orders and a wish list."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pydantic

from .....errors import ToolError
from ..app import App, Body, Id, Maybe, Money, Page, Words, call, cents, day, money
from . import goods, orders

Category = Literal["kitchen", "garden", "office", "sports", "home", "travel"]
Status = Literal["placed", "shipped", "delivered", "cancelled"]
Stars = Annotated[int, pydantic.Field(ge=1, le=5)]
Rating = Annotated[float, pydantic.Field(ge=1, le=5)]
SORTS = {"name": "name", "price": "price", "rating": "rating DESC"}


class Shop(App):
    """An online store where the user has an account."""

    name = "shop"
    about = "an online store: products, reviews, cart, orders, returns, wish list"
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
        """Search for products. A product must match every condition you give.

        Args:
            words: part of the product name, which begins with the brand.
            category: category of the product.
            max_price: highest price.
            min_rating: lowest average rating in stars.
            in_stock: whether to leave out products with no variant in stock.
            sort: sort by name, by price (lowest first) or by rating (highest first).
            page: page of the results, starting at 1.
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
        """Show a product, its variants and how many of each are in stock.

        Args:
            product_id: ID of the product.
        """
        row = self.find(f"({goods.PRODUCTS})", product_id, "product")
        rows = self.db.rows("SELECT id, label, stock FROM variants WHERE product_id = ? ORDER BY id", product_id)
        variants = [{"variant_id": one["id"], "variant": one["label"], "stock": one["stock"]} for one in rows]
        return {**goods.product(row), "brand": row["brand"], "variants": variants}

    @call
    def list_reviews(self, product_id: Id, page: Page = 1) -> dict[str, Any]:
        """List the reviews of a product, newest first.

        Args:
            product_id: ID of the product.
            page: page of the results, starting at 1.
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
        """Review a product that was delivered to the user. Each product can be reviewed once.

        Args:
            product_id: ID of the product.
            stars: rating from 1 to 5.
            text: text of the review.
        """
        self.find("products", product_id, "product")
        delivered = self.db.rows("SELECT id FROM orders WHERE status = 'delivered'")
        if not any(product_id == item["product_id"] for row in delivered for item in orders.items(self.db, row["id"])):
            raise ToolError(f"409 product {product_id} has never been delivered to the user")
        author = str(self.db.value("SELECT first_name || ' ' || last_name FROM profile"))
        if self.db.row("SELECT id FROM reviews WHERE product_id = ? AND author = ?", product_id, author):
            raise ToolError(f"409 the user has already reviewed product {product_id}")
        columns = {"product_id": product_id, "author": author, "stars": stars, "text": text}
        return {"review_id": self.db.insert("reviews", **columns, created_at=self.stamp)}

    @call
    def show_cart(self) -> dict[str, Any]:
        """Show the cart and its total. Shipping costs 4.90 and is free for orders of 50.00 or more."""
        return goods.cart(self.db)

    @call
    def set_quantity(self, variant_id: Id, quantity: Annotated[int, pydantic.Field(ge=0, le=50)]) -> dict[str, Any]:
        """Add a product variant to the cart, change its quantity, or remove it.

        Args:
            variant_id: ID of the variant.
            quantity: new quantity in the cart, at most the number in stock; 0 removes the variant.
        """
        row = self.find("variants", variant_id, "variant")
        found = self.db.row("SELECT * FROM cart_items WHERE variant_id = ?", variant_id)
        if quantity > row["stock"]:
            raise ToolError(f"409 variant {variant_id} has only {row['stock']} in stock")
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
        """List the user's shipping addresses."""
        return self.db.rows("SELECT id AS address_id, label, street, city FROM shop_addresses ORDER BY id")

    @call
    def add_address(self, label: Words, street: Words, city: Words) -> dict[str, Any]:
        """Add a shipping address.

        Args:
            label: unique label for the address, such as "home".
            street: street with house number.
            city: name of the city.
        """
        if self.db.row("SELECT id FROM shop_addresses WHERE label = ?", label):
            raise ToolError(f"409 an address labeled {label!r} already exists")
        return {"address_id": self.db.insert("shop_addresses", label=label, street=street, city=city)}

    @call
    def list_cards(self) -> list[dict[str, Any]]:
        """List the user's payment cards, each with its expiration month."""
        return self.db.rows("SELECT id AS card_id, brand, last_digits, valid_until FROM cards ORDER BY id")

    @call
    def checkout(
        self, address_id: Id, pay_with: Literal["wallet", "card"], card_id: Id | None = None
    ) -> dict[str, Any]:
        """Order everything in the cart and pay for it, including shipping.

        Args:
            address_id: ID of the shipping address.
            pay_with: the user's wallet, if its balance and monthly limit allow it, or a card.
            card_id: ID of the card; required with "card" and not allowed with "wallet".
        """
        self.find("shop_addresses", address_id, "address")
        if (pay_with == "card") != (card_id is not None):
            raise ToolError("422 card_id is required when you pay by card, and not allowed otherwise")
        if card_id is not None and self.find("cards", card_id, "card")["valid_until"] < self.stamp[:7]:
            raise ToolError(f"409 card {card_id} has expired")
        return orders.brief(self.find("orders", orders.place(self.db, self.now, address_id, card_id), "order"))

    @call
    def list_orders(
        self, status: Status | None = None, since: Maybe = "", until: Maybe = "", page: Page = 1
    ) -> dict[str, Any]:
        """List the user's orders, newest first. An order must match every condition you give.

        Args:
            status: status of the order.
            since: only orders placed on this day or later, such as 2025-05-14.
            until: only orders placed on this day or earlier.
            page: page of the results, starting at 1.
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
        """Show an order: its items, when it was shipped and delivered, and how it was paid for.

        Args:
            order_id: ID of the order.
        """
        return orders.full(self.db, self.find("orders", order_id, "order"))

    @call
    def cancel_order(self, order_id: Id) -> dict[str, Any]:
        """Cancel an order that has not been shipped yet. The amount is refunded to the original payment method.

        Args:
            order_id: ID of the order.
        """
        row = self.find("orders", order_id, "order")
        if row["status"] != "placed":
            raise ToolError(f"409 order {order_id} cannot be cancelled: it is {row['status']}")
        orders.cancel(self.db, self.stamp, row)
        return {"order_id": order_id, "refunded": money(row["total"])}

    @call
    def return_item(self, order_item_id: Id) -> dict[str, Any]:
        """Return an item of an order, in its full quantity, within 30 days of delivery. Its price is refunded.

        Args:
            order_item_id: ID of the item, as shown by shop_get_order.
        """
        item = self.find("order_items", order_item_id, "order item")
        order = self.find("orders", item["order_id"], "order")
        if item["returned"]:
            raise ToolError(f"409 item {order_item_id} has already been returned")
        if order["status"] != "delivered":
            raise ToolError(f"409 item {order_item_id} cannot be returned: its order is {order['status']}")
        if not orders.returnable(order, self.now.date()):
            raise ToolError(f"409 item {order_item_id} was delivered more than {orders.RETURN_DAYS} days ago")
        return {"refunded": money(orders.give_back(self.db, self.stamp, order, item))}

    @call
    def list_wishes(self, page: Page = 1) -> dict[str, Any]:
        """List the products on the wish list by name.

        Args:
            page: page of the results, starting at 1.
        """
        wished = "SELECT product_id FROM wishes"
        rows = self.db.rows(f"SELECT * FROM ({goods.PRODUCTS}) WHERE id IN ({wished}) ORDER BY name, id")
        return self.paged([goods.product(row) for row in rows], page)

    @call
    def set_wish(self, product_id: Id, wished: bool) -> dict[str, Any]:
        """Add a product to the wish list, or remove it.

        Args:
            product_id: ID of the product.
            wished: true to add the product, false to remove it.
        """
        self.find("products", product_id, "product")
        found = self.db.row("SELECT id FROM wishes WHERE product_id = ?", product_id)
        if wished == (found is not None):
            raise ToolError(f"409 product {product_id} is {'already' if wished else 'not'} on the wish list")
        if found is None:
            self.db.insert("wishes", product_id=product_id)
        else:
            self.db.delete("wishes", found["id"])
        return {"product_id": product_id, "wished": wished}
