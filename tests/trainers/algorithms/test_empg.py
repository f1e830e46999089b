from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.trainers.algorithms.algorithm import Credit
from turnwise.trainers.algorithms.empg import EMPG
from turnwise.trainers.algorithms.modulator import modulated
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import grouped
from turnwise.trainers.learning.rows import Rows

from ..fakes import Said, conversation

SHAPE = ((2, 1, 3), (1,), (2, 2))
"""Tokens per turn of three episodes; the second rewrites nothing and has one turn."""
TOKENS = sum(map(sum, SHAPE))


def batch_of() -> Batch:
    said = [[Said((0,), (1,) * size) for size in sizes] for sizes in SHAPE]
    return Batch.of(grouped([conversation(each, name=str(i)) for i, each in enumerate(said)]))


def credited(batch: Batch, entropies: list[float], advantages: list[float]) -> Rows:
    blank, mask = torch.zeros(len(batch.rows)), batch.rows.mask
    rows = batch.rows.with_logp_old(batch.rows.logp_old, blank.masked_scatter(mask, torch.tensor(entropies)))
    return rows.with_advantage(torch.tensor(advantages))


def by_hand(entropies: list[float], advantages: list[float], empg: EMPG) -> list[float]:
    """The paper's formula, turn by turn, in plain arithmetic; one number per token."""
    turns, place = [], 0
    for episode, sizes in enumerate(SHAPE):
        for size in sizes:
            turns.append((episode, size, sum(entropies[place : place + size]) / size))
            place += size
    low, high = min(t[2] for t in turns), max(t[2] for t in turns)
    normal = [(t[2] - low) / (high - low) if high > low else 0.0 for t in turns]
    mean = sum(math.exp(-empg.k * h) for h in normal) / len(turns)
    modulated = []
    for i, (episode, _, _) in enumerate(turns):
        last = i + 1 == len(turns) or turns[i + 1][0] != episode
        bonus = 0.0 if last else math.exp(-empg.k_future * normal[i + 1])
        modulated.append(advantages[episode] * math.exp(-empg.k * normal[i]) / mean + empg.zeta * bonus)
    off = sum(modulated) / len(turns) if empg.centered else 0.0
    return [value - off for value, (_, size, _) in zip(modulated, turns, strict=True) for _ in range(size)]


numbers = st.lists(st.floats(0, 3, width=32), min_size=TOKENS, max_size=TOKENS)


@given(
    entropies=numbers,
    advantages=st.lists(st.floats(-2, 2, width=32), min_size=3, max_size=3),
    k=st.floats(0, 3),
    zeta=st.floats(0, 1),
    centered=st.booleans(),
)
def test_it_is_the_papers_formula(
    entropies: list[float], advantages: list[float], k: float, zeta: float, centered: bool
) -> None:
    empg = EMPG(k=k, k_future=2.0, zeta=zeta, centered=centered)
    batch = batch_of()
    got = empg.modulate(batch, credited(batch, entropies, advantages))
    spread = max(entropies) - min(entropies)
    if 0 < spread < 1e-3:
        return  # a min-max normalization of rounding errors
    assert got.advantage[got.mask].tolist() == pytest.approx(by_hand(entropies, advantages, empg), abs=2e-4)
    assert not got.advantage[~got.mask].any()


@given(entropies=numbers)
def test_the_mean_signal_over_turns_is_unchanged(entropies: list[float]) -> None:
    """g is self-calibrating: where all turns have the same advantage, their mean stays it."""
    batch = batch_of()
    got = EMPG(zeta=0.0, centered=False).modulate(batch, credited(batch, entropies, [1.0, 1.0, 1.0]))
    first_of_turn = torch.tensor([True, False, True, True, False, False, True, True, False, True, False])
    assert float(got.advantage[got.mask][first_of_turn].mean()) == pytest.approx(1.0, abs=1e-5)


def test_confident_turns_learn_more_whether_they_were_right_or_wrong() -> None:
    batch = batch_of()
    entropies = [0.1, 0.1, 2.0, *[0.1] * 3, 1.0, *[0.1] * 4]
    for advantage in (1.0, -1.0):
        rows = credited(batch, entropies, [advantage, 0.0, 0.0])
        got = EMPG(zeta=0.0, centered=False).modulate(batch, rows).advantage[rows.mask]
        assert got[0] == got[1]
        assert abs(float(got[0])) > 1 > abs(float(got[2])) > 0
        assert math.copysign(1, float(got[2])) == advantage


def test_alike_entropies_leave_credit_alone() -> None:
    batch = batch_of()
    rows = credited(batch, [0.5] * TOKENS, [1.0, -0.5, 0.0])
    assert torch.allclose(EMPG(zeta=0.0, centered=False).modulate(batch, rows).advantage, rows.advantage)
    nobody = batch.rows.select([])
    assert EMPG().modulate(batch, nobody) is nobody


def test_a_turn_that_the_algorithm_skipped_has_no_credit_and_moves_no_mean() -> None:
    """The other turns get what they would get if the skipped one were only a state with an entropy."""
    batch, empg = batch_of(), EMPG(zeta=0.5)
    entropies = [0.5, 0.25, 1.0, 1.5, 0.75, 3.0, 0.0, 0.25, 0.5, 2.0, 1.0]
    rows = credited(batch, entropies, [1.0, -0.5, 2.0])
    skipped_U = torch.tensor([False, True, False, False, False, False])
    rows = rows.with_token_advantage(torch.where(skipped_U[rows.turn.clamp_min(0)], 0.0, rows.advantage))
    got = modulated([empg], batch, Credit(rows, skipped_U=skipped_U))
    assert torch.equal(got.mask, rows.mask), "it is sampled, and the loss counts it"
    h = [(entropies[first] + entropies[last]) / 2 for first, last in [(0, 1), (2, 2), (3, 5), (6, 6), (7, 8), (9, 10)]]
    h[2] = sum(entropies[3:6]) / 3
    h = [(each - min(h)) / (max(h) - min(h)) for each in h]
    g, f = [math.exp(-each) for each in h], [math.exp(-each) for each in h]
    mean = (sum(g) - g[1]) / 5
    wanted = [g[0] / mean + 0.5 * f[1], g[2] / mean, -0.5 * g[3] / mean, 2 * g[4] / mean + 0.5 * f[5], 2 * g[5] / mean]
    off = sum(wanted) / 5
    first, _, *others = (got.advantage[rows.turn == turn] for turn in range(6))
    found = [float(each[0]) for each in (first, *others)]
    assert found == pytest.approx([each - off for each in wanted], abs=1e-5)
    assert not got.advantage[rows.turn == 1].any(), "its advantage is unknown"
    everything = Credit(rows, skipped_U=torch.ones(6, dtype=torch.bool))
    assert torch.equal(modulated([empg], batch, everything).advantage, rows.advantage)
