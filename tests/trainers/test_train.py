"""``turnwise.train``: the algorithms, settings and errors of ``turnwise train``, from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.errors import ConfigError, UnknownEnvironmentError, UsageError
from turnwise.trainers import CloningConfig, TrainConfig

from .small import SHARED, cloning

SMALL: dict[str, Any] = {
    **{name: value for name, value in SHARED.items() if name != "env"},
    "batch": 4,
    "nano": {"size": "0.1M", "layers": 1, "hidden": 32},
    "demonstrations": {"count": 4},
    "eval": {"episodes": 0},
}


@pytest.mark.slow
def test_a_name_and_settings_train_and_resume(tmp_path: Path) -> None:
    result = tw.train("bc", "turnwise/MazeU-v0", out=tmp_path, steps=1, optimizer={"lr": 1e-3}, **SMALL)
    assert (result.steps, result.model) == (1, tmp_path / "model")
    written = json.loads((tmp_path / "config.json").read_text())["config"]
    assert (written["optimizer"]["lr"], written["batch"]) == (1e-3, 4), "settings arrive as Python values"
    assert tw.train("bc", out=tmp_path, resume=True, steps=2).steps == 2, "the folder has the other settings"
    again = tw.train("bc", config=tmp_path / "config.json", out=tmp_path / "again", seed=1)
    assert (again.folder, again.steps) == (tmp_path / "again", 2)


@pytest.mark.slow
def test_a_configuration_object_names_its_algorithm(tmp_path: Path) -> None:
    assert tw.train(cloning(tmp_path, steps=1, eval={"episodes": 0})).steps == 1


def test_wrong_words_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"env must be an environment.s id, or a Python file .*; got <class"):
        tw.train("bc", Path)  # type: ignore[call-overload]
    out = tmp_path / "run"
    with pytest.raises(UnknownEnvironmentError, match="MazeFO"):
        tw.train("bc", "turnwise/MaseFO-v0", out=out)
    with pytest.raises(ConfigError, match="unknown algorithm 'grop'; did you mean 'grpo'"):
        tw.train("grop", "turnwise/MazeFO-v0", out=out)
    with pytest.raises(ConfigError, match=r"there is no setting 'lr'; did you mean 'optimizer.lr'"):
        tw.train("bc", "turnwise/MazeFO-v0", out=out, lr=1)
    with pytest.raises(ConfigError, match="there is no configuration 'bc-mase'"):
        tw.train("bc", config="bc-mase", out=out)
    (tmp_path / "run0").mkdir()
    (tmp_path / "run0" / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"did you mean '.*run0/config\.json'"):
        tw.train("bc", config=str(tmp_path / "run0"), out=out)
    with pytest.raises(UsageError, match="set these in CloningConfig"):
        tw.train(cloning(out), steps=1)  # type: ignore[call-overload]
    assert not out.exists()


def test_settings_of_no_algorithm_here_are_refused() -> None:
    class Mine(TrainConfig):
        """Settings of a script outside of Turnwise."""

    with pytest.raises(UsageError, match="Mine belongs to no algorithm in Turnwise; call its own train function"):
        tw.train(Mine(env="turnwise/Maze-v0", out="runs/mine"))
    assert issubclass(CloningConfig, TrainConfig)


async def test_a_running_event_loop_is_refused_before_torch_is_needed() -> None:
    with pytest.raises(UsageError, match="cannot run inside an event loop"):
        tw.train("bc", "turnwise/MazeFO-v0")
