"""The wallet: money is never made or lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.errors import ToolError
from turnwise.tasks.apps.simulators.app import cents
from turnwise.tasks.apps.simulators.catalogue import APPS, base_world
from turnwise.tasks.apps.simulators.situation import Rules, Situation
from turnwise.tasks.apps.simulators.wallet import ledger
from turnwise.tasks.apps.simulators.world import World
from turnwise.tasks.rows.database import Database
from turnwise.tasks.spec import Split


def opened(number: int = 0) -> World:
    base = base_world(Split.TRAIN, number)
    return World(Database(base.image), Situation(base.cast.now), Rules(login=False, per_page=100), APPS)


@pytest.fixture
def world() -> Iterator[World]:
    made = opened()
    yield made
    made.db.close()


def conserved(world: World) -> bool:
    """Whether the balance is what all transactions add up to."""
    return ledger.balance(world.db) == int(world.db.value("SELECT sum(amount) FROM transactions"))


def somebody(world: World) -> str:
    return str(world.db.value("SELECT email FROM contacts"))


def request(world: World, direction: str, status: str = "open") -> dict[str, Any]:
    sql = "SELECT * FROM money_requests WHERE direction = ? AND status = ? ORDER BY amount"
    row = world.db.row(sql, direction, status)
    assert row is not None
    return row


def refused(world: World, name: str, because: str, /, **arguments: Any) -> None:
    with pytest.raises(ToolError, match=because):
        world.call(name, arguments)
    assert not world.changes()


@pytest.mark.parametrize("split", Split)
def test_a_history_adds_up_and_was_never_in_debt(split: Split) -> None:
    for number in range(3):
        base = base_world(split, number)
        db, total = Database(base.image), 0
        for row in db.rows("SELECT amount FROM transactions ORDER BY created_at, amount DESC"):
            total += row["amount"]
            assert total >= 0
        assert total == ledger.balance(db)
        assert ledger.left(db, base.cast.now) > 0
        settled = db.rows("SELECT id, person, amount, direction FROM money_requests WHERE status = 'paid'")
        for row in settled:
            paid = db.rows("SELECT * FROM transactions WHERE reference = ?", f"request {row['id']}")
            amount = row["amount"] if row["direction"] == "sent" else -row["amount"]
            assert [(one["party"], one["amount"]) for one in paid] == [(row["person"], amount)]


def test_sending_writes_a_transaction_and_lowers_the_balance(world: World) -> None:
    before = ledger.balance(world.db)
    world.call("wallet_send_money", {"to": somebody(world).upper(), "amount": 12.34, "note": "tea"})
    assert ledger.balance(world.db) == before - 1234
    assert conserved(world)
    newest = world.call("wallet_list_transactions", {})["items"][0]
    assert (newest["kind"], newest["party"], newest["amount"]) == ("sent", somebody(world), -12.34)
    assert {change.table for change in world.changes()} == {"wallets", "transactions"}


def test_a_request_is_paid_once(world: World) -> None:
    row = request(world, "received")
    world.db.update("wallets", 1, balance=10**6, monthly_limit=10**7)
    world.db.forget()
    made = world.call("wallet_pay_request", {"request_id": row["id"]})
    shown = world.call("wallet_get_transaction", {"transaction_id": made["transaction_id"]})
    assert shown["reference"] == f"request {row['id']}"
    assert made["balance"] == (10**6 - row["amount"]) / 100
    with pytest.raises(ToolError, match="already been paid"):
        world.call("wallet_pay_request", {"request_id": row["id"]})


def test_refused_calls_change_nothing(world: World) -> None:
    friend, balance = somebody(world), ledger.balance(world.db) / 100
    me = world.db.value("SELECT email FROM profile")
    refused(world, "wallet_send_money", "404", to="nobody@post.test", amount=1.0)
    refused(world, "wallet_send_money", "404", to=me, amount=1.0)
    refused(world, "wallet_send_money", "decimals", to=friend, amount=1.001)
    refused(world, "wallet_send_money", "balance", to=friend, amount=balance + 0.01)
    refused(world, "wallet_request_money", "404", person="'; DROP TABLE wallets;--", amount=1.0)
    refused(world, "wallet_pay_request", "404", request_id=999)
    refused(world, "wallet_pay_request", "own", request_id=request(world, "sent")["id"])
    refused(world, "wallet_decline_request", "own", request_id=request(world, "sent")["id"])
    refused(world, "wallet_withdraw_request", "someone else", request_id=request(world, "received")["id"])
    refused(world, "wallet_set_limit", "already", amount=ledger.limit(world.db) / 100)
    refused(world, "wallet_list_transactions", "page 2 does not exist", page=2, words="there is no such note")
    refused(world, "wallet_list_transactions", "not a date", since="May")


def test_the_limit_counts_what_goes_out_in_a_month(world: World) -> None:
    friend = somebody(world)
    world.db.update("wallets", 1, balance=10**6)
    shown = world.call("wallet_get_limit", {})
    assert shown["left_this_month"] == pytest.approx(shown["monthly_limit"] - shown["spent_this_month"])
    with pytest.raises(ToolError, match="limit"):
        world.call("wallet_send_money", {"to": friend, "amount": shown["left_this_month"] + 0.01})
    world.call("wallet_send_money", {"to": friend, "amount": shown["left_this_month"]})
    assert world.call("wallet_get_limit", {})["left_this_month"] == 0
    world.call("wallet_set_limit", {"amount": shown["monthly_limit"] + 5})
    assert world.call("wallet_get_limit", {})["left_this_month"] == 5


def test_requests_are_listed_by_direction_and_status(world: World) -> None:
    every = world.call("wallet_list_requests", {"direction": "sent", "status": None})["items"]
    still = world.call("wallet_list_requests", {"direction": "sent"})["items"]
    assert {item["status"] for item in still} == {"open"}
    assert len(still) < len(every)
    world.call("wallet_withdraw_request", {"request_id": still[0]["request_id"]})
    assert len(world.call("wallet_list_requests", {"direction": "sent"})["items"]) == len(still) - 1


AMOUNT = st.integers(1, 40_000).map(lambda whole: whole / 100)
STEP = st.one_of(
    st.tuples(st.just("wallet_send_money"), AMOUNT),
    st.tuples(st.just("wallet_request_money"), AMOUNT),
    st.tuples(st.sampled_from(["pay", "decline", "withdraw"]), st.integers(1, 40)),
    st.tuples(st.just("wallet_set_limit"), AMOUNT),
    st.tuples(st.just("shop_set_quantity"), st.integers(1, 120)),
    st.tuples(st.just("shop_checkout"), st.just(1)),
    st.tuples(st.just("shop_cancel_order"), st.integers(1, 30)),
    st.tuples(st.just("shop_return_item"), st.integers(1, 60)),
)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 3), st.lists(STEP, max_size=12))
def test_every_call_conserves_money(number: int, steps: list[tuple[str, Any]]) -> None:
    world = opened(number)
    for name, value in steps:
        arguments: dict[str, Any] = {
            "wallet_send_money": {"to": somebody(world), "amount": value},
            "wallet_request_money": {"person": somebody(world), "amount": value},
            "wallet_set_limit": {"amount": value},
            "shop_set_quantity": {"variant_id": value, "quantity": 1},
            "shop_checkout": {"address_id": 1, "pay_with": "wallet"},
            "shop_cancel_order": {"order_id": value},
            "shop_return_item": {"order_item_id": value},
        }.get(name, {"request_id": value})
        before = ledger.balance(world.db)
        try:
            world.call(name if "_" in name else f"wallet_{name}_request", arguments)
        except ToolError:
            assert ledger.balance(world.db) == before
        assert conserved(world)
        assert ledger.balance(world.db) >= 0
    world.db.close()


@given(st.integers(1, 10_000_000))
def test_cents_survive_being_shown(whole: int) -> None:
    assert cents(whole / 100) == whole
