"""Every configuration that is shipped can be read, and says true things."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from turnwise.cli import COMMANDS
from turnwise.commands.train import Algorithm, located, trainer
from turnwise.config import load_config
from turnwise.envs.registry import find, make

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = sorted((ROOT / "configs").rglob("*.toml"))


def algorithm(path: Path) -> Algorithm:
    """What a file configures: the one word of its name that is an algorithm."""
    (word,) = set(path.stem.split("-")) & set(Algorithm)
    return Algorithm(word)


def test_there_are_some_for_every_algorithm() -> None:
    assert {algorithm(path) for path in CONFIGS} == set(Algorithm)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_it_parses_and_its_environment_has_what_it_names(path: Path) -> None:
    config = load_config(trainer(algorithm(path))[0], path)
    env = make(find(config.env).id, **config.episodes.env_kwargs)
    family = env.unwrapped.tasks()  # type: ignore[attr-defined]
    env.close()
    assert {config.split, config.eval.split} <= set(family.splits), f"{path.stem} names a split that {config.env} lacks"
    assert set(config.levels or ()) | set(config.eval.levels or ()) <= set(family.levels)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_its_comment_shows_a_command_that_runs_it(path: Path) -> None:
    shown = re.findall(r"^#\s+turnwise (\w+) (\w+) --config (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown, f"{path.name} should say how it is run"
    command, trained, config = shown[0]
    assert command in COMMANDS
    assert Algorithm(trained) is algorithm(path)
    assert (ROOT / config).resolve() == path or located(config).resolve() == path


def test_models_they_start_from_are_made_by_others() -> None:
    folders = {str(load_config(trainer(algorithm(path))[0], path).out) for path in CONFIGS}
    for path in CONFIGS:
        model = getattr(load_config(trainer(algorithm(path))[0], path), "model", None)
        if model:
            assert model.removesuffix("/model") in folders, f"nothing makes {model} for {path.name}"


def test_they_are_found_by_name_wherever_turnwise_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in CONFIGS:
        assert located(path.stem).resolve() == path
