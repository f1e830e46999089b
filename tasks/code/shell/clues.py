"""Clues: a job names what it depends on by a measure of the files, and not directly.

The clue describes a state, a word or a file extension, for instance as the one with the largest sum of numbers. An
agent has to compute which one that is. No other measure names the same one, so a wrong measure leads to a wrong result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ...rng import Rng, unit_hash
from ...spec import Split
from .world import KINDS

Tree = Mapping[str, str]
"""Text files by path."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure that singles out one of several names.

    Args:
        words: description, as in "the state with the most lines".
        update: awk statement that updates ``s[$1]`` for a row of a name and a number.
        of: function that computes the same from all numbers of one name.
        largest: whether the clue means the largest measure rather than the smallest.
    """

    words: str
    update: str
    of: Callable[[Collection[int]], int]
    largest: bool


COUNT, SUM = "s[$1] += 1", "s[$1] += $2"
LARGEST, SMALLEST = "if ($2 + 0 > s[$1] + 0) s[$1] = $2", "if (!($1 in s) || $2 + 0 < s[$1] + 0) s[$1] = $2"
MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "most lines": Measure("the most lines", COUNT, len, True),
        "fewest lines": Measure("the fewest lines", COUNT, len, False),
        "largest sum": Measure("the largest sum of numbers", SUM, sum, True),
        "smallest sum": Measure("the smallest sum of numbers", SUM, sum, False),
        "largest number": Measure("the largest number", LARGEST, max, True),
        "smallest number": Measure("the smallest number", SMALLEST, min, False),
    }
)
NAMED: Mapping[str, str] = MappingProxyType(
    {
        "state": "the state with {measure}",
        "word": "the word with {measure}",
        "kind": "the extension ({kinds}) with {measure}",
    }
)
"""Descriptions by kind of clue."""


@dataclass(frozen=True, slots=True)
class Clue:
    """A description that replaces a name in the prompt.

    Args:
        value: the described name.
        words: description in the prompt.
        command: shell command that sets ``$state``, ``$word`` or ``$kind`` to the value.
        wrong: another name, which another measure describes.
        mistake: shell command that sets the variable to that name.
    """

    value: str
    words: str
    command: str
    wrong: str
    mistake: str


def measures_of(job: str, meant: str, split: Split) -> tuple[str, ...]:
    """Return the measures that clues of a job may use: half of them in training, and others in every other split.

    Every measure occurs in training with some jobs, and every job with some measures; only their pairs are held out.
    """
    order = sorted(MEASURES, key=lambda name: unit_hash("code-shell", job, meant, name))
    return tuple({Split.TRAIN: order[:3], Split.DEV: order[3:4]}.get(split, order[4:]))


def clue(meant: str, folder: str, tree: Tree, measures: Collection[str], rng: Rng) -> Clue | None:
    """Return a clue to a state, a word or a kind that no other measure names; ``None`` if these files allow none.

    Args:
        meant: one of ``NAMED``.
        folder: path of the folder.
        tree: files in it, by path.
        measures: names of the measures that the clue may use.
        rng: draws one of them.
    """
    values = {name: singled_out(rows(meant, tree), measure) for name, measure in MEASURES.items()}
    named = list(values.values())
    fit = [name for name in measures if values[name] is not None and named.count(values[name]) == 1]
    others = [name for name in MEASURES if values[name] is not None]
    if not fit or len(others) < 2:
        return None
    name = rng.pick(fit)
    wrong = rng.pick([other for other in others if other != name])
    words = NAMED[meant].format(measure=MEASURES[name].words, kinds=", ".join(KINDS))
    right, mistake = command(meant, folder, name), command(meant, folder, wrong)
    return Clue(str(values[name]), words, right, str(values[wrong]), mistake)


def rows(meant: str, tree: Tree) -> dict[str, list[int]]:
    """Return the numbers that occur with each state or word, or in the files of each kind."""
    found: dict[str, list[int]] = {}
    for path, text in tree.items():
        for line in text.splitlines():
            state, word, number = line.split()
            name = {"state": state, "word": word, "kind": f".{path.rpartition('.')[2]}"}[meant]
            found.setdefault(name, []).append(int(number))
    return found


def singled_out(numbers: Mapping[str, Collection[int]], measure: Measure) -> str | None:
    """Return the one name with the largest or smallest measure; ``None`` if there are several, or no other name."""
    sizes = {name: measure.of(each) for name, each in numbers.items()}
    best = (max if measure.largest else min)(sizes.values())
    first = [name for name, size in sizes.items() if size == best]
    return first[0] if len(first) == 1 < len(sizes) else None


def command(meant: str, folder: str, measure: str) -> str:
    """Return the shell command that computes the value of a clue."""
    name = {"state": "$1", "word": "$2", "kind": '"." p[split(FILENAME, p, ".")]'}[meant]
    read = f"find {folder} -type f -exec awk '{{ print {name}, $3 }}' {{}} +"
    each = f"awk '{{ {MEASURES[measure].update} }} END {{ for (k in s) print s[k], k }}'"
    end = "tail" if MEASURES[measure].largest else "head"
    return f"{meant}=$({read} | {each} | sort -n | {end} -n 1 | cut -d ' ' -f 2)"
