"""An algorithm outside Turnwise is named by its class, on every way to a run, and its run resumes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import turnwise as tw
from turnwise.errors import ConfigError, ContractError, UsageError
from turnwise.trainers.algorithms.named import own_algorithm, word_of
from turnwise.trainers.on_policy import OnPolicyConfig, OnPolicyTrainer
from turnwise.trainers.options import algorithm_of, configured, described
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.settings import TrainConfig
from turnwise.trainers.script import script

from . import small

WORD = "clipped_return:ClippedReturn"
NEEDED = ["env=turnwise/Maze-v0", "model=m"]
RUNNING = """
import pydantic
from turnwise.trainers import Algorithm, Credit

class Forgetful(Algorithm):
    name: str = "running"
    _mean: float = pydantic.PrivateAttr(default=0.0)
    def credit(self, batch, values):
        credit = Credit(batch.rows.with_advantage(batch.return_E - self._mean))
        self._mean += 0.5 * (batch.return_E.numpy().mean() - self._mean)
        return credit

class Running(Forgetful):
    def state_dict(self):
        return {"mean": self._mean}
    def load_state_dict(self, state):
        self._mean = state["mean"]

class Nameless(Algorithm):
    def credit(self, batch, values):
        return Credit(batch.rows)

class Initialized(Nameless):
    name: str = "initialized"
    def __init__(self, **settings):
        super().__init__(**settings)
        self.mean = 0.0

class Unsaved(Running):
    def state_dict(self):
        return {"mean": [object()]}
"""
"""Rules with a running baseline: without, with, and with a useless way to save it; and two without credit.

One of these has no name, and the other sets an attribute.
"""
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
    (tmp_path / "running.py").write_text(RUNNING)
    yield
    for module in ("clipped_return", "running", "broken"):
        sys.modules.pop(module, None)


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
        (
            "running:Forgetful",
            [],
            "Forgetful keeps _mean between steps, which no checkpoint would hold",
        ),
        ("clipped_return:Other", [], "clipped_return has no 'Other'"),
        (
            "clipped_return:Algorithm",
            [],
            "clipped_return:Algorithm lacks credit; write def credit(self, batch, values)",
        ),
        ("running:Nameless", [], "running:Nameless lacks a name; write name: str"),
        ("clipped_return:Credit", [], "clipped_return:Credit must be a subclass of turnwise.trainers.Algorithm"),
        (WORD, ["algorithm.bond=2"], "setting 'algorithm': ClippedReturn has no setting 'bond'; its settings: bound"),
        ("running:Initialized", [], "setting 'algorithm': Initialized sets 'mean' as it is created"),
        ("clipped_return.ClippedReturn", [], f"a class of clipped_return.py is {WORD}"),
        ("clipped_return", [], "a class of clipped_return.py is clipped_return:CLASS"),
        (WORD, ["algorithm.bound=high"], "bound"),
        (WORD, ["group_size=1"], "leaves clipped-return without a baseline"),
    ],
)
def test_what_is_wrong_is_named(word: str, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        configured(word, None, [*NEEDED, *words])
    assert "{" not in str(caught.value), "no table of settings"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def x(:\n", "cannot import 'broken': invalid syntax (at {file}:1)"),
        ("\nx = undefined\n", "importing 'broken' raised NameError: name 'undefined' is not defined (at {file}:2 in"),
    ],
)
def test_a_module_that_cannot_be_imported_is_one_line_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(UsageError, match=re.escape(said.format(file=tmp_path / "broken.py"))):
        configured("broken:Rule", None, NEEDED)


def test_a_rule_of_a_script_is_named_by_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """``__main__`` of the run that trains is not that of the one that resumes."""
    kind = type(configured(WORD, None, NEEDED).algorithm)  # type: ignore[attr-defined]
    main = ModuleType("__main__")
    main.__file__ = "/somewhere/clipped_return.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(kind, "__module__", "__main__")
    assert word_of(kind()) == WORD


async def test_a_run_that_no_command_can_resume_is_told_at_its_start(caplog: pytest.LogCaptureFixture) -> None:
    trainer = object.__new__(OnPolicyTrainer)
    trainer.config, trainer.run = configured(WORD, None, NEEDED), None  # type: ignore[assignment]
    await trainer.begin()
    assert not caplog.messages
    type(trainer.config.algorithm).__qualname__ = "main.<locals>.ClippedReturn"
    await trainer.begin()
    assert caplog.messages[0].startswith("ClippedReturn is defined inside a function, so only this script can resume")


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


@pytest.mark.slow
def test_what_a_rule_remembers_is_in_checkpoints_and_stays_with_its_run(tmp_path: Path, cloned: Path) -> None:
    shared: dict[str, Any] = {**small.SHARED, "model": str(cloned / "model"), "tasks_per_step": 2, "group_size": 2}
    shared |= {"eval": {"episodes": 0}, "checkpoint_every": 1}
    rule = own_algorithm("running:Running")(name="running")
    for out in ("whole", "again"):  # the same object twice: the second run does not start with the first one's mean
        tw.train(OnPolicyConfig(**{**shared, "algorithm": rule, "out": str(tmp_path / out), "steps": 2}))
    tw.train("running:Running", out=tmp_path / "parts", **{**shared, "steps": 1})
    tw.train("running:Running", out=tmp_path / "parts", resume=True, steps=2)
    weights = [(tmp_path / out / "model" / "model.safetensors").read_bytes() for out in ("whole", "again", "parts")]
    assert weights[0] == weights[1] == weights[2]
    with pytest.raises(ContractError, match=r"Unsaved.state_dict\(\)\['mean'\]\[0\] is of type object"):
        tw.train("running:Unsaved", out=tmp_path / "unsaved", **{**shared, "steps": 1})
