"""Time the import of Turnwise, of each facade, and of packages to compare with, each in a fresh process.

Rounds alternate between the modules, so that other work on the machine slows down all of them alike: compare the
ratios, and the milliseconds only on an idle machine.

python benchmarks/import_time.py --repeat 21
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

FACADES = ("agents", "envs", "evals", "inference", "rollouts", "sandboxes", "service", "tasks", "trainers")
USUAL = "asyncio, json, pydantic"
"""Packages that a program of this kind imports anyway."""
MODULES = (USUAL, "numpy", "gymnasium", "turnwise", *(f"turnwise.{facade}" for facade in FACADES))
CODE = """
import time
wall, cpu = time.perf_counter(), time.process_time()
import {modules}
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def seconds(modules: str) -> tuple[float, float]:
    """Return the wall-clock and processor seconds of one import in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(modules=modules)], capture_output=True, text=True, check=True
    )
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--repeat", type=int, default=11, help="imports of each module (default: 11)")
    repeat = words.parse_args().repeat
    for modules in MODULES:  # reads the files once, and compiles what is not compiled yet
        seconds(modules)
    measured = [{modules: seconds(modules) for modules in MODULES} for _ in range(repeat)]
    print(f"{'import':26} {'median':>8} {'fastest':>8} {'processor':>10}   ratio to `import {USUAL}`")
    for modules in MODULES:
        wall, cpu = zip(*(row[modules] for row in measured), strict=True)
        ratio = statistics.median(row[modules][0] / row[USUAL][0] for row in measured)
        times = [1000 * statistics.median(wall), 1000 * min(wall), 1000 * statistics.median(cpu)]
        print(f"{modules:26} {times[0]:5.0f} ms {times[1]:5.0f} ms {times[2]:7.0f} ms   {ratio:.2f}")


if __name__ == "__main__":
    main()
