"""The behavior that users of ``intervals`` rely on."""

from __future__ import annotations

from .intervals import contains, gaps, intersect, merge, nearest, size, subtract


def merging_joins_overlapping_intervals() -> object:
    return merge([(5, 8), (1, 3), (2, 4)])


def merging_joins_touching_intervals() -> object:
    return merge([(1, 3), (3, 6), (8, 9)])


def merging_absorbs_enclosed_intervals() -> object:
    return merge([(1, 10), (2, 3), (4, 12), (5, 6)])


def merging_removes_empty_intervals() -> object:
    return merge([(4, 4), (1, 2), (7, 7), (2, 2)]) + merge([])


def an_interval_that_ends_before_it_starts_is_refused() -> object:
    try:
        return merge([(1, 2), (5, 3)])
    except ValueError as error:
        return str(error)


def intervals_do_not_contain_their_ends() -> object:
    return [contains([(1, 3), (5, 8), (10, 11)], number) for number in range(13)]


def an_empty_list_contains_no_number() -> object:
    return contains([], 0)


def every_number_of_many_intervals_is_found() -> object:
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


def subtracting_intervals_that_start_before() -> object:
    return subtract([(5, 10)], [(0, 5), (0, 7), (10, 12)])


def subtracting_everything_leaves_nothing() -> object:
    return subtract([(3, 4), (6, 8)], [(0, 9)])


def subtracting_nothing_leaves_everything() -> object:
    return subtract([(3, 4), (6, 8)], [])


def free_time_between_appointments() -> object:
    return gaps([(9, 10), (12, 13), (16, 20)], 8, 18)


def an_empty_range_has_no_gaps() -> object:
    return gaps([], 5, 5), gaps([], 6, 5), gaps([], 5, 6)


def sizes_count_each_number_once() -> object:
    return size([(0, 5), (3, 8), (20, 21)]), size([]), size([(2, 2)])


def the_nearest_number() -> object:
    return [nearest([(2, 4), (9, 12)], number) for number in (0, 2, 3, 4, 6, 7, 8, 11, 12, 50)]


def of_two_equally_near_numbers_the_smaller_counts() -> object:
    return nearest([(0, 1), (4, 5)], 2), nearest([], 3)
