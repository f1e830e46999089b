from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.config import Config
from turnwise.envs.named import environment
from turnwise.errors import CheckpointError, UsageError
from turnwise.trainers.run.run_folder import RunFolder, differences
from turnwise.trainers.run.settings import TrainConfig
from turnwise.trainers.run.sources import changed, sources


class Inner(Config):
    lr: float = 0.1


class Settings(TrainConfig):
    env: str = "a"
    out: str = "r"
    steps: int = 1
    inner: Inner = Inner()


def started(path: Path, settings: Config | None = None) -> RunFolder:
    path.mkdir(exist_ok=True)
    folder = RunFolder(path, "loop")
    folder.begin(settings or Settings())
    (path / "metrics.jsonl").write_text('{"step": 0}\n')
    return folder


def test_a_folder_with_a_run_in_it_is_not_overwritten(tmp_path: Path) -> None:
    started(tmp_path / "r")
    with pytest.raises(UsageError, match="--resume, or choose another --out"):
        RunFolder(tmp_path / "r", "loop").begin(Settings())


def test_a_run_that_died_before_it_began_is_begun_anew(tmp_path: Path) -> None:
    RunFolder(tmp_path, "loop").begin(Settings())
    RunFolder(tmp_path, "loop").begin(Settings(env="b"))


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("")
    with pytest.raises(UsageError, match="it is a file"), RunFolder(tmp_path / "r", "loop").lock():
        pass


def test_two_cannot_train_in_one_folder(tmp_path: Path) -> None:
    one, other = RunFolder(tmp_path / "r", "loop"), RunFolder(tmp_path / "r", "loop")
    with one.lock(), pytest.raises(UsageError, match="another process is training"), other.lock():
        pass
    with other.lock():
        pass


def test_what_changed_is_named_field_by_field(tmp_path: Path) -> None:
    folder = started(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        folder.resume(Settings(env="b", steps=9, inner=Inner(lr=0.2)), may_change=["steps"])
    assert "env was 'a', now 'b'; inner.lr was 0.1, now 0.2." in str(caught.value)
    assert "steps" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_may_change_does_and_is_recorded(tmp_path: Path) -> None:
    folder = started(tmp_path)
    assert folder.resume(Settings(steps=9), may_change=["steps"]) is None, "it had not come to its first checkpoint"
    assert folder.resume(Settings(steps=9), may_change=[]) is None


@pytest.mark.parametrize("trace", ["a later step", "the model"])
def test_a_run_that_lost_its_checkpoints_is_not_begun_anew(tmp_path: Path, trace: str) -> None:
    folder = started(tmp_path, Settings(checkpoint_every=5))
    folder.metrics.write_text('{"step": 5}\n')
    assert folder.resume(Settings(checkpoint_every=5), may_change=[]) is None, "killed before its first was written"
    if trace == "the model":
        folder.model.mkdir()
    else:
        folder.metrics.write_text('{"step": 5}\n{"step": 6}\n')
    before = folder.metrics.read_text()
    with pytest.raises(CheckpointError, match=r"\d training steps, but its checkpoints are missing from .*checkpoints"):
        folder.resume(Settings(checkpoint_every=100), may_change=["checkpoint_every"])
    assert folder.metrics.read_text() == before, "and nothing of it is lost"


def test_a_refusal_leaves_the_settings_as_they_were(tmp_path: Path) -> None:
    folder = started(tmp_path, Settings(steps=2))
    folder.checkpoints.save(2, write_model=Path.mkdir, progress={}, tensors={})
    before = (tmp_path / "config.json").read_text()
    with pytest.raises(UsageError, match="trained for 2 steps already, more than steps=1"):
        folder.resume(Settings(steps=1), may_change=["steps"])
    assert (tmp_path / "config.json").read_text() == before


def test_a_resumed_run_keeps_the_command_that_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report names it, and it has the settings; the resuming one has none."""
    monkeypatch.setattr("sys.argv", ["turnwise", "train", "loop", "steps=1"])
    folder = started(tmp_path / "r")
    for _ in range(2):
        monkeypatch.setattr("sys.argv", ["turnwise", "train", "loop", "--resume"])
        folder.resume(Settings(), may_change=())
        kept = json.loads((tmp_path / "r" / "config.json").read_text())
        assert kept["made"]["command"].endswith("train loop steps=1")
        assert kept["resumed"]["command"].endswith("train loop --resume")


def test_changed_source_is_told_when_steps_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "my_rule.py").write_text("class Rule: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "my_rule", importlib.import_module("my_rule"))
    folder = RunFolder(tmp_path / "r", "my_rule:Rule")
    with folder.lock():
        folder.begin(Settings(steps=2))
    folder.checkpoints.save(1, write_model=Path.mkdir, progress={}, tensors={})
    folder.resume(Settings(steps=2), may_change=())
    assert not caplog.messages, "the source is as it was"
    (tmp_path / "my_rule.py").write_text("class Rule: bound = 2\n")
    folder.resume(Settings(steps=2), may_change=())
    (told,) = caplog.messages
    assert told.startswith(
        "the source of the algorithm my_rule:Rule has changed since this run was started: steps after 1"
    )
    folder.resume(Settings(steps=2), may_change=())
    assert len(caplog.messages) == 1, "the new source is on record now"


def test_the_source_of_an_environment_counts_unless_its_id_fixes_it(tmp_path: Path) -> None:
    (tmp_path / "digested_env.py").write_text(
        "import turnwise as tw\n\n\nclass Mine(tw.TurnEnv): ...\n\n\ntw.register('digested/Mine-v0', Mine)\n"
    )
    environment(str(tmp_path / "digested_env.py"))
    assert list(sources({"env": "digested/Mine-v0"}, "loop")) == ["the environment digested/Mine-v0"]
    assert sources({"env": "turnwise/Maze-v0"}, "loop") == {}
    assert sources({"env": "openenv://host:8000"}, "loop") == {}
    assert changed(None, {"the environment x": "1"}, 3) == "", "a run of an earlier version recorded none"


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no run in"):
        RunFolder(tmp_path / "r", "loop").resume(Settings(), may_change=[])


def test_a_run_of_another_algorithm_is_refused(tmp_path: Path) -> None:
    started(tmp_path)
    with pytest.raises(CheckpointError, match="holds a run of 'loop', not 'bc'"):
        RunFolder(tmp_path, "bc").resume(Settings(), may_change=[])


def test_an_unreadable_config_is_one_line(tmp_path: Path) -> None:
    started(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json cannot be read"):
        RunFolder(tmp_path, "loop").resume(Settings(), may_change=[])


trees = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda t: st.dictionaries(st.text("abc", min_size=1, max_size=2), t, max_size=3),
)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=2), trees, max_size=3))
def test_a_configuration_does_not_differ_from_itself(tree: dict[str, object]) -> None:
    assert differences(tree, tree, ()) == []
    assert len(differences(tree, {**tree, "new": 1}, ())) == 1
    assert differences(tree, {**tree, "new": 1}, ("new",)) == []
