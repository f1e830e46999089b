"""Maximum matching: pair as many elements of two sequences as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def paired(firsts: Sequence[A], seconds: Sequence[B], fit: Callable[[A, B], bool]) -> dict[int, int]:
    """A largest matching of two sequences (H. W. Kuhn 1955, by augmenting paths), as positions of ``seconds`` by
    positions of ``firsts``. Among the largest it is one in which early ``firsts`` are paired rather than late ones.

    Args:
        firsts: items to pair, in order of priority.
        seconds: items to pair them with.
        fit: returns whether two items may be a pair.
    """
    fits = [[j for j, second in enumerate(seconds) if fit(first, second)] for first in firsts]
    holder: dict[int, int] = {}

    def placed(i: int, tried: set[int]) -> bool:
        for j in fits[i]:
            if j not in tried:
                tried.add(j)
                if j not in holder or placed(holder[j], tried):
                    holder[j] = i
                    return True
        return False

    for i in range(len(firsts)):
        placed(i, set())
    return {i: j for j, i in holder.items()}
