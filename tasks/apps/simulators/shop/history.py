"""Initial rows of the store: products, and the user's orders."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from ....people.cast import Cast
from ....rng import Rng
from ....rows.data import phrases_beside
from ....rows.database import Database
from ..mail.app import addresses
from ..wallet import ledger
from .goods import shipping
from .orders import SHOP

CATEGORIES = ("kitchen", "garden", "office", "sports", "home", "travel")
COLORS = ("black", "white", "blue", "green", "red", "gray")
SIZES = ("small", "medium", "large")
STARS = (1, 2, 3, 3, 4, 4, 4, 5, 5, 5)
CARDS = ("Visa", "Mastercard", "Amex")
LABELS = ("home", "office", "parents", "vacation home")
MAIL = "orders@turnpike.test"
OLD_ORDERS, ORDER_DAYS = 15, 150
WISHES = 8


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert goods with reviews, addresses, cards, a wish list, and orders over some months, partly with messages."""
    _goods(db, cast, rng)
    for label in LABELS[: rng.randint(2, 4)]:
        street = f"{rng.pick(cast.words['street'])} {rng.randint(1, 99)}"
        city = cast.user.city if label in ("home", "office") else rng.pick(cast.words["city"])
        db.insert("shop_addresses", label=label, street=street, city=city)
    for number, brand in enumerate(rng.sample(CARDS, rng.randint(2, 3))):
        ends = cast.now + timedelta(days=rng.randint(40, 1200) if number < 2 else -rng.randint(40, 200))
        db.insert("cards", brand=brand, last_digits=f"{rng.randrange(10_000):04}", valid_until=f"{ends:%Y-%m}")
    for product in rng.sample(range(1, db.value("SELECT count(*) FROM products") + 1), WISHES):
        db.insert("wishes", product_id=product)
    before = ledger.balance(db)
    ages = [rng.uniform(0.05, 1.5) for _ in range(rng.randint(2, 3))] + [rng.uniform(2.2, 3.5) for _ in range(2)]
    ages += [rng.uniform(7, 30) for _ in range(4)] + [rng.uniform(30, ORDER_DAYS) for _ in range(OLD_ORDERS)]
    for age in sorted(ages, reverse=True):
        _order(db, cast, rng, age)
    ledger.afford(db, before - ledger.balance(db), cast.now)
    last = db.value("SELECT id FROM orders WHERE status = 'delivered' ORDER BY created_at DESC")
    for item in db.rows("SELECT variant_id FROM order_items WHERE order_id = ?", last):
        db.update("variants", item["variant_id"], stock=rng.randint(6, 40))  # refill what the history sold


def _goods(db: Database, cast: Cast, rng: Rng) -> None:
    phrases = phrases_beside(__name__)
    for category in CATEGORIES:
        for kind in cast.words[f"goods_{category}"]:
            for brand in rng.sample(cast.words["brand"], 2):
                price = rng.pick((rng.randint(5, 40), rng.randint(15, 120))) * 100 - rng.pick((0, 1, 10, 50))
                columns: dict[str, Any] = {"brand": brand, "category": category, "price": price}
                id = db.insert("products", name=f"{brand} {kind}", **columns)
                for label in rng.sample(rng.pick((COLORS, SIZES)), rng.randint(1, 3)):
                    db.insert(
                        "variants",
                        product_id=id,
                        label=label,
                        stock=rng.pick((0, *(rng.randint(1, 60) for _ in range(3)))),
                    )
                for _ in range(rng.randint(1, 3)):
                    at = cast.now - timedelta(minutes=rng.randint(500, 300_000))
                    text = rng.pick(phrases["odd_reviews" if rng.random() < 0.02 else "reviews"])
                    author = f"{rng.pick(cast.words['first'])} {rng.pick('ABCDEFGHKLMNPRST')}."
                    columns = {"author": author, "stars": rng.pick(STARS), "text": text}
                    db.insert("reviews", product_id=id, **columns, created_at=at.isoformat(timespec="minutes"))


def _order(db: Database, cast: Cast, rng: Rng, age: float) -> None:
    """Insert an order from some days ago, with its later events."""
    at = cast.now - timedelta(days=age)
    shipped, delivered = at + timedelta(hours=rng.randint(20, 48)), at + timedelta(hours=rng.randint(60, 150))
    status = "placed" if age < 2 else "shipped" if age < 4 else "cancelled" if rng.random() < 0.12 else "delivered"
    lines = []
    for variant in rng.sample(range(1, db.value("SELECT count(*) FROM variants") + 1), rng.pick((1, 1, 2, 2, 3))):
        price = db.value(
            "SELECT price FROM products JOIN variants ON products.id = product_id AND variants.id = ?", variant
        )
        then = price if age < 4 else round(price * rng.pick((0.9, 1, 1, 1.1)) / 10) * 10
        lines.append({"variant_id": variant, "quantity": rng.pick((1, 1, 1, 2, 3)), "price": then})
    subtotal = sum(line["price"] * line["quantity"] for line in lines)
    total = subtotal + shipping(subtotal)
    wallet = rng.random() < 0.4
    card = None if wallet else rng.randint(1, 2)
    paid = {
        "total": total,
        "shipping": shipping(subtotal),
        "paid_with": "wallet" if wallet else "card",
        "card_id": card,
    }
    order = db.insert(
        "orders",
        status=status,
        **paid,
        refunded=total if status == "cancelled" else 0,
        address_id=rng.pick((1, 1, 2)),
        created_at=_stamp(at),
        shipped_at=_stamp(shipped) if status in ("shipped", "delivered") else "",
        delivered_at=_stamp(delivered) if status == "delivered" else "",
    )
    for line in lines:
        db.insert("order_items", order_id=order, **line, returned=0)
    if wallet:
        ledger.book(db, _stamp(at), "purchase", SHOP, -total, reference=f"order {order}")
    if status == "cancelled" and wallet:
        ledger.book(db, _stamp(at + timedelta(hours=6)), "refund", SHOP, total, reference=f"order {order}")
    if status == "delivered" and age < 90:
        if rng.random() < 0.15:
            _returned(db, order, lines[0]["price"] * lines[0]["quantity"], wallet, delivered + timedelta(hours=20))
        if rng.random() < 0.6:
            _mail(db, cast, rng, delivered, f"Your order {order} has been delivered. Thank you for shopping with us!")
    elif status == "shipped":
        _mail(db, cast, rng, shipped, f"Your order {order} for {total / 100:.2f} is on its way.")


def _returned(db: Database, order: int, amount: int, wallet: bool, at: datetime) -> None:
    """Mark the first item of an order as returned, and refund it."""
    first = db.value("SELECT min(id) FROM order_items WHERE order_id = ?", order)
    db.update("order_items", first, returned=1)
    db.update("orders", order, refunded=amount)
    if wallet:
        ledger.book(db, _stamp(at), "refund", SHOP, amount, reference=f"order {order}")


def _mail(db: Database, cast: Cast, rng: Rng, at: datetime, text: str) -> None:
    db.insert(
        "messages",
        folder=rng.pick(("inbox", "archive")),
        sender=MAIL,
        recipients=addresses([cast.user.email]),
        subject="Your order",
        body=f"Hello {cast.user.first},\n{text}\n{SHOP}",
        sent_at=_stamp(at),
        created_at=_stamp(at),
        unread=int(rng.random() < 0.2),
        starred=0,
    )


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="minutes")
