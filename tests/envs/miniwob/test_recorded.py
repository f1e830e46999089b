"""Pages of MiniWoB are recorded as other sites are, and judge alike."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from .around import call, opened

pytestmark = pytest.mark.slow


def ended(name: str, **kwargs: Any) -> tuple[str, float, bool, float]:
    with opened("click-test-2", seed=3, reward="raw", **kwargs) as env:
        observation, reward, terminated, _, info = env.step(call(env, ["click", name]))
        return observation.text, reward, terminated, info["raw_reward"]


@pytest.mark.parametrize("name", ["ONE", "TWO"])
def test_a_page_judges_alike_recorded_or_not(tmp_path: Path, name: str) -> None:
    plain = ended(name)
    assert ended(name, record=tmp_path / "pictures") == plain
    assert ended(name, record=tmp_path / "traces", trace=True) == plain
    for into in ("pictures", "traces"):
        (folder,) = [one for one in (tmp_path / into).iterdir() if one.is_dir()]
        first, second, end = map(json.loads, (folder / "turns.jsonl").read_text().splitlines())
        assert "Task: Click button ONE." in first["told"]
        assert second["picture"] == "001.png"
        assert (folder / "001.png").read_bytes().startswith(b"\x89PNG")
        assert end["note"] == ("solved" if name == "ONE" else "not solved")
    with zipfile.ZipFile(folder / "trace.zip") as trace:
        assert "turn 1: click(" in trace.read("trace.trace").decode()
