"""The behavior that users of ``priority_queue`` rely on."""

from __future__ import annotations

from .priority_queue import PriorityQueue


def queue(*priorities: int) -> PriorityQueue:
    """Return a queue of the numbers 0, 1, 2, … with these priorities."""
    made = PriorityQueue()
    for item, priority in enumerate(priorities):
        made.push(item, priority)
    return made


def the_smallest_priority_comes_first() -> object:
    return list(queue(5, 1, 4, 2, 3).drain())


def equal_priorities_come_in_order_of_pushing() -> object:
    return list(queue(1, 0, 1, 0, 1, 0, 0).drain())


def many_items_are_sorted() -> object:
    return list(queue(*(37 * number % 29 for number in range(25))).drain())


def peeking_removes_nothing() -> object:
    made = queue(3, 1)
    return made.peek(), made.peek(), len(made)


def peeking_into_an_empty_queue() -> object:
    return queue().peek(), len(queue()), list(queue().drain())


def popping_from_an_empty_queue_is_refused() -> object:
    try:
        return queue().pop()
    except IndexError as error:
        return str(error)


def pushing_returns_whether_an_item_is_new() -> object:
    made = PriorityQueue()
    return made.push("a", 1), made.push("b", 1), made.push("a", 2), len(made)


def pushing_again_changes_the_priority() -> object:
    made = queue(1, 2, 3)
    made.push(2, 0)
    return made.priority(2), list(made.drain())


def raising_a_priority() -> object:
    made = queue(1, 2, 3, 4, 5, 6, 7)
    made.change(0, 9)
    return list(made.drain())


def lowering_a_priority() -> object:
    made = queue(1, 2, 3, 4, 5, 6, 7)
    made.change(6, 0)
    made.change(5, 2)
    return list(made.drain())


def a_changed_item_keeps_its_position_among_equals() -> object:
    made = queue(5, 5, 5)
    made.change(0, 6)
    made.change(0, 5)
    return list(made.drain())


def removing_from_the_middle() -> object:
    made = queue(4, 8, 5, 9, 12, 6, 7)
    made.remove(2)
    made.remove(1)
    return list(made.drain())


def removing_the_last_item() -> object:
    made = queue(1, 2)
    made.remove(1)
    return len(made), made.peek(), 1 in made, 0 in made


def the_order_after_removing_an_item() -> object:
    made = queue(0, 10, 1, 11, 12, 2, 3)
    made.remove(3)
    return list(made.drain())


def missing_items_cannot_be_removed() -> object:
    made = queue(1)
    try:
        made.remove("x")
    except KeyError as error:
        return str(error), len(made)
    return None


def priorities_of_items() -> object:
    made = queue(7, 3, 5)
    return [made.priority(item) for item in range(3)]


def pushing_while_popping() -> object:
    made, seen = queue(5, 3), list[object]()
    for step in range(6):
        seen.append(made.pop())
        made.push(10 + step, (step * 5) % 4)
    return seen, list(made.drain())


def membership_follows_pops() -> object:
    made = queue(2, 1, 3)
    first = made.pop()
    return first, first in made, [item in made for item in range(3)]
