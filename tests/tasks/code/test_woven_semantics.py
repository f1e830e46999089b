"""Woven programs evaluate the same parts in the same order, and raise what they raised."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.tasks.code.efficiency.family import measured
from turnwise.tasks.code.efficiency.meter import meter
from turnwise.tasks.code.language import METERED, objections

from ...shifts import core_sample

HEAD = """
from bisect import bisect_left, insort
from collections import Counter, OrderedDict, defaultdict, deque
from functools import cache, cmp_to_key, lru_cache, partial, reduce, total_ordering
from heapq import heapify, heappop, heappush, heappushpop, heapreplace, merge, nlargest, nsmallest
from itertools import accumulate, chain, combinations, compress, cycle, dropwhile, groupby, islice, product, repeat
from itertools import starmap, takewhile, tee, zip_longest
from math import gcd, isqrt, prod
import operator

LOG = []

def note(value):
    LOG.append(value)
    return value

@total_ordering
class Point:
    count = 0

    def __init__(self, place):
        self.place, self.parts = place, [place]
        Point.count += 1

    def __eq__(self, other):
        return self.place == other.place

    def __lt__(self, other):
        note(("less", self.place, other.place))
        return self.place < other.place

    def __hash__(self):
        return hash(self.place)

    def __add__(self, other):
        return Point(self.place + (other.place if isinstance(other, Point) else other))

    def __iter__(self):
        return iter(self.parts)

    def __repr__(self):
        return f"<{self.place!r:>4}>"

    @property
    def double(self):
        return self.place * 2

    @double.setter
    def double(self, value):
        self.place = value // 2

    @staticmethod
    def zero():
        return Point(0)

    @classmethod
    def of(cls, values):
        return [cls(value) for value in values]
"""
BODIES = {
    "augmented assignment": "t = {'a': list(x)}\nfor i in range(len(x)):\n"
    "    note(t)[note('a')][note(i)] += note(i)\n"
    "    t['a'][i:i + 1] += [i]\np = Point(3)\np.place += 1\np.parts += x\np.double -= 2\ns = 'a'\ns *= 2\ns += 'b'\n"
    "return t, p.place, p.parts, s",
    "chains of comparisons": "return [note(a) < note(b) <= note(3) != note(a) for a in x for b in x[:3]], "
    "0 < len(x) < 5",
    "generators": "def inner(n):\n    try:\n        for one in x:\n            yield one + n\n    finally:\n"
    "        note('closed')\n    return n\ndef outer():\n    note((yield from inner(1)))\n    yield from x\n"
    "first = next(outer(), None)\nreturn list(outer()), first, [*zip(outer(), outer())]",
    "closures": "total = 0\ndef add(n):\n    nonlocal total\n    total += n\n    return lambda: total * n\n"
    "return [f() for f in [add(one) for one in x]], total",
    "exceptions": "found = []\nfor one in x:\n    try:\n        found.append(10 // one)\n        found.append([1, "
    "2][one])\n"
    "        found.append({1: 2}[one])\n    except (ZeroDivisionError, IndexError) as error:\n"
    "        found.append(str(error))\n"
    "    except KeyError as error:\n        found.append(error.args)\n    else:\n        found.append('fine')\n"
    "    finally:\n        found.append(one)\nreturn found",
    "errors that leave": "return x[7] + [1, 2, 3].index(x[0]) + int('z')",
    "unpacking": "a, *b = [*x, 1]\n(c, d), e = (a, b), x\nfor i, (j, k) in enumerate(zip(x, x[1:])):\n"
    "    note((i, j, k))\n"
    "for f, *g in [x + [0], (1, 2)]:\n    note((f, g))\nreturn a, b, c, d, e, {**{1: 2}, **dict(zip(x, x))}, "
    "note(*[len(x)])",
    "text": "return f'{x}{x!r:>9}{len(x):03d}{1.5:.2f}', '%d-%s' % (len(x), 'a'), '{:>4}'.format(len(x)), "
    "','.join(map(str, x)), "
    "repr(Point(1)), str(Point(2)), 'abcab'.replace('a', 'x').split('b'), 'a' in 'cba', 'abc'[::-1], "
    "'{} {}'.format(1, 'b')",
    "patterns": "def kind(v):\n    match v:\n        case []:\n            return 'none'\n        case [0, *_]:\n"
    "            return 'zero'\n        case [a, b] if a < b:\n            return (a, b)\n        case {'k': k}:\n"
    "            return k\n        case Point(place=p):\n            return p\n        case str() | None:\n"
    "            return 'text'\n    return 'other'\nreturn [kind(v) for v in (x, x[:2], {'k': 1}, Point(4), 'a', "
    "None, 7)]",
    "classes": "points = Point.of(x)\nboth = sorted(points), max(points, default=None), Point.zero() in points\n"
    "return [p.place for p in both[0]], both[2], len(set(points)), [p.double for p in points], "
    "sum(points, Point(0)).place, points[:1] == points[1:2], [list(p) for p in points], LOG",
    "sorting": "return sorted(x, key=lambda n: (-n, n)), sorted(map(str, x), reverse=True), sorted(x, "
    "key=cmp_to_key(lambda a, b: "
    "b - a)), min(x, key=abs, default=9), max(*x, 0, 1), nlargest(2, x), nsmallest(2, x, key=abs), sum(x), "
    "any(x), all(x)",
    "containers": "d = defaultdict(list)\nfor n in x:\n    d[n % 3].append(n)\nc, o, q = Counter(x), "
    "OrderedDict(), deque(x, maxlen=4)\n"
    "c.update(x[:2])\no.update(zip(x, x))\nq.rotate(1)\nq.extendleft(x[:1])\nif x:\n    o.move_to_end(x[0])\n"
    "    del q[0]\n"
    "s = set(x) | {1} - {2}\ns.discard(3)\nreturn d, c.most_common(), list(o), list(q), sorted(s), c[99], "
    "d.get(7, 'no'), "
    "sorted((c + c).elements()), s <= {1}, dict.fromkeys(x, 0), c == Counter(x), list(o.items()), 1 in d.keys(), "
    "d.pop(0, None)",
    "iterators": "return list(accumulate(x)), list(chain(x, x)), list(islice(cycle([*x, 1]), 2, 9, 2)), "
    "list(takewhile(bool, x)), "
    "[(k, list(g)) for k, g in groupby(sorted(x))], list(product(x[:2], repeat=2)), list(combinations(x, 2)), "
    "list(starmap(max, zip(x, x[1:]))), list(zip_longest(x, x[1:], fillvalue=0)), list(dropwhile(lambda n: n > 0, "
    "x)), "
    "reduce(operator.mul, x, 1), [list(t) for t in tee(x)], list(compress(x, repeat(1, 3))), "
    "list(iter(partial(next, iter(x), 0), 0))",
    "heaps": "h = list(x)\nheapify(h)\nfor n in x:\n    heappush(h, n)\n    note(heappushpop(h, n + 1))\n"
    "    note(heapreplace(h, n))\n"
    "return [heappop(h) for _ in list(h)], list(merge(sorted(x), [0, 5])), list(merge([9, 1], sorted(x)[::-1], "
    "reverse=True)), LOG",
    "caches": "@cache\ndef f1(n):\n    note(n)\n    return n if n < 2 else f1(n - 1) + f1(n - 2)\n"
    "@lru_cache(maxsize=2)\ndef f2(n):\n"
    "    return note(n)\nreturn [f1(abs(n) % 20) for n in x], [f2(n) for n in x], f1.cache_info().hits, LOG",
    "numbers": "return [(n << 70 >> 3, -n, ~n, n ** 3, divmod(n, 7), round(n / 3, 2), abs(n), n & 6 | 1, bin(n), "
    "gcd(n, 12)) for n in x], "
    "prod(x), isqrt(len(x)), (1 << 99) % 1000007, pow(3, len(x), 7), int('12') + int(1.9), 5 in range(9), "
    "[bool(n) for n in x]",
    "slices": "y = list(x)\ny[1:3] = [7, 8, 9]\ny[::2] = [0] * len(y[::2])\ndel y[:1]\ny.insert(1, 5)\ninsort(y, 3)\n"
    "return y, y[-1:], bisect_left(sorted(x), 2), y.pop(), y.count(5), [*reversed(y)], y.copy() == y, x * 2 + y, "
    "(1, 2) < (1, 3)",
}


def outcome(run: Any, values: list[int]) -> Any:
    """Return a call's result, or how it fails."""
    try:
        return repr(run(copy.deepcopy(values)))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.slow
@pytest.mark.parametrize("body", core_sample([*BODIES.values()], 7, key="woven", ids=[*BODIES]))
@given(values=st.lists(st.integers(-9, 9), max_size=6))
def test_a_woven_body_does_what_it_did(body: str, values: list[int]) -> None:
    source = HEAD + "\ndef f(x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    assert objections(source.encode(), METERED) == ()
    names: dict[str, Any] = {"__name__": "solution"}
    exec(source, names)
    meter.REFUSED.clear()
    assert outcome(lambda given: measured(source, "f", (given,))[0], values) == outcome(names["f"], values)
    assert not meter.REFUSED


REFUSED = {
    "a class derived from a list": ("class L(list):\n    pass", "hold one as an attribute"),
    "a type of the standard library": ("from collections import ChainMap\nChainMap()", "write it as a function"),
    "a property of C": ("p = property(len)", "write it in Python"),
    "a change of a module": ("import math\nmath.tau = 1", "your own objects"),
    "a change of a type": ("from collections import Counter\nCounter.total = None", "your own objects"),
    "an augmented change of a module": ("import math\nmath.tau += 1", "your own objects"),
    "formats that cut": ("'%.0s' % ([],)", "use an f-string"),
}


@pytest.mark.parametrize(("source", "instead"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_says_what_to_do(source: str, instead: str) -> None:
    meter.REFUSED.clear()
    with pytest.raises(meter.RefusedError, match=instead):
        measured(source + "\ndef f():\n    pass\n", "f", ())
    assert any(instead in text for text in meter.REFUSED)


NOT_SAID = {
    "a star in a with statement": "with f() as (a, *b): pass",
    "a computed annotation": "def f(x: g()): pass",
    "an annotated variable that computes": "x: g() = 1",
    "the rest of a pattern": "match x:\n    case [a, *b]: pass",
    "a value by name": "match x:\n    case a.b: pass",
    "in within a chain": "1 < x in y",
    "a decorated special method": "class A:\n    @f\n    def __len__(self): return 0",
    "a special name of an import": "from math import fsum as __contains__",
    "another super": "super = f",
    "an asynchronous function": "async def f(): pass",
    "a keyword of a class": "class A(x=1): pass",
    "a factory put in later": "d.default_factory = f",
}


@pytest.mark.parametrize("source", NOT_SAID.values(), ids=NOT_SAID)
def test_what_cannot_be_counted_is_named_before_it_runs(source: str) -> None:
    assert objections(source.encode(), METERED)
