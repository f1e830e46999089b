"""Initial rows of the shop: products, reviews, and the user's orders, wish list and cart."""

from __future__ import annotations

from datetime import timedelta

from ....people.cast import Cast
from ....rng import Rng
from ....rows.data import phrases_beside
from ....rows.database import Database
from ..accounts import account_of
from .goods import CATEGORIES, DELIVERY, delivery_cost

COLORS = ("black", "white", "red", "blue", "green", "gray", "yellow")


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert all rows."""
    _products(db, cast, rng.child("products"))
    _account(db, cast, rng.child("account"))


def _products(db: Database, cast: Cast, rng: Rng) -> None:
    for category in CATEGORIES:
        for thing in cast.words[f"goods_{category}"]:
            brands = rng.sample(list(cast.words["brand"]), rng.randint(2, 3))
            for brand in brands:
                stock = 0 if rng.random() < 0.08 else rng.randint(2, 40)
                price = rng.randint(30, 950) * 10 - rng.pick((0, 1, 5))
                columns = {"category": category, "color": rng.pick(COLORS), "price": price, "stock": stock}
                id = db.insert("shop_products", name=f"{brand} {thing}", brand=brand, **columns)
                for _ in range(rng.pick((0, 1, 2, 3, 4, 6))):
                    at = cast.now - timedelta(days=rng.randint(1, 400), minutes=rng.randrange(1440))
                    author = f"{rng.pick(cast.words['first'])} {rng.pick('ABCDEFGHKLMNPRST')}."
                    db.insert(
                        "shop_reviews",
                        product_id=id,
                        author=author,
                        stars=rng.pick((1, 2, 3, 4, 4, 5, 5)),
                        text=rng.pick(phrases_beside(__name__)["reviews"]),
                        created_at=at.isoformat(timespec="minutes"),
                    )


def _account(db: Database, cast: Cast, rng: Rng) -> None:
    me = account_of(db, "shop")["id"]
    streets = rng.sample(list(cast.words["street"]), 3)
    for label, street in zip(("home", "work", "parents"), streets, strict=True):
        city = cast.user.city if label != "parents" else rng.pick(cast.words["city"])
        db.insert("shop_addresses", account_id=me, label=label, street=f"{street} {rng.randint(1, 90)}", city=city)
    products = db.rows("SELECT * FROM shop_products WHERE stock > 3 ORDER BY id")
    for row in rng.sample(products, rng.randint(3, 7)):
        db.insert("shop_wishes", account_id=me, product_id=row["id"])
    for row in rng.sample(products, rng.randint(0, 2)):
        db.insert("shop_cart", account_id=me, product_id=row["id"], quantity=rng.randint(1, 2))
    ages = sorted((rng.uniform(5, 300) for _ in range(rng.randint(6, 14))), reverse=True)
    for age in [*ages, rng.uniform(2, 4), rng.uniform(0.2, 1.8)]:
        status = "placed" if age < 2 else "sent" if age < 4 else "cancelled" if rng.random() < 0.12 else "delivered"
        lines = [(row, rng.randint(1, 3)) for row in rng.sample(products, rng.pick((1, 1, 2, 3)))]
        goods, way = sum(row["price"] * many for row, many in lines), rng.pick(tuple(DELIVERY))
        order = db.insert(
            "shop_orders",
            account_id=me,
            status=status,
            total=goods + delivery_cost(way, goods),
            delivery=way,
            address_id=rng.randint(1, 3),
            created_at=(cast.now - timedelta(days=age)).isoformat(timespec="minutes"),
        )
        for row, many in lines:
            db.insert("shop_order_lines", order_id=order, product_id=row["id"], quantity=many, price=row["price"])
