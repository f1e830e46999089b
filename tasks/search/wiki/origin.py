"""``Wiki``: the pages of a fictional wiki, with what is so; made once per process and remembered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from threading import RLock
from typing import Any

from ....errors import TaskError
from ...rng import Rng
from ...spec import Split
from ..document import Corpus, Document
from . import prose
from .names import Names
from .relations import relations
from .world import Entity, World, made, share_of_trouble

WIKIS = 64
"""How many consecutive seeds take in turn."""
REMEMBERED = 128
"""How many a process remembers, of whatever size: some 2 KB for every page."""
LEAST = 60
"""Pages that a wiki has at the least."""
BLOCK = 1600
"""Pages of one block of a corpus that is larger than memory."""
FIXED = 3
"""Pages about the wiki and its two poor sources."""


@dataclass
class Wiki:
    """Pages, and where each fact is told.

    Args:
        world: what is so.
        corpus: the pages.
        sources: the names of the two poor sources.
        main: the id of an entity's page, by its number.
        copies: the id of its copy.
        revisions: the id of its earlier revision.
        quotes: the id of the page that repeats a poor source.
        lists: the id of the page with all subjects of an object, by relation and the object's number.
    """

    world: World
    corpus: Corpus
    sources: tuple[str, str]
    main: dict[int, str] = field(default_factory=dict)
    copies: dict[int, str] = field(default_factory=dict)
    revisions: dict[int, str] = field(default_factory=dict)
    quotes: dict[int, str] = field(default_factory=dict)
    lists: dict[tuple[str, int], str] = field(default_factory=dict)
    remembered: dict[Any, Any] = field(default_factory=dict)
    """What was found in it once."""
    lock: RLock = field(default_factory=RLock)
    """Held by whoever remembers something."""

    def pages_of(self, one: Entity) -> tuple[str, ...]:
        """The ids of the pages that tell what is so of an entity now: its own and the copy of it."""
        copied = self.copies.get(one.number)
        return (self.main[one.number],) if copied is None else (self.main[one.number], copied)


@lru_cache(maxsize=REMEMBERED)
def wiki(split: Split, number: int, size: int) -> Wiki:
    """The wiki with this number: a pure function of the arguments, remembered.

    Args:
        split: some have names that no other has.
        number: of the wiki.
        size: its pages.

    Raises:
        TaskError: it is to have fewer pages than there are things to tell.
    """
    return _made(split, number, size, 0)


def pages(number: int, size: int, split: Split = Split.TRAIN) -> Iterator[Document]:
    """The pages of a corpus of any size, block by block, of which one is held at a time.

    The first block is ``wiki(split, number, BLOCK)``, whose tasks can be asked of the whole; blocks share no name.

    Args:
        number: of the wiki.
        size: pages in all.
        split: some have names that no other has.
    """
    given, block = 0, 0
    while given < size:
        for one in _made(split, number, BLOCK, block).corpus:
            if given == size:
                return
            given += 1
            yield one
        block += 1


def _made(split: Split, number: int, size: int, block: int) -> Wiki:
    if size < LEAST:
        raise TaskError(f"a fictional wiki must have at least {LEAST} pages; got {size}")
    rng = Rng("wiki pages", str(split), number, size, block)
    count = size - FIXED - round(size * share_of_trouble(size))
    world = made(split, number, count, block)
    names = Names(split, number, block)
    names.skip(2 * count)
    sources = (f"{names.root()} Almanac", f"{names.root()} Register")
    told = _Pages(world, sources, rng)
    told.fill(size)
    found, prefix = told.wiki, f"{block}-" if block else ""
    order = [*range(1000, 1000 + len(told.texts))]
    rng.shuffle(order)
    ids = {key: f"{prefix}{number}" for key, number in zip(told.texts, order, strict=True)}
    rows = sorted((ids[key], *text) for key, text in told.texts.items())
    found.corpus = Corpus(f"wiki-{split}-{number}-{size}-{block}", (Document(*row) for row in rows))
    for key, id in ids.items():
        where: dict[Any, str] | None = getattr(found, key[0], None) if len(key) > 1 else None
        if where is not None:
            where[key[1] if len(key) == 2 else key[1:]] = id
    return found


class _Pages:
    """Writes pages until there are enough."""

    def __init__(self, world: World, sources: tuple[str, str], rng: Rng) -> None:
        self.wiki = Wiki(world, Corpus("", ()), sources)
        self.world, self.rng = world, rng
        self.texts: dict[tuple[Any, ...], tuple[str, str]] = {("about",): ("About this wiki", prose.ABOUT)}
        for source, text in zip(sources, prose.SOURCE, strict=True):
            self.texts["source", source] = (f"The {source}", text.format(source=source))

    def fill(self, size: int) -> None:
        """Everybody's page, lists, earlier revisions, poor sources, and copies for the rest."""
        world, rng = self.world, self.rng
        for one in world.entities:
            self.texts["main", one.number] = (one.title, prose.page(world, one, rng))
        room = size - len(self.texts)
        lists = [
            (name, of, some) for (name, of), some in world.subjects.items() if relations()[name].list and len(some) > 1
        ]
        for name, of, some in self._some(lists, room * 35 // 100):
            self.texts["lists", name, of] = prose.listing(name, world.entities[of], some, rng)
        for number in self._some([*world.revised], room * 25 // 100):
            one = world.entities[number]
            title = f"{one.title} (revision of {world.revised[number]})"
            self.texts["revisions", number] = (title, prose.revision(world, one, rng))
        for one in self._some([*world.entities], room * 20 // 100):
            source = rng.pick(self.wiki.sources)
            self.texts["quotes", one.number] = (f"{one.title} in the {source}", prose.quote(world, one, source, rng))
        for one in self._some([*world.entities], size - len(self.texts)):
            self.texts["copies", one.number] = (f"{one.title} (copy)", prose.copy(world, one, rng))

    def _some(self, all: list[Any], n: int) -> list[Any]:
        return self.rng.sample(all, min(n, len(all)))
