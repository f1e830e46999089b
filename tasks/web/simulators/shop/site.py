"""``Shop``: products with reviews, a cart, a checkout in three steps, orders and a wish list."""

from __future__ import annotations

from typing import Any, ClassVar

from ....rows.database import Row
from ..http import Response, number
from ..site import Refused, Site, page
from .goods import CATEGORIES, DELIVERY, LINES, PRODUCTS, SORTS, WANT_LINES, delivery_cost


class Shop(Site):
    """The shop."""

    name = "shop"
    title = "Harbor Goods"
    about = "An online store: products with reviews, a cart, orders and a wish list."
    keys: ClassVar[dict[str, tuple[str, ...]]] = {
        "shop_cart": ("account_id", "product_id"),
        "shop_wishes": ("account_id", "product_id"),
    }
    menu = (("products", "/products"), ("cart", "/cart"), ("wishes", "/wishes"), ("orders", "/orders"))
    stray = ("/addresses", {"label": "nobody", "street": "No Street 1", "city": "Nowhere"})

    # -- products ---------------------------------------------------------------------------------------------------

    @page("/")
    def front(self) -> Response:
        """Show the departments, and new products."""
        rows = self.db.rows(f"SELECT * FROM ({PRODUCTS}) ORDER BY id DESC LIMIT 6")
        return self.show("front.html", rows=rows, categories=CATEGORIES)

    @page("/products")
    def products(self) -> Response:
        """List the products that match the query."""
        query, wrong = self.query, ""
        most = query.get("max")
        try:
            cents = round(float(most) * 100) if most else None
        except (ValueError, OverflowError):
            cents, wrong = None, f"{most[:20]!r} is not an amount."
        sort = query.get("sort", "name")
        rows = self.db.rows(
            f"""SELECT * FROM ({PRODUCTS}) WHERE (instr(lower(name), lower(?1)) OR ?1 = '')
                AND (category = ?2 OR ?2 = '') AND (price <= ?3 OR ?3 IS NULL)
                ORDER BY {SORTS.get(sort, "name")}, id""",
            query.get("q"),
            query.get("category"),
            cents,
        )
        return self.show("products.html", found=self.paged(rows), categories=CATEGORIES, sort=sort, wrong=wrong)

    @page("/products/{id:int}")
    def product(self, id: int) -> Response:
        """Show one product with its reviews."""
        row = self.find(f"({PRODUCTS})", id, "product")
        reviews = self.db.rows("SELECT * FROM shop_reviews WHERE product_id = ? ORDER BY created_at DESC, id DESC", id)
        return self.show("product.html", product=row, found=self.paged(reviews))

    @page("/products/{id:int}/review", "POST", member=True)
    def review(self, id: int) -> Response:
        """Write a review of a delivered product, once."""
        self.find("shop_products", id, "product")
        stars, text = self.form.get("stars"), self.form.get("text")
        if stars not in ("1", "2", "3", "4", "5"):
            return self.go(f"/products/{id}", "Choose between 1 and 5 stars.")
        author = self.member["name"]
        if self.db.row("SELECT id FROM shop_reviews WHERE product_id = ? AND author = ?", id, author):
            return self.go(f"/products/{id}", "You have already reviewed this product.")
        columns = {"product_id": id, "author": author, "stars": int(stars), "text": text[:2000]}
        self.db.insert("shop_reviews", **columns, created_at=self.stamp)
        return self.go(f"/products/{id}", "Thank you for your review.")

    # -- cart and wishes --------------------------------------------------------------------------------------------

    @page("/cart", member=True)
    def cart(self) -> Response:
        """Show the cart."""
        lines = self._lines()
        return self.show("cart.html", lines=lines, total=sum(line["price"] * line["quantity"] for line in lines))

    @page("/cart", "POST", member=True)
    def set_cart(self) -> Response:
        """Add a product to the cart, change its quantity, or remove it."""
        id, asked = self.form.get("product"), self.form.get("quantity", "1")
        product = self.find("shop_products", number(id), "product")
        if not (asked.isascii() and asked.isdecimal() and len(asked) < 4):
            return self.go(f"/products/{product['id']}", f"{asked[:20]!r} is not a valid quantity.")
        had = next((line for line in self._lines() if line["product_id"] == product["id"]), None)
        adds = self.form.get("how") == "add"
        quantity = int(asked) + (had["quantity"] if had and adds else 0)
        if quantity > product["stock"]:
            where = f"/products/{product['id']}" if adds else "/cart"
            return self.go(where, f"{product['name']}: only {product['stock']} in stock.")
        if had is None and quantity:
            columns = {"account_id": self.member["id"], "product_id": product["id"], "quantity": quantity}
            self.db.insert("shop_cart", **columns)
        elif had is not None and quantity:
            self.db.update("shop_cart", had["id"], quantity=quantity)
        elif had is not None:
            self.db.delete("shop_cart", had["id"])
        return self.go("/cart", f"{product['name']}: {quantity} in your {self.word('cart').lower()}.")

    @page("/wishes", member=True)
    def wishes(self) -> Response:
        """Show the wish list."""
        wished = "SELECT product_id FROM shop_wishes WHERE account_id = ?"
        rows = self.db.rows(f"SELECT * FROM ({PRODUCTS}) WHERE id IN ({wished}) ORDER BY name, id", self.member["id"])
        return self.show("wishes.html", found=self.paged(rows))

    @page("/wishes", "POST", member=True)
    def set_wish(self) -> Response:
        """Add a product to the wish list, or remove it."""
        id = self.form.get("product")
        product = self.find("shop_products", number(id), "product")
        mine = (self.member["id"], product["id"])
        row = self.db.row("SELECT * FROM shop_wishes WHERE account_id = ? AND product_id = ?", *mine)
        if self.form.get("how") == "remove":
            if row is not None:
                self.db.delete("shop_wishes", row["id"])
            return self.go("/wishes", f"{product['name']} was removed from your list.")
        if row is None:
            self.db.insert("shop_wishes", account_id=mine[0], product_id=mine[1])
        return self.go("/wishes", f"{product['name']} was added to your list.")

    # -- checkout and orders ----------------------------------------------------------------------------------------

    @page("/checkout", member=True)
    def checkout(self) -> Response:
        """First step: choose the address."""
        if not self._lines():
            return self.go("/cart", "Your cart is empty.")
        return self.show("address.html", addresses=self._addresses(), chosen=self.visit.kept.get("address"))

    @page("/addresses", "POST", member=True)
    def add_address(self) -> Response:
        """Add an address during the checkout."""
        columns = {name: self.form.get(name)[:80] for name in ("label", "street", "city")}
        if not all(columns.values()):
            return self.go("/checkout", "Fill in all three fields of the address.")
        if any(row["label"].lower() == columns["label"].lower() for row in self._addresses()):
            return self.go("/checkout", f"An address labeled {columns['label']!r} already exists.")
        id = self.db.insert("shop_addresses", account_id=self.member["id"], **columns)
        self.keep(address=id)
        return self.go("/checkout", "The address was added.")

    @page("/checkout/delivery", "POST", member=True)
    def choose_address(self) -> Response:
        """Second step: choose the delivery method."""
        chosen = next((row for row in self._addresses() if str(row["id"]) == self.form.get("address")), None)
        if chosen is None:
            return self.go("/checkout", "Choose an address.")
        self.keep(address=chosen["id"])
        return self.go("/checkout/delivery")

    @page("/checkout/delivery", member=True)
    def delivery(self) -> Response:
        """Show the form of the second step."""
        return self.show("delivery.html", ways=DELIVERY, chosen=self.visit.kept.get("delivery", ""))

    @page("/checkout/review", "POST", member=True)
    def choose_delivery(self) -> Response:
        """Third step: confirm the order."""
        if self.form.get("delivery") not in DELIVERY:
            return self.go("/checkout/delivery", "Choose a delivery method.")
        self.keep(delivery=self.form.get("delivery"))
        return self.go("/checkout/review")

    @page("/checkout/review", member=True)
    def check(self) -> Response:
        """Show the order for confirmation."""
        address, way = self._chosen()
        lines = self._lines()
        total = sum(line["price"] * line["quantity"] for line in lines)
        return self.show(
            "check.html", lines=lines, address=address, way=way, cost=delivery_cost(way, total), total=total
        )

    @page("/orders", "POST", member=True)
    def order(self) -> Response:
        """Order the content of the cart."""
        address, way = self._chosen()
        lines = self._lines()
        for line in lines:
            if line["quantity"] > line["stock"]:
                return self.go("/cart", f"{line['name']}: only {line['stock']} in stock.")
        goods = sum(line["price"] * line["quantity"] for line in lines)
        id = self.db.insert(
            "shop_orders",
            account_id=self.member["id"],
            status="placed",
            total=goods + delivery_cost(way, goods),
            delivery=way,
            address_id=address["id"],
            created_at=self.stamp,
        )
        for line in lines:
            columns = {"product_id": line["product_id"], "quantity": line["quantity"], "price": line["price"]}
            self.db.insert("shop_order_lines", order_id=id, **columns)
            self.db.update("shop_products", line["product_id"], stock=line["stock"] - line["quantity"])
            self.db.delete("shop_cart", line["id"])
        self.keep(address=None, delivery=None)
        return self.go(f"/orders/{id}", "Thank you for your order.")

    @page("/orders", member=True)
    def orders(self) -> Response:
        """List the member's orders, newest first."""
        rows = self.db.rows(
            "SELECT * FROM shop_orders WHERE account_id = ? ORDER BY created_at DESC, id DESC", self.member["id"]
        )
        return self.show("orders.html", found=self.paged(rows))

    @page("/orders/{id:int}", member=True)
    def one_order(self, id: int) -> Response:
        """Show one order."""
        row = self._order(id)
        address = self.db.row("SELECT * FROM shop_addresses WHERE id = ?", row["address_id"])
        return self.show("order.html", order=row, lines=self.db.rows(WANT_LINES, id), address=address)

    @page("/orders/{id:int}/cancel", "POST", member=True)
    def cancel(self, id: int) -> Response:
        """Cancel an order that has not been sent."""
        row = self._order(id)
        if row["status"] != "placed":
            return self.go(f"/orders/{id}", f"This order is {row['status']} and can no longer be cancelled.")
        self.db.update("shop_orders", id, status="cancelled")
        for line in self.db.rows(WANT_LINES, id):
            self.db.update("shop_products", line["product_id"], stock=line["stock"] + line["quantity"])
        return self.go(f"/orders/{id}", "The order was cancelled.")

    # -- internals --------------------------------------------------------------------------------------------------

    def _lines(self) -> list[Row]:
        return self.db.rows(LINES, self.member["id"])

    def _addresses(self) -> list[Row]:
        return self.db.rows("SELECT * FROM shop_addresses WHERE account_id = ? ORDER BY id", self.member["id"])

    def _order(self, id: int) -> Row:
        row = self.find("shop_orders", id, "order")
        if row["account_id"] != self.member["id"]:
            raise Refused("This is someone else's order.")
        return row

    def _chosen(self) -> tuple[Row, str]:
        kept: Any = self.visit.kept
        address = next((row for row in self._addresses() if row["id"] == kept.get("address")), None)
        if address is None or "delivery" not in kept or not self._lines():
            raise Refused("Start the checkout from your cart.", 409)
        return address, str(kept["delivery"])
