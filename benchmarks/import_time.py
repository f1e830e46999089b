"""Time the import of Turnwise, of each facade, and of Gymnasium alone, each in a fresh process.

python benchmarks/import_time.py --repeat 20
"""

from __future__ import annotations

import argparse
import subprocess
import sys

FACADES = ("agents", "envs", "evals", "inference", "rollouts", "sandboxes", "service", "tasks", "trainers")
CODE = """
import time
wall, cpu = time.perf_counter(), time.process_time()
import {module}
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def seconds(module: str) -> tuple[float, float]:
    """Return the wall-clock and processor seconds of one import in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(module=module)], capture_output=True, text=True, check=True
    )
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--repeat", type=int, default=10, help="imports of each module; the fastest counts")
    repeat = words.parse_args().repeat
    for module in ("numpy", "gymnasium", "turnwise", *(f"turnwise.{facade}" for facade in FACADES)):
        walls, cpus = zip(*(seconds(module) for _ in range(repeat)), strict=True)
        print(f"{module:20} {1000 * min(walls):6.0f} ms  processor {1000 * min(cpus):6.0f} ms")


if __name__ == "__main__":
    main()
