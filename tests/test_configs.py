"""Every configuration that is shipped can be read, and says true things."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from turnwise.cli import COMMANDS
from turnwise.envs.registry import find, make
from turnwise.trainers.options import configured, located
from turnwise.trainers.registry import ALGORITHMS

ROOT = Path(__file__).resolve().parent.parent
ALL = sorted((ROOT / "configs").rglob("*.toml"))
CONFIGS = [path for path in ALL if not path.stem.startswith("pretrain-")]
"""Configurations of ``turnwise train``; the tests of ``turnwise pretrain`` read the others."""


def shown(path: Path) -> tuple[str, str, str]:
    """The command that a file's comment shows: ``turnwise``'s command, what is trained with, and the file."""
    found = re.search(r"^#\s+turnwise ([\w-]+) ([\w-]+) --config (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{path.name} should say how it is run"
    command, word, file = found.groups()
    return command, word, file


def algorithm(path: Path) -> str:
    """Return the configuration in a file."""
    return shown(path)[1]


def test_there_are_some_for_every_algorithm() -> None:
    assert {algorithm(path) for path in CONFIGS} == set(ALGORITHMS)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_it_parses_and_its_environment_has_what_it_names(path: Path) -> None:
    config = configured(algorithm(path), path)
    env = make(find(config.env).id, **config.episodes.env_kwargs)
    family = env.unwrapped.tasks()  # type: ignore[attr-defined]
    env.close()
    assert {config.split, config.eval.split} <= set(family.splits), f"{path.stem} names a split that {config.env} lacks"
    assert set(config.levels or ()) | set(config.eval.levels or ()) <= set(family.levels)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_its_comment_shows_a_command_that_runs_it(path: Path) -> None:
    command, trained, config = shown(path)
    assert command in COMMANDS
    assert trained in ALGORITHMS
    words = path.stem.removeprefix("quickstart-")
    named = re.search(rf"(^|-){trained}(-|$)", words)
    assert named, f"the name of {path.name} should have what it trains with, {trained}"
    assert (ROOT / config).resolve() == path or located(config).resolve() == path


def test_models_they_start_from_are_made_by_others() -> None:
    folders = {str(configured(algorithm(path), path).out) for path in CONFIGS}
    for path in CONFIGS:
        model = getattr(configured(algorithm(path), path), "model", None)
        if model and not model.startswith("models/"):  # what users download: docs/language_models.md
            assert model.removesuffix("/model") in folders, f"nothing makes {model} for {path.name}"


def test_they_are_found_by_name_wherever_turnwise_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ALL:
        assert located(path.stem).resolve() == path
