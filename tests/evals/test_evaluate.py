"""``turnwise.evaluate``: the folder, settings and errors of ``turnwise eval``, from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import turnwise as tw
from turnwise.agents import OracleAgent
from turnwise.errors import ConfigError, StoreError, UnknownEnvironmentError, UsageError
from turnwise.evals import Summary
from turnwise.evals.evaluate import agent_of
from turnwise.evals.settings import EvalConfig

from .test_evaluation import OneDoor


def test_an_id_and_a_policys_name_suffice(tmp_path: Path) -> None:
    summary = tw.evaluate("turnwise/MazeFO-v0", "oracle", n=3, out=tmp_path)
    assert (summary.success.value, summary.episodes, summary.policy) == (1.0, 3, "oracle")
    assert Summary.load(tmp_path / "summary.json") == summary, "`turnwise report` and `compare` read this folder"
    assert len(tw.load_episodes(tmp_path / "episodes")) == 3


def test_classes_and_agents_are_taken_as_they_are(tmp_path: Path) -> None:
    agent = OracleAgent()
    summary = tw.evaluate(OneDoor, agent, n=4, splits="test_iid", levels=2, group_size=2, out=tmp_path)
    assert (summary.success.value, summary.episodes, summary.tasks, summary.policy) == (1.0, 8, 4, "OracleAgent")
    assert {episode.task.level for episode in tw.load_episodes(tmp_path / "episodes")} == {2}


def test_an_evaluation_is_continued_or_replaced_only_on_request(tmp_path: Path) -> None:
    tw.evaluate(OneDoor, "oracle", n=2, out=tmp_path)
    with pytest.raises(StoreError, match="already has 2 episodes"):
        tw.evaluate(OneDoor, "oracle", n=4, out=tmp_path)
    assert tw.evaluate(OneDoor, "oracle", n=4, out=tmp_path, resume=True).episodes == 4
    assert tw.evaluate(OneDoor, "oracle", n=2, out=tmp_path, overwrite=True).episodes == 2


async def test_inside_an_event_loop(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"await evaluate_async\(\)"):
        tw.evaluate(OneDoor, "oracle", n=2, out=tmp_path)
    summary = await tw.evaluate_async(OneDoor, "oracle", n=2, out=tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["episodes"] == summary.episodes == 2


def test_wrong_words_are_refused_before_anything_is_played(tmp_path: Path) -> None:
    with pytest.raises(UnknownEnvironmentError, match="MazeFO"):
        tw.evaluate("turnwise/MaseFO-v0", "oracle", out=tmp_path / "run")
    with pytest.raises(UsageError, match=r"there is no policy .orakel."):
        tw.evaluate(OneDoor, "orakel", out=tmp_path / "run")
    with pytest.raises(ConfigError, match=r"there is no setting 'temprature'; did you mean 'temperature'\?"):
        tw.evaluate(OneDoor, "oracle", out=tmp_path / "run", temprature=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"setting 'n' must be greater than or equal to 1; got 0"):
        tw.evaluate(OneDoor, "oracle", out=tmp_path / "run", n=0)
    with pytest.raises(UsageError, match="programs need a language model"):
        tw.evaluate(OneDoor, OracleAgent(), out=tmp_path / "run", program="true")
    with pytest.raises(UsageError, match=r"policy must be .*; got <function .*FunctionAgent\(function\)"):
        tw.evaluate(OneDoor, lambda text: "push", out=tmp_path / "run")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"policy must be .*; got <class .*OracleAgent"):
        tw.evaluate(OneDoor, OracleAgent, out=tmp_path / "run")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"env must be an id, .*; got <"):
        tw.evaluate(OneDoor(), "oracle", out=tmp_path / "run")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"compare.. takes episodes, not folders"):
        tw.compare("runs/a", "runs/b")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^temperature has no effect on an agent object"):
        tw.evaluate(OneDoor, OracleAgent(), out=tmp_path / "run", temperature=0.0)
    with pytest.raises(UsageError, match=r"^agent has no effect on an agent object"):
        tw.evaluate(OneDoor, OracleAgent(), out=tmp_path / "run", agent={"context": "last:1"})
    with pytest.raises(UsageError, match="out must be a folder to write to, a str or a Path; got None"):
        tw.evaluate(OneDoor, "oracle", out=None)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_a_script_is_the_agent_that_its_name_says() -> None:
    assert isinstance(agent_of(EvalConfig(env="turnwise/Maze-v0", policy="oracle"), Path("runs")), OracleAgent)
