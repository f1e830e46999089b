"""ILQL's losses in closed form, and on a chain whose optimum dynamic programming knows."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.trainers.algorithms.ilql import ILQL, expectile
from turnwise.trainers.algorithms.token_value import conservative, taken
from turnwise.trainers.critics.token_learning import Estimates

from .chain import GAMMA, fit, optimum, tokens_of, uniform, walks


def estimates(q: list[list[list[float]]], v: list[float], target: list[list[float]], after: list[float]) -> Estimates:
    return Estimates(
        torch.tensor(q, requires_grad=True),
        torch.tensor(v, requires_grad=True),
        torch.tensor(target),
        torch.tensor(after),
    )


def test_the_loss_in_closed_form() -> None:
    """Two tokens, two critics, a vocabulary of two."""
    found = estimates([[[1.0, 2], [3, 4]], [[0, 1], [5, 6]]], [1.0, 2.0], [[3.0, 1], [4, 5]], [10.0, 99.0])
    tokens = tokens_of(ids=[1, 0], reward=[0.0, -1.0], discount=[0.5, 0.0], weight=[0.25, 0.5])
    loss, terms = ILQL(tau=0.9, alpha=0.1).loss(found, tokens)
    goals = [5.0, -1.0]
    q = 0.25 * 0.5 * ((2 - 5) ** 2 + (1 - 5) ** 2) + 0.5 * 0.5 * ((3 + 1) ** 2 + (5 + 1) ** 2)
    v = 0.25 * 0.9 * 0.5 * (3 - 1) ** 2 + 0.5 * 0.1 * 0.5 * (1 - 2) ** 2  # min targets 3 and 1
    soft = math.log(1 + math.exp(-1)), math.log(1 + math.exp(1))
    cql = 0.25 * 2 * soft[0] + 0.5 * 2 * soft[1]
    assert goals == (tokens.reward_N + tokens.discount_N * found.next_N).tolist()
    assert terms["loss/q"].item() == pytest.approx(q)
    assert terms["loss/v"].item() == pytest.approx(v)
    assert terms["loss/cql"].item() == pytest.approx(cql)
    assert loss.item() == pytest.approx(q + v + 0.1 * cql)


def test_gradients_reach_what_they_should_and_nothing_else() -> None:
    found = estimates([[[1.0, 2], [3, 4]], [[0, 1], [5, 6]]], [1.0, 2.0], [[3.0, 1], [4, 5]], [10.0, 99.0])
    tokens = tokens_of(ids=[1, 0], reward=[0.0, -1.0], discount=[0.5, 0.0], weight=[0.25, 0.0])
    ILQL(tau=0.9, alpha=0.0).loss(found, tokens)[0].backward()  # type: ignore[no-untyped-call]
    assert found.q_KNV.grad is not None
    assert found.q_KNV.grad.tolist() == [[[0, 0.25 * (2 - 5)], [0, 0]], [[0, 0.25 * (1 - 5)], [0, 0]]]
    assert found.v_N.grad is not None
    assert found.v_N.grad.tolist() == pytest.approx([-0.25 * 0.9 * (3 - 1), 0]), "what weighs 0 teaches nothing"
    found = estimates([[[1.0, 2], [3, 4]], [[0, 1], [5, 6]]], [1.0, 2.0], [[3.0, 1], [4, 5]], [10.0, 99.0])
    ILQL(alpha=1.0).loss(found, tokens)[0].backward()  # type: ignore[no-untyped-call]
    assert found.q_KNV.grad is not None
    assert found.q_KNV.grad[:, 0, 0].gt(0).all(), "the conservative term presses down what was not taken"


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=8), st.sampled_from([0.1, 0.5, 0.9, 0.99]))
def test_the_expectile_minimises_its_loss(values: list[int], tau: float) -> None:
    """By bisection on the derivative: τ·Σ(x − e)₊ = (1 − τ)·Σ(e − x)₊."""
    low, high = float(min(values)), float(max(values))
    for _ in range(80):
        middle = (low + high) / 2
        above = tau * sum(max(x - middle, 0) for x in values)
        below = (1 - tau) * sum(max(middle - x, 0) for x in values)
        low, high = (middle, high) if above > below else (low, middle)
    value = torch.tensor(low, dtype=torch.float64, requires_grad=True)
    target = torch.tensor(values, dtype=torch.float64)
    expectile(target, value.expand(len(values)), tau).sum().backward()  # type: ignore[no-untyped-call]
    assert value.grad is not None
    assert float(value.grad) == pytest.approx(0, abs=1e-5)


@given(st.lists(st.lists(st.floats(-20, 20), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(0, 2))
def test_the_conservative_term_is_a_cross_entropy(rows: list[list[float]], token: int) -> None:
    q = torch.tensor(rows, dtype=torch.float64)[None]
    ids = torch.full((len(rows),), token)
    expected = torch.nn.functional.cross_entropy(q[0], ids, reduction="none")
    assert torch.allclose(conservative(q, ids)[0], expected)
    assert torch.equal(taken(q, ids)[0], q[0, :, token])


@pytest.mark.slow
@pytest.mark.shift
def test_a_high_expectile_finds_the_optimum_that_nobody_showed() -> None:
    """Random walks on a chain: τ → 1 approaches dynamic programming's optimum, τ = ½ the walkers' own value."""
    episodes = walks(60)
    _, v = fit(ILQL(tau=0.99, alpha=0.0, gamma=GAMMA), episodes)
    assert v == pytest.approx(optimum(), abs=0.15)
    q, v = fit(ILQL(tau=0.5, alpha=0.0, gamma=GAMMA), episodes)
    assert v == pytest.approx(uniform(), abs=0.5)
    assert all(right > left for left, right in q), "even the walkers' values say where to go"
