"""An algorithm outside Turnwise is named by its class, on every way to a run, and its run resumes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.errors import ConfigError, UsageError
from turnwise.trainers.on_policy import OnPolicyConfig
from turnwise.trainers.options import algorithm_of, configured, described
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.settings import TrainConfig
from turnwise.trainers.script import script

from . import small

WORD = "clipped_return:ClippedReturn"
NEEDED = ["env=turnwise/Maze-v0", "model=m"]
DOCS = Path(__file__).resolve().parents[2] / "docs" / "algorithms.md"


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user's working directory with the class that docs/algorithms.md shows."""
    (code,) = (
        block for block in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL) if "(Algorithm)" in block
    )
    (tmp_path / "clipped_return.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("clipped_return", None)


def test_word_file_and_object_mean_the_same_run(tmp_path: Path) -> None:
    word = configured(WORD, None, [*NEEDED, "algorithm.bound=2"])
    (tmp_path / "mine.toml").write_text(
        f'env = "turnwise/Maze-v0"\nmodel = "m"\n[algorithm]\nname = "{WORD}"\nbound = 2\n'
    )
    kind = type(word.algorithm)  # type: ignore[attr-defined]
    object_ = OnPolicyConfig(env="turnwise/Maze-v0", model="m", algorithm=kind(bound=2))
    assert configured(algorithm_of(tmp_path / "mine.toml"), tmp_path / "mine.toml") == word == object_
    assert (kind.__name__, object_.out, object_.loss.ratio_level) == (
        "ClippedReturn",
        "runs/clipped-return",
        "trajectory",
    )
    saved = word.model_dump(mode="json")
    assert saved["algorithm"] == {"name": WORD, "bound": 2.0}
    assert OnPolicyConfig.model_validate(saved) == word


@pytest.mark.parametrize(
    ("word", "words", "message"),
    [
        ("nowhere:Rule", [], "cannot import 'nowhere'"),
        ("clipped_return:Other", [], "clipped_return has no 'Other'"),
        ("clipped_return:Credit", [], "clipped_return:Credit must be a subclass of turnwise.trainers.Algorithm"),
        (WORD, ["algorithm.bond=2"], "ClippedReturn has no setting 'bond'; its settings: bound"),
        (WORD, ["algorithm.bound=high"], "bound"),
        (WORD, ["group_size=1"], "leaves clipped-return without a baseline"),
    ],
)
def test_what_is_wrong_is_named(word: str, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        configured(word, None, [*NEEDED, *words])


def test_a_file_of_another_algorithm_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('env = "e"\nmodel = "m"\n[algorithm]\nname = "grpo"\n')
    with pytest.raises(
        ConfigError, match=r"sets algorithm.name to 'grpo': use `turnwise train grpo`, not clipped_return"
    ):
        configured(WORD, tmp_path / "other.toml")


def test_its_settings_are_listed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    presets = {"algorithm": {"name": WORD}}
    lines = [line for line in described(OnPolicyConfig, presets) if line.startswith("  algorithm.")]
    assert len(lines) == 2
    assert any(line.startswith("  algorithm.bound [1.0]") for line in lines)
    assert script(OnPolicyConfig, _never, [f"algorithm.name={WORD}", "--settings"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("  algorithm.")] == lines


def _never(config: TrainConfig) -> Any:
    raise AssertionError("nothing was to be trained")


@pytest.mark.slow
def test_a_run_trains_and_resumes_by_the_saved_name(tmp_path: Path, cloned: Path) -> None:
    shared: dict[str, Any] = {**small.SHARED, "model": str(cloned / "model"), "tasks_per_step": 2, "group_size": 3}
    shared |= {"eval": {"split": "train", "episodes": 2, "every": 0}, "checkpoint_every": 1}
    run = tmp_path / "run"
    tw.train(WORD, out=run, steps=1, **shared)
    saved = json.loads((run / "config.json").read_text())
    assert (saved["algorithm"], saved["config"]["algorithm"]["name"]) == (WORD, WORD)
    assert algorithm_of(run / "config.json") == WORD
    tw.train(WORD, out=run, resume=True, steps=2)
    assert [line["step"] for line in read_metrics(run / "metrics.jsonl") if "loss" in line] == [1, 2]
