"""Honest ways to solve each template with the containers and functions of the standard library."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template as Text

from turnwise.tasks.code.efficiency.family import Function
from turnwise.tasks.code.efficiency.templates import TEMPLATES

HONEST: Mapping[str, tuple[str, ...]] = {
    "distinct": (
        "def $f($x):\n    return list(dict.fromkeys($x))",
        "from collections import OrderedDict\ndef $f($x):\n    return list(OrderedDict.fromkeys($x))",
        "def $f($x):\n    seen = set()\n    return [n for n in $x if not (n in seen or seen.add(n))]",
        "from collections import Counter\ndef $f($x):\n    return [*Counter($x)]",
    ),
    "pairs": (
        "from collections import Counter\ndef $f($x):\n    times = Counter($x)\n    count = 0\n"
        "    for number, n in times.items():\n        other = $k - number\n        if other == number:\n"
        "            count += n * (n - 1)\n        elif other in times:\n            count += n * times[other]\n"
        "    return count // 2",
        "from collections import defaultdict\ndef $f($x):\n    seen = defaultdict(int)\n    count = 0\n"
        "    for number in $x:\n        if $k - number in seen:\n            count += seen[$k - number]\n"
        "        seen[number] += 1\n    return count",
        "from bisect import bisect_left, bisect_right\ndef $f($x):\n    ordered = sorted($x)\n    count = 0\n"
        "    for i, number in enumerate(ordered):\n        want = $k - number\n"
        "        count += bisect_right(ordered, want, i + 1) - bisect_left(ordered, want, i + 1)\n    return count",
    ),
    "range_sums": (
        "from itertools import accumulate\ndef $f($x, $y):\n    before = list(accumulate($x, initial=0))\n"
        "    return [before[high] - before[low] + $k for low, high in $y]",
        "def $f($x, $y):\n    before, total = [0], 0\n    for number in $x:\n        total += number\n"
        "        before.append(total)\n    found = []\n    for low, high in $y:\n"
        "        found.append(before[high] - before[low] + $k)\n    return found",
        "from itertools import accumulate, chain\ndef $f($x, $y):\n    before = [*accumulate(chain([0], $x))]\n"
        "    return list(map(lambda pair: before[pair[1]] - before[pair[0]] + $k, $y))",
    ),
    "recurrence": (
        "from functools import lru_cache\ndef $f($x, $y):\n    @lru_cache(maxsize=None)\n    def term(n):\n"
        "        if n < 1:\n            return 1\n        if n == 1:\n            return $y\n"
        "        return term(n - 1) + $k * term(n - 2)\n    return term($x)",
        "from collections import deque\ndef $f($x, $y):\n    if $x < 1:\n        return 1\n"
        "    terms = deque([1, $y], maxlen=2)\n    for _ in range($x - 1):\n"
        "        terms.append(terms[1] + $k * terms[0])\n    return terms[-1]",
        "def $f($x, $y):\n    terms = [1, $y]\n    while len(terms) <= $x:\n"
        "        terms.append(terms[-1] + $k * terms[-2])\n    return terms[max($x, 0)]",
        "from functools import reduce\ndef $f($x, $y):\n"
        "    return reduce(lambda pair, _: (pair[1], pair[1] + $k * pair[0]), range($x), (1, $y))[0]",
    ),
    "grid_paths": (
        "from functools import cache\ndef $f($x, $y):\n    closed = set($y)\n    @cache\n    def walk(row, column):\n"
        "        if row == $x or column == $x or (row, column) in closed:\n            return 0\n"
        "        if row == column == $x - 1:\n            return 1\n"
        "        return walk(row + 1, column) + walk(row, column + 1)\n    return walk(0, 0) + $k",
        "from collections import defaultdict\ndef $f($x, $y):\n    closed = frozenset($y)\n"
        "    ways = defaultdict(int)\n    for row in range($x):\n        for column in range($x):\n"
        "            if (row, column) in closed:\n                continue\n"
        "            ways[row, column] = 1 if row == column == 0 else ways[row - 1, column] + ways[row, column - 1]\n"
        "    return ways.get(($x - 1, $x - 1), 0) + $k",
    ),
    "common_letters": (
        "from functools import lru_cache\ndef $f($x, $y):\n    @lru_cache(None)\n    def longest(i, j):\n"
        "        if i == len($x) or j == len($y):\n            return 0\n        if $x[i] == $y[j]:\n"
        "            return 1 + longest(i + 1, j + 1)\n        return max(longest(i + 1, j), longest(i, j + 1))\n"
        "    return longest(0, 0) + $k",
        "def $f($x, $y):\n    last = [0] * (len($y) + 1)\n    for one in $x:\n        row = [0]\n"
        "        for j, other in enumerate($y):\n"
        "            row.append(last[j] + 1 if one == other else max(last[j + 1], row[j]))\n        last = row\n"
        "    return last[-1] + $k",
        "def $f($x, $y):\n    best = [[0] * (len($y) + 1) for _ in range(len($x) + 1)]\n    for i in range(len($x)):\n"
        "        for j in range(len($y)):\n            if $x[i] == $y[j]:\n"
        "                best[i + 1][j + 1] = best[i][j] + 1\n            else:\n"
        "                best[i + 1][j + 1] = max(best[i][j + 1], best[i + 1][j])\n    return best[-1][-1] + $k",
    ),
    "best_stretch": (
        "from itertools import accumulate\ndef $f($x):\n    best = least = 0\n    found = $k\n"
        "    for total in accumulate($x):\n        found = max(found, total - least)\n"
        "        least = min(least, total)\n"
        "    return found",
        "def $f($x):\n    best, total = $k, 0\n    for number in $x:\n        total = max(total, 0) + number\n"
        "        best = max(best, total)\n    return best",
    ),
    "next_greater": (
        "def $f($x):\n    found, waiting = [], []\n    for number in reversed($x):\n"
        "        while waiting and waiting[-1] <= number:\n            waiting.pop()\n"
        "        found.append(waiting[-1] if waiting else -$k)\n        waiting.append(number)\n"
        "    found.reverse()\n    return found",
        "from collections import deque\ndef $f($x):\n    waiting, found = deque(), {}\n"
        "    for i, number in enumerate($x):\n        while waiting and $x[waiting[-1]] < number:\n"
        "            found[waiting.pop()] = number\n        waiting.append(i)\n"
        "    return [found.get(i, -$k) for i in range(len($x))]",
    ),
    "window_maxima": (
        "from collections import deque\ndef $f($x):\n    n = len($x)\n    wide = max($k, n // 2)\n    found = []\n"
        "    window = deque()\n    for i in reversed(range(n)):\n        while window and $x[window[-1]] <= $x[i]:\n"
        "            window.pop()\n        window.append(i)\n        if window[0] >= i + wide:\n"
        "            window.popleft()\n        found.append($x[window[0]])\n    return found[::-1]",
        "from heapq import heappop, heappush\ndef $f($x):\n    n = len($x)\n    wide = max($k, n // 2)\n"
        "    heap, found = [], []\n    for i in range(n - 1, -1, -1):\n        heappush(heap, (-$x[i], i))\n"
        "        while heap[0][1] >= i + wide:\n            heappop(heap)\n        found.append(-heap[0][0])\n"
        "    return list(reversed(found))",
    ),
    "common": (
        "def $f($x, $y):\n    others = frozenset($y)\n    found = []\n    for number in $x:\n"
        "        if number > $k and number in others:\n            found.append(number)\n    return found",
        "def $f($x, $y):\n    both = set($x) & set($y)\n    return [n for n in $x if n in both and n > $k]",
        "from collections import Counter\ndef $f($x, $y):\n    held = Counter($y)\n"
        "    return [n for n in $x if n > $k and held[n]]",
    ),
    "inversions": (
        "def $f($x):\n    ranks = {n: i for i, n in enumerate(sorted(set($x)), 1)}\n"
        "    tree = [0] * (len(ranks) + 1)\n    count = $k\n    for placed, number in enumerate($x):\n"
        "        at, before = ranks[number], 0\n        while at:\n            before += tree[at]\n"
        "            at &= at - 1\n"
        "        count += placed - before\n        at = ranks[number]\n        while at < len(tree):\n"
        "            tree[at] += 1\n            at += at & -at\n    return count",
        "def $f($x):\n    def merge(run):\n        if len(run) < 2:\n            return run, 0\n"
        "        middle = len(run) // 2\n        left, a = merge(run[:middle])\n"
        "        right, b = merge(run[middle:])\n"
        "        merged, i, j, count = [], 0, 0, a + b\n        while i < len(left) and j < len(right):\n"
        "            if left[i] <= right[j]:\n                merged.append(left[i])\n                i += 1\n"
        "            else:\n                merged.append(right[j])\n                count += len(left) - i\n"
        "                j += 1\n        return merged + left[i:] + right[j:], count\n    return merge($x)[1] + $k",
    ),
    "same_letters": (
        "from collections import defaultdict\ndef $f($x):\n    groups = defaultdict(list)\n    for word in $x:\n"
        "        groups[''.join(sorted(word))].append(word)\n"
        "    return [group for group in groups.values() if len(group) >= $k]",
        "def $f($x):\n    groups = {}\n    for word in $x:\n        key = ''.join(sorted(word))\n"
        "        if key not in groups:\n            groups[key] = []\n        groups[key].append(word)\n"
        "    return list(filter(lambda group: len(group) >= $k, groups.values()))",
        "from collections import OrderedDict\ndef $f($x):\n    groups = OrderedDict()\n    for word in $x:\n"
        "        groups.setdefault(tuple(sorted(word)), []).append(word)\n"
        "    return [group for key, group in groups.items() if len(group) >= $k]",
    ),
    "packing": (
        "from functools import lru_cache\ndef $f($x, $y):\n    @lru_cache(maxsize=None)\n    def best(place, room):\n"
        "        if place == len($x):\n            return 0\n        weight, value = $x[place]\n"
        "        without = best(place + 1, room)\n        if weight > room:\n            return without\n"
        "        return max(without, value + best(place + 1, room - weight))\n    return best(0, $y)",
        "def $f($x, $y):\n    worth = [0] * ($y + 1)\n    for weight, value in $x:\n        worth = [\n"
        "            max(old, worth[room - weight] + value) if room >= weight else old\n"
        "            for room, old in enumerate(worth)\n        ]\n    return worth[-1]",
        "def $f($x, $y):\n    worth = {0: 0}\n    for weight, value in $x:\n"
        "        for room, held in sorted(worth.items(), reverse=True):\n            if room + weight <= $y:\n"
        "                new = held + value\n                if worth.get(room + weight, -1) < new:\n"
        "                    worth[room + weight] = new\n    return max(worth.values())",
    ),
    "smallest": (
        "import heapq\ndef $f($x):\n    heap = list($x)\n    heapq.heapify(heap)\n"
        "    return [(heapq.heappop(heap) + $k, place) for place in range(len($x))]",
        "from itertools import count\ndef $f($x):\n    ordered = sorted($x)\n"
        "    return list(zip((n + $k for n in ordered), range(len(ordered))))",
        "from collections import Counter\ndef $f($x):\n    times, found = Counter($x), []\n"
        "    for number in sorted(times):\n        for _ in range(times[number]):\n"
        "            found.append((number + $k, len(found)))\n    return found",
        "def quick(n):\n    if len(n) < 2:\n        return n\n    pivot = n[len(n) // 2]\n"
        "    return (\n        quick([m for m in n if m < pivot])\n        + [m for m in n if m == pivot]\n"
        "        + quick([m for m in n if m > pivot])\n    )\n"
        "def $f($x):\n    return [(number + $k, place) for place, number in enumerate(quick($x))]",
        "def merged(n):\n    if len(n) < 2:\n        return n\n    middle = len(n) // 2\n"
        "    left, right = merged(n[:middle]), merged(n[middle:])\n    both, i, j = [], 0, 0\n"
        "    while i < len(left) and j < len(right):\n        if left[i] <= right[j]:\n"
        "            both.append(left[i])\n            i += 1\n        else:\n"
        "            both.append(right[j])\n            j += 1\n    return both + left[i:] + right[j:]\n"
        "def $f($x):\n    return [(number + $k, place) for place, number in enumerate(merged($x))]",
    ),
    "frequent": (
        "from collections import Counter\ndef $f($x):\n    times = Counter($x)\n"
        "    chosen = [n for n, count in times.items() if count >= $k]\n"
        "    return sorted(chosen, key=lambda n: (-times[n], n))",
        "from collections import Counter\ndef $f($x):\n"
        "    ordered = sorted(Counter($x).items(), key=lambda pair: (-pair[1], pair[0]))\n"
        "    return [number for number, count in ordered if count >= $k]",
        "from collections import defaultdict\ndef $f($x):\n    times = defaultdict(int)\n    for number in $x:\n"
        "        times[number] += 1\n    levels = defaultdict(list)\n    for number in sorted(times):\n"
        "        levels[times[number]].append(number)\n"
        "    return [n for count in sorted(levels, reverse=True) if count >= $k for n in levels[count]]",
        "from itertools import groupby\ndef $f($x):\n    found = []\n    for number, same in groupby(sorted($x)):\n"
        "        times = sum(1 for _ in same)\n        if times >= $k:\n            found.append((-times, number))\n"
        "    return [number for _, number in sorted(found)]",
    ),
}
"""Sources of modules; ``$f``, ``$x``, ``$y`` and ``$k`` are filled in as in a template."""


def honest(function: Function) -> list[str]:
    """Return the honest sources of a function."""
    words = {"f": function.name, "x": "given_one", "y": "given_two", "k": str(function.constant)}
    name = next(name for name, template in TEMPLATES.items() if template is function.template)
    return [Text(source).substitute(words) + "\n" for source in HONEST[name]]
