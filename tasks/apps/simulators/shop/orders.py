"""Orders: placing, cancelling and returning, with their effects on stock and money."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from .....errors import ToolError
from ....rows.database import Database, Row
from ..app import money
from ..wallet import ledger
from .goods import LINES, shipping

SHOP = "Turnpike Store"
"""Name of the shop in the wallet's transactions."""
RETURN_DAYS = 30
"""Days after delivery within which an item can be returned."""


def place(db: Database, now: datetime, address_id: int, card_id: int | None) -> int:
    """Order the content of the cart, empty it, and return the order's id.

    Args:
        db: the world's rows.
        now: the world's time.
        address_id: number of the delivery address.
        card_id: number of the card that pays; ``None`` for the wallet.

    Raises:
        ToolError: the cart is empty, something is out of stock, or there is not enough money.
    """
    lines, at = db.rows(LINES), now.isoformat(timespec="minutes")
    if not lines:
        raise ToolError("409 the cart is empty")
    for line in lines:
        if line["quantity"] > line["stock"]:
            raise ToolError(f"409 variant {line['variant_id']} has only {line['stock']} in stock")
    subtotal = sum(line["quantity"] * line["price"] for line in lines)
    cost = shipping(subtotal)
    paid = {"total": subtotal + cost, "shipping": cost, "refunded": 0, "paid_with": "wallet" if not card_id else "card"}
    when = {"created_at": at, "shipped_at": "", "delivered_at": ""}
    order = db.insert("orders", status="placed", **paid, address_id=address_id, card_id=card_id, **when)
    for line in lines:
        bought = {"variant_id": line["variant_id"], "quantity": line["quantity"], "price": line["price"]}
        db.insert("order_items", order_id=order, **bought, returned=0)
        db.update("variants", line["variant_id"], stock=line["stock"] - line["quantity"])
        db.delete("cart_items", line["id"])
    if card_id is None:
        ledger.check(db, subtotal + cost, now)
        ledger.book(db, at, "purchase", SHOP, -subtotal - cost, reference=f"order {order}")
    return order


def cancel(db: Database, at: str, order: Row) -> None:
    """Cancel an order that has not been shipped: refund all money and restock all goods."""
    db.update("orders", order["id"], status="cancelled", refunded=order["total"])
    for item in db.rows("SELECT variant_id, quantity FROM order_items WHERE order_id = ?", order["id"]):
        stock = db.value("SELECT stock FROM variants WHERE id = ?", item["variant_id"])
        db.update("variants", item["variant_id"], stock=stock + item["quantity"])
    refund(db, at, order, order["total"])


def give_back(db: Database, at: str, order: Row, item: Row) -> int:
    """Return a delivered item: refund its price without restocking it. Return the refund."""
    amount = int(item["price"] * item["quantity"])
    db.update("order_items", item["id"], returned=1)
    db.update("orders", order["id"], refunded=order["refunded"] + amount)
    refund(db, at, order, amount)
    return amount


def refund(db: Database, at: str, order: Row, amount: int) -> None:
    """Refund money to its origin; the apps do not model the balances of cards."""
    if order["paid_with"] == "wallet":
        ledger.book(db, at, "refund", SHOP, amount, reference=f"order {order['id']}")


def returnable(order: Row, today: date) -> bool:
    """Return whether the items of an order can still be returned."""
    delivered = datetime.fromisoformat(order["delivered_at"]).date()
    return (today - delivered).days <= RETURN_DAYS


def items(db: Database, order_id: int) -> list[Row]:
    """Return the items of an order, with the names of the products."""
    return db.rows(
        """SELECT order_items.*, products.id AS product_id, products.name, products.category, variants.label
           FROM order_items JOIN variants ON variants.id = variant_id JOIN products ON products.id = product_id
           WHERE order_id = ? ORDER BY order_items.id""",
        order_id,
    )


def brief(row: Row) -> dict[str, Any]:
    """Return an order in the form of listings."""
    shown = {"order_id": row["id"], "status": row["status"], "ordered_at": row["created_at"]}
    return {**shown, "total": money(row["total"]), "refunded": money(row["refunded"])}


def full(db: Database, row: Row) -> dict[str, Any]:
    """Return an order with all of its details."""
    bought = [
        {
            "order_item_id": item["id"],
            "product_id": item["product_id"],
            "variant_id": item["variant_id"],
            "name": item["name"],
            "category": item["category"],
            "variant": item["label"],
            "quantity": item["quantity"],
            "price": money(item["price"]),
            "returned": bool(item["returned"]),
        }
        for item in items(db, row["id"])
    ]
    sent = {name: row[name] or None for name in ("shipped_at", "delivered_at", "address_id", "paid_with", "card_id")}
    return {**brief(row), "shipping": money(row["shipping"]), **sent, "items": bought}
