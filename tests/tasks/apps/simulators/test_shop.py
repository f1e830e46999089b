"""The shop: what is in the cart costs what it costs, and orders move stock and money."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.errors import ToolError
from turnwise.tasks.apps.simulators.shop.goods import FREE_FROM, SHIPPING
from turnwise.tasks.apps.simulators.shop.orders import RETURN_DAYS
from turnwise.tasks.apps.simulators.wallet import ledger
from turnwise.tasks.apps.simulators.world import World
from turnwise.tasks.apps.templates.shop.expect import cancelled, cost, ordered, returned
from turnwise.tasks.rows.expected import Must

from .test_wallet import conserved, opened, refused


@pytest.fixture
def world() -> Iterator[World]:
    made = opened()
    made.db.update("wallets", 1, balance=10**7, monthly_limit=10**9)
    made.db.forget()
    yield made
    made.db.close()


def in_stock(world: World, count: int = 2) -> list[int]:
    rows = world.db.rows("SELECT min(id) AS id FROM variants WHERE stock > 5 GROUP BY product_id ORDER BY 1")
    return [row["id"] for row in rows[:count]]


def exactly(world: World, musts: tuple[Must, ...]) -> bool:
    """Whether the changes of the world are these, each once."""
    left = list(world.changes())
    for must in musts:
        met = next((change for change in left if must.met_by(change)), None)
        if met is None:
            return False
        left.remove(met)
    return not left


def order(world: World, status: str, paid_with: str = "wallet") -> dict[str, Any]:
    sql = "SELECT * FROM orders WHERE status = ? AND paid_with = ? ORDER BY created_at DESC"
    row = world.db.row(sql, status, paid_with)
    assert row is not None
    return row


@pytest.mark.parametrize("card_id", [None, 1])
def test_a_checkout_moves_what_is_expected_and_nothing_else(world: World, card_id: int | None) -> None:
    first, second = in_stock(world)
    expected = ordered(world.db, {first: 2, second: 1}, 1, card_id)
    total = cost(world.db, {first: 2, second: 1})
    world.call("shop_set_quantity", {"variant_id": first, "quantity": 1})
    world.call("shop_set_quantity", {"variant_id": second, "quantity": 1})
    world.call("shop_set_quantity", {"variant_id": first, "quantity": 2})
    assert world.call("shop_show_cart", {})["total"] == total / 100
    pay = {"pay_with": "wallet"} if card_id is None else {"pay_with": "card", "card_id": card_id}
    made = world.call("shop_checkout", {"address_id": 1, **pay})
    assert made["total"] == total / 100
    assert exactly(world, expected)
    assert world.call("shop_show_cart", {})["items"] == []
    assert ledger.balance(world.db) == 10**7 - (total if card_id is None else 0)
    world.call("shop_cancel_order", {"order_id": made["order_id"]})
    assert ledger.balance(world.db) == 10**7
    assert {change.table for change in world.changes()} <= {"orders", "order_items", "transactions"}


def test_only_what_is_not_shipped_can_be_cancelled(world: World) -> None:
    for status in ("shipped", "delivered", "cancelled"):
        row = world.db.row("SELECT * FROM orders WHERE status = ?", status)
        if row is not None:
            refused(world, "shop_cancel_order", status, order_id=row["id"])
    row = world.db.row("SELECT * FROM orders WHERE status = 'placed'")
    assert row is not None
    expected = cancelled(world.db, row["id"])
    world.call("shop_cancel_order", {"order_id": row["id"]})
    assert exactly(world, expected)


def test_an_item_can_be_returned_once_and_for_thirty_days(world: World) -> None:
    row = order(world, "delivered")
    item = world.db.value("SELECT id FROM order_items WHERE order_id = ? AND returned = 0", row["id"])
    for days, fits in ((RETURN_DAYS + 1, False), (RETURN_DAYS, True)):
        day = (world.now - timedelta(days=days)).replace(hour=23, minute=59)
        world.db.update("orders", row["id"], delivered_at=day.isoformat(timespec="minutes"))
        world.db.forget()
        if not fits:
            refused(world, "shop_return_item", "more than 30 days", order_item_id=item)
    expected = returned(world.db, item)
    world.call("shop_return_item", {"order_item_id": item})
    assert exactly(world, expected)
    with pytest.raises(ToolError, match="already"):
        world.call("shop_return_item", {"order_item_id": item})


def test_refused_calls_change_nothing(world: World) -> None:
    sold_out = world.db.value("SELECT id FROM variants WHERE stock = 0")
    refused(world, "shop_set_quantity", "only 0", variant_id=sold_out, quantity=1)
    refused(world, "shop_set_quantity", "not in the cart", variant_id=sold_out, quantity=0)
    refused(world, "shop_set_quantity", "404", variant_id=9999, quantity=1)
    refused(world, "shop_checkout", "empty", address_id=1, pay_with="wallet")
    refused(world, "shop_checkout", "404 address 99 does not exist", address_id=99, pay_with="wallet")
    refused(world, "shop_checkout", "422", address_id=1, pay_with="card")
    refused(world, "shop_checkout", "422", address_id=1, pay_with="wallet", card_id=1)
    refused(world, "shop_get_product", "404", product_id=999)
    refused(world, "shop_add_address", "409", label="home", street="x", city="y")
    refused(world, "shop_search", "decimals", max_price=1.999)
    refused(world, "shop_list_orders", "not a date", since="yesterday")
    wished = world.db.value("SELECT product_id FROM wishes")
    refused(world, "shop_set_wish", "already", product_id=wished, wished=True)
    shipped = world.db.value("SELECT id FROM orders WHERE status = 'shipped'")
    item = world.db.value("SELECT id FROM order_items WHERE order_id = ?", shipped)
    refused(world, "shop_return_item", "shipped", order_item_id=item)


@pytest.mark.parametrize(
    ("wallet", "words"),
    [
        ({"balance": 100, "monthly_limit": 10**9}, "balance"),
        ({"balance": 10**7, "monthly_limit": 100}, "limit"),
    ],
)
def test_a_checkout_without_money_leaves_the_cart_and_the_stock(
    world: World, wallet: dict[str, int], words: str
) -> None:
    world.call("shop_set_quantity", {"variant_id": in_stock(world)[0], "quantity": 3})
    world.db.update("wallets", 1, **wallet)
    world.db.forget()
    refused(world, "shop_checkout", words, address_id=1, pay_with="wallet")
    assert len(world.call("shop_show_cart", {})["items"]) == 1


def test_a_card_that_has_ended_does_not_pay(world: World) -> None:
    world.call("shop_set_quantity", {"variant_id": in_stock(world)[0], "quantity": 1})
    world.db.update("cards", 1, valid_until=f"{world.now - timedelta(days=32):%Y-%m}")
    world.db.forget()
    refused(world, "shop_checkout", "has expired", address_id=1, pay_with="card", card_id=1)


def test_a_search_filters_and_sorts(world: World) -> None:
    conditions = {"category": "kitchen", "max_price": 80.0, "min_rating": 3.0, "in_stock": True, "sort": "price"}
    items = world.call("shop_search", conditions)["items"]
    prices = [item["price"] for item in items]
    assert items
    assert prices == sorted(prices)
    assert prices[-1] <= 80
    assert all(item["rating"] >= 3 and item["in_stock"] and item["category"] == "kitchen" for item in items)
    assert world.call("shop_search", {"words": "'; DROP TABLE products;--"})["total"] == 0


def test_a_rating_is_the_average_of_the_stars(world: World) -> None:
    row = order(world, "delivered")
    item = world.call("shop_get_order", {"order_id": row["id"]})["items"][0]
    reviews = {"product_id": item["product_id"]}
    world.call("shop_add_review", {**reviews, "stars": 1, "text": "no"})
    stars = [one["stars"] for one in world.call("shop_list_reviews", reviews)["items"]]
    assert world.call("shop_get_product", reviews)["rating"] == pytest.approx(sum(stars) / len(stars), abs=0.051)
    with pytest.raises(ToolError, match="already"):
        world.call("shop_add_review", {**reviews, "stars": 5})
    bought = "SELECT product_id FROM variants WHERE id IN (SELECT variant_id FROM order_items)"
    never = world.db.value(f"SELECT id FROM products WHERE id NOT IN ({bought})")
    with pytest.raises(ToolError, match="never been delivered"):
        world.call("shop_add_review", {"product_id": never, "stars": 5})


def test_a_wish_comes_and_goes(world: World) -> None:
    wished = world.call("shop_list_wishes", {})["items"][0]["product_id"]
    world.call("shop_set_wish", {"product_id": wished, "wished": False})
    refused_again = {"product_id": wished, "wished": False}
    with pytest.raises(ToolError, match="not on the wish list"):
        world.call("shop_set_wish", refused_again)
    world.call("shop_set_wish", {"product_id": wished, "wished": True})
    assert wished in {item["product_id"] for item in world.call("shop_list_wishes", {})["items"]}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 120), st.integers(0, 5)), max_size=12))
def test_a_cart_costs_what_is_in_it(steps: list[tuple[int, int]]) -> None:
    world, held = opened(1), dict[int, int]()
    for variant, quantity in steps:
        try:
            world.call("shop_set_quantity", {"variant_id": variant, "quantity": quantity})
        except ToolError:
            continue
        held[variant] = quantity
    held = {variant: quantity for variant, quantity in held.items() if quantity}
    prices = {
        row["id"]: row["price"]
        for row in world.db.rows("SELECT variants.id, price FROM variants JOIN products ON products.id = product_id")
    }
    shown, worth = world.call("shop_show_cart", {}), sum(prices[one] * count for one, count in held.items())
    assert {item["variant_id"]: item["quantity"] for item in shown["items"]} == held
    assert shown["subtotal"] == worth / 100
    assert shown["total"] == (worth + (0 if worth >= FREE_FROM or not held else SHIPPING)) / 100
    assert conserved(world)
    world.db.close()
