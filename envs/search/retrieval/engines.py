"""``retriever_for``: the search engine of a corpus, created once per process."""

from __future__ import annotations

import difflib
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from ....errors import UsageError
from ....tasks.search.document import Corpus
from .fts5 import Fts5
from .remote import Remote
from .retriever import Retriever

REMEMBERED = 128
"""Most cached indices: the worlds of two splits. The index of a thousand pages takes about a megabyte."""


def retriever_for(corpus: Corpus, engine: str = "fts5") -> Retriever:
    """Return the engine over a corpus; equal arguments share one engine, which is never closed.

    Args:
        corpus: the pages; an index is remembered under its name.
        engine: ``"fts5"``, ``"tantivy"``, or the address of a server (``Remote``), which has pages of its own.

    Raises:
        UsageError: there is no such engine, or its package is not installed.
    """
    if engine.startswith(("http://", "https://")):
        return _SHELF.take((engine, ""), lambda: Remote(engine))
    if engine not in ENGINES:
        near = difflib.get_close_matches(engine, ENGINES, 1)
        raise UsageError(f"there is no engine {engine!r}; {f'did you mean {near[0]!r}? ' if near else ''}{_known()}")
    return _SHELF.take((engine, corpus.name), lambda: ENGINES[engine](corpus))


def _tantivy(corpus: Corpus) -> Retriever:
    from .tantivy import Tantivy  # an extra

    return Tantivy(corpus)


ENGINES: dict[str, Callable[[Corpus], Retriever]] = {"fts5": Fts5, "tantivy": _tantivy}
"""Engines that need only a corpus."""


class Shelf:
    """The indices used last; two threads that want one at the same moment wait for the one that makes it.

    What is no longer remembered is not closed, since an episode may hold it: it goes when the last of them does.

    Args:
        size: how many are remembered.
    """

    def __init__(self, size: int) -> None:
        self._size, self._lock = size, Lock()
        self._held: OrderedDict[tuple[str, str], _Place] = OrderedDict()

    def take(self, key: tuple[str, str], make: Callable[[], Retriever]) -> Retriever:
        """Return the index of a key, and create it if it is missing."""
        with self._lock:
            place = self._held.setdefault(key, _Place())
            self._held.move_to_end(key)
            while len(self._held) > self._size:
                self._held.popitem(last=False)
        with place.lock:
            if place.index is None:
                place.index = make()  # what it raises is raised again for the next who asks
            return place.index


class _Place:
    def __init__(self) -> None:
        self.lock = Lock()
        self.index: Retriever | None = None


_SHELF = Shelf(REMEMBERED)


def _known() -> str:
    return f"there are {' and '.join(ENGINES)}, or give the address of a server"
