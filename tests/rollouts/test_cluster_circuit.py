"""Circuit breakers and durations: places that only fail rest, and faults that all share close none."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from turnwise.rollouts.cluster.circuit import FAILURES, LONGEST_REST, REST, Circuit
from turnwise.rollouts.cluster.durations import Durations
from turnwise.rollouts.recent import ENOUGH


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_place_that_only_fails_rests_and_is_tried_again() -> None:
    clock = Clock()
    circuit = Circuit(clock)

    def fail(times: int) -> float:
        circuit.note("good", worked=True)
        return max(circuit.note("bad", worked=False) for _ in range(times))

    circuit.note("bad", worked=False)
    assert fail(FAILURES - 1) == REST
    assert circuit.rests("bad")
    assert circuit.resting == 1
    assert fail(5) == 0.0, "what was under way when the rest began does not make it longer"
    clock.now += REST
    assert circuit.on_trial("bad")
    assert fail(1) == 2 * REST, "one failure on trial is enough"
    for _ in range(20):
        clock.now += LONGEST_REST
        assert fail(1) <= LONGEST_REST
    clock.now += LONGEST_REST
    circuit.note("bad", worked=True)
    assert not circuit.rests("bad")
    assert not circuit.on_trial("bad"), "one success on trial is enough"


def test_a_success_in_between_starts_the_count_again() -> None:
    circuit = Circuit(Clock())
    for _ in range(10):
        for worked in (False, False, True):
            circuit.note("flaky", worked=worked)
            circuit.note("good", worked=True)
    assert not circuit.rests("flaky")


@given(st.lists(st.sampled_from(["a", "b", "c"])))
def test_a_fault_that_all_places_share_closes_none(names: list[str]) -> None:
    circuit = Circuit(Clock())
    for name in "abc":
        circuit.note(name, worked=True)
    for name in names:
        assert circuit.note(name, worked=False) == 0.0, "no place has worked since the first failure"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0, 100))))
def test_some_place_always_plays(ends: list[tuple[str, bool, float]]) -> None:
    clock = Clock()
    circuit = Circuit(clock)
    for name, worked, passed in ends:
        clock.now += passed
        if circuit.rests(name):
            continue  # nothing starts there, so nothing ends there
        circuit.note(name, worked=worked)
        assert not all(map(circuit.rests, "abc")), "a place rests only while another has worked"


def test_durations_are_those_of_finished_leases() -> None:
    clock = Clock()
    durations = Durations(clock)
    assert durations.metrics() == {"seconds_oldest": 0.0}
    durations.start("slow")
    for seconds in range(100):
        durations.start("quick")
        clock.now += seconds
        durations.end("quick", finished=True)
    durations.start("stopped")
    durations.end("stopped", finished=False)
    assert durations.metrics() == {"seconds_oldest": clock.now, "seconds_p50": 50, "seconds_p99": 98}


def test_a_straggler_is_named_once_and_only_against_enough_others() -> None:
    clock = Clock()
    durations = Durations(clock)

    def others(count: int) -> None:
        for number in range(count):
            durations.start(f"{number}")
            clock.now += 1.0
            durations.end(f"{number}", finished=True)

    durations.start("slow")
    others(ENOUGH - 1)
    assert durations.stragglers() == [], "too few to say what is usual"
    others(1)
    assert durations.stragglers() == [("slow", float(ENOUGH), 1.0)]
    clock.now += 100
    assert durations.stragglers() == [], "it is named once"
    durations.end("slow", finished=True)
    durations.start("slow")
    clock.now += 100
    assert [name for name, _, _ in durations.stragglers()] == ["slow"], "another lease of that name is another lease"
