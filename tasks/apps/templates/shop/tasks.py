"""Tasks of the shop: products, spending, cart and wish list; see also ``buying`` and ``returns``."""

from __future__ import annotations

from ....rows.expected import Must, Number, Text, deleted, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.shop.goods import LINES, PRODUCTS
from ...simulators.shop.goods import total as with_shipping
from ...simulators.shop.history import CATEGORIES
from ...simulators.shop.orders import items
from ..plan import Solver
from ..wallet.speak import month_name, months, said, span, whole
from .buying import TEMPLATES as BUYING
from .returns import TEMPLATES as RETURNS
from .speak import last_delivered, product_of


@template("shop", kind="question")
def shop_cheapest(scene: Scene) -> TaskDraft:
    """Ask for the cheapest product of a kind."""
    category, rating = scene.pick(CATEGORIES), scene.pick((3.0, 3.5, 4.0, 4.5)) if scene.level > 1 else 1.0
    brand = scene.pick(scene.cast.words["brand"]) if scene.level > 3 else ""
    found = scene.db.rows(
        f"SELECT * FROM ({PRODUCTS}) WHERE category = ? AND rating >= ? AND stock > 0 AND brand != ? ORDER BY price",
        category,
        rating,
        brand,
    )
    scene.need(len(found) > 1 and found[0]["price"] < found[1]["price"])
    rated, not_by = f"has a rating of at least {rating}", f"is not by {brand}"
    more = f", {rated} and {not_by}" if brand else f" and {rated}" if rating > 1 else ""
    prompt = scene.rng.pick(
        (
            f"What is the cheapest product in the store's category '{category}' that is in stock{more}? I need its"
            " name.",
            f"Give me the name of the cheapest product in the store's category '{category}' that is in stock{more}.",
        )
    )

    def solve(api: Solver) -> None:
        conditions: dict[str, object] = {"category": category, "in_stock": True}
        if rating > 1:
            conditions["min_rating"] = rating
        if api.rng.random() < 0.6:
            conditions["sort"] = "price"
        shown = [item for item in api.pages("shop_search", **conditions) if item["name"].split(" ")[0] != brand]
        api.answer(min(shown, key=lambda item: float(item["price"]))["name"])

    return TaskDraft(prompt, solve, answer=Text(found[0]["name"]), secrets=(found[0]["name"],))


@template("shop", kind="question")
def shop_spent_in_month(scene: Scene) -> TaskDraft:
    """Ask for the spending of a month, at higher levels in one category."""
    month = scene.pick(months(scene.cast.now, 4))
    rows = scene.db.rows(
        "SELECT * FROM orders WHERE substr(created_at, 1, 7) = ? AND status != 'cancelled' ORDER BY id", month
    )
    scene.need(len(rows) > 1)
    if scene.level < 3:
        spent, category = sum(row["total"] for row in rows), ""
        what = f"did the orders that I placed in the store in {month_name(month)} cost in total, with shipping"
        but = "Leave out cancelled orders, but do not subtract refunds for returned items."
    else:
        category = scene.pick(CATEGORIES)
        bought = [item for row in rows for item in items(scene.db, row["id"]) if item["category"] == category]
        spent = sum(item["price"] * item["quantity"] for item in bought if not item["returned"])
        scene.need(len(bought) > 1)
        what = f"did I spend in the store on products in the category '{category}' ordered in {month_name(month)}"
        but = "Leave out shipping, cancelled orders, and items that I returned."
    prompt = scene.rng.pick(
        (
            f"How much {what}? {but}",
            f"I'm keeping track of my spending. How much {what}? {but}",
        )
    )

    def solve(api: Solver) -> None:
        kept = [one for one in api.pages("shop_list_orders", **span(month)) if one["status"] != "cancelled"]
        if not category:
            api.answer(sum(whole(one["total"]) for one in kept) / 100)
            return
        shown = [api.call("shop_get_order", order_id=one["order_id"])["items"] for one in kept]
        paid = [item for each in shown for item in each if item["category"] == category and not item["returned"]]
        api.answer(sum(whole(item["price"]) * item["quantity"] for item in paid) / 100)

    return TaskDraft(prompt, solve, answer=Number(spent / 100))


@template("shop", kind="question", held_out=True)
def shop_worst_review(scene: Scene) -> TaskDraft:
    """Ask for the author of the lowest rating of a product."""
    product = scene.row("SELECT * FROM products")
    rows = scene.db.rows("SELECT * FROM reviews WHERE product_id = ? ORDER BY stars", product["id"])
    scene.need(len(rows) > 1 and rows[0]["stars"] < rows[1]["stars"])
    prompt = scene.rng.pick(
        (
            f"Who gave the {product['name']} the fewest stars in the store? Answer with the name in the review.",
            f"Who wrote the worst review of the {product['name']} in the store?",
        )
    )

    def solve(api: Solver) -> None:
        found = api.pages("shop_list_reviews", product_id=product_of(api, product["name"]))
        api.answer(min(found, key=lambda one: int(one["stars"]))["author"])

    return TaskDraft(prompt, solve, answer=Text(rows[0]["author"]), secrets=(rows[0]["author"],))


@template("shop", kind="mixed")
def shop_trim_cart(scene: Scene) -> TaskDraft:
    """Remove expensive items from the cart, and change the quantity of another."""
    count = scene.rng.randint(3, 4 + scene.level)
    for row in scene.rng.sample(scene.db.rows("SELECT id FROM variants WHERE stock > 8 ORDER BY id"), count):
        scene.add("cart_items", variant_id=row["id"], quantity=scene.rng.randint(1, 4))
    lines, most = scene.db.rows(LINES), scene.rng.randint(3, 16) * 500
    out, kept = [line for line in lines if line["price"] > most], [line for line in lines if line["price"] <= most]
    one, wanted = scene.pick(kept), scene.rng.randint(1, 8)
    alike = [line for line in lines if line["product_id"] == one["product_id"]]
    scene.need(bool(out) and len(alike) == 1 and one["quantity"] != wanted)
    subtotal = sum(line["price"] * (wanted if line is one else line["quantity"]) for line in kept)
    prompt = scene.rng.pick(
        (
            f"Remove everything from my cart in the store that costs more than {said(most)} apiece, and change the"
            f" quantity of the {one['name']} to {wanted}. Don't order yet. What does the cart then cost with shipping?",
            f"My cart in the store is too expensive. Remove everything above {said(most)} apiece, and set the quantity"
            f" of the {one['name']} to {wanted}. How much would I pay then, with shipping? I'll order it myself.",
        )
    )

    def solve(api: Solver) -> None:
        changes = {}
        for item in api.call("shop_show_cart")["items"]:
            if item["price"] * 100 > most + 0.5:
                changes[item["variant_id"]] = 0
            elif item["name"] == one["name"]:
                changes[item["variant_id"]] = wanted
        for variant, quantity in api.rng.sample(list(changes.items()), len(changes)):
            api.call("shop_set_quantity", variant_id=variant, quantity=quantity)
        api.answer(api.call("shop_show_cart")["total"])

    must = [deleted("cart_items", line["id"], f"out {line['id']}") for line in out]
    must.append(updated("cart_items", one["id"], "quantity", quantity=wanted))
    return TaskDraft(prompt, solve, must=tuple(must), answer=Number(with_shipping(subtotal) / 100))


@template("shop", kind="action")
def shop_prune_wishes(scene: Scene) -> TaskDraft:
    """Remove some products from the wish list."""
    most, rating = scene.rng.randint(4, 20) * 500, scene.pick((3.0, 3.5, 4.0)) if scene.level >= 3 else 6.0
    rows = scene.db.rows(f"SELECT * FROM ({PRODUCTS}) WHERE id IN (SELECT product_id FROM wishes)")
    gone = [row["id"] for row in rows if row["price"] > most and row["rating"] < rating]
    scene.need(0 < len(gone) < len(rows))
    bad = f" and is rated below {rating}" if rating < 6 else ""
    prompt = scene.rng.pick(
        (
            f"Remove everything from my wish list in the store that costs more than {said(most)}{bad}.",
            f"My wish list in the store is too long. Remove whatever costs more than {said(most)}{bad}. Keep the rest.",
        )
    )

    def solve(api: Solver) -> None:
        found = [item for item in api.pages("shop_list_wishes") if whole(item["price"]) > most]
        for item in found:
            if item["rating"] < rating:
                api.call("shop_set_wish", product_id=item["product_id"], wished=False)
        api.answer()

    wishes = {row["product_id"]: row["id"] for row in scene.db.rows("SELECT * FROM wishes")}
    return TaskDraft(prompt, solve, must=tuple(deleted("wishes", wishes[id], f"wish {id} gone") for id in gone))


@template("shop", kind="action")
def shop_review_last(scene: Scene) -> TaskDraft:
    """Review the item delivered last, with stars that depend on its price."""
    order = last_delivered(scene)
    bought = {item["product_id"]: item for item in items(scene.db, order["id"])}
    least, stars = scene.rng.randint(10, 60) * 100, scene.rng.sample(range(1, 6), 2)
    same = scene.level == 1
    some, other = (f"{count} star" + ("s" if count > 1 else "") for count in stars)
    parts = f" to everything that cost me less than {said(least)} apiece, and {other} to the rest"
    prompt = f"Review everything in the last order that the store delivered to me: give {some}"
    prompt += f"{'' if same else parts}. You don't need to write any text."

    def given(price: int) -> int:
        return stars[0] if same or price < least else stars[1]

    def solve(api: Solver) -> None:
        last = next(api.pages("shop_list_orders", status="delivered"))
        shown = api.call("shop_get_order", order_id=last["order_id"])["items"]
        for product, price in {item["product_id"]: item["price"] for item in shown}.items():
            api.call("shop_add_review", product_id=product, stars=given(whole(price)))
        api.answer()

    must: tuple[Must, ...] = tuple(
        inserted("reviews", f"review of {id}", product_id=id, stars=given(item["price"])) for id, item in bought.items()
    )
    return TaskDraft(prompt, solve, must=must)


TEMPLATES = (
    shop_cheapest,
    shop_spent_in_month,
    shop_worst_review,
    shop_trim_cart,
    shop_prune_wishes,
    shop_review_last,
    *BUYING,
    *RETURNS,
)
