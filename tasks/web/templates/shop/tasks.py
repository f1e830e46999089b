"""Tasks of the shop."""

from __future__ import annotations

from typing import Any

from ....rows.expected import AtLeast, Evidence, Matcher, Must, Number, Refusal, Text, deleted, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.accounts import account_of
from ...simulators.shop.goods import CATEGORIES, DELIVERY, PRODUCTS, WANT_LINES, delivery_cost
from ..walk import Walk


def open_product(walk: Walk, name: str) -> None:
    """Find a product by its name."""
    walk.goto("shop")
    walk.fill(walk.word("words"), name)
    walk.click(walk.word("search"))
    walk.click(name, within=walk.entry(name))


@template("shop", kind="lookup")
def shop_fact(scene: Scene) -> TaskDraft:
    """Ask for a fact about a product given by name."""
    row = scene.row(f"SELECT * FROM ({PRODUCTS})")
    what = scene.rng.pick(("price", "color", "stock"))
    said = {
        "price": "How much does one {} cost in the store?",
        "color": "What color is the {} in the store?",
        "stock": "How many units of the {} does the store have in stock?",
    }
    value: Matcher = (
        Text(row["color"]) if what == "color" else Number(row[what] / 100 if what == "price" else row[what])
    )

    def solve(walk: Walk) -> None:
        open_product(walk, row["name"])
        walk.answer(walk.fact(walk.word(what)))

    return TaskDraft(said[what].format(row["name"]), solve, answer=value)


@template("shop", kind="filter")
def shop_cheapest(scene: Scene) -> TaskDraft:
    """Ask for the cheapest or best product of a department, at higher levels within limits."""
    category, best = scene.pick(CATEGORIES), scene.rng.random() < 0.4
    most = scene.rng.randint(20, 80) * 100 if scene.level > 2 else 10**6
    rows = scene.db.rows(f"SELECT * FROM ({PRODUCTS}) WHERE category = ? AND price <= ?", category, most)
    rows.sort(key=lambda row: (-row["rating"], row["price"]) if best else (row["price"],))
    newest = scene.db.value("SELECT max(id) FROM shop_products") - 6  # these are on the front page
    scene.need(len(rows) > 3 and rows[0]["id"] <= newest)
    first, second = rows[0], rows[1]
    scene.need(first["rating"] > second["rating"] if best else first["price"] < second["price"])
    limit = f" that costs at most {most / 100:.2f}" if most < 10**6 else ""
    what = "has the best rating" if best else "is the cheapest"
    prompt = f"Which product in the store's '{category}' department{limit} {what}? Tell me its name."

    def solve(walk: Walk) -> None:
        walk.goto("shop")
        walk.click(walk.word("products"))
        walk.choose(walk.word("category"), category)
        if limit:
            walk.fill(walk.word("max_price"), f"{most / 100:.2f}")
        walk.choose(walk.word("sort"), walk.word("rating" if best else "price"))
        walk.click(walk.word("search"))
        walk.answer(walk.entries()[0].name)

    return TaskDraft(prompt, solve, answer=Text(first["name"]), secrets=(first["name"],))


@template("shop", kind="form")
def shop_review(scene: Scene) -> TaskDraft:
    """Write a review with given stars and words."""
    row, stars = scene.row("SELECT * FROM shop_products"), scene.rng.randint(1, 5)
    text = scene.rng.pick(("Works well.", "Not for me.", "Arrived on time.", "Color as shown.", "A good present."))
    me = account_of(scene.db, "shop")["name"]
    prompt = f"Review the {row['name']} in the store with {stars} of 5 stars and this text: {text}"

    def solve(walk: Walk) -> None:
        open_product(walk, row["name"])
        walk.choose(walk.word("rating"), f"{stars} star{'s' * (stars > 1)}")
        walk.fill(walk.word("comment"), text)
        walk.click(walk.word("review"))
        walk.answer()

    wanted = {"product_id": row["id"], "author": me, "stars": stars, "text": Text(text)}
    return TaskDraft(prompt, solve, must=(inserted("shop_reviews", "review", **wanted),))


@template("shop", kind="form")
def shop_wish(scene: Scene) -> TaskDraft:
    """Add a product to the wish list, or remove one."""
    me = account_of(scene.db, "shop")["id"]
    wished = {
        row["product_id"]: row["id"] for row in scene.db.rows("SELECT * FROM shop_wishes WHERE account_id = ?", me)
    }
    off = scene.rng.random() < 0.5
    row = scene.pick([one for one in scene.db.rows("SELECT * FROM shop_products") if (one["id"] in wished) == off])
    if off:
        prompt, must = (
            f"Remove the {row['name']} from my wish list in the store.",
            deleted("shop_wishes", wished[row["id"]]),
        )
    else:
        prompt = f"Add the {row['name']} to my wish list in the store."
        must = inserted("shop_wishes", "wish", account_id=me, product_id=row["id"])

    def solve(walk: Walk) -> None:
        if off:
            walk.goto("shop")
            walk.click(walk.word("wishes"))
            walk.click(walk.word("remove"), within=walk.entry(row["name"]))
        else:
            open_product(walk, row["name"])
            walk.click(walk.word("add_to_wishes"))
        walk.answer()

    return TaskDraft(prompt, solve, must=(must,))


@template("shop", kind="checkout")
def shop_order(scene: Scene) -> TaskDraft:
    """Order given products and nothing else, with a given address and delivery method."""
    me = account_of(scene.db, "shop")["id"]
    in_cart = scene.db.rows("SELECT * FROM shop_cart WHERE account_id = ?", me)
    rows = scene.db.rows("SELECT * FROM shop_products WHERE stock > 4")
    kinds = 1 if scene.level < 3 else 2
    wanted = [(row, scene.rng.randint(1, 3)) for row in scene.rng.sample(rows, kinds)]
    scene.need(not {row["id"] for row, _ in wanted} & {line["product_id"] for line in in_cart})
    address = scene.row("SELECT * FROM shop_addresses WHERE account_id = ?", me)
    way = scene.pick(tuple(DELIVERY))
    goods = sum(row["price"] * many for row, many in wanted)
    id = scene.next_id("shop_orders")
    said = " and ".join(f"{many} × {row['name']}" for row, many in wanted)
    prompt = (
        f"Order {said} in the store with {way} delivery to my address '{address['label']}', and don't order"
        " anything already in my cart; I no longer need it."
    )
    must: list[Must] = [
        inserted(
            "shop_orders",
            "order",
            account_id=me,
            status="placed",
            total=goods + delivery_cost(way, goods),
            delivery=way,
            address_id=address["id"],
        )
    ]
    for row, many in wanted:
        line = {"order_id": id, "product_id": row["id"], "quantity": many, "price": row["price"]}
        must.append(inserted("shop_order_lines", f"line {row['name']}", **line))
        must.append(updated("shop_products", row["id"], f"stock {row['name']}", stock=row["stock"] - many))
    must += [deleted("shop_cart", line["id"], "old cart") for line in in_cart]

    def solve(walk: Walk) -> None:
        walk.goto("shop")
        walk.click(walk.word("cart"))
        for entry in walk.entries():
            walk.click(walk.word("remove"), within=walk.entry(entry.name))
        for row, many in wanted:
            open_product(walk, row["name"])
            walk.fill(walk.word("quantity"), str(many))
            walk.click(walk.word("add_to_cart"))
        walk.click(walk.word("checkout"))
        walk.choose(walk.word("address"), f"{address['label']}: {address['street']}, {address['city']}")
        walk.click(walk.word("continue"))
        walk.choose(walk.word("delivery"), f"{way} ({DELIVERY[way] / 100:.2f})")
        walk.click(walk.word("continue"))
        walk.click(walk.word("place_order"))
        walk.answer()

    return TaskDraft(prompt, solve, must=tuple(must))


@template("shop", kind="form")
def shop_cancel(scene: Scene) -> TaskDraft:
    """Cancel the order that has not been sent yet, and report its price."""
    me = account_of(scene.db, "shop")["id"]
    rows = scene.db.rows("SELECT * FROM shop_orders WHERE account_id = ? AND status = 'placed'", me)
    scene.need(len(rows) == 1)
    order = rows[0]
    lines: list[dict[str, Any]] = scene.db.rows(WANT_LINES, order["id"])
    prompt = "Cancel my order in the store that has not been sent yet, and tell me what it would have cost in total."
    must = [updated("shop_orders", order["id"], "cancelled", status="cancelled")]
    must += [
        updated("shop_products", line["product_id"], f"stock {line['name']}", stock=line["stock"] + line["quantity"])
        for line in lines
    ]

    def solve(walk: Walk) -> None:
        walk.goto("shop")
        walk.click(walk.word("orders"))
        entry = walk.seek(lambda one: one[walk.word("status")] == "placed")
        total = entry[walk.word("total")]
        walk.click(entry.name, within=entry)
        walk.click(walk.word("cancel_order"))
        walk.answer(total)

    return TaskDraft(prompt, solve, must=tuple(must), answer=Number(order["total"] / 100))


@template("shop", kind="refusal")
def shop_cancel_sent(scene: Scene) -> TaskDraft:
    """Cancel an order; if it was sent, this is impossible, and the evidence is its status and order date."""
    me = account_of(scene.db, "shop")["id"]
    row = scene.row("SELECT * FROM shop_orders WHERE account_id = ?", me)
    prompt = (
        f"Cancel my order number {row['id']} in the store. If that is not possible, say so and give the status of the"
        " order and the date on which it was placed."
    )
    number, day = row["id"], str(row["created_at"])[:10]

    def solve(walk: Walk) -> None:
        walk.goto("shop")
        walk.click(walk.word("orders"))
        walk.click(f"Order {number}", within=walk.entry(f"Order {number}"))
        status = walk.fact(walk.word("status"))
        if status == "placed":
            walk.click(walk.word("cancel_order"))
            walk.answer()
        else:
            walk.refuse(f"{status}, {walk.fact(walk.word('date'))}")

    if row["status"] != "placed":
        return TaskDraft(prompt, solve, refusal=Refusal("not_possible", Evidence((row["status"], day))))
    lines = scene.db.rows(WANT_LINES, number)
    must = [updated("shop_orders", number, "cancelled", status="cancelled")]
    must += [
        updated("shop_products", line["product_id"], f"stock {line['name']}", stock=line["stock"] + line["quantity"])
        for line in lines
    ]
    return TaskDraft(prompt, solve, must=tuple(must))


@template("shop", kind="checkout", held_out=True)
def shop_new_address(scene: Scene) -> TaskDraft:
    """Order the content of the cart to an address that has to be entered first."""
    me = account_of(scene.db, "shop")["id"]
    lines = scene.db.rows(
        """SELECT shop_cart.*, name, price, stock FROM shop_cart JOIN shop_products ON shop_products.id = product_id
           WHERE account_id = ?""",
        me,
    )
    scene.need(bool(lines))
    street = f"{scene.pick(scene.cast.words['street'])} {scene.rng.randint(100, 199)}"
    city, way = scene.pick(scene.cast.words["city"]), scene.pick(tuple(DELIVERY))
    goods = sum(line["price"] * line["quantity"] for line in lines)
    order, place = scene.next_id("shop_orders"), scene.next_id("shop_addresses")
    prompt = (
        f"Order everything in my cart in the store with {way} delivery to a new address: label 'vacation', street"
        f" '{street}', city '{city}'."
    )
    must: list[Must] = [
        inserted(
            "shop_addresses", "address", account_id=me, label=Text("vacation"), street=Text(street), city=Text(city)
        ),
        inserted(
            "shop_orders",
            "order",
            account_id=me,
            status="placed",
            total=goods + delivery_cost(way, goods),
            delivery=way,
            address_id=AtLeast(place.value),
        ),
    ]
    for line in lines:
        columns = {"order_id": order, "product_id": line["product_id"], "quantity": line["quantity"]}
        must.append(inserted("shop_order_lines", f"line {line['name']}", **columns))
        stock = line["stock"] - line["quantity"]
        must.append(updated("shop_products", line["product_id"], f"stock {line['name']}", stock=stock))
        must.append(deleted("shop_cart", line["id"], f"cart {line['name']}"))

    def solve(walk: Walk) -> None:
        walk.goto("shop")
        walk.click(walk.word("cart"))
        walk.click(walk.word("checkout"))
        walk.fill(walk.word("label"), "vacation")
        walk.fill(walk.word("street"), street)
        walk.fill(walk.word("city"), city)
        walk.click(walk.word("save"))
        walk.choose(walk.word("address"), f"vacation: {street}, {city}")
        walk.click(walk.word("continue"))
        walk.choose(walk.word("delivery"), f"{way} ({DELIVERY[way] / 100:.2f})")
        walk.click(walk.word("continue"))
        walk.click(walk.word("place_order"))
        walk.answer()

    return TaskDraft(prompt, solve, must=tuple(must))


TEMPLATES = (
    shop_fact,
    shop_cheapest,
    shop_review,
    shop_wish,
    shop_order,
    shop_cancel,
    shop_cancel_sent,
    shop_new_address,
)
"""All templates of the shop."""
