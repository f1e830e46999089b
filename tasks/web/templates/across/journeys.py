"""Tasks across the shop and the booking site: a fact from one site is needed on the other."""

from __future__ import annotations

from typing import Any

from ....rows.database import Row
from ....rows.expected import AtLeast, Must, Number, Text, deleted, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.accounts import account_of
from ...simulators.booking.rooms import last_free, rooms_of
from ...simulators.shop.goods import CATEGORIES, DELIVERY, WANT_LINES, delivery_cost
from ..booking.ways import mine, open_place, open_stay
from ..shop.tasks import open_product
from ..walk import Walk

ONLY = "Don't order anything already in my cart in the store; I no longer need it, so remove it."


@template("shop", "booking", kind="cross")
def cross_sum(scene: Scene) -> TaskDraft:
    """Ask for the total price of an order and a stay."""
    stay = scene.pick(mine(scene))
    order = _open_order(scene)
    prompt = (
        "What is the combined total price of my order in the store that has not been sent yet and my booking at the"
        f" {stay['place']}?"
    )

    def solve(walk: Walk) -> None:
        walk.goto("shop")
        walk.click(walk.word("orders"))
        goods = float(walk.seek(lambda one: one[walk.word("status")] == "placed")[walk.word("total")])
        open_stay(walk, stay["place"])
        walk.answer(f"{goods + float(walk.fact(walk.word('total'))):.2f}")

    total = (order["total"] + stay["total"]) / 100
    return TaskDraft(prompt, solve, answer=Number(total), secrets=(f"{total:.2f}",))


@template("shop", "booking", kind="cross")
def cross_watch(scene: Scene) -> TaskDraft:
    """Set a price alert at the price of an order."""
    me = account_of(scene.db, "booking")["id"]
    orders = scene.db.rows("SELECT * FROM shop_orders WHERE account_id = ?", account_of(scene.db, "shop")["id"])
    order = scene.pick(orders)
    cities = {row["city"] for row in scene.db.rows("SELECT DISTINCT city FROM booking_places")}
    watched = {row["city"] for row in scene.db.rows("SELECT city FROM booking_alerts WHERE account_id = ?", me)}
    city = scene.pick(sorted(cities - watched))
    prompt = (
        f"Add a price alert for {city} on the booking site: I want to know about nights that cost less than the total"
        f" of my order number {order['id']} in the store."
    )

    def solve(walk: Walk) -> None:
        walk.goto("shop")
        walk.click(walk.word("orders"))
        total = walk.entry(f"Order {order['id']}")[walk.word("total")]
        walk.goto("booking")
        walk.click(walk.word("alerts"))
        walk.fill(walk.word("city"), city)
        walk.fill(walk.word("most"), total)
        walk.click(walk.word("add_alert"))
        walk.answer()

    must = inserted("booking_alerts", "alert", account_id=me, city=Text(city), most=order["total"])
    return TaskDraft(prompt, solve, must=(must,))


@template("shop", "booking", kind="cross")
def cross_cancel_dearer(scene: Scene) -> TaskDraft:
    """Cancel the more expensive one of an order and a stay."""
    stay = scene.pick([row for row in mine(scene) if last_free(row) >= scene.cast.day(0)])
    order = _open_order(scene)
    scene.need(order["total"] != stay["total"])
    goes = order["total"] > stay["total"]
    prompt = (
        f"I need to save money. Compare my booking at the {stay['place']} with my order in the store that has not been"
        " sent yet, and cancel whichever has the higher total. Tell me the total of the other one."
    )
    must = [updated("booking_stays", stay["id"], "cancelled", status="cancelled")]
    if goes:
        must = [updated("shop_orders", order["id"], "cancelled", status="cancelled")]
        for line in scene.db.rows(WANT_LINES, order["id"]):
            stock = line["stock"] + line["quantity"]
            must.append(updated("shop_products", line["product_id"], f"stock {line['name']}", stock=stock))

    def solve(walk: Walk) -> None:
        open_stay(walk, stay["place"])
        stays = walk.fact(walk.word("total"))
        walk.goto("shop")
        walk.click(walk.word("orders"))
        entry = walk.seek(lambda one: one[walk.word("status")] == "placed")
        costs = entry[walk.word("total")]
        if float(costs) > float(stays):
            walk.click(entry.name, within=entry)
            walk.click(walk.word("cancel_order"))
            walk.answer(stays)
        else:
            open_stay(walk, stay["place"])
            walk.click(walk.word("cancel_stay"))
            walk.click(walk.word("really"))
            walk.answer(costs)

    left = stay["total"] if goes else order["total"]
    return TaskDraft(prompt, solve, must=tuple(must), answer=Number(left / 100))


@template("shop", "booking", kind="cross")
def cross_wish_below_a_night(scene: Scene) -> TaskDraft:
    """Wish for the most expensive product of a department that costs less than a night in a room."""
    me = account_of(scene.db, "shop")["id"]
    place = scene.row("SELECT * FROM booking_places")
    room, category = scene.pick(rooms_of(scene.db, place["id"])), scene.pick(CATEGORIES)
    rows = scene.db.rows("SELECT * FROM shop_products WHERE category = ? AND price < ?", category, room["price"])
    rows.sort(key=lambda row: -int(row["price"]))
    more = scene.db.value("SELECT count(*) FROM shop_products WHERE category = ?", category)
    scene.need(2 < len(rows) < more and rows[0]["price"] > rows[1]["price"])
    wished = scene.db.rows("SELECT product_id FROM shop_wishes WHERE account_id = ?", me)
    scene.need(rows[0]["id"] not in [row["product_id"] for row in wished])
    prompt = (
        f"Find the most expensive product in the store's '{category}' department that costs less than a night from"
        f" Sunday to Monday in the {room['name']} of the {place['name']} on the booking site, and add it to my wish"
        " list."
    )

    def solve(walk: Walk) -> None:
        open_place(walk, place["name"])
        night = walk.entry(room["name"])[walk.word("price")]
        walk.goto("shop")
        walk.click(walk.word("products"))
        walk.choose(walk.word("category"), category)
        walk.fill(walk.word("max_price"), night)
        walk.choose(walk.word("sort"), walk.word("price"))
        walk.click(walk.word("search"))
        price = walk.word("price")
        below = [one for one in walk.all_entries() if float(one[price]) < float(night)]
        open_product(walk, max(below, key=lambda one: float(one[price])).name)
        walk.click(walk.word("add_to_wishes"))
        walk.answer()

    return TaskDraft(prompt, solve, must=(inserted("shop_wishes", "wish", account_id=me, product_id=rows[0]["id"]),))


@template("shop", "booking", kind="cross")
def cross_one_each(scene: Scene) -> TaskDraft:
    """Order as many pieces as a stay has guests."""
    stay = scene.pick(mine(scene))
    product = _product(scene, stay["guests"])
    address = scene.row("SELECT * FROM shop_addresses WHERE account_id = ?", account_of(scene.db, "shop")["id"])
    way = scene.pick(tuple(DELIVERY))
    prompt = (
        f"Everyone on my trip to the {stay['place']}, including me, should get one {product['name']}. Look up how many"
        f" people I booked for, and order that many in the store with {way} delivery to my address"
        f" '{address['label']}'. {ONLY}"
    )

    def solve(walk: Walk) -> None:
        open_stay(walk, stay["place"])
        many = walk.fact(walk.word("guests"))
        _fill_cart(walk, product["name"], many)
        walk.click(walk.word("checkout"))
        walk.choose(walk.word("address"), f"{address['label']}: {address['street']}, {address['city']}")
        _finish(walk, way)

    return TaskDraft(prompt, solve, must=_ordered(scene, product, stay["guests"], way, address["id"]))


@template("shop", "booking", kind="cross", held_out=True)
def cross_send_there(scene: Scene) -> TaskDraft:
    """Order something to the address of a stay, which the shop does not know yet."""
    stay = scene.pick(mine(scene))
    place = scene.row("SELECT * FROM booking_places WHERE id = ?", stay["place_id"])
    way, many = scene.pick(("standard", "express")), scene.rng.randint(1, 3)
    product, label = _product(scene, many), scene.pick(("trip", "hotel", "on the way"))
    prompt = (
        f"Order {many} × {product['name']} in the store with {way} delivery to the place that I booked, the"
        f" {stay['place']}: enter its street and city as a new address with the label '{label}'. {ONLY}"
    )
    new = scene.next_id("shop_addresses")
    columns = {"label": Text(label), "street": Text(place["street"]), "city": Text(place["city"])}
    must = inserted("shop_addresses", "address", account_id=account_of(scene.db, "shop")["id"], **columns)

    def solve(walk: Walk) -> None:
        open_place(walk, stay["place"])
        street, city = walk.fact(walk.word("street")), walk.fact(walk.word("city"))
        _fill_cart(walk, product["name"], str(many))
        walk.click(walk.word("checkout"))
        for name, text in (("label", label), ("street", street), ("city", city)):
            walk.fill(walk.word(name), text)
        walk.click(walk.word("save"))
        walk.choose(walk.word("address"), f"{label}: {street}, {city}")
        _finish(walk, way)

    return TaskDraft(prompt, solve, must=(must, *_ordered(scene, product, many, way, new)), secrets=(place["street"],))


def _open_order(scene: Scene) -> Row:
    """Return the user's only order that has not been sent yet."""
    me = account_of(scene.db, "shop")["id"]
    rows = scene.db.rows("SELECT * FROM shop_orders WHERE account_id = ? AND status = 'placed'", me)
    scene.need(len(rows) == 1)
    return rows[0]


def _cart(scene: Scene) -> list[Row]:
    return scene.db.rows("SELECT * FROM shop_cart WHERE account_id = ?", account_of(scene.db, "shop")["id"])


def _product(scene: Scene, many: int) -> Row:
    """Draw a product that is in stock and not in the cart."""
    held = [line["product_id"] for line in _cart(scene)]
    rows = scene.db.rows("SELECT * FROM shop_products WHERE stock >= ?", many)
    return scene.pick([row for row in rows if row["id"] not in held])


def _ordered(scene: Scene, product: Row, many: int, way: str, address: int | AtLeast) -> tuple[Must, ...]:
    """Return the changes when one product is ordered after emptying the cart."""
    goods, me = product["price"] * many, account_of(scene.db, "shop")["id"]
    total = goods + delivery_cost(way, goods)
    columns: dict[str, Any] = {"status": "placed", "total": total, "delivery": way, "address_id": address}
    line = {"product_id": product["id"], "quantity": many, "price": product["price"]}
    return (
        inserted("shop_orders", "order", account_id=me, **columns),
        inserted("shop_order_lines", "line", order_id=scene.next_id("shop_orders"), **line),
        updated("shop_products", product["id"], "stock", stock=product["stock"] - many),
        *(deleted("shop_cart", one["id"], "old cart") for one in _cart(scene)),
    )


def _fill_cart(walk: Walk, product: str, many: str) -> None:
    """Empty the cart, and add a number of pieces of a product."""
    walk.goto("shop")
    walk.click(walk.word("cart"))
    for entry in walk.entries():
        walk.click(walk.word("remove"), within=walk.entry(entry.name))
    open_product(walk, product)
    walk.fill(walk.word("quantity"), many)
    walk.click(walk.word("add_to_cart"))


def _finish(walk: Walk, way: str) -> None:
    """Take the last steps of a checkout."""
    walk.click(walk.word("continue"))
    walk.choose(walk.word("delivery"), f"{way} ({DELIVERY[way] / 100:.2f})")
    walk.click(walk.word("continue"))
    walk.click(walk.word("place_order"))
    walk.answer()


JOURNEYS = (cross_sum, cross_watch, cross_cancel_dearer, cross_wish_below_a_night, cross_one_each, cross_send_there)
"""All templates across both sites."""
