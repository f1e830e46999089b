"""Settings of the loss that an actor of ArCHer would ignore, or that would erase its credit, are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from turnwise.trainers.archer_settings import ArcherConfig
from turnwise.trainers.learning.utterances import Utterance, pack_utterances


def configured(**settings: Any) -> ArcherConfig:
    return ArcherConfig.model_validate({"env": "e", "model": "m", **settings})


@pytest.mark.parametrize(
    "loss",
    [
        {"kind": "cispo"},
        {"ratio_level": "turn"},
        {"ratio_level": "turn", "length_normalized": True},
        {"bounds": "loop"},
        {"clip_low": 0.1},
        {"clip_high": 0.3},
        {"kind": "reinforce", "clip_high": 0.3},
        {"dual_clip": 5.0},
        {"max_kl": 0.1},
    ],
    ids=str,
)
def test_reinforce_has_no_ratios(loss: dict[str, Any]) -> None:
    name, value = list(loss.items())[-1]
    with pytest.raises(ValueError, match=rf"ratios are 1: .*loss\.{name} = {value} would have no effect"):
        configured(loss=loss)
    configured(actor="ppo", loss={**loss, "kind": "cispo" if loss.get("kind") == "cispo" else "ppo"})


@pytest.mark.parametrize(
    "loss",
    [
        {"kind": "reinforce"},
        {"is_mode": "tis", "is_level": "turn", "is_cap": 3.0},
        {"is_mode": "mis", "is_floor": 0.5},
        {"kl": {"coef": 0.1}},
        {"entropy_coef": 0.01},
    ],
    ids=str,
)
def test_reinforce_has_corrections_and_penalties(loss: dict[str, Any]) -> None:
    configured(loss=loss)


@pytest.mark.parametrize("actor", ["ppo", "doubly_robust"])
def test_several_updates_need_ratios(actor: str) -> None:
    with pytest.raises(ValueError, match=f"the actor {actor} reuses .* loss.kind = reinforce leaves out: choose ppo"):
        configured(actor=actor, loss={"kind": "reinforce"})
    configured(actor=actor, loss={"kind": "cispo"})


@pytest.mark.parametrize("level", ["turn", "trajectory"])
def test_a_baseline_of_tokens_needs_ratios_of_tokens(level: str) -> None:
    for more in ({}, {"length_normalized": True}):
        loss = {"ratio_level": level, **more}
        with pytest.raises(ValueError, match=r"baseline = token credits each token .*: set loss\.ratio_level = token"):
            configured(actor="ppo", baseline="token", loss=loss)
        configured(actor="ppo", baseline="token", loss={**loss, "kind": "cispo"})
        configured(actor="ppo", loss=loss)


def test_an_utterance_is_a_turn_and_a_trajectory() -> None:
    """So ratios of trajectories are those of turns here, and erase no more."""
    rows = pack_utterances([Utterance((1, 2), (3, 4), (0.0, 0.0)), Utterance((1, 2), (5,), (0.0,))])
    assert torch.equal(rows.turn[rows.mask], rows.episode[rows.mask])
