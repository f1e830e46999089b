"""Rate limits are learned from headers and refusals, and kept; time is virtual."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.agents.chat_apis.faults import FaultError, retry_after
from turnwise.agents.chat_apis.limits import FIRST, Pace, read_limit

from .fake_api import run

DATE = "Mon, 23 Nov 2026 06:00:00 GMT"


def openai(limit: object, left: object, reset: str, kind: str = "requests") -> dict[str, str]:
    return {
        f"x-ratelimit-limit-{kind}": str(limit),
        f"x-ratelimit-remaining-{kind}": str(left),
        f"x-ratelimit-reset-{kind}": reset,
    }


@pytest.mark.parametrize(
    ("headers", "kind", "found"),
    [
        (openai(500, 499, "120ms"), "requests", (500, 499, 0.12)),
        (openai(30000, 0, "6m0s", "tokens"), "tokens", (30000, 0, 360)),
        (openai(10, 1, "1h2m3.5s"), "requests", (10, 1, 3723.5)),
        (openai(10, 1, "7"), "requests", (10, 1, 7)),
        (
            {
                "anthropic-ratelimit-input-tokens-limit": "400000",
                "anthropic-ratelimit-input-tokens-remaining": "1000",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-23T06:00:30Z",
                "date": DATE,
            },
            "input-tokens",
            (400000, 1000, 30),
        ),
        (openai(10, 1, "2026-11-23T06:00:30Z"), "requests", None),  # no date to count from
        (openai("many", 1, "1s"), "requests", None),
        (openai(10, 1, "soon"), "requests", None),
        (openai("nan", 1, "1s"), "requests", None),
        (openai(10, -1, "1s"), "requests", None),
        ({}, "requests", None),
    ],
)
def test_headers_tell_limits(headers: Mapping[str, str], kind: str, found: object) -> None:
    assert read_limit(headers, kind) == found


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Mon, 23 Nov 2026 06:01:00 GMT", "date": DATE}, 60.0),
        ({"retry-after": "Mon, 23 Nov 2026 05:00:00 GMT", "date": DATE}, 0.0),
        ({"retry-after": "Mon, 23 Nov 2026 06:01:00 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, 0.0),
        ({}, None),
    ],
)
def test_retry_after_in_every_form(headers: Mapping[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_limit_on_requests_is_kept_before_it_is_refused() -> None:
    async def play() -> list[float]:
        pace, times = Pace(1e6), list[float]()
        pace.learn(openai(60, 2, "58s"))  # one a second

        async def ask() -> None:
            async with pace.turn(100):
                times.append(asyncio.get_running_loop().time())

        await asyncio.gather(*(ask() for _ in range(6)))
        return times

    assert run(play()) == pytest.approx([0, 0, 1, 2, 3, 4])


def test_what_exceeds_a_limit_waits_until_it_is_full_and_goes() -> None:
    async def play() -> float:
        pace = Pace(1e6)
        pace.learn(openai(1000, 0, "10s", "tokens"))
        async with pace.turn(50_000):
            return asyncio.get_running_loop().time()

    assert run(play()) == pytest.approx(10)


def test_a_limit_that_takes_too_long_is_a_fault_and_not_a_sleep() -> None:
    async def play() -> None:
        pace = Pace(900)
        pace.learn(openai(10, 0, "8h0m0s"))
        async with pace.turn(1):
            raise AssertionError("it went through")

    with pytest.raises(FaultError, match="used up its rate limit"):
        run(play())


def test_requests_at_once_grow_until_refused_then_are_halved_once_per_burst() -> None:
    async def play() -> None:
        pace = Pace(900)
        for _ in range(8):
            pace.answered()
        assert pace.limit == FIRST + 8, "one more for each answer"
        for _ in range(5):
            pace.refused(None)
        assert pace.limit == FIRST, "refusals of one burst count once"
        pace.answered()
        assert pace.limit == FIRST + 1 / FIRST, "then one more per round"
        for _ in range(20):
            await asyncio.sleep(2)
            pace.refused(None)
        assert pace.limit == 1, "one request is always allowed"
        pace.refused(30)
        async with pace.turn(1):
            assert asyncio.get_running_loop().time() == 70, "Retry-After holds for everyone"

    run(play())


def test_places_are_given_back_however_a_request_ends() -> None:
    async def play() -> None:
        pace = Pace(900)
        pace.limit = 1

        async def fail() -> None:
            async with pace.turn(1):
                await asyncio.sleep(1)
                raise OSError

        async def hang() -> None:
            async with pace.turn(1):
                await asyncio.sleep(100)

        tasks = [asyncio.create_task(each) for each in (fail(), hang(), hang(), fail())]
        await asyncio.sleep(2)
        tasks[1].cancel()  # it holds the place
        tasks[2].cancel()  # it waits for one
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each).__name__ for each in found] == ["OSError", "CancelledError", "CancelledError", "OSError"]
        assert pace.active == 0

    run(play())


ODD = st.sampled_from([
    "5e-324", "1e-320", "0", "1", "1e11", "inf", "nan", "-1", "", "1_000", "6m0s", "1e-5ms", "9" * 400, "9" * 400 + "h",
    "2026-11-24T00:00:00", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-W01", DATE,
    "Tue, 99 Nov 2026 17:00:00 GMT", ", , ,", "Tue, 24 Nov 99999999999 17:00:00 GMT", "1 2 3 4 5 6",
    "Tue, 24 Nov 2026 17:00:00 +9999999999999999",
])  # fmt: skip
HEADERS = st.fixed_dictionaries({
    **{f"x-ratelimit-{part}-requests": ODD for part in ("limit", "remaining", "reset")},
    **{f"anthropic-ratelimit-tokens-{part}": ODD for part in ("limit", "remaining", "reset")},
    "date": ODD, "retry-after": ODD, "retry-after-ms": ODD,
})  # fmt: skip


@given(HEADERS)
def test_no_header_ends_a_run(headers: dict[str, str]) -> None:
    """An error here would count as a defect of the agent; a header that makes no sense does not count."""

    async def delay() -> float:
        pace = Pace(60.0)
        pace.learn(headers)
        return pace.delay(100)

    assert run(delay()) >= 0
    after = retry_after(headers)
    assert after is None or after >= 0
