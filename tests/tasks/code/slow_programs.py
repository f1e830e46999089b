"""Right programs that hide superlinear work: a fast solution, and rounds that touch a long value in one operation.

A program for n rounds sets a value up once, at a price of its length, and touches all of it in each round. A meter that
takes the touch for a little work sees a linear program. The loop is written out; only the touch is hidden.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from string import Template as Text

import turnwise as tw
from turnwise.tasks.code.efficiency.family import Function, filled
from turnwise.tasks.code.efficiency.templates import TEMPLATES

IMPORTS = "import bisect, collections, functools, heapq, itertools, math, operator"
WAYS: dict[str, str] = {
    "list(range(n))": r"""
        repr(s) ~ str(s) ~ f'{s}' ~ f'{s!r:.0}' ~ '%.0s' % (s,) ~ '{!r:.0}'.format(s) ~ print(s) ~ ascii(s) ~ s[:] ~
        s[::-1] ~ s + [] ~ s * 1 ~ [*s] ~ [_ for _ in (s,)][0].copy() ~ (s.copy)() ~ type(s)(s) ~ tuple(s) ~ set(s) ~
        frozenset(s) ~ sum(s) ~ max(s) ~ any(map(str.isalpha, map(str, s))) ~ s.sort() ~ sorted(s) ~ s.count(-1) ~
        list.count(s, -1) ~ -1 in s ~ s.index(s[-1]) ~ s.reverse() ~ list(reversed(s)) ~ s.insert(0, 0)\ns.pop(0) ~
        s.insert(0, 0)\ndel s[0] ~ s[0:0] = [0]\ns[0:1] = [] ~ t = []\nt[:] = iter(s) ~ t = []\nt += s ~
        t = []\nt += itertools.chain(s) ~ t = []\nt.extend(iter(s)) ~ first, *rest = s ~
        for first, *rest in [s]:\n    pass ~ [first for first, *rest in [s]] ~ (first, *rest), t = s, 0 ~
        match s:\n    case [first, *rest]:\n        pass ~ match {0: s}:\n    case {0: [*rest]}:\n        pass ~
        known(*s) ~ (lambda *given: 0)(*s) ~ functools.partial(sum, s)() ~ functools.partial(max, 0, *s)() ~
        functools.reduce(operator.add, s) ~ functools.reduce(lambda one, two: 0, [0], *[s.count(-1)]) ~
        collections.defaultdict(functools.partial(sum, s))[0] ~ collections.defaultdict(s.copy)[0] ~
        list(iter(functools.partial(next, iter(s), None), None)) ~ list(iter(s.copy, s)) ~ super = s.copy\nsuper() ~
        sum([s], []) ~ [*itertools.accumulate([s, [1]])] ~ @s.count\ndef t():\n    pass ~ operator.concat(s, s) ~
        class T:\n    __contains__ = s.count\n0 in T() ~ class T:\n    t = property(s.count)\nT().t ~
        class T:\n    from math import fsum as __contains__\ns in T() ~ class T(list):\n    pass\nT(s).count(-1) ~
        operator.countOf(s, -1) ~ operator.indexOf(s, s[-1]) ~ operator.contains(s, -1) ~ operator.mul(s, 1) ~
        operator.getitem(s, slice(None)) ~ operator.itemgetter(slice(None))(s) ~ operator.iadd([], s) ~
        list(map(s.count, [0])) ~ list(filter(s.count, [-1])) ~ min([0], key=s.count) ~ sorted([0], key=s.count) ~
        list(itertools.starmap(s.count, [(0,)])) ~ list(itertools.starmap(known, [s])) ~ list(map(sum, [s])) ~
        list(itertools.takewhile(s.count, [0])) ~ list(itertools.dropwhile(s.count, [0])) ~
        list(itertools.filterfalse(s.count, [0])) ~ list(itertools.groupby([0], s.count)) ~
        collections.deque(enumerate(s), maxlen=0) ~ collections.deque(zip(s, s), 0) ~ collections.deque(s) ~
        next(itertools.islice(s, len(s) - 1, None)) ~
        list(itertools.compress(s, []))\nlist(itertools.compress(s, s)) ~ list(itertools.product(s)) ~
        list(itertools.combinations(s, 1)) ~ list(zip(*[s])) ~ list(filter(None, s)) ~ collections.Counter(s) ~
        t = collections.Counter()\nt.update(s) ~ dict.fromkeys(s) ~ collections.OrderedDict.fromkeys(s) ~
        collections.UserList(s) ~ collections.UserList([]).extend(s) ~ heapq.nlargest(1, s) ~ heapq.nsmallest(1, s) ~
        list(heapq.merge(s)) ~ heapq.heapify(s) ~ math.fsum(s) ~ str(ValueError(s)) ~ repr(KeyError(s)) ~
        f'{OSError(s)}' ~ repr(slice(s)) ~ repr(functools.partial(sum, s)) ~ def t(given: repr(s)):\n    pass ~
        def t() -> repr(s):\n    pass ~ t: repr(s) = 0 ~ math.dist(s, s) ~ yields(s) ~ ''.join(map(str, s)) ~
        dict(zip(s, s)) ~ {_: 0 for _ in iter(s)} ~ list(zip(*[[0]] * len(s)))
    """,
    "tuple(range(n))": r"""
        hash(s) ~ {s: 0} ~ {s} ~ s in {0: 0} ~ {0: 0}.get(s) ~ set().add(s) ~ t = {}\nt[s] = 0 ~ remembered(s) ~
        {0}.discard(s) ~ t = {}\nt.setdefault(s, 0) ~ {**{s: 0}} ~ collections.Counter([s]) ~ {s for _ in [0]} ~
        collections.defaultdict(int)[s] ~ dict([(s, 0)]) ~ {0: 0}.pop(s, 0) ~ functools.lru_cache(0)(sum)(s) ~
        s.count(-1) ~ s == (*s,) ~ max(s, s) ~ bisect.bisect([s] * 2, s) ~ heapq.heappush([s], s) ~ sorted([s, s]) ~
        list(itertools.groupby([s, s])) ~ repr(list[s]) ~ hash(dict[s]) ~ functools.cache(sum)(s)
    """,
    "[[list(range(n))], [list(range(n))]]": r"""
        s[0] == s[1] ~ s[0] < s[1] ~ s[0] in [s[1]] ~ operator.eq(s[0], s[1]) ~ max(s) ~ s.index(s[1]) ~ repr(s) ~
        max(s, key=functools.cmp_to_key(operator.eq)) ~ 0 if s[0] == s[1] == 0 else 1 ~ s.count(s[1]) ~ s[0] != s[1] ~
        min(s[0], s[1]) ~ sorted(s) ~ set(map(str, s)) ~ collections.deque(s) == collections.deque(reversed(s))
    """,
    "set(range(n))": r"""
        s <= s ~ s == s.copy() ~ s | s ~ s & s ~ s - s ~ s ^ s ~ s.union(()) ~ s.issubset(s) ~
        s.isdisjoint({-1} | s) ~ s.difference(()) ~ t = set()\nt |= s ~ set().update(s) ~ frozenset(s) ~ 0.5 in [*s] ~
        len({*s}) ~ s >= s
    """,
    "dict.fromkeys(range(n))": r"""
        {**s} ~ dict(s) ~ s.copy() ~ s | {} ~ s == dict(s) ~ s.keys() & s ~ s.keys() & iter(s) ~
        s.items() == s.items() ~ -1 in s.values() ~ t = {}\nt |= s ~ t = {}\nt.update(s) ~ list(s) ~
        collections.OrderedDict(s) ~ repr(s.keys()) ~ len(collections.ChainMap(s)) ~ [*s.values()] ~
        collections.Counter(s.keys()) ~ max(s) ~ s.keys() <= s.keys() ~ collections.UserDict(s) ~ s.keys() == set(s) ~
        sum(s)
    """,
    "dict.fromkeys(map(str, range(n)))": r"""
        named(**s) ~ dict(**s) ~ functools.partial(named, **s)() ~ '%(0)s' % s
    """,
    "collections.Counter(range(n))": r"""
        s.most_common(1) ~ s + s ~ +s ~ s == s.copy() ~ list(s.elements()) ~ s.total() ~ s.subtract(s) ~ s <= s ~
        s & s
    """,
    "collections.deque(range(n))": r"""
        s.rotate(len(s) // 2) ~ s.count(-1) ~ s.insert(len(s) // 2, 0)\ns.pop() ~ s.remove(s[-1])\ns.append(0) ~
        s.copy() ~ s.reverse() ~ s == s.copy() ~ -1 in s ~ s.index(s[-1]) ~ del s[len(s) // 2]\ns.append(0)
    """,
    "collections.deque(range(8 * n))": r"""
        s[len(s) // 2] ~ s[len(s) // 2] = 0 ~ s[len(s) // 2] += 1
    """,
    "'a' * n": r"""
        s.rfind('b') ~ s.find('b') ~ 'b' in s ~ s.count('b') ~ s.replace('b', 'c') ~ s.upper() ~ s.split('b') ~
        s[::-1] ~ s.rsplit('b') ~ s.encode() ~ s + 'b' ~ f'{s}' ~ '%s' % s ~ s.join('bc') ~ s.translate({0: 0}) ~
        s.isalpha() ~ t = s\nt += 'b' ~ list(s) ~ s.rpartition('b') ~ s == s[:-1] + 'a' ~ repr(s) ~ '{}'.format(s) ~
        s.strip('b') ~ collections.UserString(s).upper() ~ s.zfill(len(s) + 1) ~ s.splitlines() ~ s.casefold() ~
        set(s) ~ s * 1 ~ t = Held(s)\nt.held += 'b' ~ t = [s]\nt[0] += 'b' ~ t = {0: s}\nt[0] += 'b' ~ min(s) ~
        s.format()
    """,
    "1 << 64 * n": r"""
        s * 3 ~ -s ~ ~s ~ s + 1 ~ s & s - 1 ~ s >> 1 ~ s // 7 ~ s % 7 ~ divmod(s, 7) ~ abs(-s) ~ s == s + 1 ~
        hash(s) ~ s.bit_count() ~ math.gcd(s, 6) ~ pow(s, 2, 7) ~ t = s\nt += 1 ~ math.isqrt(s) ~ sum([s, 1]) ~
        max(s, s + 1) ~ hex(s) ~ f'{s:x}' ~ round(s, -1) ~ s | 1 ~ operator.add(s, 1) ~
        functools.reduce(operator.or_, [s, 1]) ~ s ** 2 ~ math.prod([s, 3]) ~ [*itertools.accumulate([s, 1])] ~
        next(itertools.count(s)) ~ list(range(s, s + 2)) ~ {s} ~ next(enumerate('a', s)) ~ (s + 1) in {0} ~
        s.to_bytes(len(bin(s)))
    """,
    "range(n)": r"""
        0.5 in s ~ s.count(0.5) ~ list(s) ~ tuple(s) ~ sum(s) ~ max(s) ~ [*s] ~ set(s) ~ any(s[:1]) or all(s)
    """,
    "Held(list(range(n)))": r"""
        sum(s) ~ list(s) ~ -1 in s ~ [*s] ~ first, *rest = s ~ max(s) ~ set(s) ~ sorted(s) ~ dict.fromkeys(s) ~
        any(map(str.isalpha, map(str, s))) ~ known(*s) ~ list(map(bool, s)) ~ collections.Counter(s) ~
        tuple(zip(s, s)) ~ t = []\nt += s ~ ''.join(map(str, s)) ~ list(filter(None, s)) ~ collections.deque(s, 0) ~
        s.held += [0]\nlist(s) ~ list(enumerate(s)) ~ next(reversed([*s]))
    """,
    "itertools.product(*[[0, 1]] * n)": r"""
        next(s) ~ for _ in s:\n    break ~ first, *rest = next(s)
    """,
    "itertools.permutations(range(n))": r"""
        next(s)
    """,
    "sparse(n)": r"""
        next(iter(s)) ~ for _ in s:\n    break ~ first, = s ~ max(s) ~ [*s] ~ s == {0} ~ s.add(s.pop())
    """,
    "thin(n)": r"""
        next(iter(s)) ~ (first, ), t = s, 0 ~ list(s.items()) ~ next(iter(s.values())) ~
        for (first,) in [s]:\n    pass
    """,
    "nested(n)": r"""
        next(s) ~ for _ in s:\n    break
    """,
    "(str,) * n": r"""
        isinstance(0, s) ~ issubclass(int, s) ~ isinstance(0, (s, s))
    """,
    "(KeyError,) * n + (StopIteration,)": r"""
        try:\n    next(iter(()))\nexcept s:\n    pass
    """,
}
"""Bodies of the function ``touch(s)``, separated by `` ~ ``, by the expression that makes ``s`` of length n."""
HELPERS = """
class Held:
    def __init__(self, held):
        self.held = held

    def __iter__(self):
        return iter(self.held)


def known(*given):
    return 0


def named(**given):
    return 0


@functools.lru_cache(None)
def remembered(given):
    return 0


def yields(given):
    def inner():
        yield from given
    def outer():
        yield from inner()
    return collections.deque(outer(), 0)


def sparse(n):
    left = set(range(n))
    for number in range(n - 1):
        left.remove(number)
    return left


def thin(n):
    left = dict.fromkeys(range(n))
    for number in range(n - 1):
        del left[number]
    return left


def nested(n):
    left = itertools.repeat(0)
    for _ in range(n):
        left = itertools.chain(left)
    return left
"""
LENGTHS = {
    "recurrence": ("$x", "16 * $x"),
    "grid_paths": ("$x ** 2", "2 * $x ** 3"),
    "packing": ("len($x) ** 2", "len($x) ** 3"),
    "common_letters": ("len($x) ** 2", "len($x) ** 3"),
}
"""Rounds, and the length of what each touches, where 'n rounds over 8n' would be too little."""


@dataclass(frozen=True)
class Slow:
    """A slow program.

    Args:
        name: the template, the value that it touches, and how.
        function: the function itself.
        source: the program.
    """

    name: str
    function: Function
    source: str


def slow_programs(seed: int = 0) -> Iterator[Slow]:
    """Yield every way in every template, with names and constants by a seed."""
    for template in TEMPLATES:
        for setup, bodies in WAYS.items():
            for body in re.split(r"\s+~\s+", bodies.strip()):
                name = f"{template}: {setup}: {body}"
                yield Slow(name, *_program(template, setup, body.replace(r"\n", "\n"), f"{seed} {name}"))


def _program(template: str, setup: str, body: str, seed: str) -> tuple[Function, str]:
    rng = random.Random(seed)
    function = filled(TEMPLATES[template], tw.Rng(seed))
    rounds, length = LENGTHS.get(template, ("len($x)", "8 * len($x)"))
    parameters = function.template.parameters
    solution = rng.choice(["fast", "solved", "answer"])
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    main = (
        f"def $f({parameters}):\n    n = {length}\n    value = {setup}\n    for _ in range({rounds}):\n"
        f"        if touch(value):\n            return None\n    return {solution}({parameters})\n"
    )
    words = {"f": function.name, "x": rng.choice(["given", "numbers"]), "y": rng.choice(["more", "others"])}
    fast = function.fast.replace(f"def {function.name}(", f"def {solution}(")
    head = f"{function.template.head}\n{IMPORTS}\n{HELPERS}\n\ndef touch(s):\n{lines}    return 0\n\n"
    return function, f"{head}\n{fast}\n\n{Text(main).substitute(words)}"
