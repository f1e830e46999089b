"""One optimizer step beside TRL's ``GRPOTrainer`` on the same rows: ``benchmarks/train_step.py`` on this device."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from trial import Trial, start

SCRIPT = Path(__file__).resolve().parents[1] / "train_step.py"
RATIO, SIDE = re.compile(r"padded : trl\s+([\d.]+)"), re.compile(r"^\s+(padded|trl)\s+([\d.]+) tok/s", re.MULTILINE)
NAMES = {"padded": "turnwise", "trl": "trl"}


def compared(trial: Trial, *words: str) -> dict[str, Any]:
    """Compare speed, loss and gradient; without TRL, only Turnwise's side is measured."""
    python = os.environ.get("TRL_PYTHON") or (sys.executable if importlib.util.find_spec("trl") else "")
    command = [sys.executable, "-W", "ignore", str(SCRIPT), "--device", trial.device, *words]
    if trial.plan:
        command += ["--sizes", "0.1M", "--rows", "2", "--rounds", "1", "--steps", "1"]
    else:
        command += ["--sizes", "0.5B", "--dtype", "bfloat16", "--rows", "8", "--scale", "8", "--rounds", "4"]
        python = python or ""
    done = subprocess.run(
        [*command, *(["--trl-python", python] if python else [])], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    found: dict[str, Any] = {f"{NAMES[side]}_tokens_per_second": float(n) for side, n in SIDE.findall(done.stdout)}
    if ratio := RATIO.search(done.stdout):
        return found | {"ratio": float(ratio[1])}
    return found | {"note": "no TRL here: install it, or name an interpreter with it in TRL_PYTHON"}


def main() -> None:
    """Compare plainly, with our layers compiled, and with TRL's default, gradient checkpointing, on both sides."""
    trial = start("peer")
    trial.check("against TRL", partial(compared, trial))
    if not trial.plan:
        trial.check("against TRL, compiled", partial(compared, trial, "--options", '{"compiled": true}'))
        trial.check("against TRL, recomputation on both sides", partial(compared, trial, *RECOMPUTED))


RECOMPUTED = ("--checkpointing", "--options", '{"recompute": true}')


if __name__ == "__main__":
    main()
