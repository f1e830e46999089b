"""Words for goods and payments in prompts, and parts of solutions that find and buy them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....rows.database import Row
from ....rows.scene import Scene
from ...simulators.wallet import ledger
from ..plan import Solver
from .expect import cost

VARIANTS = """SELECT variants.*, name, category, price, brand FROM variants JOIN products
    ON products.id = variants.product_id"""


@dataclass(frozen=True)
class Way:
    """Payment and destination of an order.

    Args:
        address: a row of ``shop_addresses``.
        card: a row of ``cards``; ``None``: the wallet pays.
    """

    address: Row
    card: Row | None

    def __str__(self) -> str:
        return f"Ship it to my address '{self.address['label']}', and {self.paying}."

    @property
    def paying(self) -> str:
        """Return the payment in words."""
        if self.card is None:
            return "pay with my wallet"
        return f"pay with the {self.card['brand']} card {self.card['last_digits']}"

    @property
    def card_id(self) -> int | None:
        """Return the card that pays."""
        return self.card["id"] if self.card else None


def way(scene: Scene, wanted: Mapping[int, int] | None = None, *, wallet: bool | None = None) -> Way:
    """Draw a payment method that works, and an address.

    Args:
        scene: scene of the task.
        wanted: variants, with how many of each; ``None``: it need not work.
        wallet: whether the wallet pays; ``None``: it may.
    """
    address = scene.row("SELECT * FROM shop_addresses ORDER BY id")
    most = min(ledger.balance(scene.db), ledger.left(scene.db, scene.cast.now))
    enough = wanted is None or cost(scene.db, wanted) <= most
    if wallet or (wallet is None and enough and scene.rng.random() < 0.6):
        scene.need(enough)
        return Way(address, None)
    month = f"{scene.cast.now:%Y-%m}"
    card = scene.row("SELECT * FROM cards WHERE valid_until >= ? ORDER BY id", month)
    scene.need(scene.db.value("SELECT count(*) FROM cards WHERE last_digits = ?", card["last_digits"]) == 1)
    return Way(address, card)


def last_delivered(scene: Scene) -> Row:
    """Return the order that was both placed and delivered last."""
    rows = scene.db.rows("SELECT * FROM orders WHERE status = 'delivered' ORDER BY created_at DESC, id DESC")
    scene.need(len(rows) > 1 and all(row["delivered_at"] < rows[0]["delivered_at"] for row in rows[1:]))
    return rows[0]


def product_of(api: Solver, name: str) -> int:
    """Return the id of the product with this name."""
    asked = api.rng.pick((name, name.split(" ", 1)[1]))
    found = (item for item in api.pages("shop_search", words=asked) if item["name"] == name)
    return int(next(found)["product_id"])


def variant_of(api: Solver, name: str, label: str) -> int:
    """Return the id of a variant of the product with this name."""
    return int(variants_of(api, product_of(api, name))[label])


def variants_of(api: Solver, product_id: int) -> dict[str, int]:
    """Return the ids of a product's variants by their names."""
    shown = api.call("shop_get_product", product_id=product_id)
    return {one["variant"]: one["variant_id"] for one in shown["variants"]}


def empty_cart(api: Solver) -> None:
    """Empty the cart."""
    for item in api.call("shop_show_cart")["items"]:
        api.call("shop_set_quantity", variant_id=item["variant_id"], quantity=0)


def buy(api: Solver, wanted: Mapping[int, int], paid: Way) -> Any:
    """Order some variants, in any order."""
    lines = list(wanted.items())
    api.rng.shuffle(lines)
    for variant, quantity in lines:
        api.call("shop_set_quantity", variant_id=variant, quantity=quantity)
    return check_out(api, paid)


def check_out(api: Solver, paid: Way) -> Any:
    """Order the content of the cart."""
    places = {one["label"]: one["address_id"] for one in api.call("shop_list_addresses")}
    arguments = {"address_id": places[paid.address["label"]], "pay_with": "card" if paid.card else "wallet"}
    if paid.card:
        cards = {one["last_digits"]: one["card_id"] for one in api.call("shop_list_cards")}
        arguments["card_id"] = cards[paid.card["last_digits"]]
    return api.call("shop_checkout", **arguments)


def pieces(count: int, name: str, label: str) -> str:
    """Return a number of a variant in words."""
    return f"{count} x {name} ({label})"
