"""Folders full of small files, drawn by a seed, for shell tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ...rng import Rng

WORDS = (
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty", "knoll", "larch",
    "marsh", "north", "otter", "pearl", "quartz", "river", "stone", "tulip",
)  # fmt: skip
OTHER_WORDS = (
    "anvil", "bellows", "chisel", "drill", "easel", "file", "gauge", "hammer", "iron", "jig", "kiln", "lathe",
    "mallet", "nozzle", "oven", "plane", "rasp", "saw", "torch", "vise",
)  # fmt: skip
"""Words in names and lines of files: for most splits, and for those that hold out entities."""
FOLDERS = ("inbox", "store", "field", "south", "depot", "annex")
STATES = ("ok", "warn", "fail", "skip")
KINDS = (".txt", ".log", ".cfg", ".sh")


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a folder.

    Args:
        files: number of files in it, including subfolders.
        depth: depth of its subfolders.
        lines: most lines of a file.
        words: number of different words in its lines.
        spaces: whether names may contain spaces.
    """

    files: int
    depth: int
    lines: int
    words: int
    spaces: bool


SIZES: Mapping[int, Size] = MappingProxyType(
    {
        1: Size(4, 0, 4, 4, False),
        2: Size(7, 0, 6, 4, False),
        3: Size(10, 1, 8, 5, False),
        4: Size(14, 2, 10, 6, True),
        5: Size(20, 3, 14, 7, True),
    }
)
"""Sizes by level."""


def folder(name: str, size: Size, rng: Rng, words: tuple[str, ...]) -> dict[str, str]:
    """Draw a folder's files, by path: every kind occurs, and no name twice; a line is a state, a word and a number."""
    names = rng.sample(words, min(len(words), size.files))
    places = [name]
    for _ in range(size.depth * 2):
        below = f"{rng.pick(places)}/{rng.pick(words)}s"
        if below.count("/") <= size.depth and below not in places:
            places.append(below)
    found, said = {}, tuple(rng.sample(words, size.words))
    for number in range(size.files):
        stem = names[number % len(names)]
        if size.spaces and number % 4 == 1:
            stem = f"{stem} {rng.pick(words)}"
        kind = KINDS[number] if number < len(KINDS) else rng.pick(KINDS)
        found[f"{places[number % len(places)]}/{stem}{kind}"] = _content(size.lines, rng, said)
    return found


def _content(lines: int, rng: Rng, words: tuple[str, ...]) -> str:
    count = rng.randint(1, lines)
    return "".join(f"{rng.pick(STATES)} {rng.pick(words)} {rng.randint(1, 999)}\n" for _ in range(count))
