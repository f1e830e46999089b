"""Rules of the methods of built-in types; they take the object first."""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable
from typing import Any

from .builtin_rules import pairs, sort
from .calls import FREE, FUNCTIONS, METHODS
from .counter import DICTS, SIZED, VIEWS, WORK, charge, counted, given, hashed, hashes, length, listed, refuse, weight
from .counter import size as size_of
from .library_rules import counter_items
from .operators import PYTHON, among, atoms, search

__work__ = True
Rule = Callable[..., Any]


def scanning(method: Rule) -> Rule:
    """Return the rule of a method that compares a value with each item."""

    def rule(self: Any, value: Any, *ends: Any) -> Any:
        among(self, value)
        charge(weight(value, True))  # what is not found is shown in the error
        return method(self, value, *ends)

    return rule


def touching(method: Rule) -> Rule:
    """Return the rule of a method that touches all of its object."""

    def rule(self: Any, *arguments: Any) -> Any:
        charge(1 + length(self))
        return method(self, *arguments)

    return rule


def keyed(method: Rule) -> Rule:
    """Return the rule of a method that hashes its first argument."""

    def rule(self: Any, key: Any, *rest: Any, **named: Any) -> Any:
        charge(weight(key))
        return method(self, key, *rest, **named)

    return rule


def extending(method: Rule) -> Rule:
    """Return the rule of a method that adds items."""
    return lambda self, items: method(self, given(items))


def inserting(method: Rule) -> Rule:
    """Return the rule of ``insert``."""

    def rule(self: Any, place: Any, value: Any) -> None:
        at = operator.index(place)
        charge(1 + (min(len(self), max(0, -at if at < 0 else len(self) - at)) if type(self) is list else len(self)))
        method(self, at, value)

    return rule


def popped(self: list[Any], *place: Any) -> Any:
    """Take an item off a list; those behind it move."""
    at = operator.index(place[0]) if place else -1
    charge(max(1, -at if at < 0 else len(self) - at))
    return self.pop(*place)


def rotated(self: Any, n: int = 1) -> None:
    """Rotate a deque."""
    charge(1 + min(abs(n), len(self)))
    self.rotate(n)


def combining(method: Rule) -> Rule:
    """Return the rule of a method of sets that takes iterables."""

    def rule(self: Any, *others: Any) -> Any:
        charge(1 + hashes(self))
        return method(self, *map(hashed, others))

    return rule


def adding(self: set[Any], *others: Any) -> None:
    """Update a set."""
    WORK[0] += 1
    self.update(*map(hashed, others))


def any_element(self: set[Any]) -> Any:
    """Take an element off a set, past the empty slots before it."""
    charge(1 + length(self) // (len(self) + 1))
    return self.pop()


def updating(method: Rule) -> Rule:
    """Return the rule of ``dict.update``."""

    def rule(self: Any, *items: Any, **named: Any) -> None:
        charge(1 + len(named))
        method(self, *map(pairs, items), **named)

    return rule


def tallying(method: Rule) -> Rule:
    """Return the rule of ``Counter.update`` or ``Counter.subtract``, whose loops are written in Python."""

    def rule(self: Any, *items: Any, **named: Any) -> None:
        charge(PYTHON * (1 + len(named)))
        for each in items:
            charge(PYTHON * size_of(each))
        method(self, *map(counter_items if method is collections.Counter.update else _subtracted, items), **named)

    return rule


def _subtracted(items: Any) -> Any:
    return hashed(items) if type(items) in SIZED else map(_each, iter(items))


def _each(item: Any) -> Any:
    charge(PYTHON + weight(item))
    return item


def most_common(self: Any, n: Any = None) -> list[Any]:
    """Sort the items of a Counter by how often they occur."""
    charge(PYTHON + (2 + len(self).bit_length()) * length(self))
    return list(self.most_common(n))


def elements(self: Any) -> Any:
    """Repeat the elements of a Counter."""
    charge(1 + length(self))
    return counted(self.elements())


def added(self: Any) -> Any:
    """Sum the counts of a Counter."""
    return FUNCTIONS[sum](self.values())


def texts(name: str, searches: bool = True) -> Rule:
    """Return the rule of a method of texts: it may look for its arguments everywhere, and makes its result."""

    def rule(self: Any, *arguments: Any, **named: Any) -> Any:
        for argument in (*arguments, *named.values()):
            charge(weight(argument))
            if searches:
                search(self, argument)
        charge(1 + len(self))
        result = getattr(self, name)(*arguments, **named)
        charge(size_of(result))
        return result

    return rule


def joined(self: Any, items: Any) -> Any:
    """Join texts."""
    result = self.join(listed(items))
    charge(len(result))
    return result


def format_all(self: str, *arguments: Any, **named: Any) -> str:
    """Format text with plain values."""
    atoms((*arguments, *named.values()), "str.format()")
    result = self.format(*arguments, **named)
    charge(len(self) + len(result))
    return result


def translated(self: str, table: Any) -> str:
    """Replace characters by a table."""
    if type(table) not in DICTS:
        refuse("str.translate() with anything but a dict", "use str.maketrans")
    result = self.translate(table)
    charge(2 * len(self) + len(result))
    return result


def in_range(self: range, value: Any) -> None:
    """Pay for looking a value up in a range."""
    charge(1 if type(value) in (int, bool) else len(self))


def looked_up(method: Rule) -> Rule:
    """Return the rule of a method of ranges."""

    def rule(self: range, value: Any) -> Any:
        in_range(self, value)
        return method(self, value)

    return rule


def words(name: str) -> Rule:
    """Return the rule of a method of integers."""

    def rule(self: int, *arguments: Any, **named: Any) -> Any:
        charge(1 + size_of(self))
        result = getattr(self, name)(*arguments, **named)
        charge(size_of(result))
        return result

    return rule


def _rules(kind: type, wrapper: Callable[[Rule], Rule], names: str) -> dict[str, Rule]:
    return {name: wrapper(getattr(kind, name)) for name in names.split() if hasattr(kind, name)}


def _free(names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split(), FREE)


def _of_dict(kind: type) -> dict[str, Any]:
    """Return the rules that dicts of all kinds have."""
    return {
        **_free("keys values items popitem"),
        **_rules(kind, keyed, "get pop setdefault move_to_end"),
        **_rules(kind, touching, "copy clear"),
        "update": updating(kind.update),  # type: ignore[attr-defined]
    }


_SEARCHES = "count find rfind index rindex split rsplit partition rpartition replace strip lstrip rstrip"
_PLAIN = """capitalize casefold center endswith expandtabs hex isalnum isalpha isascii isdecimal isdigit
    isidentifier islower isnumeric isprintable isspace istitle isupper ljust lower removeprefix removesuffix rjust
    splitlines startswith swapcase title upper zfill"""
_ADDING = "union intersection difference symmetric_difference issubset issuperset isdisjoint"
_REMOVING = "intersection_update difference_update symmetric_difference_update"
METHODS[list] = {
    "append": FREE,
    "insert": inserting(list.insert),
    "pop": popped,
    "sort": sort,
    "extend": extending(list.extend),
    **_rules(list, scanning, "remove index count"),
    **_rules(list, touching, "reverse copy clear"),
}
METHODS[tuple] = _rules(tuple, scanning, "index count")
METHODS[collections.deque] = {
    **_free("append appendleft pop popleft"),
    "insert": inserting(collections.deque.insert),
    "rotate": rotated,
    **_rules(collections.deque, extending, "extend extendleft"),
    **_rules(collections.deque, scanning, "remove index count"),
    **_rules(collections.deque, touching, "reverse copy clear"),
}
for _kind in (set, frozenset):
    METHODS[_kind] = {
        "update": adding,
        "pop": any_element,
        **_rules(_kind, keyed, "add discard remove"),
        **_rules(_kind, touching, "copy clear"),
        **_rules(_kind, combining, f"{_ADDING} {_REMOVING}"),
    }
for _dict in DICTS:
    METHODS[_dict] = _of_dict(_dict)
METHODS[collections.Counter] |= {
    "update": tallying(collections.Counter.update),
    "subtract": tallying(collections.Counter.subtract),
    "most_common": most_common,
    "elements": elements,
    "total": added,
}
for _view in VIEWS:
    METHODS[_view] = _rules(_view, combining, "isdisjoint")
for _text in (str, bytes):
    METHODS[_text] = {
        **{name: texts(name) for name in _SEARCHES.split()},
        **{name: texts(name, searches=False) for name in _PLAIN.split()},
        "join": joined,
    }
METHODS[str] |= {"format": format_all, "translate": translated}
METHODS[range] = _rules(range, looked_up, "index count")
for _number in (int, bool):
    METHODS[_number] = {name: words(name) for name in ("bit_count", "to_bytes", "as_integer_ratio", "conjugate")}
    METHODS[_number]["bit_length"] = FREE
METHODS[float] = _free("is_integer as_integer_ratio hex conjugate")
METHODS[type(counted(()))] = _free("close")
