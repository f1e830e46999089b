"""Costs are exact, and a cap holds: in one run, over resumed runs, and where answers are lost."""

from __future__ import annotations

import asyncio
import datetime
import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.agents.chat_apis.conversation import Usage
from turnwise.agents.chat_apis.costs import PRICES, Price, Spending, _table, price_of
from turnwise.agents.chat_apis.settings import ApiSettings
from turnwise.config import load_config
from turnwise.errors import ConfigError, SpendingCapError, UsageError

from .fake_api import run

counts = st.integers(0, 10**7)


def test_the_table_is_dated_and_its_prices_make_sense() -> None:
    as_of = json.loads(PRICES.read_text())["as of"]
    assert datetime.date.fromisoformat(as_of) > datetime.date(2026, 1, 1)
    for name, price in _table().items():
        for tier in filter(None, (price, price.long)):
            assert 0 < tier.input < tier.output, name
            assert tier.cached is not None, name
            assert tier.cached < tier.input, name
            assert tier.input <= (tier.cache_write or tier.input) <= 2 * tier.input, name
        assert price.long is None or price.long.above > 0, name


def test_names_with_a_date_have_the_price_of_the_name() -> None:
    assert price_of("gpt-4o-2024-08-06", None) == price_of("gpt-4o", None) is not None
    assert price_of("claude-haiku-4-5-20251001", None) == price_of("claude-haiku-4-5", None) is not None
    assert price_of("llama", None) is None
    assert price_of("llama", (0.1, 0.2)) == Price(input=Decimal("0.1"), output=Decimal("0.2"))


def test_cached_tokens_and_long_prompts_have_their_own_price() -> None:
    price = price_of("claude-haiku-5-5", None)
    assert price is not None
    usage = Usage(prompt=50_000, completion=1_000, cached=40_000, cache_writes=8_000)
    assert price.of(usage) == Decimal("0.0021")  # 2,000 at 0.1, 40,000 at 0.01, 8,000 at 0.125, 1,000 at 0.5
    assert price.of(Usage(prompt=200_000, completion=0)) == Decimal("0.1")  # at 0.5


@pytest.mark.slow
@given(counts, counts, counts, counts, st.sampled_from(sorted(_table())))
def test_no_request_costs_more_than_was_set_aside(read: int, cached: int, writes: int, said: int, model: str) -> None:
    cached, writes = min(cached, read), min(writes, max(0, read - cached))
    price = _table()[model]
    assert price.of(Usage(read, said, cached, writes)) <= price.at_most(read, said)


@pytest.mark.parametrize(
    ("typed", "found"), [("2.5,10", (2.5, 10.0)), (" 0 , 0.4", (0.0, 0.4)), ("[1, 2]", (1.0, 2.0))]
)
def test_prices_as_typed(typed: str, found: tuple[float, float]) -> None:
    assert load_config(ApiSettings, None, [f"price={typed}"]).price == found


@pytest.mark.parametrize("typed", ["2.5", "1,2,3", "dear,cheap", "-1,2"])
def test_prices_that_are_none_are_refused_in_words(typed: str) -> None:
    with pytest.raises(ConfigError, match="price"):
        load_config(ApiSettings, None, [f"price={typed}"])


def test_a_request_waits_for_others_to_be_settled_before_the_cap_is_reached() -> None:
    async def play() -> None:
        spending = Spending(None, 1.0)
        done = list[int]()

        async def ask(number: int, cost: str) -> None:
            await spending.reserve(Decimal("0.6"))
            await asyncio.sleep(1)
            spending.settle(Decimal("0.6"), Decimal(cost))
            done.append(number)

        await asyncio.gather(ask(0, "0.2"), ask(1, "0.2"))
        assert done == [0, 1], "0.6 + 0.6 exceed the cap, 0.2 + 0.6 do not"
        with pytest.raises(SpendingCapError, match=r"cap of \$1.0 .* \$0.4000 are spent, and the next .* \$0.6100"):
            await spending.reserve(Decimal("0.61"))

    run(play())


def test_what_is_spent_survives_the_process(tmp_path: Path) -> None:
    file = tmp_path / "costs.jsonl"
    spending = Spending(file, 1.0)
    spending.settle(Decimal(0), Decimal("0.1"))
    spending.settle(Decimal(0), Decimal("0.2"), lost=True)
    spending.settle(Decimal(0), Decimal(0))
    with file.open("a") as half:
        half.write('{"cost": "0.0')  # a crash, here
    again = Spending(file, 1.0)
    assert (again.spent, again.lost) == (Decimal("0.1"), Decimal("0.2"))
    again.settle(Decimal(0), Decimal("0.3"))
    assert Spending(file, None).spent == Decimal("0.4"), "the half line is gone"
    file.write_text("no JSON\n")
    with pytest.raises(UsageError, match="remove it to start at 0"):
        Spending(file, None)
