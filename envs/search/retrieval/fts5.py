"""``Fts5``: SQLite's full-text index, the engine that needs nothing installed."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Self

from ....errors import InfrastructureError
from ....tasks.search.document import Corpus, Document
from ....tasks.search.stored import TOKENS, StoredCorpus, storable
from .retriever import Hit
from .tokenize import query_words

TITLE = 4.0
"""Weight of a word in the title relative to one in the text."""
RANKED = 2_000
"""Approximate number of pages to rank for a query; if its words have more, the most common ones only add to scores."""
MOST_COUNTED = 200_000
"""Most pages to count for a word; a word with more is as common as can be."""
COUNTED = 65_536
"""Words whose number of pages is cached."""
BEST = """
SELECT rowid, -bm25(found, ?, 1.0) AS score FROM found WHERE found MATCH ? ORDER BY score DESC, rowid LIMIT ?
"""
ALSO = "SELECT rowid FROM found WHERE found MATCH ? AND +rowid IN (SELECT value FROM json_each(?))"
COUNT = "SELECT count(*) FROM (SELECT 1 FROM found WHERE found MATCH ? LIMIT ?)"


class Fts5:
    """The pages that contain any word of a query, ranked by BM25.

    For a corpus in a file (``StoredCorpus``), the file contains the index; for any other corpus, it is built in memory.
    Ranking a page costs ten times as much as finding it. So if the words of a query occur in more than ``ranked`` pages
    together, pages are ranked by the rarest words. Each other word then adds to these pages what one occurrence in a
    page of average length would.

    Args:
        corpus: the pages.
        title: weight of a word in the title relative to one in the text.
        ranked: approximate number of pages to rank for one query.
    """

    def __init__(self, corpus: Corpus, *, title: float = TITLE, ranked: int = RANKED) -> None:
        self._corpus, self._title, self._ranked = corpus, title, ranked
        self._own = None if isinstance(corpus, StoredCorpus) else _index(corpus)
        self._lock = Lock()
        self._counts: dict[str, int] = {}
        self._closed = False

    @classmethod
    def opened(cls, path: Path | str, *, title: float = TITLE, ranked: int = RANKED) -> Self:
        """Open the index in a file that ``turnwise tasks build-corpus`` wrote.

        Raises:
            UsageError: the file does not exist, or is not a corpus.
        """
        return cls(StoredCorpus(path), title=title, ranked=ranked)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best ``k`` pages for each query, best first; see ``Retriever.search``."""
        with self._connection() as connection:
            return [self._search(connection, query, k) for query in queries]

    def get(self, id: str) -> Document | None:
        """Return the page with an id, or ``None``."""
        return self._corpus.get(id)

    def close(self) -> None:
        """Close the index."""
        with self._lock:
            self._closed = True
            if self._own is not None:
                self._own.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # an index never changes, so copies of an environment share it

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for this thread: one of its own for a file, or exclusively the only one in memory."""
        if self._closed:
            raise InfrastructureError(f"the index of {self._corpus.name!r} was closed; create another one to search")
        try:
            if isinstance(self._corpus, StoredCorpus):
                yield self._corpus.connection
            else:
                assert self._own is not None
                with self._lock:
                    yield self._own
        except sqlite3.Error as error:
            raise InfrastructureError(f"cannot read the index of {self._corpus.name!r}: {error}") from error

    def _search(self, connection: sqlite3.Connection, query: str, k: int) -> list[Hit]:
        rare, common = self._parted(connection, query_words(query))
        if not rare or k < 1:
            return []
        wanted = min(k, len(self._corpus))
        match = " OR ".join(map(_quoted, rare))
        most = max(wanted, min(self._ranked, len(self._corpus))) if common else wanted
        best = connection.execute(BEST, (self._title, match, most)).fetchall()
        if common:
            scores = dict(best)
            for word in common:
                worth = self._worth(self._count(connection, word))
                for (place,) in connection.execute(ALSO, (f"{_quoted(word)} AND ({match})", json.dumps([*scores]))):
                    scores[place] += worth
            best = sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:wanted]
        return [Hit(self._corpus.at(place), score) for place, score in best]

    def _parted(self, connection: sqlite3.Connection, wanted: Sequence[str]) -> tuple[list[str], list[str]]:
        """Split the words that occur in pages: the rarest ones until enough pages have them, and the others."""
        counted = sorted((self._count(connection, word), place) for place, word in enumerate(wanted))
        rare, common = list[str](), list[str]()
        pages = 0
        for count, place in counted:
            pages += count
            if count:
                (common if rare and pages > self._ranked else rare).append(wanted[place])
        return rare, common

    def _worth(self, pages: int) -> float:
        """Return the weight of a word in the score of a page: SQLite's inverse document frequency."""
        return max(1e-6, math.log((len(self._corpus) - pages + 0.5) / (pages + 0.5)))

    def _count(self, connection: sqlite3.Connection, word: str) -> int:
        """Return the number of pages with a word, counted up to ``MOST_COUNTED``."""
        if word not in self._counts:
            if len(self._counts) >= COUNTED:
                self._counts = {}
            self._counts[word] = connection.execute(COUNT, (_quoted(word), MOST_COUNTED)).fetchone()[0]
        return self._counts[word]


def _index(corpus: Corpus) -> sqlite3.Connection:
    """Return an index in memory; it stores only the positions of words, since the corpus has the pages."""
    made = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    made.execute(f"CREATE VIRTUAL TABLE found USING fts5(title, text, content='', tokenize='{TOKENS}')")
    rows = ((place, storable(one.title), storable(one.text)) for place, one in enumerate(corpus))
    made.execute("BEGIN")
    made.executemany("INSERT INTO found (rowid, title, text) VALUES (?, ?, ?)", rows)
    made.execute("COMMIT")
    made.execute("INSERT INTO found (found) VALUES ('optimize')")
    return made


def _quoted(word: str) -> str:
    return f'"{word}"'
