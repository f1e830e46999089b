from __future__ import annotations

from dataclasses import replace

from turnwise.rollouts.episode import Episode, Fork, Outcome
from turnwise.trainers.collect.forked_states import ForkedState, forked_states

from ..fakes import episode, turn


def path(number: int, action: int, rewards: list[float], *, before: int, parent: int = 0) -> Episode:
    """A path of group ``g`` that left another one; its origin has ``before`` turns in common with it."""
    shared = [turn((1, place), (9,), 5.0) for place in range(before)]
    said = [turn((1, before), (action,), rewards[0]), *(turn((2,), (8,), paid) for paid in rewards[1:])]
    left = before if parent == 0 else before + 1
    owners = ("g-0",) * before + (() if parent == 0 else (f"g-{parent}",))
    assert len(owners) == left
    record = episode([*shared, *said], group="g", name=f"g-{number}")
    return replace(record, fork=Fork(f"g-{parent}", owners))


def test_returns_are_discounted_from_the_state_on_and_belong_to_the_utterance() -> None:
    for before in (0, 2):
        origin = episode([turn((1, 0), (9,), 5.0)] * 3, group="g", name="g-0")
        paths = [
            path(1, 10, [1.0, 0.0, 4.0], before=before),
            path(2, 10, [1.0, 2.0], before=before, parent=1),
            path(3, 11, [3.0], before=before),
            path(4, 10, [1.0], before=before),
        ]
        (found,) = forked_states([origin, *paths], 0.5)
        assert found == ForkedState((1, before), ((10,), (11,)), ((2.0, 2.0, 1.0), (3.0,)))
        assert found.means == (5 / 3, 3.0)


def test_paths_that_were_lost_have_no_return() -> None:
    lost = replace(path(3, 11, [3.0], before=1), outcome=Outcome.INFRA_FAILED)
    (found,) = forked_states([path(1, 10, [1.0], before=1), lost], 1.0)
    assert found.utterances == ((10,),)
    assert forked_states([lost], 1.0) == []
