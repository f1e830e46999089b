"""Monte-Carlo values in closed form, and on a chain: what walkers earned, and no more."""

from __future__ import annotations

import math

import pytest
import torch

from turnwise.trainers.algorithms.monte_carlo import MonteCarlo
from turnwise.trainers.critics.token_learning import Estimates

from .chain import GAMMA, LEFT, RIGHT, fit, optimum, tokens_of, uniform, walks


def test_the_loss_in_closed_form_and_its_gradient() -> None:
    q = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]], requires_grad=True)
    nothing = torch.zeros(2)
    tokens = tokens_of(ids=[1, 0], returns=[5.0, -1.0], weight=[0.25, 0.5])
    loss, terms = MonteCarlo(alpha=0.1).loss(Estimates(q, nothing, nothing[None], nothing), tokens)
    cql = 0.25 * math.log(1 + math.exp(-1)) + 0.5 * math.log(1 + math.exp(1))
    assert terms["loss/q"].item() == pytest.approx(0.25 * 0.5 * 9 + 0.5 * 0.5 * 16)
    assert loss.item() == pytest.approx(0.25 * 4.5 + 0.5 * 8 + 0.1 * cql)
    loss, _ = MonteCarlo(alpha=0.0).loss(Estimates(q, nothing, nothing[None], nothing), tokens)
    loss.backward()  # type: ignore[no-untyped-call]
    assert q.grad is not None
    assert q.grad.tolist() == [[[0, 0.25 * (2 - 5)], [0.5 * (3 + 1), 0]]]


@pytest.mark.slow
def test_it_values_what_the_walkers_went_on_to_do() -> None:
    episodes = walks(60)
    q, _ = fit(MonteCarlo(alpha=0.0, gamma=GAMMA), episodes)
    sums: dict[tuple[int, int], list[float]] = {}
    for episode in episodes:
        following = 0.0
        for turn in reversed(episode.turns):
            following = turn.reward + GAMMA * following
            sums.setdefault((turn.prompt_ids[0], turn.action_ids[0]), []).append(following)
    for state, (left, right) in enumerate(q):
        for action, found in ((LEFT, left), (RIGHT, right)):
            expected = sum(sums[state, action]) / len(sums[state, action])
            assert found == pytest.approx(expected, abs=0.02), "the mean return of the data"
    value = [sum(pair) / 2 for pair in q]
    assert value == pytest.approx(uniform(), abs=1.0), "near the walkers' value, by the luck of 60 walks"
    assert value[0] < optimum()[0] - 1, "and far below the optimum"
