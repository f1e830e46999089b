"""Tasks of buying: a named product, the cheapest one, a previous purchase, or a request in a message."""

from __future__ import annotations

from ....rows.database import Row
from ....rows.expected import May, Number, Refusal, inserted
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.app import later
from ...simulators.mail.history import letter
from ...simulators.shop.goods import PRODUCTS, total
from ...simulators.shop.history import CATEGORIES
from ...simulators.shop.orders import items
from ...simulators.wallet import ledger
from ..contacts.finding import email_of, full_name
from ..plan import Solver
from ..wallet.expect import requested
from ..wallet.speak import said
from .expect import cost, ordered
from .speak import (
    VARIANTS,
    Way,
    buy,
    check_out,
    empty_cart,
    last_delivered,
    pieces,
    product_of,
    variant_of,
    variants_of,
    way,
)


def _goods(scene: Scene, count: int) -> list[Row]:
    """Draw variants of different products that are in stock."""
    rows = [scene.row(f"{VARIANTS} WHERE stock > 1") for _ in range(count)]
    scene.need(len({row["product_id"] for row in rows}) == count)
    return rows


def _order(scene: Scene, rows: list[Row], wanted: list[int], paid: Way) -> str:
    """Return the prompt, which is the same whether the purchase is possible or not."""
    what = " and ".join(pieces(count, row["name"], row["label"]) for row, count in zip(rows, wanted, strict=True))
    asked = scene.rng.pick((f"Please order {what} from the store.", f"I need {what}. Buy that for me in the store."))
    unless = "If there is not enough of anything in stock, order nothing and refuse,"
    unless += f" with the price of one {rows[0]['name']} as evidence."
    full = " First empty the cart: I no longer want what is in it now." if _left_over(scene, rows) else ""
    return f"{asked} {paid}{full} {unless}"


def _left_over(scene: Scene, rows: list[Row]) -> bool:
    """Leave forgotten items in the cart at higher levels, and return whether there are any."""
    if scene.level < 4:
        return False
    for row in _goods(scene, scene.level - 3):
        scene.need(row["id"] not in {one["id"] for one in rows})
        scene.add("cart_items", variant_id=row["id"], quantity=scene.rng.randint(1, 2))
    return True


@template("shop", kind="action")
def shop_buy(scene: Scene) -> TaskDraft:
    """Buy a named product."""
    rows = _goods(scene, 1 if scene.level < 3 else 2)
    counts = [scene.rng.randint(1, min(9, row["stock"])) for row in rows]
    wanted = {row["id"]: count for row, count in zip(rows, counts, strict=True)}
    paid = way(scene, wanted)
    prompt = _order(scene, rows, counts, paid)

    def solve(api: Solver) -> None:
        if scene.level >= 4:
            empty_cart(api)
        found = {variant_of(api, row["name"], row["label"]): count for row, count in zip(rows, counts, strict=True)}
        buy(api, found, paid)
        api.answer()

    return TaskDraft(prompt, solve, must=ordered(scene.db, wanted, paid.address["id"], paid.card_id))


@template("shop", kind="refusal")
def shop_out_of_stock(scene: Scene) -> TaskDraft:
    """Refuse to buy a product that is out of stock."""
    short = scene.row(f"{VARIANTS} WHERE stock < 9")
    lines = [(short, scene.rng.randint(short["stock"] + 1, 9))]
    if scene.level >= 3:
        other = _goods(scene, 1)[0]
        scene.need(other["product_id"] != short["product_id"])
        lines.append((other, scene.rng.randint(1, min(9, other["stock"]))))
    scene.rng.shuffle(lines)
    rows, counts = [row for row, _ in lines], [count for _, count in lines]
    prompt = _order(scene, rows, counts, way(scene))

    def solve(api: Solver) -> None:
        shown = [api.call("shop_get_product", product_id=product_of(api, row["name"])) for row in rows]
        api.refuse("not_possible", shown[0]["price"])

    refusal = Refusal("not_possible", Number(rows[0]["price"] / 100))
    emptied = (May("cart_items", "delete"),)
    return TaskDraft(prompt, solve, may=emptied, refusal=refusal, secrets=(said(rows[0]["price"]),))


def _cheapest(scene: Scene, *, dear: bool) -> tuple[str, Row, int, Way, dict[str, object]]:
    """Draw a request for the cheapest product of a kind, its variant and number, and how a solution finds it."""
    category, rating = scene.pick(CATEGORIES), scene.pick((3.0, 3.5, 4.0)) if scene.level > 1 else 1.0
    found = scene.db.rows(
        f"SELECT * FROM ({PRODUCTS}) WHERE category = ? AND rating >= ? AND stock > 0 ORDER BY price LIMIT 2",
        category,
        rating,
    )
    scene.need(len(found) == 2 and found[0]["price"] < found[1]["price"])
    rows = scene.db.rows(f"{VARIANTS} WHERE products.id = ? ORDER BY stock DESC", found[0]["id"])
    scene.need(len(rows) == 1 or rows[0]["stock"] > rows[1]["stock"])
    balance, left = ledger.balance(scene.db), ledger.left(scene.db, scene.cast.now)
    costs = {count: total(rows[0]["price"] * count) for count in range(1, rows[0]["stock"] + 1)}
    fit = [count for count, much in costs.items() if (much > balance if dear else much <= min(balance, left))]
    count = scene.pick(fit)
    paid = way(scene, wallet=True)
    rated = f" with a rating of at least {rating}" if rating > 1 else ""
    how_many = "one unit" if count == 1 else f"{count} units"
    prompt = scene.rng.pick(
        (
            f"Buy {how_many} of the cheapest product{rated} in the store's category '{category}'. Ignore products that"
            " are sold out.",
            f"Find the cheapest product{rated} in the store's category '{category}', ignoring products that are sold"
            f" out, and order {how_many} of it.",
        )
    )
    prompt += f" If it comes in several variants, take the one with the most units in stock. {paid}"
    prompt += " If my wallet balance is too low, order nothing and refuse with the balance as evidence."
    conditions: dict[str, object] = {"category": category, "in_stock": True}
    if rating > 1:
        conditions["min_rating"] = rating
    return prompt, rows[0], count, paid, conditions


def _most(api: Solver, conditions: dict[str, object]) -> tuple[int, float]:
    """Return the variant with the largest stock of the cheapest product, and its price."""
    if api.rng.random() < 0.6:
        product = next(api.pages("shop_search", sort="price", **conditions))
    else:
        product = min(api.pages("shop_search", **conditions), key=lambda item: item["price"])
    shown = api.call("shop_get_product", product_id=product["product_id"])
    return max(shown["variants"], key=lambda one: one["stock"])["variant_id"], shown["price"]


@template("shop", "wallet", kind="action")
def shop_cheapest_bought(scene: Scene) -> TaskDraft:
    """Buy the cheapest product of a kind, with enough money."""
    prompt, row, count, paid, conditions = _cheapest(scene, dear=False)

    def solve(api: Solver) -> None:
        variant, _ = _most(api, conditions)
        api.call("wallet_balance")
        buy(api, {variant: count}, paid)
        api.answer()

    return TaskDraft(prompt, solve, must=ordered(scene.db, {row["id"]: count}, paid.address["id"], None))


@template("shop", "wallet", kind="refusal")
def shop_cheapest_too_dear(scene: Scene) -> TaskDraft:
    """Refuse to buy the cheapest product of a kind, for lack of money."""
    prompt, _, _, _, conditions = _cheapest(scene, dear=True)
    balance = ledger.balance(scene.db)

    def solve(api: Solver) -> None:
        _most(api, conditions)
        api.refuse("not_possible", api.call("wallet_balance")["balance"])

    refusal = Refusal("not_possible", Number(balance / 100))
    # An agent that tries to check out, and fails, has filled the cart.
    tried = (May("cart_items", "insert"), May("cart_items", "update", frozenset({"quantity"})))
    return TaskDraft(prompt, solve, may=tried, refusal=refusal, secrets=(said(balance),))


@template("shop", kind="action")
def shop_reorder_last(scene: Scene) -> TaskDraft:
    """Buy the items of the last order again, at higher levels more of them."""
    order = last_delivered(scene)
    lines, more = items(scene.db, order["id"]), scene.rng.randint(1, 3) if scene.level >= 3 else 0
    wanted = {line["variant_id"]: line["quantity"] + more for line in lines}
    stock = {row["id"]: row["stock"] for row in scene.db.rows("SELECT id, stock FROM variants")}
    scene.need(not any(line["returned"] for line in lines) and all(stock[id] >= wanted[id] for id in wanted))
    paid = way(scene, wanted)
    prompt = scene.rng.pick(
        (
            "Reorder everything from the last order that was delivered to me, in the same variants.",
            "Find my newest delivered order in the store, and order the same items again.",
        )
    )
    if more:
        prompt += f" But order {more} more of each than last time."
    prompt += f" {paid}"

    def solve(api: Solver) -> None:
        last = next(api.pages("shop_list_orders", status="delivered"))
        bought = api.call("shop_get_order", order_id=last["order_id"])["items"]
        buy(api, {item["variant_id"]: item["quantity"] + more for item in bought}, paid)
        api.answer()

    return TaskDraft(prompt, solve, must=ordered(scene.db, wanted, paid.address["id"], paid.card_id))


@template("shop", "contacts", kind="action", held_out=True)
def shop_gift(scene: Scene) -> TaskDraft:
    """Send a product to a contact whose address the shop does not have yet."""
    row, person = _goods(scene, 1)[0], scene.row("SELECT * FROM contacts")
    count, name = scene.rng.randint(1, 3), full_name(person)
    scene.need(count <= row["stock"])
    paid = way(scene, {row["id"]: count})
    street = f"{scene.pick(scene.cast.words['street'])} {scene.rng.randint(1, 99)}"
    what = pieces(count, row["name"], row["label"])
    prompt = scene.rng.pick(
        (
            f"Order {what} in the store as a present for {name}. Ship it to a new address labeled '{name}': the"
            f" street is {street}, and the city is the one in my contacts. Please {paid.paying}.",
            f"Send {what} from the store to {name}, and {paid.paying}. The store has no address for {name}, so"
            f" add one labeled '{name}'. It is {street}, in the city given in my contacts.",
        )
    )

    def solve(api: Solver) -> None:
        people = api.pages("contacts_search", name=name)
        found = next(item for item in people if item["name"] == name)
        city = api.call("contacts_get", contact_id=found["contact_id"])["city"]
        api.call("shop_add_address", label=name, street=street, city=city)
        variant = variant_of(api, row["name"], row["label"])
        buy(api, {variant: count}, Way({"label": name}, paid.card))
        api.answer()

    address = 1 + int(scene.db.value("SELECT max(id) FROM shop_addresses"))
    place = inserted("shop_addresses", "address", label=name, street=street, city=person["city"])
    return TaskDraft(prompt, solve, must=(place, *ordered(scene.db, {row["id"]: count}, address, paid.card_id)))


@template("shop", "wallet", "mail", "contacts", kind="action")
def shop_buy_for_friend(scene: Scene) -> TaskDraft:
    """Buy what a message asks for, and request the money."""
    row, person = _goods(scene, 1)[0], scene.row("SELECT * FROM contacts")
    count, topic = scene.rng.randint(1, 5), scene.pick(scene.cast.words["topic"])
    about = "SELECT id FROM messages WHERE sender = ? AND instr(lower(subject || body), ?)"
    scene.need(count <= row["stock"] and not scene.db.rows(about, person["email"], topic))
    wanted, name, at = {row["id"]: count}, full_name(person), later(scene.cast.now, hours=-scene.rng.randint(2, 40))
    paid = way(scene, wanted, wallet=False)
    what = pieces(count, row["name"], row["label"])
    text = f"please order this for me: {what}."
    scene.add("messages", **letter(scene.cast, person["email"], person["first_name"], f"For the {topic}", text, at))
    prompt = scene.rng.pick(
        (
            f"{name} emailed me what to buy for the {topic}. Order that in the store. {paid} Then use the wallet to"
            f" request the total cost, with shipping, from {name}.",
            f"Look up in my email what {name} needs for the {topic}, and buy it in the store. {paid} {name} will pay me"
            " back, so request the total cost of the order with my wallet.",
        )
    )

    def solve(api: Solver) -> None:
        email = email_of(api, name)
        message = next(api.pages("mail_search", sender=email, words=topic))
        body = api.call("mail_read", message_id=message["message_id"])["body"]
        many, text = body.split("order this for me: ")[1].split(".\n")[0].split(" x ")
        product, label = text.rstrip(")").split(" (")
        api.call("shop_set_quantity", variant_id=variants_of(api, product_of(api, product))[label], quantity=int(many))
        cost_all = check_out(api, paid)["total"]
        api.call("wallet_request_money", person=email, amount=cost_all)
        api.answer()

    back = requested(person["email"], cost(scene.db, wanted))
    must = (*ordered(scene.db, wanted, paid.address["id"], paid.card_id), back)
    return TaskDraft(prompt, solve, must=must, secrets=(row["name"],))


TEMPLATES = (
    shop_buy,
    shop_out_of_stock,
    shop_cheapest_bought,
    shop_cheapest_too_dear,
    shop_reorder_last,
    shop_gift,
    shop_buy_for_friend,
)
