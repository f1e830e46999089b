"""``Wiki``: the pages of a fictional wiki with its facts, generated once per process and cached."""

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
"""Wikis that consecutive seeds cycle through."""
REMEMBERED = 128
"""Wikis that a process caches, of any size: about 2 KB per page."""
LEAST = 60
"""Fewest pages of a wiki."""
BLOCK = 1600
"""Pages of one block of a corpus that exceeds memory."""
FIXED = 3
"""Pages about the wiki and its two unreliable sources."""


@dataclass
class Wiki:
    """Pages, and the places of their facts.

    Args:
        world: entities and facts of the wiki.
        corpus: the pages.
        sources: names of the two unreliable sources.
        main: page id of an entity, by its number.
        copies: page id of an entity's copy, by its number.
        revisions: page id of an entity's earlier revision, by its number.
        quotes: id of the page that repeats an unreliable source, by the entity's number.
        lists: id of the page with all subjects of an object, by relation and the object's number.
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
    """Cache of results that depend on the wiki."""
    lock: RLock = field(default_factory=RLock)
    """Lock of the cache."""

    def pages_of(self, one: Entity) -> tuple[str, ...]:
        """Return the ids of the pages that state an entity's current facts: its own page and its copy."""
        copied = self.copies.get(one.number)
        return (self.main[one.number],) if copied is None else (self.main[one.number], copied)


@lru_cache(maxsize=REMEMBERED)
def wiki(split: Split, number: int, size: int) -> Wiki:
    """Return the wiki with a number: a pure, cached function of the arguments.

    Args:
        split: split of the wiki; some splits have names of their own.
        number: number of the wiki.
        size: number of pages.

    Raises:
        TaskError: ``size`` is too small for the required pages.
    """
    return _made(split, number, size, 0)


def pages(number: int, size: int, split: Split = Split.TRAIN) -> Iterator[Document]:
    """Yield the pages of a corpus of any size, block by block, with one block in memory at a time.

    The first block is ``wiki(split, number, BLOCK)``, so that its tasks also fit the whole corpus. Blocks share no
    name.

    Args:
        number: number of the wiki.
        size: total number of pages.
        split: split of the wiki; some splits have names of their own.
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
    pages = _Pages(world, sources, rng)
    pages.fill(size)
    found, prefix = pages.wiki, f"{block}-" if block else ""
    order = [*range(1000, 1000 + len(pages.texts))]
    rng.shuffle(order)
    ids = {key: f"{prefix}{number}" for key, number in zip(pages.texts, order, strict=True)}
    rows = sorted((ids[key], *text) for key, text in pages.texts.items())
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
        """Write every entity's page, then lists, earlier revisions, unreliable quotes, and copies for the rest."""
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
