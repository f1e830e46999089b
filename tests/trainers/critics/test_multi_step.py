from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.trainers.critics.multi_step import following, lambda_values, n_step_values
from turnwise.trainers.critics.transitions import Transition

from .turns import step

NUMBER = st.floats(-20, 20)
GAMMA = 0.9


def episode(paid: list[float], *, over: bool, name: str = "e", spans: list[int] | None = None) -> list[Transition]:
    """Turns of one episode; without an end, the last one has a next state."""
    made, turn = [], 0
    for place, reward in enumerate(paid):
        span = (spans or [1] * len(paid))[place]
        after = () if over and place == len(paid) - 1 else (place + 1,)
        made.append(replace(step((place,), (1,), reward, after, name=name, turn=turn), span=span))
        turn += span
    return made


def recursive(turns: list[Transition], value: list[float], place: int, lam: float) -> float:
    """G of Sutton and Barto, eq. 12.18, by its definition."""
    turn = turns[place]
    if turn.done:
        return turn.reward
    factor = GAMMA**turn.span
    if place + 1 == len(turns):
        return turn.reward + factor * value[place]
    return turn.reward + factor * ((1 - lam) * value[place] + lam * recursive(turns, value, place + 1, lam))


@given(st.lists(st.tuples(NUMBER, NUMBER, st.integers(1, 3)), min_size=1, max_size=6), st.booleans(), st.floats(0, 1))
def test_lambda_returns_are_those_of_the_recursive_definition(
    rows: list[tuple[float, float, int]], over: bool, lam: float
) -> None:
    turns = episode([r for r, _, _ in rows], over=over, spans=[s for _, _, s in rows])
    value = [v for _, v, _ in rows]
    found = lambda_values(
        turns, torch.tensor([value, [2 * v for v in value]], dtype=torch.float64), gamma=GAMMA, lam=lam
    )
    for place, turn in enumerate(turns):
        if turn.done:
            continue
        for head, factor in enumerate((1, 2)):
            mine = turn.reward + GAMMA**turn.span * float(found[head, place])
            theirs = recursive(turns, [factor * v for v in value], place, lam)
            assert mine == pytest.approx(theirs, abs=1e-9)


def test_lambda_returns_are_the_weighted_mean_of_n_step_returns() -> None:
    """Eq. 12.3: (1−λ) Σ λ^{n−1} G⁽ⁿ⁾ + λ^{T−1} G."""
    turns, lam = episode([1.0, -2.0, 4.0, 0.5], over=True), 0.7
    value = torch.tensor([[3.0, 1.0, -1.0, 99.0]], dtype=torch.float64)
    ns = [float(n_step_values(turns, value, gamma=GAMMA, steps=n)[0, 0]) for n in range(1, 5)]
    mixed = (1 - lam) * sum(lam ** (n - 1) * ns[n - 1] for n in range(1, 4)) + lam**3 * ns[3]
    assert float(lambda_values(turns, value, gamma=GAMMA, lam=lam)[0, 0]) == pytest.approx(mixed)


def test_n_steps_by_hand() -> None:
    turns = episode([1.0, 2.0, 4.0], over=False)
    value = torch.tensor([[10.0, 20.0, 30.0]], dtype=torch.float64)

    def found(steps: int) -> list[float]:
        values: list[float] = n_step_values(turns, value, gamma=0.5, steps=steps)[0].tolist()
        return values

    assert found(1) == [10, 20, 30]
    assert found(2) == [2 + 0.5 * 20, 4 + 0.5 * 30, 30], "where the sample ends, fewer steps"
    assert found(3) == [2 + 0.5 * (4 + 0.5 * 30), 4 + 0.5 * 30, 30]
    assert found(9) == found(3)


def test_what_follows_is_the_next_turn_of_the_same_episode() -> None:
    first, second = episode([1.0, 1.0], over=True), episode([1.0, 1.0], over=False, name="f", spans=[2, 1])
    assert following([*first, *second]) == [1, None, 3, None]
    assert following([second[1], second[0]]) == [None, None], "in another order nothing is known"
    assert following([second[0], second[0]]) == [None, None]
    assert following([]) == []


def test_the_value_after_the_end_plays_no_part() -> None:
    turns = episode([1.0, 2.0], over=True)
    for nothing in (0.0, float("nan")):
        value = torch.tensor([[5.0, nothing]], dtype=torch.float64)
        assert float(lambda_values(turns, value, gamma=0.5, lam=1)[0, 0]) == 2
        assert float(n_step_values(turns, value, gamma=0.5, steps=2)[0, 0]) == 2
