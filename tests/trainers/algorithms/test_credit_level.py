"""Ratios are never of coarser segments than credit: what each algorithm declares, what it does, what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, get_args

import pydantic
import pytest
import torch

from turnwise.rollouts.episode import Lookahead, Outcome
from turnwise.trainers.algorithms.algorithm import Algorithm
from turnwise.trainers.algorithms.duration import DurationWeighting
from turnwise.trainers.algorithms.empg import EMPG
from turnwise.trainers.algorithms.grpo import GRPO
from turnwise.trainers.algorithms.modulator import Modulator
from turnwise.trainers.algorithms.named import ALGORITHMS, AnyModulator
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import grouped
from turnwise.trainers.learning.kl import kl_in_reward
from turnwise.trainers.learning.loss import Kind, Level, policy_loss
from turnwise.trainers.learning.rows import Rows

from ..test_on_policy import config
from .forks import Leaf, grown
from .test_ppo import Told

LEVELS: tuple[Level, ...] = get_args(Level)
CASES: list[tuple[str, dict[str, Any], Level]] = [
    ("reinforce", {}, "turn"),
    ("reinforce", {"credit_over": "episode"}, "trajectory"),
    ("reinforce", {"credit_over": "episode", "baseline": "none"}, "trajectory"),
    ("reinforce", {"credit_over": "episode", "baseline": "turn_index"}, "turn"),
    ("rloo", {}, "trajectory"),
    ("grpo", {}, "trajectory"),
    ("m-grpo", {}, "trajectory"),
    ("gigpo", {}, "turn"),
    ("turn-credit", {}, "turn"),
    ("ppo", {}, "turn"),
    ("ppo", {"level": "token"}, "token"),
    ("arpo", {}, "trajectory"),
    ("arpo", {"advantage": "hard"}, "turn"),
    ("vine-ppo", {}, "turn"),
    ("istar", {}, "turn"),
    ("distill", {"teacher": "t"}, "token"),
    ("distill", {"teacher": "t", "gamma": 1.0}, "token"),
]
"""Algorithms, their settings, and the coarsest segments within which their credit is equal."""
MODULATORS = (EMPG(), DurationWeighting())
EVERY_CASE = pytest.mark.parametrize(("name", "settings", "level"), CASES, ids=str)


def algorithm(name: str, settings: dict[str, Any]) -> Algorithm:
    return ALGORITHMS[name].model_validate(settings)


def played() -> Batch:
    """A tree of attempts with turns of one and two tokens, where no two numbers are alike."""
    leaves = [Leaf(None, 0, (0.1, 1.0, 1.3)), Leaf(0, 1, (0.2, 0.7)), Leaf(1, 2, (3.0, 0.4)), Leaf(None, 0, (1.1, 0.6))]
    numbers = torch.Generator().manual_seed(0)
    episodes = [
        replace(
            episode,
            turns=tuple(replace(turn, seconds_env=1.0 + place) for place, turn in enumerate(episode.turns)),
            lookaheads=tuple(
                Lookahead(place, (float(torch.rand((), generator=numbers)),), Outcome.COMPLETED)
                for place in range(len(episode.turns))
            ),
        )
        for episode in grown(leaves)
    ]
    batch = Batch.of(grouped(episodes))
    old, entropy, ref = (torch.rand(len(batch.rows), generator=numbers) for _ in range(3))
    return batch.with_rows(batch.rows.with_logp_old(-old, entropy).with_logp_ref(-ref))


def coarsest(rows: Rows) -> Level:
    """The coarsest segments within which all advantages are equal."""
    mask = rows.mask
    found: Level = "token"
    segments: list[tuple[Level, torch.Tensor]] = [("turn", rows.turn[mask]), ("trajectory", rows.episode[mask])]
    for level, segment_N in segments:
        advantages = (rows.advantage[mask][segment_N == each] for each in torch.unique(segment_N))
        if all(torch.allclose(each, each[0]) for each in advantages):
            found = level
    return found


def test_every_algorithm_and_modulator_is_here() -> None:
    assert {name for name, _, _ in CASES} == set(ALGORITHMS)
    assert {type(each) for each in MODULATORS} == set(get_args(get_args(AnyModulator)[0]))


@pytest.mark.parametrize("penalized", [False, True], ids=["rewards", "kl-in-reward"])
@EVERY_CASE
def test_credit_is_equal_within_what_is_declared_and_not_beyond(
    name: str, settings: dict[str, Any], level: Level, penalized: bool
) -> None:
    batch = kl_in_reward(played(), 0.1) if penalized else played()
    values = Told(torch.rand(batch.rows.tokens, generator=torch.Generator().manual_seed(1)).tolist())
    assert algorithm(name, settings).credit_level == level
    assert coarsest(algorithm(name, settings).credit(batch, values).rows) == level


@pytest.mark.parametrize("modulator", MODULATORS, ids=lambda each: each.name)
def test_modulated_credit_too(modulator: Modulator) -> None:
    batch = played()
    rows = GRPO().credit(batch, None).rows
    assert (coarsest(rows), coarsest(modulator.modulate(batch, rows))) == ("trajectory", modulator.credit_level)


@pytest.mark.parametrize("kind", get_args(Kind))
@EVERY_CASE
def test_a_ratio_that_would_erase_credit_is_refused(
    name: str, settings: dict[str, Any], level: Level, kind: Kind
) -> None:
    for ratio, normalized in product(LEVELS, (False, True)):
        if normalized and ratio == "token":
            continue
        loss = {"kind": kind, "ratio_level": ratio, "length_normalized": normalized}
        changes = {"algorithm": {"name": name, **settings}, "loss": loss, "shared_token_weight": "full"}
        if kind != "ppo" or LEVELS.index(ratio) <= LEVELS.index(level):
            assert config(name, **changes).loss.ratio_level == ratio
            continue
        says = (
            f"loss.ratio_level = {ratio} with loss.kind = ppo .* {name} credits each {level} .*: set .* = {level}, or"
        )
        with pytest.raises(pydantic.ValidationError, match=says):
            config(name, **changes)


@pytest.mark.parametrize(
    ("changes", "source"),
    [
        ({"modulators": [{"name": "empg"}]}, "empg"),
        ({"modulators": [{"name": "duration"}]}, "duration"),
        ({"branching": {"strategy": "entropy"}, "group_size": 8}, "shared_token_weight = split"),
    ],
    ids=["empg", "duration", "split"],
)
def test_what_changes_the_credit_of_turns_counts_too(changes: dict[str, Any], source: str) -> None:
    """Tokens that branches share weigh less: a mean over the trajectory would count them more than once."""
    with pytest.raises(pydantic.ValidationError, match=f"and {source} credits each turn separately"):
        config("grpo", loss={"ratio_level": "trajectory"}, **changes)
    config("grpo", loss={"ratio_level": "turn"}, **changes)
    config("grpo", loss={"ratio_level": "trajectory", "kind": "cispo"}, **changes)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"level": "trajectory"}, [0.0, 0.0]),
        ({"level": "trajectory", "length_normalized": True}, [0.0, 0.0]),
        ({"level": "trajectory", "kind": "cispo"}, [-1.0, 1.0]),
        ({"level": "trajectory", "kind": "reinforce"}, [-1.0, 1.0]),
        ({"level": "token"}, [-1.0, 1.0]),
    ],
    ids=str,
)
def test_opposite_advantages_in_one_segment_cancel_in_ppo_alone(options: dict[str, Any], wanted: list[float]) -> None:
    """Why such settings are refused."""
    logp, ones = torch.zeros(2, requires_grad=True), torch.ones(2)
    whole = torch.zeros(2, dtype=torch.long)
    loss, _ = policy_loss(logp, 0 * ones, 0 * ones, torch.tensor([1.0, -1.0]), ones, ones.bool(), whole, **options)
    (gradient,) = torch.autograd.grad(loss, logp)
    assert gradient.tolist() == wanted
