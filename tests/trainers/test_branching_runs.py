"""Training by a strategy: what goes together, what is logged, and a resumed run is the same run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pydantic
import pytest
import torch

import turnwise as tw
from turnwise.errors import ContractError, TurnwiseError
from turnwise.rollouts.branching_entropy import EntropyBranching
from turnwise.rollouts.branching_vine import StateValues
from turnwise.trainers import on_policy
from turnwise.trainers.run.metrics import read_metrics

from ..shifts import core_sample
from .test_on_policy import config, running
from .test_resume import same, state

SETTINGS: dict[str, dict[str, Any]] = {
    "arpo": {"group_size": 4, "branching": {"strategy": "entropy", "tokens": 4}},
    "vine-ppo": {"group_size": 1, "branching": {"strategy": "vine", "rollouts": 2}},
}


def test_naming_the_algorithm_names_its_strategy() -> None:
    assert isinstance(config("arpo").branching, EntropyBranching)
    assert (config("arpo").group_size, config("arpo").shared_token_weight) == (16, "split")
    assert config("arpo", branching={"weight": 0.5}).branching == EntropyBranching(weight=0.5)
    assert isinstance(config("vine-ppo").branching, StateValues)
    assert config("grpo").branching is None
    tree = config("rloo", branching={"strategy": "entropy"}, loss={"ratio_level": "turn"})
    assert isinstance(tree.branching, EntropyBranching), "a tree for others"


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("arpo", {"branching": None}, r"arpo gives credit to what branching.strategy = 'entropy' plays, not None"),
        ("arpo", {"branching": {"strategy": "vine"}}, "plays, not 'vine'"),
        ("vine-ppo", {"branching": {"strategy": "entropy"}}, "vine-ppo gives credit to what .* plays, not 'entropy'"),
        ("grpo", {"branching": {"strategy": "vine"}}, "9 rollouts from each state .* grpo makes no use of values"),
        ("arpo", {"group_size": 4, "branching": {"initial": 5}}, r"branching.initial = 5 exceeds group_size = 4"),
        ("arpo", {"overlap": {"enabled": True}}, "overlap.enabled plays whole attempts only"),
        ("arpo", {"branching": {"strategy": "restart", "store": "s"}}, "plays, not 'restart'"),
        ("arpo", {"group_size": 1}, "without a baseline"),
        ("vine-ppo", {"agent": {"program": "true"}}, "a program cannot be forked there: leave one out"),
    ],
)
def test_what_does_not_go_together_is_refused(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=message):
        config(name, **changes)


@pytest.mark.parametrize("name", SETTINGS)
def test_an_environment_that_cannot_be_forked_is_refused_before_anything_is_played(
    tmp_path: Path, cloned: Path, name: str
) -> None:
    class Locked(tw.TurnEnv):
        """Holds what cannot be copied."""

        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
            self.lock = threading.Lock()
            return "go"

        def act(self, action: tw.Action) -> tw.Step:
            raise AssertionError("a step was taken")

    tw.register("test/Locked-v0", Locked)
    settings = running(tmp_path / "run", cloned / "model", name, **SETTINGS[name], env="test/Locked-v0", episodes={})
    with pytest.raises(ContractError, match=r"Locked forks by copy, but its 'lock' cannot be copied .*Forks\.REPLAY"):
        on_policy.train(settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", core_sample([*SETTINGS], 1, key="resumed branching"))
def test_a_resumed_run_is_bitwise_the_same(tmp_path: Path, cloned: Path, name: str) -> None:
    changes = SETTINGS[name] | {"eval": {"episodes": 0}, "episodes": {"env_kwargs": {"max_turns": 6}}}
    on_policy.train(running(tmp_path / "straight", cloned / "model", name, **changes, steps=3))
    on_policy.train(running(tmp_path / "parts", cloned / "model", name, **changes, steps=2))
    torch.manual_seed(5)
    on_policy.train(running(tmp_path / "parts", cloned / "model", name, **changes, steps=3, resume=True))
    one, other = state(tmp_path / "straight", name), state(tmp_path / "parts", name)
    assert one[0] == other[0]
    assert same(one[1], other[1])
    assert one[2] == other[2], "what is logged is too, but for the time it took"
    lines = read_metrics(tmp_path / "straight" / "metrics.jsonl")
    assert all(line["cost/steps"] > 0 and line["cost/prefilled"] > 0 for line in lines)
    assert all((line.get("cost/branches", 0) > 0) == (name == "arpo") for line in lines)
    assert all((line.get("cost/lookaheads", 0) > 0) == (name == "vine-ppo") for line in lines)
    assert all(line["updates"] > 0 for line in lines)


@pytest.mark.parametrize(("store", "choice"), [("missing", "uniform"), ("demonstrations", "varied")])
def test_a_store_without_states_is_refused_before_anything_is_played(
    tmp_path: Path, cloned: Path, store: str, choice: str
) -> None:
    restart = {"strategy": "restart", "store": str(cloned / store), "choice": choice, "share": 0.001}
    with pytest.raises(TurnwiseError, match=r"missing|has no state to restart from"):
        on_policy.train(running(tmp_path / "run", cloned / "model", "grpo", branching=restart, group_size=2))
    assert not list(read_metrics(tmp_path / "run" / "metrics.jsonl")), "not even an evaluation"


@pytest.mark.slow
def test_a_run_restarts_from_demonstrations_and_resumes_bitwise(tmp_path: Path, cloned: Path) -> None:
    """They are of scripted agents, whose actions have no token ids: the continuation alone has any."""
    restart = {"strategy": "restart", "store": str(cloned / "demonstrations"), "share": 0.8}
    changes: dict[str, Any] = {"branching": restart, "eval": {"episodes": 0}, "group_size": 2}
    on_policy.train(running(tmp_path / "straight", cloned / "model", "grpo", **changes, steps=3))
    on_policy.train(running(tmp_path / "parts", cloned / "model", "grpo", **changes, steps=2))
    on_policy.train(running(tmp_path / "parts", cloned / "model", "grpo", **changes, steps=3, resume=True))
    one, other = state(tmp_path / "straight", "grpo"), state(tmp_path / "parts", "grpo")
    assert one[0] == other[0]
    assert same(one[1], other[1])
    lines = read_metrics(tmp_path / "straight" / "metrics.jsonl")
    assert sum(line.get("cost/branches", 0) for line in lines) > 0
