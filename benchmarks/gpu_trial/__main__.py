"""Run the parts of the trial, each in a process with a time limit of its own, and write the report."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from wheels import collect

HERE = Path(__file__).resolve().parent
PARTS = {"correctness": 5.0, "speed": 7.5, "serving": 10.0, "learning": 7.0, "peer": 5.0}
"""Parts in the order of their value, with their time limits in minutes."""


def main() -> int:
    """Return 1 if a check failed, 2 if there is no GPU to try."""
    parser = argparse.ArgumentParser(prog="gpu-trial", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/gpu-trial"), help="folder of lines and report")
    parser.add_argument("--parts", default=",".join(PARTS), help="parts to run, with commas (default: all)")
    parser.add_argument("--minutes", type=float, help="time limit of each part, instead of its own")
    parser.add_argument("--plan", action="store_true", help="run everything at nano shapes on the CPU: is it ready?")
    parser.add_argument("--wheels", type=Path, help="collect wheels for a machine without an index there, and end")
    words = parser.parse_args()
    if words.wheels is not None:
        return collect(words.wheels)
    chosen = words.parts.split(",")
    if unknown := [part for part in chosen if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; choose from {', '.join(PARTS)}")
    import torch  # here and below: imports take seconds, and a refusal should not

    if not words.plan and not torch.cuda.is_available():
        print("gpu-trial: torch sees no GPU here; --plan runs the parts at nano shapes on the CPU", file=sys.stderr)
        return 2
    from trial import LINES, lines_of, write_report

    print(f"lines: {LINES}", flush=True)
    words.out.mkdir(parents=True, exist_ok=True)
    for part in chosen:
        _run(part, words.out, plan=words.plan, minutes=words.minutes or PARTS[part])
    found = lines_of(words.out)
    report = write_report(words.out, found)
    failed = [line for line in found if not line["ok"]]
    print(f"{len(found)} checks, {len(failed)} failed: {report}")
    return 1 if failed else 0


def _run(part: str, out: Path, *, plan: bool, minutes: float) -> None:
    """Run one part; its failure or time limit is a line, and the next part runs all the same."""
    from trial import Trial

    command = [sys.executable, "-W", "ignore", str(HERE / f"{part}.py"), str(out), *(["--plan"] if plan else [])]
    print(f"{part} (at most {minutes:g} min)", flush=True)
    log = out / f"{part}.log"
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(60 * minutes)
        except subprocess.TimeoutExpired:
            Trial(out, part, plan=plan).line("time limit", ok=False, note=f"stopped after {minutes:g} min; see {log}")
            return
        finally:
            with contextlib.suppress(ProcessLookupError):  # what the part started must not hold the GPU of the next
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code:
        Trial(out, part, plan=plan).line("process", ok=False, note=f"exit code {code}; see {log}")


if __name__ == "__main__":
    sys.exit(main())
