"""What lies on the shelves of a shop: lots of an item, the oldest sold first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lot:
    """Some pieces that were bought together.

    Args:
        count: how many are left.
        cost: what each one cost.
        expires: the last day on which they may be sold; 0 for never.
    """

    count: int
    cost: int
    expires: int = 0


class ShortageError(Exception):
    """There is not as much as was asked for."""


class Stock:
    """Lots by item, in the order in which they came."""

    def __init__(self) -> None:
        self._lots: dict[str, list[Lot]] = {}

    def receive(self, item: str, lot: Lot) -> int:
        """Put a lot on the shelf; how many pieces there are now.

        Raises:
            ValueError: the lot is empty.
        """
        if lot.count < 1:
            raise ValueError(f"a lot of {lot.count} pieces is none")
        self._lots.setdefault(item, []).append(lot)
        return self.count(item)

    def count(self, item: str, day: int = 0) -> int:
        """Pieces that may be sold on a day; all of them on day 0."""
        return sum(lot.count for lot in self._lots.get(item, ()) if not self._expired(lot, day))

    def items(self) -> list[str]:
        """The items of which there is any, by name."""
        return sorted(item for item in self._lots if self.count(item) > 0)

    def value(self) -> int:
        """What everything on the shelves has cost."""
        return sum(lot.count * lot.cost for lots in self._lots.values() for lot in lots)

    def take(self, item: str, count: int, day: int = 0) -> int:
        """Take pieces of the oldest lots that may be sold; what they had cost.

        Raises:
            ShortageError: there are fewer; then none is taken.
        """
        if self.count(item, day) < count:
            raise ShortageError(f"{count} of {item} wanted, {self.count(item, day)} there")
        cost, left = 0, []
        for lot in self._lots.get(item, []):
            taken = 0 if self._expired(lot, day) else min(count, lot.count)
            cost += taken * lot.cost
            count -= taken
            if taken < lot.count:
                left.append(Lot(lot.count - taken, lot.cost, lot.expires))
        self._lots[item] = left
        return cost

    def discard(self, day: int) -> dict[str, int]:
        """Throw away what may no longer be sold; pieces by item."""
        thrown: dict[str, int] = {}
        for item in sorted(self._lots):
            bad = sum(lot.count for lot in self._lots[item] if self._expired(lot, day))
            if bad:
                thrown[item] = bad
                self._lots[item] = [lot for lot in self._lots[item] if not self._expired(lot, day)]
        return thrown

    def _expired(self, lot: Lot, day: int) -> bool:
        return lot.expires != 0 and day > lot.expires
