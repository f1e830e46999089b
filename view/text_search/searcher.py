"""Search the texts of a store's episodes: part by part, from an index where there is one."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..episode_index import AT_ONCE, READERS, Snapshot
from .part_texts import PartTexts, read_texts
from .text_index import Key, TextIndex, key_of

SEARCH_SECONDS = 1.0
"""Seconds that one request may search texts; the next request continues."""
REMEMBERED = 50_000
"""Results of a part and a pattern at which all of them are forgotten."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part to search.

    Args:
        file: its file.
        key: its key in the index.
        episodes: number of its episodes.
    """

    file: Path
    key: Key
    episodes: int


class Searcher:
    """Searches the texts of conversations part by part, and remembers what it found.

    Args:
        kept: file beside the store that keeps the index of its texts; ``None`` for a temporary one.
    """

    def __init__(self, kept: Path | None = None) -> None:
        self._kept = kept
        self._index: TextIndex | None = None
        self._found: dict[tuple[Key, bytes], np.ndarray[Any, Any]] = {}
        self._lock = threading.Lock()

    def matches(self, snapshot: Snapshot, pattern: bytes, wanted: pa.Array) -> tuple[pa.Array, int]:
        """Find episodes whose texts have a pattern, for at most ``SEARCH_SECONDS``.

        Args:
            snapshot: the store's episodes.
            pattern: pattern of ``text_pattern`` or ``tool_pattern``.
            wanted: mask over the table; parts without a wanted episode are not read.

        Returns:
            A mask over the table, and the number of wanted episodes that were not searched.

        Raises:
            StoreError: A part is damaged.
        """
        rows = snapshot.table["row"].to_numpy()
        asked = wanted.to_numpy(zero_copy_only=False)
        mask, unsearched = np.zeros(len(rows), bool), 0
        places = {number: place for number, place in _places(snapshot).items() if asked[place].any()}
        keys = {number: key_of(snapshot.files[number]) for number in places}
        with self._lock:
            new = [number for number in places if (keys[number], pattern) not in self._found]
            parts = [Part(snapshot.files[n], keys[n], places[n].stop - places[n].start) for n in new]
            self._search(parts, pattern, time.monotonic() + SEARCH_SECONDS)
            for number, place in places.items():
                found = self._found.get((keys[number], pattern))
                if found is not None and len(found) == place.stop - place.start:  # not rewritten meanwhile
                    mask[place] = found[rows[place]]
                else:
                    unsearched += int(asked[place].sum())
        return pa.array(mask), unsearched

    def unindexed(self, snapshot: Snapshot) -> list[Part]:
        """Return the parts whose texts are not in the index, except those that no longer exist."""
        found = []
        with self._lock:
            index = self._opened()
            for number, place in _places(snapshot).items():
                with suppress(OSError):
                    file = snapshot.files[number]
                    part = Part(file, key_of(file), place.stop - place.start)
                    if not index.has(part.key, part.episodes):
                        found.append(part)
        return found

    @property
    def size(self) -> int:
        """Bytes of the index."""
        with self._lock:
            return self._opened().size

    def has(self, part: Part) -> bool:
        """Return whether the texts of a part are in the index."""
        with self._lock:
            return self._opened().has(part.key, part.episodes)

    def add(self, part: Part, texts: PartTexts) -> int:
        """Add the texts of a part to the index, unless it was written again meanwhile.

        Returns:
            The size of the index in bytes.
        """
        with self._lock:
            index = self._opened()
            with suppress(OSError):
                if key_of(part.file) == part.key and not index.has(part.key, part.episodes):
                    index.add(part.key, texts)
            return index.size

    def _opened(self) -> TextIndex:
        if self._index is None:
            self._index = TextIndex(self._kept)
        return self._index

    def _search(self, new: Sequence[Part], pattern: bytes, end: float) -> None:
        """Search the indexed parts, then read others in their order until a time; the first ones in any case."""
        if len(self._found) > REMEMBERED:
            self._found = {key: found for key, found in self._found.items() if key[1] == pattern}
        index, unread = self._opened(), list[Part]()
        for number, part in enumerate(new):
            if not index.has(part.key, part.episodes):
                unread.append(part)
            elif number and number % AT_ONCE == 0 and time.monotonic() > end:
                return
            else:
                self._found[part.key, pattern] = index.texts(part.key).rows_with(pattern)
        with ThreadPoolExecutor(READERS) as readers:
            for start in range(0, len(unread), READERS):
                if start and time.monotonic() > end:
                    return
                some = unread[start : start + READERS]
                for part, texts in zip(some, readers.map(lambda part: read_texts(part.file), some), strict=True):
                    index.add(part.key, texts)
                    self._found[part.key, pattern] = texts.rows_with(pattern)


def _places(snapshot: Snapshot) -> dict[int, slice]:
    """Return where the episodes of each part are in the table: parts follow one another."""
    numbers = snapshot.table["part"].to_numpy()
    known, starts = np.unique(numbers, return_index=True)
    ends = [*starts[1:].tolist(), len(numbers)]
    return {int(number): slice(int(start), end) for number, start, end in zip(known, starts, ends, strict=True)}
