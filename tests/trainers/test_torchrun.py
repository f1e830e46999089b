"""``torchrun``, as a command: two processes of a shipped trainer learn what one does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from .test_processes import models, numbers, settings, train_one

__all__ = ["models"]  # a fixture


def torchrun(words: Sequence[str]) -> None:
    """Run a module in two processes; ``--standalone`` finds a free port."""
    command = [str(Path(sys.executable).with_name("torchrun")), "--standalone", "--nproc-per-node", "2", "-m", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "module"), [("loop", "loop"), pytest.param("ppo", "on_policy", marks=pytest.mark.shift)]
)
def test_the_command_learns_what_one_process_does(name: str, module: str, tmp_path: Path, models: Path) -> None:
    both = settings(name, tmp_path / "two", models, steps=2)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"algorithm": name, "config": both.model_dump(mode="json")}))
    torchrun([f"turnwise.trainers.{module}", "--config", str(file)])
    train_one((name, settings(name, tmp_path / "one", models, steps=2)))
    one, two = (numbers(tmp_path / each / name) for each in ("one", "two"))
    assert [line["step"] for line in one] == [line["step"] for line in two]
    assert any("grad_norm" in line for line in one), "the policy learned"
    for first, second in zip(one, two, strict=True):
        for metric in {"loss", "grad_norm", "value_loss", "return", "tokens"} & first.keys():
            assert second[metric] == pytest.approx(first[metric], rel=1e-5, abs=1e-5), f"{metric}, {first['step']}"
