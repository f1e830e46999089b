"""The two-armed bandit: a fast arm, a slow and better one, real time."""

from __future__ import annotations

import heapq
from dataclasses import replace

import pytest
import torch

from turnwise import Episode
from turnwise.errors import UsageError
from turnwise.tasks.rng import Rng
from turnwise.trainers.algorithms.algorithm import Algorithm
from turnwise.trainers.algorithms.duration import DurationWeighting
from turnwise.trainers.algorithms.modulator import Modulator
from turnwise.trainers.algorithms.reinforce import Reinforce
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import grouped
from turnwise.trainers.learning.logprobs import score
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.objective import Objective, objective_loss
from turnwise.trainers.learning.rows import Rows

from ..fakes import Bigram, episode, turn

FAST, SLOW = 1, 2
SECONDS = {FAST: 1.0, SLOW: 5.0}
REWARD = {FAST: 0.5, SLOW: 1.0}
"""The slow arm is better; per second, the fast one is."""
PLAIN = Reinforce(baseline="none")


def played(seconds: float, p_slow: float, *, actors: int = 100, seed: int = 0) -> list[Episode]:
    """Return the pulls that arrive within so many seconds from actors that each chose an arm once and keep pulling."""
    rng = Rng("arms", seed)
    arms = [SLOW if rng.random() < p_slow else FAST for _ in range(actors)]
    queue = [(SECONDS[arm], actor) for actor, arm in enumerate(arms)]
    heapq.heapify(queue)
    episodes: list[Episode] = []
    while queue[0][0] <= seconds:
        now, actor = heapq.heappop(queue)
        arm = arms[actor]
        took = SECONDS[arm]
        pull = replace(turn((0,), (arm,), REWARD[arm]), seconds_env=took * 0.8, seconds_policy=took * 0.2)
        episodes.append(episode([pull], name=str(len(episodes))))
        heapq.heappush(queue, (now + took, actor))
    return episodes


def preference(episodes: list[Episode], modulator: Modulator | None, credit: Algorithm = PLAIN) -> float:
    """By how much one step of gradient descent raises logit(slow) − logit(fast), from an even policy of two arms."""
    batch = Batch.of(grouped(episodes))
    rows: Rows = credit.credit(batch, None).rows
    if modulator is not None:
        rows = modulator.modulate(batch, rows)
    rows = rows.with_weight(normalizer(rows, "token_mean"))
    model = Bigram()
    with torch.no_grad():
        model.table.fill_(-50.0)
        model.table[0, [FAST, SLOW]] = 0.0
    loss, _ = objective_loss(score(model, rows), rows, Objective(kind="reinforce"))
    (slope,) = torch.autograd.grad(loss, model.table)
    return float(slope[0, FAST] - slope[0, SLOW])


def test_weighting_by_duration_flips_the_preference() -> None:
    """E[∇] ∝ r_slow/Δ_slow − r_fast/Δ_fast as collected, and r_slow − r_fast by how often an arm was chosen."""
    episodes = played(40.0, 0.5)
    plain, weighted = preference(episodes, None), preference(episodes, DurationWeighting())
    assert plain < 0, "what is fast is preferred, though it earns half"
    assert weighted > 0, "what is better is preferred"


@pytest.mark.parametrize("seed", range(3))
def test_both_are_what_the_closed_form_says(seed: int) -> None:
    """With n_a actors on arm a for T seconds: n_a T/Δ_a turns, of a gradient r_a (1[slow] − p_slow) each."""
    episodes = played(40.0, 0.5, seed=seed)
    pulls = {arm: sum(e.turns[0].action_ids == (arm,) for e in episodes) for arm in (FAST, SLOW)}
    actors = {arm: pulls[arm] * SECONDS[arm] / 40.0 for arm in pulls}
    assert sum(actors.values()) == pytest.approx(100)
    total = sum(pulls.values())
    plain = (pulls[SLOW] * REWARD[SLOW] - pulls[FAST] * REWARD[FAST]) / total
    assert preference(episodes, None) == pytest.approx(plain, rel=1e-3)
    weighted = (actors[SLOW] * REWARD[SLOW] - actors[FAST] * REWARD[FAST]) / 100
    assert preference(episodes, DurationWeighting()) == pytest.approx(weighted, rel=1e-3)


@pytest.mark.slow
def test_a_baseline_between_the_arms_keeps_the_sign_anyway() -> None:
    """Then each arm's own sign is right, and durations change only how much each says: the flip is of raw returns."""
    episodes = played(40.0, 0.5)
    for modulator in (None, DurationWeighting()):
        assert preference(episodes, modulator, Reinforce(baseline="batch")) > 0


def test_a_mean_duration_leaves_credit_alone() -> None:
    episodes = [e for e in played(20.0, 0.5) if e.turns[0].action_ids == (SLOW,)]
    batch = Batch.of(grouped(episodes))
    rows = PLAIN.credit(batch, None).rows
    assert torch.allclose(DurationWeighting().modulate(batch, rows).advantage, rows.advantage)


def test_whose_seconds_count_can_be_chosen() -> None:
    slow_policy = replace(turn((0,), (FAST,), 1.0), seconds_env=1.0, seconds_policy=9.0)
    slow_env = replace(turn((0,), (SLOW,), 1.0), seconds_env=3.0, seconds_policy=0.0)
    batch = Batch.of(grouped([episode([slow_policy, slow_env])]))
    rows = batch.rows.with_advantage(torch.ones(1))
    for count, wanted in (("env", [0.5, 1.5]), ("all", [20 / 13, 6 / 13])):
        got = DurationWeighting(count=count).modulate(batch, rows)  # type: ignore[arg-type]
        assert got.advantage[got.mask].tolist() == pytest.approx(wanted)


def test_episodes_without_times_are_refused() -> None:
    batch = Batch.of(grouped([episode([turn((0,), (FAST,), 1.0)])]))
    with pytest.raises(UsageError, match=r"took any time \(all\)"):
        DurationWeighting().modulate(batch, batch.rows)
