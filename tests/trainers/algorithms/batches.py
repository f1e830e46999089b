"""Batches written by hand: for each task, the rewards of each attempt's turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from hypothesis import strategies as st
from torch import Tensor

from turnwise.envs.messages import Observation
from turnwise.trainers.algorithms.algorithm import Algorithm
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import grouped

from ..fakes import Said, conversation

Rewards = Sequence[Sequence[Sequence[float]]]

reward = st.integers(-8, 8).map(lambda eighths: eighths / 8)
"""Rewards whose sums are exact, so that a brute force in another order has the very same result."""
attempts = st.lists(st.lists(reward, min_size=1, max_size=4), min_size=1, max_size=4)
tasks = st.lists(attempts, min_size=1, max_size=3)


def batch(rewards: Rewards, states: Sequence[Sequence[Sequence[str | None]]] | None = None) -> Batch:
    """A batch of these rewards; the turns of episode e say 1, 2, … tokens. ``states`` are the turns' ``obs_key``."""
    episodes = []
    for task, tries in enumerate(rewards):
        for number, paid in enumerate(tries):
            said = [Said((1,), (2,) * (1 + turn % 2), each) for turn, each in enumerate(paid)]
            episode = conversation(said, group=f"g{task}", name=f"g{task}-{number}")
            keys = states[task][number] if states is not None else [None] * len(paid)
            turns = (
                replace(turn, obs_key=key, observation=Observation.of(f"turn {index} of {number}"))
                for index, (turn, key) in enumerate(zip(episode.turns, keys, strict=True))
            )
            episodes.append(replace(episode, turns=tuple(turns)))
    return Batch.of(grouped(episodes))


def per_turn(algorithm: Algorithm, given: Batch) -> list[float]:
    """The advantage of each turn in order; every sampled token of a turn must have the same."""
    rows = algorithm.credit(given, None).rows
    turns = given.reward_U.numel()
    found: list[float] = []
    for turn in range(turns):
        values = torch.unique(rows.advantage[rows.turn == turn])
        assert values.numel() == 1, "the tokens of a turn share its credit"
        found.append(float(values))
    assert not rows.advantage[~rows.mask].any(), "context has no advantage"
    return found


def to_go(paid: Sequence[float], gamma: float) -> list[float]:
    """Σ_{v≥u} γ^{v−u} r_v for each u, by its definition."""
    return [sum(gamma ** (v - u) * paid[v] for v in range(u, len(paid))) for u in range(len(paid))]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """The sample deviation."""
    return float(torch.tensor(values, dtype=torch.float64).std()) if len(values) > 1 else 0.0


def tensor(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
