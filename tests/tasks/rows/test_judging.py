"""Judging against an adversary: odd answers, changes that could be several things, changes beside the point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.tasks.rows.database import Change
from turnwise.tasks.rows.expected import (
    Containing,
    Listing,
    Matcher,
    May,
    Must,
    Number,
    Refusal,
    Text,
    deleted,
    inserted,
    stands_in,
    updated,
)
from turnwise.tasks.rows.judge import Ending, judge
from turnwise.tasks.rows.pairing import paired
from turnwise.tasks.rows.template import TaskDraft
from turnwise.tasks.score import Score

DEEP: list[Any] = []
for _ in range(2000):
    DEEP = [DEEP]
HOSTILE: tuple[Any, ...] = (
    None, True, False, math.nan, math.inf, -math.inf, 10**400, -(10**400), 10**5000, 1e308, [], {}, [[]], [None],
    {"value": 3}, {"3": 3}, b"3", "", " ", "\ud800", "\x00", "3\x00", "nan", "inf", "1e3", "0x3", "3,0", "٣", "¾",
    "9" * 10_000,    "x" * 10**6, [3, [3]], [True], [math.nan], DEEP, object(), range(3), (3, 3), {3}, "None", "True",
)  # fmt: skip
MATCHERS: tuple[Matcher, ...] = (
    Number(3), Number(0.5), Text("three", ("Drei",)), Text("7"), Listing(("a", "b")), Listing((1, 2.5)),
    Containing(("ab",)),
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def change(id: int, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, table: str = "t") -> Change:
    return Change(table, id, before, after)


def unsolved(_: object) -> None:
    """Solve nothing: these tests judge changes."""


def judged(
    musts: tuple[Must, ...],
    changes: tuple[Change, ...],
    may: tuple[May, ...] = (),
    idle: Mapping[str, frozenset[str]] | None = None,
) -> Score:
    task = TaskDraft("Do it.", unsolved, must=musts, may=may)
    return judge(task, changes, Ending(done=True), idle or {})


@pytest.mark.parametrize("matcher", MATCHERS, ids=lambda one: str(one))
def test_no_odd_value_is_an_answer(matcher: Matcher) -> None:
    for value in HOSTILE:
        assert matcher.matches(value) is False


@given(JSON)
def test_no_value_is_an_error(value: Any) -> None:
    for matcher in MATCHERS:
        assert matcher.matches(value) in (True, False)
        assert matcher.matches([value, value]) in (True, False)


@given(st.integers(-(10**9), 10**9))
def test_a_number_is_read_as_number_or_text(hundredths: int) -> None:
    wanted = Number(hundredths / 100)
    for said in (hundredths / 100, f"{hundredths / 100:.2f}", f" {hundredths / 100:.2f}\n"):
        assert wanted.matches(said)
    for other in (hundredths / 100 + 0.01, f"{(hundredths + 1) / 100:.2f}", f"{hundredths / 100:.2f} or so"):
        assert not wanted.matches(other)


def test_a_listing_takes_every_value_once() -> None:
    assert Listing(("Ada", "Ben")).matches(" ben,ADA. ")
    assert Listing((1, 2)).matches(["2", 1])
    assert Listing((1, 1)).matches([1, 1.0])
    for said in ("Ada", "Ada,Ada", "Ada,Ben,Ada", ["Ada", ["Ben"]], {"Ada": 1, "Ben": 2}, [True, 1], b"12"):
        assert not Listing(("Ada", "Ben")).matches(said)
        assert not Listing((1, 1)).matches(said)
    assert not Listing((97, 98)).matches(b"ab")
    # Either could be taken for the first: whichever it is, the rest must still fit.
    assert Listing((1.0, 1.006)).matches([1.003, 1.0])


def test_whole_words_stand_in_a_text() -> None:
    assert stands_in("5", "It costs 5.")
    assert stands_in("Ada Baker", "to  ada\nbaker: hello")
    assert stands_in("at two.", "Come at two")
    for text in ("15", "5.20", "555", "ada.baker@post.test", "Bakers", ""):
        assert not stands_in("5", text) or text == "5"
        assert not stands_in("Baker", text)
    assert not Containing(("",)).matches("anything"), "nothing is no text that stands anywhere"


def test_one_change_meets_one_expectation() -> None:
    row = {"id": 1, "name": "x"}
    twice = (inserted("t", "first", name="x"), inserted("t", "second", name="x"))
    score = judged(twice, (change(1, None, row),))
    assert not score.success
    assert sum(score.checks.values()) == 2, "one of two, and finished"
    assert judged(twice, (change(1, None, row), change(2, None, {**row, "id": 2}))).success
    third = judged(twice, tuple(change(id, None, {**row, "id": id}) for id in (1, 2, 3)))
    assert third.collateral == ("t 3: insert",)


def test_expectations_of_one_name_are_told_apart() -> None:
    score = judged((inserted("t", "new", a=1), inserted("t", "new", a=2)), (change(1, None, {"id": 1, "a": 2}),))
    assert score.checks == {"new": False, "new (2)": True, "finished": True}


def test_the_order_of_expectations_does_not_matter() -> None:
    loose, strict = Must("t", "insert", {"a": 1}, name="loose"), Must("t", "insert", {"a": 1, "b": 2}, name="strict")
    both = (change(1, None, {"id": 1, "a": 1, "b": 2}), change(2, None, {"id": 2, "a": 1, "b": 3}))
    for musts in ((loose, strict), (strict, loose)):
        for changes in (both, both[::-1]):
            assert judged(musts, changes).success, "the loose one leaves the strict one its row"


def test_what_must_be_is_not_wasted_on_what_may() -> None:
    may = (May("t", "insert"),)
    score = judged(
        (inserted("t", "new", a=1),), (change(1, None, {"id": 1, "a": 1}), change(2, None, {"id": 2, "a": 1})), may
    )
    assert score.success
    musts, row = (Must("t", "update", {"a": 2}, name="any"),), {"id": 1, "a": 1}
    changes = tuple(change(id, {**row, "id": id}, {**row, "id": id, "a": 2}) for id in (1, 2))
    assert judged(musts, changes).collateral == ("t 2: update of a",)


def test_to_look_first_is_no_other_change() -> None:
    before = {"id": 1, "folder": "inbox", "unread": 1, "starred": 0}
    idle = {"t": frozenset({"unread"})}
    moved = (updated("t", 1, "moved", folder="archive"),)
    assert judged(moved, (change(1, before, {**before, "folder": "archive", "unread": 0}),), idle=idle).success
    assert judged(moved, (change(1, before, {**before, "folder": "archive"}),), idle=idle).success
    assert not judged(moved, (change(1, before, {**before, "folder": "archive", "starred": 1}),), idle=idle).success
    assert not judged(moved, (change(1, before, {**before, "unread": 0}),), idle=idle).success
    read = (updated("t", 1, "read", unread=0),)
    assert not judged(read, (), idle=idle).success, "a column that is asked for is not ignored"


def test_collateral_is_named() -> None:
    row = {"id": 7, "a": 1, "b": 2, "updated_at": "x"}
    changes = (
        change(7, row, {**row, "a": 2, "b": 3}),
        change(8, None, {**row, "id": 8}),
        change(9, {**row, "id": 9}, None),
        change(1, row, {**row, "a": 5}, "other"),
    )
    score = judged((updated("t", 7, a=2),), changes, (May("other", "update", frozenset({"a"})),))
    assert not score.success
    assert score.collateral == ("t 7: update of a, b", "t 8: insert", "t 9: delete")


def test_another_row_another_kind_another_type_is_another_change() -> None:
    row = {"id": 1, "a": 1}
    right = change(1, row, {"id": 1, "a": 0})
    assert updated("t", 1, a=0).met_by(right)
    for wrong in (updated("t", 2, a=0), updated("t", 1, a=False), updated("t", 1, a="0"), updated("t", 1, a=0, b=1)):
        assert not wrong.met_by(right)
    assert not deleted("t", 1).met_by(right)
    assert not inserted("t", a=0).met_by(right)


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
def test_odd_ends_score_nothing(value: Any) -> None:
    asked = TaskDraft("How many?", unsolved, answer=Number(3))
    refused = TaskDraft("Do it.", unsolved, refusal=Refusal("not_found", Text("here")))
    assert not judge(asked, (), Ending(done=True, answer=value), {}).success
    assert not judge(refused, (), Ending(reason="not_found", evidence=value), {}).success


def test_an_end_of_both_kinds_is_none_of_the_other() -> None:
    asked = TaskDraft("How many?", unsolved, answer=Number(3))
    assert not judge(asked, (), None, {}).success
    assert not judge(asked, (), Ending(reason="not_found", evidence="3", answer=3), {}).success
    refused = TaskDraft("Do it.", unsolved, refusal=Refusal("not_found", Text("here")))
    assert judge(refused, (), Ending(reason="not_found", evidence="Here."), {}).success
    for reason in (None, "", "not_allowed", "not_found "):
        assert not judge(refused, (), Ending(done=True, reason=reason, evidence="here", answer="here"), {}).success
    assert not judge(asked, (), Ending(done=True, answer=3), {}, ("acted first",)).success


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), max_size=5))
def test_a_pairing_is_as_large_as_any(fits: list[list[bool]]) -> None:
    def best(i: int, taken: frozenset[int]) -> int:
        if i == len(fits):
            return 0
        free = [j for j in range(4) if fits[i][j] and j not in taken]
        return max([best(i + 1, taken), *(1 + best(i + 1, taken | {j}) for j in free)])

    found = paired(range(len(fits)), range(4), lambda i, j: fits[i][j])
    assert len(set(found.values())) == len(found), "each is paired once"
    assert all(fits[i][j] for i, j in found.items())
    assert len(found) == best(0, frozenset())
