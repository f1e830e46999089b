"""Tasks of cancelling orders and returning items."""

from __future__ import annotations

from ....rows.database import Row
from ....rows.expected import Number, Refusal, Text
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.shop.orders import items, returnable
from ..plan import Solver
from ..wallet.speak import month_name, said, span, whole
from .expect import cancelled, returned


@template("shop", kind="mixed")
def shop_cancel(scene: Scene) -> TaskDraft:
    """Cancel the orders that have not been shipped yet."""
    placed = scene.db.rows("SELECT * FROM orders WHERE status = 'placed' ORDER BY id")
    least = scene.rng.randint(0, 30) * 500
    if scene.level >= 4:
        rows, name = [row for row in placed if row["total"] > least], ""
        scene.need(bool(rows))
        prompt = scene.rng.pick(
            (
                f"Cancel all my orders in the store that cost more than {said(least)} in total and can still be"
                " cancelled. How much money do I get back?",
                f"I need to save money. Cancel every order above {said(least)} that the store has not shipped yet, and"
                " tell me how much I get back.",
            )
        )
    else:
        one = scene.pick(placed)
        name = scene.pick(items(scene.db, one["id"]))["name"]
        rows = [row for row in placed if any(item["name"] == name for item in items(scene.db, row["id"]))]
        scene.need(rows == [one])
        prompt = scene.rng.pick(
            (
                f"I ordered the {name} by mistake. It has not been shipped yet, so cancel that order and tell me how"
                " much money I get back.",
                f"Cancel the order with the {name} that has not been shipped yet. How much is refunded?",
            )
        )

    def solve(api: Solver) -> None:
        back = 0
        for item in list(api.pages("shop_list_orders", status="placed")):
            bought = api.call("shop_get_order", order_id=item["order_id"])["items"] if name else []
            if any(one["name"] == name for one in bought) or (not name and whole(item["total"]) > least):
                back += whole(api.call("shop_cancel_order", order_id=item["order_id"])["refunded"])
        api.answer(back / 100)

    must = cancelled(scene.db, *(row["id"] for row in rows))
    return TaskDraft(prompt, solve, must=must, answer=Number(sum(row["total"] for row in rows) / 100))


def _sent_back(scene: Scene, *, late: bool) -> tuple[str, Row, Row, str]:
    """Draw a request for a return: its words, the item and its order, and the month of the order."""
    orders = scene.db.rows("SELECT * FROM orders WHERE status = 'delivered' ORDER BY id")
    order = scene.pick([row for row in orders if returnable(row, scene.cast.now.date()) != late])
    item, month = scene.pick(items(scene.db, order["id"])), order["created_at"][:7]
    rows = scene.db.rows(
        """SELECT order_items.id FROM order_items JOIN orders ON orders.id = order_id JOIN variants ON
           variants.id = variant_id WHERE product_id = ? AND substr(created_at, 1, 7) = ?""",
        item["product_id"],
        month,
    )
    scene.need(len(rows) == 1 and not item["returned"])
    prompt = scene.rng.pick(
        (
            f"I don't like the {item['name']} that I ordered in {month_name(month)}. Return it to the store.",
            f"Return the {item['name']} from my order in {month_name(month)} to the store.",
        )
    )
    prompt += " If the 30-day return period has ended, that is not possible: refuse with the delivery date as evidence."
    return prompt, item, order, month


def _item_of(api: Solver, name: str, month: str) -> tuple[Row, Row]:
    """Draw an order of a month in which a product was bought, and the item in it."""
    for one in api.pages("shop_list_orders", status="delivered", **span(month)):
        order = api.call("shop_get_order", order_id=one["order_id"])
        for item in order["items"]:
            if item["name"] == name:
                return order, item
    raise LookupError(name)


@template("shop", kind="action")
def shop_return(scene: Scene) -> TaskDraft:
    """Return an item in time."""
    prompt, item, _, month = _sent_back(scene, late=False)

    def solve(api: Solver) -> None:
        _, found = _item_of(api, item["name"], month)
        api.call("shop_return_item", order_item_id=found["order_item_id"])
        api.answer()

    return TaskDraft(prompt, solve, must=returned(scene.db, item["id"]))


@template("shop", kind="refusal")
def shop_return_too_late(scene: Scene) -> TaskDraft:
    """Refuse to return an item that was delivered too long ago."""
    prompt, item, order, month = _sent_back(scene, late=True)
    at = order["delivered_at"]

    def solve(api: Solver) -> None:
        found, _ = _item_of(api, item["name"], month)
        api.refuse("not_possible", found["delivered_at"][: 10 if api.rng.random() < 0.7 else None])

    return TaskDraft(prompt, solve, refusal=Refusal("not_possible", Text(at[:10], (at,))), secrets=(at[:10],))


TEMPLATES = (shop_cancel, shop_return, shop_return_too_late)
