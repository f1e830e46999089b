"""The stock of a shop: lots of each item, of which the oldest is sold first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lot:
    """Some units that were bought together.

    Args:
        count: number of units that are left.
        cost: cost of each unit.
        expires: last day on which they may be sold; 0 if they never expire.
    """

    count: int
    cost: int
    expires: int = 0


class ShortageError(Exception):
    """Raised when the stock has fewer units than requested."""


class Stock:
    """Lots by item, in order of arrival."""

    def __init__(self) -> None:
        self._lots: dict[str, list[Lot]] = {}

    def receive(self, item: str, lot: Lot) -> int:
        """Add a lot, and return the number of units in stock.

        Raises:
            ValueError: the lot is empty.
        """
        if lot.count < 1:
            raise ValueError(f"a lot needs at least one unit, not {lot.count}")
        self._lots.setdefault(item, []).append(lot)
        return self.count(item)

    def count(self, item: str, day: int = 0) -> int:
        """Return the number of units that may be sold on a day; on day 0, all of them."""
        return sum(lot.count for lot in self._lots.get(item, ()) if not self._expired(lot, day))

    def items(self) -> list[str]:
        """Return the items in stock, sorted by name."""
        return sorted(item for item in self._lots if self.count(item) > 0)

    def value(self) -> int:
        """Return the cost of all units in stock."""
        return sum(lot.count * lot.cost for lots in self._lots.values() for lot in lots)

    def take(self, item: str, count: int, day: int = 0) -> int:
        """Take units from the oldest lots that may be sold, and return their cost.

        Raises:
            ShortageError: the stock has fewer units; then none is taken.
        """
        if self.count(item, day) < count:
            raise ShortageError(f"{count} of {item} requested, {self.count(item, day)} in stock")
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
        """Discard expired units, and return their number by item."""
        discarded: dict[str, int] = {}
        for item in sorted(self._lots):
            bad = sum(lot.count for lot in self._lots[item] if self._expired(lot, day))
            if bad:
                discarded[item] = bad
                self._lots[item] = [lot for lot in self._lots[item] if not self._expired(lot, day)]
        return discarded

    def _expired(self, lot: Lot, day: int) -> bool:
        return lot.expires != 0 and day > lot.expires
