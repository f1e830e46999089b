"""A shop that sells from a stock, with prices, discounts, orders and earnings."""

from __future__ import annotations

from collections.abc import Mapping

from .stock import Lot, ShortageError, Stock


class Shop:
    """A shop that sells items at set prices, in whole coins.

    Args:
        prices: price of one unit, by item.
        bulk: number of units of one item from which the discount applies.
        discount: discount in percent.
    """

    def __init__(self, prices: Mapping[str, int], bulk: int = 10, discount: int = 20) -> None:
        self.prices = dict(prices)
        self.bulk = bulk
        self.discount = discount
        self.stock = Stock()
        self.earned = 0
        self.day = 1
        self.waiting: list[tuple[str, dict[str, int]]] = []

    def price(self, item: str, count: int) -> int:
        """Return the price of some units of an item, rounded up.

        Raises:
            KeyError: the shop does not sell this item.
        """
        full = self.prices[item] * count
        if count < self.bulk:
            return full
        return -(-full * (100 - self.discount) // 100)

    def quote(self, order: Mapping[str, int]) -> int:
        """Return the price of an order."""
        return sum(self.price(item, count) for item, count in order.items())

    def missing(self, order: Mapping[str, int]) -> dict[str, int]:
        """Return how many units of an order are out of stock, by item."""
        short = {item: count - self.stock.count(item, self.day) for item, count in order.items()}
        return {item: count for item, count in short.items() if count > 0}

    def sell(self, order: Mapping[str, int]) -> int:
        """Sell an order, and return its price.

        Raises:
            ShortageError: an item is out of stock; then nothing is sold.
        """
        missing = self.missing(order)
        if missing:
            raise ShortageError(", ".join(f"{count} {item}" for item, count in sorted(missing.items())))
        paid = self.quote(order)
        cost = sum(self.stock.take(item, count, self.day) for item, count in order.items())
        self.earned += paid - cost
        return paid

    def order(self, name: str, order: Mapping[str, int]) -> bool:
        """Sell an order now or queue it, and return whether it was sold."""
        if self.missing(order):
            self.waiting.append((name, dict(order)))
            return False
        self.sell(order)
        return True

    def deliver(self, item: str, count: int, cost: int, expires: int = 0) -> list[str]:
        """Receive a lot, sell the queued orders that can be sold now, and return the names of their customers."""
        self.stock.receive(item, Lot(count, cost, expires))
        served, waiting = [], []
        for name, order in self.waiting:
            if self.missing(order):
                waiting.append((name, order))
            else:
                self.sell(order)
                served.append(name)
        self.waiting = waiting
        return served

    def close(self, days: int = 1) -> dict[str, int]:
        """Advance to another day, discard expired units at a loss, and return their number by item."""
        self.day += days
        before = self.stock.value()
        discarded = self.stock.discard(self.day)
        self.earned -= before - self.stock.value()
        return discarded

    def reorder(self, least: int) -> list[str]:
        """Return the items with fewer than ``least`` units for sale, the scarcest first, then by name."""
        low = [item for item in self.prices if self.stock.count(item, self.day) < least]
        return sorted(low, key=lambda item: (self.stock.count(item, self.day), item))
