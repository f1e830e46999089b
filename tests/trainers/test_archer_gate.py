"""The gate in a run: measured with what is played, counted as played, and reported when it stays closed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from turnwise.errors import ContractError, UsageError
from turnwise.rollouts.branching_utterances import ForkedStates
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.tasks.rng import Rng
from turnwise.trainers import archer, archer_gate
from turnwise.trainers.archer_gate import judgements
from turnwise.trainers.archer_settings import ArcherConfig
from turnwise.trainers.collect.collect import collect
from turnwise.trainers.collect.forked_states import forked_states
from turnwise.trainers.critics.gate import CriticGate, CriticGateConfig
from turnwise.trainers.critics.ranking import Ranking, ranking
from turnwise.trainers.run.metrics import read_metrics

from ..rollouts.walkers import Walker, evenly, road, tasks
from . import small
from .test_archer import config

GATE = {"states": 3, "min_states": 2, "utterances": 2, "rollouts": 2, "every": 1, "limit": 3}


class Planted:
    """A critic with given values of (state, utterance)."""

    def __init__(self, judge: Any) -> None:
        self.judge = judge

    def q(self, states: Any, actions: Any) -> torch.Tensor:
        return torch.tensor([[self.judge(state, said) for state, said in zip(states, actions, strict=True)]] * 2)


@pytest.mark.slow
async def test_on_a_road_the_true_q_opens_the_gate_and_noise_of_its_size_does_not() -> None:
    """Going right is worth 3/8 more in each state, whatever follows: the first action id is 1 there."""
    strategy = ForkedStates(utterances=4, rollouts=8)
    options = RunOptions(group_size=strategy.size)
    async with EnvPool.of(road()) as pool:
        played = await collect(pool, Walker(evenly), tasks(24), options=options, strategy=strategy)
    states = forked_states(played.episodes, 1.0)
    means = [state.means for state in states]
    gate, luck = CriticGate(CriticGateConfig()), Rng("noise")
    true: Any = Planted(lambda state, said: 0.375 * said[0])
    noise: Any = Planted(lambda state, said: luck.random())
    found = ranking(judgements(true, states), means)
    assert found.states >= 20, "in the others every utterance was the same, and nothing else followed"
    assert gate.passes(found), found
    assert not gate.passes(ranking(judgements(noise, states), means))
    against: Any = Planted(lambda state, said: -said[0])
    assert ranking(judgements(against, states), means).mean == pytest.approx(-found.mean)


@pytest.mark.slow
def test_a_critic_that_does_not_rank_ends_the_run_in_words(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archer_gate, "ranking", lambda *_: Ranking(0.05, 0.1, 3, 0))
    settings = config(tmp_path / "run", cloned / "model", steps=9, critic_gate=GATE)
    result = archer.train(settings)
    lines = [line for line in read_metrics(result.folder / "metrics.jsonl") if "return" in line]
    assert result.steps == 4, "the measurement after three steps stands before the fourth"
    assert "stopped early: the critic does not rank utterances: critic/rank is not above 0.3" in result.note
    assert [line["critic/gate"] for line in lines] == [0, 0, 0, 0]
    assert ["critic/rank" in line for line in lines] == [False, True, True, True], "after the warm-up of one step"
    assert all("updates" not in line for line in lines)
    assert lines[0]["episodes"] == 3
    assert 3 + 3 < lines[1]["episodes"] <= 3 + 3 * (1 + 2 * 2), "what the gate has played is counted"
    assert lines[1]["episodes"] == 3 + lines[1]["critic/rank_episodes"]
    assert lines[1]["cost/steps"] > lines[1]["turns"] * 3
    again = archer.train(settings.model_copy(update={"resume": True}))
    assert again.steps == 4, "and stays ended"
    assert "does not rank" in again.note
    gate = CriticGateConfig.model_validate({**GATE, "limit": 5})
    more = settings.model_copy(update={"resume": True, "critic_gate": gate})
    assert archer.train(more).steps == 6, "a higher limit continues it"


@pytest.mark.slow
def test_a_gate_that_fails_in_the_last_step_says_so(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archer_gate, "ranking", lambda *_: Ranking(0.05, 0.1, 3, 0))
    result = archer.train(config(tmp_path / "run", cloned / "model", steps=4, critic_gate=GATE))
    assert "the critic does not rank utterances" in result.note


@pytest.mark.slow
def test_it_may_start_nevertheless_and_says_so(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(archer_gate, "ranking", lambda *_: Ranking(0.05, 0.1, 3, 0))
    gate = {**GATE, "limit": 2, "otherwise": "start"}
    result = archer.train(config(tmp_path / "run", cloned / "model", steps=4, critic_gate=gate))
    lines = [line for line in read_metrics(result.folder / "metrics.jsonl") if "return" in line]
    assert ["updates" in line for line in lines] == [False, False, True, True]
    assert "The actor begins nevertheless (critic_gate.otherwise = start)" in caplog.text
    assert "critic/rank" not in lines[3], "an open gate is not measured"


@pytest.mark.slow
@pytest.mark.shift
def test_an_open_gate_lets_the_actor_learn_and_a_resumed_run_is_the_same(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archer_gate, "ranking", lambda *_: Ranking(0.5, 0.1, 3, 0))
    gate = {**GATE, "watch": True, "every": 2}
    whole = archer.train(config(tmp_path / "whole", cloned / "model", steps=4, critic_gate=gate))
    archer.train(config(tmp_path / "parts", cloned / "model", steps=2, critic_gate=gate))
    again = archer.train(config(tmp_path / "parts", cloned / "model", steps=4, critic_gate=gate, resume=True))
    logged = [
        [line for line in read_metrics(result.folder / "metrics.jsonl") if "return" in line]
        for result in (whole, again)
    ]
    assert ["updates" in line for line in logged[0]] == [False, True, True, True]
    assert ["critic/rank" in line for line in logged[0]] == [False, True, False, True]
    assert all(
        one[name] == other[name]
        for one, other in zip(*logged, strict=True)
        for name in one
        if not name.startswith(small.MEASURED)
    )
    assert (whole.model / "model.safetensors").read_bytes() == (again.model / "model.safetensors").read_bytes()
    assert whole.note == ""


@pytest.mark.slow
def test_a_run_that_is_over_before_its_gate_opens_says_so(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archer_gate, "ranking", lambda *_: Ranking(0.05, 0.1, 3, 0))
    result = archer.train(config(tmp_path / "run", cloned / "model", steps=2, critic_gate=GATE))
    assert "the critic's gate is closed, so the actor has not learned" in result.note


def test_an_environment_that_cannot_be_forked_is_refused_at_the_start(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def locked(*_: Any) -> None:
        raise ContractError("Locked forks by copy, but its 'lock' cannot be copied")

    monkeypatch.setattr(archer_gate, "refuse_unforkable", locked)
    with pytest.raises(
        UsageError, match=r"'lock' cannot be copied\. Without forks, leave critic_gate out and set warmup"
    ):
        archer.train(config(tmp_path / "run", cloned / "model", critic_gate=GATE))
    assert not [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "return" in line]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"mode": "offline", "critic": "iql", "actor": "awr"}, "offline ArCHer plays no episodes"),
        ({"agent": {"program": {"command": ["true"]}}}, "a program cannot be forked there"),
        ({"warmup": 4}, "critic_gate.limit = 3 is before the first measurement, after warmup = 4"),
    ],
    ids=["offline", "program", "too late"],
)
def test_a_gate_that_cannot_be_measured_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ArcherConfig.model_validate({"env": "e", "model": "m", "critic_gate": GATE, **settings})
