"""Selection bias: whether episodes that are left out differ in duration, length or level from those that count."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from ...rollouts.stats import wilson_interval
from ..statistics import Estimate, mean_over_tasks, proportion, square_and_add
from .findings import Finding, Unknown
from .record import Record

FEWEST = 10
"""Number of episodes on each side below which a difference says nothing."""
BIASED = "Scored episodes are a biased sample of the drawn tasks."


def biases(records: Sequence[Record]) -> Iterator[Finding | Unknown]:
    """Yield what is known about bias.

    Both tests divide the episodes at the median and compare the shares that are left out: intervals of 95 % with
    Newcombe's method (``statistics.square_and_add``), in which the task is the unit.
    """
    yield from _by_time(records)
    yield from _by_length(records)
    yield from _by_level(records)
    yield from _length_of_solved(records)


def _by_time(records: Sequence[Record]) -> Iterator[Finding | Unknown]:
    """Compare slow episodes with fast ones, by their own duration.

    Only failures of the slow ones are reported: an episode that breaks off is fast for that reason alone.
    """
    timed = [(each.seconds, each) for each in records if each.seconds is not None and math.isfinite(each.seconds)]
    if records and not timed:
        yield Unknown("bias", "no durations in this log")
        return
    tested = _slow_and_fast("duration", timed)
    if isinstance(tested, tuple):
        slow, fast, difference = tested
        if difference.low is not None and difference.low > 0:
            out, kept = (
                statistics.median(seconds for seconds, record in timed if record.left_out is left)
                for left in (True, False)
            )
            text = f"failed episodes took {out:.3g} s (median), scored ones {kept:.3g} s"
            text = f"{text}; {_shares(slow, fast, difference)}"
            meaning = "Results favor tasks that are fast. Raise the time limits, or report failures with the results."
            yield Finding.of("bias", text, (), False, meaning, sum(record.left_out for _, record in timed))
    elif tested is not None:
        yield tested


def _by_length(records: Sequence[Record]) -> Iterator[Finding | Unknown]:
    """Compare tasks that take many turns with those that take few.

    The length of a task is the median of its scored attempts, since a failed episode is shorter than it would be.
    """
    lengths: dict[str, list[int]] = {}
    for record in records:
        if record.task is not None and record.turns is not None and not record.left_out:
            lengths.setdefault(record.task, []).append(record.turns)
    if records and not lengths:
        if not all(record.left_out for record in records):
            yield Unknown("bias", "no lengths of tasks in this log, which needs tasks and turns")
        return
    usual = {task: statistics.median(each) for task, each in lengths.items()}
    if any(record.left_out for record in records) and not any(r.left_out and r.task in usual for r in records):
        yield Unknown("bias", "by length: no failed episode has a scored attempt at its task", recorded=True)
        return
    tested = _slow_and_fast("length", [(usual[each.task], each) for each in records if each.task in usual])
    if isinstance(tested, tuple):
        long, short, difference = tested
        if difference.excludes_zero:
            words = _shares(long, short, difference).replace("slow", "long").replace("fast", "short")
            count = sum(record.left_out for record in records if record.task in usual)
            yield Finding.of("bias", f"by length of the task, {words}", (), False, BIASED, count)
    elif tested is not None:
        yield tested


def _slow_and_fast(
    what: str, measured: Sequence[tuple[float, Record]]
) -> tuple[Estimate, Estimate, Estimate] | Unknown | None:
    """Return the shares of left-out episodes above the median and up to it, and their difference."""
    out = sum(record.left_out for _, record in measured)
    if not out:
        return None
    if min(out, len(measured) - out) < FEWEST:
        why = f"by {what}: {out} failed and {len(measured) - out} scored episodes; the test needs {FEWEST} of each"
        return Unknown("bias", why, recorded=True)
    middle = statistics.median(value for value, _ in measured)
    sides = [[record for value, record in measured if (value > middle) is above] for above in (True, False)]
    if min(map(len, sides)) < FEWEST:
        return Unknown("bias", f"by {what}: too many episodes are equally long", recorded=True)
    slow, fast = (
        proportion([record.left_out for record in side], [record.task or record.id for record in side])
        for side in sides
    )
    return slow, fast, square_and_add(slow, fast)


def _shares(slow: Estimate, fast: Estimate, difference: Estimate) -> str:
    low, high = difference.low or 0.0, difference.high or 0.0
    interval = f"difference {100 * difference.value:+.0f} points, 95 % interval {100 * low:+.0f} to {100 * high:+.0f}"
    return f"{slow.value:.1%} of slow and {fast.value:.1%} of fast ones failed ({interval})"


def _by_level(records: Sequence[Record]) -> Iterator[Finding | Unknown]:
    levels: dict[int, Counter[bool]] = {}
    for record in records:
        if record.level is not None:
            levels.setdefault(record.level, Counter())[record.left_out] += 1
    enough = {level: each for level, each in levels.items() if each.total() >= FEWEST}
    if len(enough) > 1:
        ends = {level: wilson_interval(each[True], each.total()) for level, each in enough.items()}
        worst, best = max(ends, key=lambda level: ends[level][0]), min(ends, key=lambda level: ends[level][1])
        if ends[worst][0] > ends[best][1]:
            share = {level: f"{enough[level][True] / enough[level].total():.1%}" for level in (worst, best)}
            text = f"{share[worst]} of level {worst} failed and {share[best]} of level {best}"
            yield Finding.of("bias", text, (), False, BIASED, enough[worst][True])


def _length_of_solved(records: Sequence[Record]) -> Iterator[Finding | Unknown]:
    scored = [record for record in records if record.turns is not None and not record.left_out]
    sides = [[record for record in scored if record.solved is solved] for solved in (True, False)]
    if records and not scored and not all(record.left_out for record in records):
        yield Unknown("length", "no numbers of turns in this log")
    if min(map(len, sides)) < FEWEST:
        return
    solved, unsolved = (
        mean_over_tasks([float(record.turns or 0) for record in side], [record.task or record.id for record in side])
        for side in sides
    )
    difference = square_and_add(solved, unsolved)
    if difference.excludes_zero and difference.low is not None and difference.high is not None:
        text = (
            f"solved episodes have {solved.value:.1f} turns, unsolved ones {unsolved.value:.1f} "
            f"(difference {difference.value:+.1f}, 95 % interval {difference.low:+.1f} to {difference.high:+.1f})"
        )
        yield Finding.of("length", text, (), False, "A token-mean loss weighs the longer ones more.", len(scored))
