"""Private random numbers: a generator seeded by a hash of its owner's key."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

Key = str | int | float | bool | None | Sequence["Key"]


class Rng(random.Random):
    """A ``random.Random`` whose stream is a pure function of its key.

    ``Rng("maze", 3)`` gives the same numbers in every process and on every machine; ``hash()`` randomisation,
    the clock and the global generator have no part in it. ``child`` derives an independent stream, so that
    drawing more numbers in one place changes nothing in another.
    """

    def __init__(self, *key: Key) -> None:
        self.key = key
        super().__init__(int.from_bytes(stable_hash(*key)[:16], "big"))

    def child(self, *key: Key) -> Rng:
        """Return an independent generator, named by this one's key and ``key``."""
        return Rng(*self.key, *key)

    def pick(self, items: Sequence[T]) -> T:
        """Return one item of a sequence, drawn uniformly."""
        return items[self.randrange(len(items))]

    def __reduce__(self) -> tuple[type[Rng], tuple[Key, ...], object]:
        return (Rng, self.key, self.getstate())

    def __setstate__(self, state: object) -> None:
        self.setstate(state)  # type: ignore[arg-type]


def stable_hash(*key: Key) -> bytes:
    """Return the SHA-256 of the key's JSON: equal in every process, unlike ``hash()``."""
    return hashlib.sha256(json.dumps(key, sort_keys=True, ensure_ascii=False).encode()).digest()


def unit_hash(*key: Key) -> float:
    """Return a number in [0, 1) that is a pure function of the key, for assigning things to splits."""
    return int.from_bytes(stable_hash(*key)[:7], "big") / 2**56
