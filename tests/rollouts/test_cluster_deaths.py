"""Why a worker died shows in what becomes of the episodes that it was playing."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from turnwise.rollouts.cluster.deaths import Deaths


def test_a_death_without_episodes_counts_at_once() -> None:
    assert Deaths[str]().note("w", "north", [])


def test_a_node_is_at_fault_once_all_its_episodes_have_ended_elsewhere() -> None:
    deaths = Deaths[str]()
    assert not deaths.note("w", "north", ["a", "b", "c"])
    assert deaths.end("a") == []
    assert deaths.end("c") == []
    assert deaths.end("b") == ["w"]


def test_an_episode_that_loses_workers_on_two_nodes_is_at_fault_for_both() -> None:
    deaths = Deaths[str]()
    deaths.note("w1", "north", ["poison", "a", "b"])
    deaths.note("w2", "south", ["poison", "c"])
    assert [deaths.end(name) for name in ("a", "b", "c", "poison")] == [[]] * 4


def test_two_losses_on_one_node_say_nothing_about_the_episode() -> None:
    deaths = Deaths[str]()
    deaths.note("w1", "north", ["a"])
    deaths.note("w2", "north", ["a"])
    assert deaths.end("a") == ["w1", "w2"]


def test_an_episode_that_is_given_up_or_cancelled_blames_no_node() -> None:
    deaths = Deaths[str]()
    deaths.note("w1", "north", ["a", "b"])
    assert deaths.end("a", suspect=True) == []
    assert deaths.end("b") == []
    assert deaths.end("never lost") == []


NAMES = "abcd"


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["north", "south"]), st.sets(st.sampled_from(NAMES))),
            st.tuples(st.sampled_from(NAMES), st.booleans()),
        )
    )
)
def test_each_death_is_judged_once_at_most_and_nothing_is_kept(events: list[tuple[str, set[str] | bool]]) -> None:
    deaths, judged = Deaths[int](), []
    for number, (name, what) in enumerate(events):
        if isinstance(what, bool):
            judged += deaths.end(name, suspect=what)
        elif deaths.note(number, name, what):
            judged.append(number)
    for name in NAMES:
        judged += deaths.end(name)
    assert len(set(judged)) == len(judged)
    assert not deaths._cases
    assert not deaths._nodes
