"""The expected changes of rows for orders, cancellations and returns."""

from __future__ import annotations

from collections.abc import Mapping

from ....rows.database import Database
from ....rows.expected import Must, deleted, inserted, updated
from ...simulators.shop.goods import shipping
from ...simulators.shop.orders import SHOP, items
from ..wallet.expect import Move, moved


def cost(db: Database, wanted: Mapping[int, int]) -> int:
    """Return the total price of variants with shipping, in cents.

    Args:
        db: the world's rows.
        wanted: how many, by the number of the variant.
    """
    subtotal = sum(quantity * _price(db, variant) for variant, quantity in wanted.items())
    return subtotal + shipping(subtotal)


def ordered(db: Database, wanted: Mapping[int, int], address_id: int | None, card_id: int | None) -> tuple[Must, ...]:
    """Return the changes of an order: its rows, the stock, the money, and the emptied cart.

    Args:
        db: the world's rows.
        wanted: how many, by the number of the variant.
        address_id: number of the delivery address; ``None`` if another check covers it.
        card_id: which pays; ``None``: the wallet does.
    """
    total = cost(db, wanted)
    address = {} if address_id is None else {"address_id": address_id}
    paid = {"paid_with": "card" if card_id else "wallet", "card_id": card_id, "total": total}
    found = [inserted("orders", "order", status="placed", **paid, **address)]
    for variant, quantity in wanted.items():
        price = _price(db, variant)
        found.append(
            inserted("order_items", f"bought {variant}", variant_id=variant, quantity=quantity, price=price, returned=0)
        )
        found.append(updated("variants", variant, f"stock {variant}", stock=_stock(db, variant) - quantity))
    found += [deleted("cart_items", row["id"], "cart") for row in db.rows("SELECT id FROM cart_items ORDER BY id")]
    return (*found, *(() if card_id else moved(db, Move("purchase", SHOP, -total))))


def cancelled(db: Database, *orders: int) -> tuple[Must, ...]:
    """Return the changes of cancelled orders."""
    found: list[Must] = []
    back: dict[int, int] = {}
    moves: list[Move] = []
    for id in orders:
        row = db.row("SELECT * FROM orders WHERE id = ?", id)
        assert row is not None
        found.append(updated("orders", id, f"order {id} cancelled", status="cancelled", refunded=row["total"]))
        for item in items(db, id):
            back[item["variant_id"]] = back.get(item["variant_id"], 0) + item["quantity"]
        if row["paid_with"] == "wallet":
            moves.append(Move("refund", SHOP, row["total"], reference=f"order {id}"))
    found += [updated("variants", id, f"stock {id}", stock=_stock(db, id) + count) for id, count in back.items()]
    return (*found, *(moved(db, *moves) if moves else ()))


def returned(db: Database, order_item_id: int) -> tuple[Must, ...]:
    """Return the changes of a returned item."""
    item = db.row("SELECT * FROM order_items WHERE id = ?", order_item_id)
    assert item is not None
    order = db.row("SELECT * FROM orders WHERE id = ?", item["order_id"])
    assert order is not None
    amount = item["price"] * item["quantity"]
    back = (Move("refund", SHOP, amount, reference=f"order {order['id']}"),) if order["paid_with"] == "wallet" else ()
    return (
        updated("order_items", order_item_id, "returned", returned=1),
        updated("orders", order["id"], "refunded", refunded=order["refunded"] + amount),
        *(moved(db, *back) if back else ()),
    )


def _price(db: Database, variant: int) -> int:
    return int(
        db.value("SELECT price FROM products WHERE id = (SELECT product_id FROM variants WHERE id = ?)", variant)
    )


def _stock(db: Database, variant: int) -> int:
    return int(db.value("SELECT stock FROM variants WHERE id = ?", variant))
