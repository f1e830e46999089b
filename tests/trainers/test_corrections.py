"""The correction for a sampler that differs from the learner: on where it can differ, off where it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnwise.trainers.options import configured

from . import small

BASICS = ["env=turnwise/MazeU-v0", "model=somewhere"]
OVERLAP, SERVER = "overlap.enabled=true", 'server.urls=["http://127.0.0.1:1"]'


@pytest.mark.parametrize("word", ["loop", "reinforce", "grpo", "ppo"])
@pytest.mark.parametrize("differs", [OVERLAP, SERVER])
def test_a_sampler_that_may_differ_is_corrected_for(word: str, differs: str) -> None:
    assert configured(word, None, [*BASICS, differs]).plan().correction == "tis"


@pytest.mark.parametrize("word", ["loop", "grpo", "ppo", "archer", "self-play"])
def test_a_sampler_that_shares_the_learners_model_is_not(word: str) -> None:
    words = BASICS if word != "self-play" else ["model=somewhere"]
    assert configured(word, None, words).plan().correction == "none"


def test_archers_fresh_utterances_come_from_servers_too() -> None:
    assert configured("archer", None, [*BASICS, SERVER]).plan().correction == "tis"
    configured("archer", None, [*BASICS, SERVER, "mode=offline", "actor=awr", "critic=iql"])


@pytest.mark.parametrize(("word", "setting"), [("loop", "is_mode"), ("grpo", "loss.is_mode")])
@pytest.mark.parametrize("chosen", ["none", "mis"])
def test_a_setting_of_your_own_stays(word: str, setting: str, chosen: str) -> None:
    assert configured(word, None, [*BASICS, OVERLAP, f"{setting}={chosen}"]).plan().correction == chosen


@pytest.mark.slow
def test_a_run_prints_and_stores_it(cloned: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = small.looping(
        tmp_path / "run", cloned / "model", steps=1, eval={"episodes": 0}, overlap={"enabled": True, "max_staleness": 0}
    )
    small.run(config)
    assert "is_mode = tis" in caplog.text
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    assert stored["config"]["is_mode"] == "tis"


@pytest.mark.slow
def test_a_run_that_moves_to_servers_may_be_resumed(cloned: Path, tmp_path: Path) -> None:
    small.run(small.looping(tmp_path / "run", cloned / "model", steps=1, eval={"episodes": 0}))
    moved = small.looping(tmp_path / "run", cloned / "model", steps=1, eval={"episodes": 0}, resume=True, is_mode="tis")
    small.run(moved)
