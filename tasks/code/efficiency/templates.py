"""Templates of functions to speed up: slow functions that define the result, fast ones, and inputs for both.

``$f`` is the function's name, ``$x`` and ``$y`` are its parameters, and ``$k`` is a random number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...rng import Rng

Arguments = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """One function to speed up.

    Args:
        about: its docstring, a sentence.
        names: possible names of the function.
        slow: its body, obvious and slow.
        fast: a body that does the same with less work.
        make: function that draws arguments, from random numbers, a size and ``$k``.
        sizes: a small size, and the base size, whose single, double and fourfold the work is measured at.
        growth: growth of the fast body's work, in words.
        head: imports of the fast body.
        parameters: ``$x`` alone, or both.
        margin: work of a good solution in plain Python, in multiples of the fast body's: more than 1 where C does
            nearly all that the fast body does.
    """

    about: str
    names: tuple[str, ...]
    slow: str
    fast: str
    make: Callable[[Rng, int, int], Arguments]
    sizes: tuple[int, int]
    growth: str
    head: str = ""
    parameters: str = "$x"
    margin: int = 1


def numbers(rng: Rng, n: int, k: int) -> Arguments:
    """Draw numbers of which about half are different."""
    return ([rng.randint(-n, n) // 2 for _ in range(n)],)


def queries(rng: Rng, n: int, k: int) -> Arguments:
    """Draw numbers, and as many ranges of them."""
    ends = [sorted((rng.randint(0, n), rng.randint(0, n))) for _ in range(n)]
    return [rng.randint(-9, 9) for _ in range(n)], [(low, high) for low, high in ends]


def two_lists(rng: Rng, n: int, k: int) -> Arguments:
    """Draw two lists that share about half of their numbers."""
    return [rng.randint(0, 2 * n) for _ in range(n)], [rng.randint(0, 2 * n) for _ in range(n)]


def two_words(rng: Rng, n: int, k: int) -> Arguments:
    """Draw two words of three different characters."""
    return "".join(rng.pick("abc") for _ in range(n)), "".join(rng.pick("abc") for _ in range(n))


def words(rng: Rng, n: int, k: int) -> Arguments:
    """Draw short words, many of which have the same characters."""
    return (["".join(rng.pick("abcd") for _ in range(4)) for _ in range(n)],)


def closed_cells(rng: Rng, n: int, k: int) -> Arguments:
    """Draw the number of rows of a grid, and cells in its lower right quarter."""
    return n, [(rng.randint(n // 2, n), rng.randint(n // 2, n)) for _ in range(n // 2)]


def things(rng: Rng, n: int, k: int) -> Arguments:
    """Draw weights and values, and a capacity."""
    return ([(rng.randint(1, 9), rng.randint(1, 20)) for _ in range(n)], 2 * n + k)


TEMPLATES: Mapping[str, Template] = {
    "distinct": Template(
        "The numbers of a list without duplicates, in the order in which they first appear.",
        ("distinct", "without_repetitions", "first_appearances"),
        "found = []\nfor number in $x:\n    if number not in found:\n        found.append(number)\nreturn found",
        "seen, found = set(), []\nfor number in $x:\n    if number not in seen:\n        seen.add(number)\n"
        "        found.append(number)\nreturn found",
        numbers,
        (6, 300),
        "proportional to the length of the list",
    ),
    "pairs": Template(
        "How many pairs of positions in a list hold numbers that sum to $k.",
        ("count_pairs", "pairs_with_sum", "matching_pairs"),
        "count = 0\nfor i in range(len($x)):\n    for j in range(i + 1, len($x)):\n"
        "        if $x[i] + $x[j] == $k:\n            count += 1\nreturn count",
        "seen = {}\ncount = 0\nfor number in $x:\n    count += seen.get($k - number, 0)\n"
        "    seen[number] = seen.get(number, 0) + 1\nreturn count",
        numbers,
        (6, 150),
        "proportional to the length of the list",
    ),
    "range_sums": Template(
        "The sum of the numbers from each pair's first index up to, but not including, its second index, plus $k.",
        ("range_sums", "sums_between", "totals"),
        "sums = []\nfor low, high in $y:\n    total = $k\n    for place in range(low, high):\n"
        "        total += $x[place]\n    sums.append(total)\nreturn sums",
        "before = [0]\nfor number in $x:\n    before.append(before[-1] + number)\n"
        "return [before[high] - before[low] + $k for low, high in $y]",
        queries,
        (6, 120),
        "proportional to the number of numbers and pairs",
        parameters="$x, $y",
    ),
    "recurrence": Template(
        "The term $x of a sequence that begins with 1 and $y, each later term being the last plus $k times the one "
        "before.",
        ("term", "sequence_term", "nth_term"),
        "if $x < 1:\n    return 1\nif $x == 1:\n    return $y\nreturn $f($x - 1, $y) + $k * $f($x - 2, $y)",
        "before, last = 1, $y\nfor _ in range($x):\n    before, last = last, last + $k * before\nreturn before",
        lambda rng, n, k: (n + rng.randint(0, 1), rng.randint(2, 9999)),
        (4, 5),
        "proportional to the index of the term",
        parameters="$x, $y",
    ),
    "grid_paths": Template(
        "The number of paths from the top left to the bottom right of a square grid with $x rows, moving only right "
        "and down and avoiding the closed cells in $y, each a row and a column; plus $k.",
        ("count_paths", "grid_ways", "routes"),
        "def walk(row, column):\n    if row == $x or column == $x or (row, column) in $y:\n        return 0\n"
        "    if row == column == $x - 1:\n        return 1\n"
        "    return walk(row + 1, column) + walk(row, column + 1)\nreturn walk(0, 0) + $k",
        "closed, ways = set($y), [0] * $x\nfor row in range($x):\n    for column in range($x):\n"
        "        if (row, column) in closed:\n            ways[column] = 0\n        elif row == column == 0:\n"
        "            ways[column] = 1\n        elif column:\n            ways[column] += ways[column - 1]\n"
        "return (ways[-1] if ways else 0) + $k",
        closed_cells,
        (3, 2),
        "proportional to the number of cells in the grid",
        parameters="$x, $y",
    ),
    "common_letters": Template(
        "The length of the longest sequence of characters that both words contain in order, allowing gaps, plus $k.",
        ("longest_common", "common_length", "shared_letters"),
        "def longest(i, j):\n    if i == len($x) or j == len($y):\n        return 0\n    if $x[i] == $y[j]:\n"
        "        return 1 + longest(i + 1, j + 1)\n    return max(longest(i + 1, j), longest(i, j + 1))\n"
        "return longest(0, 0) + $k",
        "row = [0] * (len($y) + 1)\nfor one in $x:\n    corner = 0\n    for j, other in enumerate($y, 1):\n"
        "        above = row[j]\n        if one == other:\n            row[j] = corner + 1\n"
        "        elif row[j - 1] > above:\n            row[j] = row[j - 1]\n        corner = above\n"
        "return row[-1] + $k",
        two_words,
        (4, 4),
        "proportional to the product of the words' lengths",
        parameters="$x, $y",
    ),
    "best_stretch": Template(
        "The largest sum of consecutive numbers of a list, or $k if no sum is larger.",
        ("best_stretch", "largest_stretch", "best_sum"),
        "best = $k\nfor start in range(len($x)):\n    total = 0\n    for number in $x[start:]:\n"
        "        total += number\n        if total > best:\n            best = total\nreturn best",
        "best, total = $k, 0\nfor number in $x:\n    total = number if total < 0 else total + number\n"
        "    if total > best:\n        best = total\nreturn best",
        numbers,
        (6, 150),
        "proportional to the length of the list",
    ),
    "next_greater": Template(
        "For each number of a list, the first later number that is greater, or -$k if there is none.",
        ("next_greater", "later_and_greater", "first_greater"),
        "found = []\nfor i, number in enumerate($x):\n    greater = -$k\n    for later in $x[i + 1:]:\n"
        "        if later > number:\n            greater = later\n            break\n    found.append(greater)\n"
        "return found",
        "found = [-$k] * len($x)\nwaiting = []\nfor i, number in enumerate($x):\n"
        "    while waiting and $x[waiting[-1]] < number:\n        found[waiting.pop()] = number\n"
        "    waiting.append(i)\nreturn found",
        lambda rng, n, k: (sorted((rng.randint(0, 9 * n) for _ in range(n)), reverse=True),),
        (6, 250),
        "proportional to the length of the list",
    ),
    "window_maxima": Template(
        "For each position, the largest number from there on, looking half the list ahead, but at least $k positions.",
        ("window_maxima", "moving_maximum", "largest_ahead"),
        "found = []\nfor i in range(len($x)):\n    width = min(len($x) - i, max($k, len($x) // 2))\n"
        "    largest = $x[i]\n    for number in $x[i:i + width]:\n        if number > largest:\n"
        "            largest = number\n    found.append(largest)\nreturn found",
        "count = len($x)\nwide = max($k, count // 2)\nfound = [0] * count\nwindow = deque()\n"
        "for i in range(count - 1, -1, -1):\n    while window and window[0] >= i + wide:\n        window.popleft()\n"
        "    while window and $x[window[-1]] <= $x[i]:\n        window.pop()\n    window.append(i)\n"
        "    found[i] = $x[window[0]]\nreturn found",
        numbers,
        (6, 150),
        "proportional to the length of the list",
        head="from collections import deque",
    ),
    "common": Template(
        "The numbers of the first list that are also in the second and are greater than $k, in order.",
        ("common_numbers", "in_both", "shared"),
        "return [number for number in $x if number > $k and number in $y]",
        "others = set($y)\nreturn [number for number in $x if number > $k and number in others]",
        two_lists,
        (6, 400),
        "proportional to the total length of both lists",
        parameters="$x, $y",
    ),
    "inversions": Template(
        "How many pairs of positions in a list hold the larger number first; plus $k.",
        ("inversions", "out_of_order", "count_swaps"),
        "count = $k\nfor i in range(len($x)):\n    for j in range(i + 1, len($x)):\n        if $x[i] > $x[j]:\n"
        "            count += 1\nreturn count",
        "count, run = $k, list($x)\nwidth = 1\nwhile width < len(run):\n    merged = []\n"
        "    for start in range(0, len(run), 2 * width):\n        left = run[start:start + width]\n"
        "        right = run[start + width:start + 2 * width]\n        i = 0\n        for number in right:\n"
        "            while i < len(left) and left[i] <= number:\n                merged.append(left[i])\n"
        "                i += 1\n            merged.append(number)\n            count += len(left) - i\n"
        "        merged.extend(left[i:])\n    run = merged\n    width *= 2\nreturn count",
        numbers,
        (6, 300),
        "hardly more than proportional to the length of the list",
    ),
    "same_letters": Template(
        "The words grouped by their characters (anagrams), with groups and words in the order of their first "
        "appearance; only groups of at least $k words.",
        ("same_letters", "letter_groups", "anagrams"),
        "groups = []\nfor word in $x:\n    for group in groups:\n        if sorted(group[0]) == sorted(word):\n"
        "            group.append(word)\n            break\n    else:\n        groups.append([word])\n"
        "return [group for group in groups if len(group) >= $k]",
        "groups = {}\nfor word in $x:\n    groups.setdefault(tuple(sorted(word)), []).append(word)\n"
        "return [group for group in groups.values() if len(group) >= $k]",
        words,
        (8, 150),
        "proportional to the length of the list",
    ),
    "packing": Template(
        "The largest total value of items (weight, value) whose weights sum to at most the second argument.",
        ("best_load", "packed_value", "heaviest_purse"),
        "def best(place, room):\n    if place == len($x):\n        return 0\n    weight, value = $x[place]\n"
        "    without = best(place + 1, room)\n    if weight > room:\n        return without\n"
        "    return max(without, value + best(place + 1, room - weight))\nreturn best(0, $y)",
        "worth = [0] * ($y + 1)\nfor weight, value in $x:\n    for room in range($y, weight - 1, -1):\n"
        "        with_it = value + worth[room - weight]\n        if with_it > worth[room]:\n"
        "            worth[room] = with_it\nreturn worth[$y]",
        things,
        (4, 4),
        "proportional to the number of items times the second argument",
        parameters="$x, $y",
    ),
    "smallest": Template(
        "The numbers of a list plus $k, smallest first, each with the number of positions before it in this order.",
        ("ranked", "in_order", "with_places"),
        "left, found = list($x), []\nwhile left:\n    least = left[0]\n    for number in left:\n"
        "        if number < least:\n            least = number\n    left.remove(least)\n"
        "    found.append((least + $k, len(found)))\nreturn found",
        "return [(number + $k, place) for place, number in enumerate(sorted($x))]",
        numbers,
        (6, 700),
        "hardly more than proportional to the length of the list",
        margin=6,
    ),
    "frequent": Template(
        "The numbers that a list contains at least $k times, most frequent first; in a tie, the smaller first.",
        ("frequent", "most_frequent", "often_seen"),
        "found = []\nfor number in $x:\n    times = 0\n    for other in $x:\n        times += other == number\n"
        "    if times >= $k and (-times, number) not in found:\n        found.append((-times, number))\n"
        "found.sort()\nreturn [number for _, number in found]",
        "times = {}\nfor number in $x:\n    times[number] = times.get(number, 0) + 1\n"
        "found = sorted((-count, number) for number, count in times.items() if count >= $k)\n"
        "return [number for _, number in found]",
        numbers,
        (6, 150),
        "hardly more than proportional to the length of the list",
    ),
}
"""All templates by name."""
HELD_OUT = ("inversions", "packing", "same_letters", "window_maxima")
"""Templates that only test_template and challenge use."""
PARAMETERS = (("values", "extras"), ("items", "rest"), ("given", "second"), ("data", "more"), ("series", "against"))
"""Possible names of the parameters."""
