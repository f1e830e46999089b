"""Whether the trainers learn on this device what they learn on a CPU: shipped configurations at nano scale."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from trial import Trial, start

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
RUNS = {
    "clone": ("behavior_cloning", "bc-maze", ["steps=60"]),
    "LOOP": ("loop", "loop-maze", ["steps=20"]),
    "PPO": ("on_policy", "ppo-maze", ["steps=20"]),
    "ArCHer": ("archer", "archer-maze-fo", ["steps=14"]),
}
"""Script, configuration and settings of each run; all but the first start from the clone."""
SMALL = {
    "clone": [],
    "LOOP": ["tasks_per_step=1", "group_size=2"],
    "PPO": ["tasks_per_step=2", "minibatch=1"],
    "ArCHer": ["warmup=0", "episodes_per_step=2", "critic_steps=1", "actor_steps=1"],
}
"""Settings of each run that only has to run."""


def run(trial: Trial, name: str) -> dict[str, Any]:
    """Train, and return the first and last evaluation."""
    script, config, settings = RUNS[name]
    folder = trial.out / "runs" / name
    words = [f"out={folder}", f"device={trial.device}", "progress=false", "tracking.to=[]", "eval.every=0"]
    if name != "clone":
        words.append(f"model={trial.out / 'runs' / 'clone' / 'model'}")
    if trial.plan:
        settings = ["steps=1", "eval.episodes=1", *SMALL[name]]
    began = time.perf_counter()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            f"turnwise.trainers.{script}",
            "--config",
            str(CONFIGS / f"{config}.toml"),
            *settings,
            *words,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    (trial.out / f"learning-{name}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    seconds = time.perf_counter() - began
    evaluations = [line for line in _lines(folder) if "eval/success" in line]
    found: dict[str, Any] = {"ok": done.returncode == 0, "wall_seconds": seconds, "code": done.returncode}
    if evaluations:
        found |= {"first": evaluations[0]["eval/success"], "last": evaluations[-1]["eval/success"]}
    return found


def _lines(folder: Path) -> list[dict[str, Any]]:
    file = folder / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def main() -> None:
    """Clone first: the others start from it, side by side, since none of them fills a GPU."""
    trial = start("learning")
    first, *others = RUNS
    trial.check(first, partial(run, trial, first))
    with ThreadPoolExecutor() as pool:
        for name in others:
            pool.submit(trial.check, name, partial(run, trial, name))


if __name__ == "__main__":
    main()
