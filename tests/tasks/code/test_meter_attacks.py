"""Programs that an attacker wrote against the meter: to set the counter, or to touch a long value for nothing."""

from __future__ import annotations

import contextlib
import copy
from typing import NamedTuple

import pytest

import turnwise as tw
from turnwise.tasks.code.efficiency.family import LEVELS, SCALES, filled, limit, measured, module_of
from turnwise.tasks.code.efficiency.meter import meter
from turnwise.tasks.code.efficiency.templates import TEMPLATES
from turnwise.tasks.code.language import METERED, objections

FACTOR = max(level.factor for level in LEVELS.values())
IMPORTS = "import bisect, collections, functools, heapq, itertools, math, operator\n"
NUMBER = "class T:\n    def __init__(self, v):\n        self.v = v\n    def __index__(self):\n        return self.v\n"
HASH = "class T:\n    def __init__(self, v):\n        self.v = v\n    def __hash__(self):\n        return self.v\n"
SPARSE = "set(range(n))\n    for one in range(1, n):\n        value.discard(n - one)"


class Touch(NamedTuple):
    """A way to touch a long value as often as the input has items.

    Args:
        value: the expression that makes it, of length ``n``.
        body: touches ``s``.
        helpers: source before the function.
    """

    value: str
    body: str
    helpers: str = ""


RESETS = {
    "a number that is added from the right": (
        "class Zero:\n    def __radd__(self, other):\n        return 1\n"
        "class One:\n    def __index__(self):\n        return 1\n"
        "    def __radd__(self, other):\n        return Zero()\n",
        "itertools.tee([], One())",
    ),
    "a negative number of iterators": ("", "itertools.tee([], -10**9)"),
    "a size of its own": (
        "class T:\n    def __index__(self):\n        return 0\n    def __abs__(self):\n        return -10**9\n",
        "collections.deque([1]).rotate(T())",
    ),
    "bits of its own": (
        "class E:\n    def bit_length(self):\n        return -10**9\n"
        "class B:\n    def __pow__(self, e, m=None):\n        return 0\n",
        "pow(B(), E(), 1)",
    ),
    "a number that is none": ("", "itertools.product([0], repeat=float('nan'))"),
}
TOUCHES = {
    "factorials of an object": Touch("n // 8", "math.factorial(T(s))", NUMBER),
    "a range of large numbers": Touch("1 << 64 * n", "for _ in range(T(s)):\n    break", NUMBER),
    "a hash that is large": Touch("T(1 << 64 * n)", "hash(s)", HASH),
    "the mapping of a view": Touch("dict.fromkeys(range(n))", "s.keys().mapping == dict(s)"),
    "a type of many types": Touch("list[(int,) * n]", "hash(s)"),
    "arguments of an error": Touch("list(range(n))", "Err().args = s", "class Err(Exception):\n    pass\n"),
    "a group of errors": Touch("[ValueError()] * n", "ExceptionGroup('', s)"),
    "what is not found, in a list": Touch("list(range(n))", "try:\n    [].index(s)\nexcept ValueError:\n    pass"),
    "what is not found, in a deque": Touch(
        "list(range(n))", "try:\n    collections.deque().remove(s)\nexcept ValueError:\n    pass"
    ),
    "slots": Touch("[f'a{i}' for i in range(n)]", "class C:\n    __slots__ = s"),
    "rows that are iterators": Touch(
        "list(range(n))", "list(itertools.starmap(known, [zip(s, s)]))", "def known(*items):\n    return 0\n"
    ),
    "statistics of a cache": Touch("n", "cached.cache_info() * s", "@functools.cache\ndef cached():\n    return 0\n"),
    "the specification of a format": Touch("'0' * n", "format(0, s)"),
    "a codec": Touch("''.join(map(chr, range(300, 300 + n)))", "s.encode('punycode')"),
    "an emptied set, filtered": Touch(SPARSE, "next(filter(None, s), 0)"),
    "an emptied set, sliced": Touch(SPARSE, "list(itertools.islice(s, 1))"),
    "an emptied set, merged": Touch(SPARSE, "list(heapq.merge(s))"),
    "an emptied set, unpacked": Touch(SPARSE, "(a,), b = iter((s, 0))"),
}


def kept_within(source: str, template: str) -> bool:
    """Return whether a program is in the language, not refused, and within the most generous limit."""
    if objections(source.encode(), METERED):
        return False
    function = filled(TEMPLATES[template], tw.Rng(0))
    fast = module_of([function.template.head], [function.fast])
    for scale in SCALES:
        arguments = function.template.make(tw.Rng("large"), scale * function.template.sizes[1], function.constant)
        _, work = measured(fast, function.name, copy.deepcopy(arguments))
        meter.REFUSED.clear()
        with contextlib.suppress(meter.RefusedError):
            _, more = measured(source, function.name, copy.deepcopy(arguments))
            over = more > limit(function.template, FACTOR, work)  # a counter that was set may be negative, or no number
            if not meter.REFUSED and not over:
                continue
        return False
    return True


@pytest.mark.parametrize("name", RESETS)
def test_the_counter_cannot_be_set(name: str) -> None:
    helpers, act = RESETS[name]
    function = filled(TEMPLATES["distinct"], tw.Rng(0))
    slow = function.slow.replace(f"{function.name}(", "slow_one(")
    acts = f"    try:\n        {act}\n    except (TypeError, ValueError):\n        pass\n"
    source = (
        f"{IMPORTS}{helpers}{slow}\ndef {function.name}(data):\n    found = slow_one(data)\n{acts}    return found\n"
    )
    assert not kept_within(source, "distinct")


@pytest.mark.slow
@pytest.mark.parametrize("name", TOUCHES)
def test_touching_is_never_free(name: str) -> None:
    touch, function = TOUCHES[name], filled(TEMPLATES["smallest"], tw.Rng(0))
    body = "".join(f"    {line}\n" for line in touch.body.splitlines())
    fast = function.fast.replace(f"{function.name}(", "fast_one(")
    main = (
        f"def {function.name}(data):\n    n = 8 * len(data)\n    value = {touch.value}\n"
        "    for _ in range(len(data)):\n        touch(value)\n    return fast_one(data)\n"
    )
    source = f"{IMPORTS}{touch.helpers}\ndef touch(s):\n{body}    return 0\n\n{fast}\n{main}"
    compile(source, "attack", "exec")
    assert not kept_within(source, "smallest")
