"""The behavior that users of ``inventory`` rely on."""

from __future__ import annotations

from .shop import Shop
from .stock import Lot, ShortageError, Stock


def shelf() -> Stock:
    """Return a stock with two lots of apples and one of nails."""
    stock = Stock()
    stock.receive("apple", Lot(5, 10, expires=3))
    stock.receive("apple", Lot(4, 12, expires=6))
    stock.receive("nail", Lot(100, 1))
    return stock


def shop() -> Shop:
    """Return a shop with apples and nails."""
    made = Shop({"apple": 20, "nail": 2, "rope": 35})
    made.deliver("apple", 12, 10, expires=2)
    made.deliver("nail", 50, 1)
    return made


def attempt(*work: object) -> object:
    """Return the result of a call, or the message of its error."""
    function, *arguments = work
    try:
        return function(*arguments)  # type: ignore[operator]
    except (ShortageError, ValueError, KeyError) as error:
        return f"refused: {error}"


def lots_add_up() -> object:
    stock = shelf()
    return stock.count("apple"), stock.count("nail"), stock.count("rope"), stock.receive("nail", Lot(7, 2))


def empty_lots_are_refused() -> object:
    return attempt(shelf().receive, "x", Lot(0, 1)), attempt(shelf().receive, "x", Lot(1, 1))


def expired_units_are_not_for_sale() -> object:
    return [shelf().count("apple", day) for day in (0, 1, 3, 4, 6, 7)], shelf().count("nail", 1000)


def total_cost() -> object:
    return shelf().value(), Stock().value()


def the_oldest_goes_first() -> object:
    stock = shelf()
    return stock.take("apple", 3), stock.take("apple", 3), stock.count("apple"), stock.value()


def whole_lots_can_be_taken() -> object:
    stock = shelf()
    return stock.take("apple", 5), stock.take("apple", 4), stock.count("apple"), stock.items()


def expired_lots_are_skipped() -> object:
    stock = shelf()
    return stock.take("apple", 2, day=5), stock.count("apple"), stock.count("apple", 5)


def a_shortage_takes_nothing() -> object:
    stock = shelf()
    return attempt(stock.take, "apple", 10), attempt(stock.take, "apple", 5, 4), stock.count("apple")


def items_by_name() -> object:
    stock = shelf()
    stock.receive("anvil", Lot(1, 500))
    stock.take("nail", 100)
    return stock.items()


def discarding_expired_units() -> object:
    stock = shelf()
    return stock.discard(3), stock.discard(4), stock.discard(7), stock.count("apple"), stock.count("nail")


def prices_of_items() -> object:
    made = shop()
    return made.price("apple", 1), made.price("apple", 9), made.price("apple", 10), made.price("rope", 0)


def discounts_are_rounded_up() -> object:
    made = Shop({"pin": 1}, bulk=3, discount=33)
    return [made.price("pin", count) for count in range(1, 8)]


def prices_of_orders() -> object:
    made = shop()
    return made.quote({"apple": 2, "nail": 10}), made.quote({}), attempt(made.quote, {"moon": 1})


def missing_units_of_an_order() -> object:
    made = shop()
    return made.missing({"apple": 13, "nail": 50, "rope": 2}), made.missing({"apple": 12})


def selling_an_order() -> object:
    made = shop()
    return made.sell({"apple": 3, "nail": 20}), made.earned, made.stock.count("apple"), made.stock.count("nail")


def selling_all_or_nothing() -> object:
    made = shop()
    return attempt(made.sell, {"nail": 5, "rope": 1, "apple": 20}), made.stock.count("nail"), made.earned


def orders_wait_for_missing_items() -> object:
    made = shop()
    return made.order("ann", {"apple": 2}), made.order("bob", {"rope": 1}), made.waiting, made.earned


def deliveries_serve_waiting_customers() -> object:
    made = shop()
    for name, count in (("ann", 3), ("bob", 2), ("cid", 1)):
        made.order(name, {"rope": count})
    return made.deliver("rope", 4, 20), made.waiting, made.deliver("rope", 5, 20), made.waiting, made.earned


def closing_discards_expired_units() -> object:
    made = shop()
    return made.close(), made.close(), made.earned, made.day, made.close(3), made.day


def scarce_items_are_reordered() -> object:
    made = shop()
    first = made.reorder(13), made.reorder(12), made.reorder(100)
    made.close(2)
    return first, made.reorder(1)
