"""What users of ``intervals`` rely on."""

from __future__ import annotations

from .intervals import contains, gaps, intersect, merge, nearest, size, subtract


def merging_joins_what_overlaps() -> object:
    return merge([(5, 8), (1, 3), (2, 4)])


def merging_joins_what_touches() -> object:
    return merge([(1, 3), (3, 6), (8, 9)])


def merging_keeps_what_is_enclosed_out_of_sight() -> object:
    return merge([(1, 10), (2, 3), (4, 12), (5, 6)])


def empty_intervals_vanish() -> object:
    return merge([(4, 4), (1, 2), (7, 7), (2, 2)]) + merge([])


def an_interval_that_ends_before_it_starts_is_refused() -> object:
    try:
        return merge([(1, 2), (5, 3)])
    except ValueError as error:
        return str(error)


def ends_are_not_inside() -> object:
    return [contains([(1, 3), (5, 8), (10, 11)], number) for number in range(13)]


def nothing_contains_nothing() -> object:
    return contains([], 0)


def bisection_finds_every_one_of_many() -> object:
    many = [(10 * i, 10 * i + i) for i in range(1, 9)]
    return [number for number in range(100) if contains(many, number)]


def common_parts_of_two_lists() -> object:
    return intersect([(0, 5), (8, 12), (20, 30)], [(3, 9), (10, 21), (25, 26), (29, 40)])


def lists_that_only_touch_have_nothing_in_common() -> object:
    return intersect([(0, 5)], [(5, 9)])


def equal_lists_have_everything_in_common() -> object:
    return intersect([(1, 2), (4, 9)], [(1, 2), (4, 9)])


def subtracting_cuts_holes() -> object:
    return subtract([(0, 10), (20, 30)], [(2, 3), (5, 6), (9, 21), (29, 35)])


def subtracting_what_begins_before() -> object:
    return subtract([(5, 10)], [(0, 5), (0, 7), (10, 12)])


def subtracting_everything_leaves_nothing() -> object:
    return subtract([(3, 4), (6, 8)], [(0, 9)])


def subtracting_nothing_leaves_everything() -> object:
    return subtract([(3, 4), (6, 8)], [])


def free_time_between_appointments() -> object:
    return gaps([(9, 10), (12, 13), (16, 20)], 8, 18)


def there_is_no_gap_in_nothing() -> object:
    return gaps([], 5, 5), gaps([], 6, 5), gaps([], 5, 6)


def sizes_count_each_number_once() -> object:
    return size([(0, 5), (3, 8), (20, 21)]), size([]), size([(2, 2)])


def the_nearest_number_inside() -> object:
    return [nearest([(2, 4), (9, 12)], number) for number in (0, 2, 3, 4, 6, 7, 8, 11, 12, 50)]


def of_two_that_are_as_near_the_first_counts() -> object:
    return nearest([(0, 1), (4, 5)], 2), nearest([], 3)
