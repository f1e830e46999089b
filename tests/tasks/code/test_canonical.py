"""Equal text means: the same types all the way down, and the same contents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from turnwise.tasks.code import canonical

LEAVES = (
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=False)
    | some.text(max_size=5)
    | some.binary(max_size=5)
)
PLAIN = some.recursive(
    LEAVES,
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.tuples(inner, inner)
        | some.dictionaries(some.integers() | some.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Equality that looks at types, written the other way round: by comparing, not by writing."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        keys: dict[Any, Any] = {(type(key), key): value for key, value in one.items()}
        others: dict[Any, Any] = {(type(key), key): value for key, value in other.items()}
        return keys.keys() == others.keys() and all(same(keys[key], others[key]) for key in keys)
    if isinstance(one, float):
        return one.hex() == str(other.hex())
    return bool(one == other)


@pytest.mark.slow
@given(PLAIN, PLAIN)
def test_texts_are_equal_exactly_where_typed_values_are(one: Any, other: Any) -> None:
    assert (canonical.encode(one) == canonical.encode(other)) == same(one, other)


@given(PLAIN)
def test_what_is_shown_is_python_for_the_value(value: Any) -> None:
    shown = canonical.shown(canonical.encode(value), 100_000)
    assert same(eval(shown, {"inf": float("inf"), "nan": float("nan")}), value)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), (0.0, -0.0), ([1], (1,)), ({1}, frozenset({1})), ("1", 1), (b"a", "a"), ({1: 2}, {True: 2})],
    ids=lambda pair: repr(pair),
)
def test_what_python_calls_equal_may_be_another_value(one: Any, other: Any) -> None:
    assert canonical.encode(one) != canonical.encode(other)


def test_the_order_of_dicts_and_sets_does_not_matter() -> None:
    assert canonical.encode({"a": 1, "b": {3, 1, 2}}) == canonical.encode({"b": {2, 3, 1}, "a": 1})


class Same(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def itself() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize("value", [Same(3), [Same(3)], {Same(3): 1}, object(), int, itself(), range(300_000), 1j])
def test_what_is_no_plain_data_has_no_text(value: Any) -> None:
    with pytest.raises(canonical.Unplain):
        canonical.encode(value)


def test_a_long_text_is_a_hash_that_tells_it_from_others() -> None:
    long, other = canonical.encode("a" * 5000), canonical.encode("a" * 4999 + "b")
    assert len(canonical.shortened(long)) < 1000
    assert canonical.shortened(long) != canonical.shortened(other)
    assert canonical.shortened(canonical.encode(1)) == canonical.encode(1)


def test_numbers_of_any_length_are_written() -> None:
    assert canonical.encode(10**6000) != canonical.encode(10**6000 + 1)


@pytest.mark.parametrize("forged", ["", "null", "[]", "[[1]]", '["int","zz"]', '["dict",[1]]', "[" * 5000])
def test_forged_texts_are_shown_and_do_not_raise(forged: str) -> None:
    assert len(canonical.shown(forged)) <= 200


def test_exceptions_have_the_text_of_their_exact_type() -> None:
    assert canonical.encode_error(ValueError("x")) == canonical.raises("ValueError")
    assert canonical.encode_error(UnicodeError()) != canonical.raises("ValueError")
