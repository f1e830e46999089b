"""Search self-play as a run: it steps, stops and goes on, and refuses what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pydantic
import pytest

from turnwise.trainers import behavior_cloning, self_play
from turnwise.trainers.behavior_cloning import CloningConfig
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.self_play import SelfPlayConfig

SHARED: dict[str, Any] = {
    "env": "turnwise/SearchTags-v1",
    "levels": [1],
    "agent": {"parser": "search", "show_tools": False, "max_tokens": 12},
    "episodes": {"env_kwargs": {"brief": True, "k": 1, "snippet": 5, "max_turns": 2}},
    "eval": {"episodes": 2, "every": 0},
    "threads": 1,
    "progress": False,
    "tracking": {"to": []},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows single characters, and little else."""
    settings = {"nano": {"size": "0.1M", "layers": 1, "hidden": 32, "tokenizer": "byte", "context_length": 1024}}
    more = {"steps": 1, "batch": 2, "demonstrations": {"count": 2}, "out": str(tmp_path_factory.mktemp("clone"))}
    return behavior_cloning.train(CloningConfig.model_validate({**SHARED, **settings, **more})).model


def config(out: Path, model: Path, **changes: Any) -> SelfPlayConfig:
    sizes = {"tasks_per_step": 2, "proposals": 2, "group_size": 2, "minibatch": 4, "steps": 3, "checkpoint_every": 1}
    return SelfPlayConfig.model_validate({**SHARED, **sizes, "out": str(out), "model": str(model), **changes})


def lines(folder: Path) -> list[dict[str, Any]]:
    kept = (
        "step",
        "episodes",
        "action_tokens",
        "cost/prompted",
        "proposals/valid",
        "proposals/different",
        "eval/return",
    )
    return [{name: line[name] for name in kept if name in line} for line in read_metrics(folder / "metrics.jsonl")]


@pytest.mark.slow
def test_a_run_that_went_on_is_the_run_that_never_stopped(tmp_path: Path, model: Path) -> None:
    whole = self_play.train(config(tmp_path / "whole", model))
    assert whole.steps == 3
    assert {line["episodes"] for line in lines(whole.folder) if "episodes" in line} == {4.0}
    self_play.train(config(tmp_path / "parts", model, steps=1))
    parts = self_play.train(config(tmp_path / "parts", model, resume=True))
    # The first part was evaluated at its end, which the whole was not.
    played = [[line for line in lines(one.folder) if "episodes" in line] for one in (whole, parts)]
    assert played[0] == played[1]
    assert len({line["cost/prompted"] for line in played[0]}) > 1, "every step has prompts of its own"


@pytest.mark.parametrize(
    "changes",
    [
        {"proposals": 1},
        {"group_size": 1},
        {"others": -1},
        {"readings": 0},
        {"overlap": {"enabled": True}},
        {"tasks_per_step": 0},
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, model: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError):
        config(tmp_path, model, **changes)


@pytest.mark.parametrize("grammar", [False, True])
def test_the_setting_of_the_grammar_reaches_the_game(tmp_path: Path, grammar: bool) -> None:
    assert self_play._game(config(tmp_path, tmp_path, grammar=grammar)).grammar is grammar
