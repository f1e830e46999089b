"""Measure counting work: wall time of the instrumented solutions of the efficiency tasks, beside another commit's.

    python benchmarks/work_meter.py [--before COMMIT] [--repeat N]

Each tree runs in processes of its own, in turn; of each template the fastest of all runs counts. "Plain" is the same
solution without counting.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN = """
import copy, json, time
import turnwise as tw
from turnwise.tasks.code.efficiency.family import filled, measured, module_of, run
from turnwise.tasks.code.efficiency.templates import TEMPLATES
seconds = {}
for name, template in TEMPLATES.items():
    function = filled(template, tw.Rng(name))
    source = module_of([template.head], [function.fast])
    plain = run(source)[function.name]
    arguments = template.make(tw.Rng("large"), 4 * template.sizes[1], function.constant)
    times = []
    for call in (plain, lambda *given: measured(source, function.name, given)):
        call(*copy.deepcopy(arguments))
        taken = []
        for _ in range(5):
            given = copy.deepcopy(arguments)
            began = time.perf_counter()
            call(*given)
            taken.append(time.perf_counter() - began)
        times.append(min(taken))
    seconds[name] = times
print(json.dumps(seconds))
"""


def timed(source: Path) -> dict[str, list[float]]:
    """Seconds of each template in a tree: plain, and counted."""
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(source / "src")}, capture_output=True, check=True
    )
    return dict(json.loads(done.stdout))


def fastest(runs: list[dict[str, list[float]]]) -> dict[str, list[float]]:
    """The least seconds of each template."""
    return {name: [min(run[name][kind] for run in runs) for kind in (0, 1)] for name in runs[0]}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default="HEAD", help="the commit to compare with")
    parser.add_argument("--repeat", type=int, default=3, help="processes for each tree")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", options.before], capture_output=True, check=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            packed.extractall(folder, filter="data")
        runs = [(timed(Path(folder)), timed(ROOT)) for _ in range(options.repeat)]
    before, after = (fastest([run[index] for run in runs]) for index in (0, 1))
    print(f"{'template':16}{'plain ms':>10}{'before ms':>11}{'after ms':>10}{'after/before':>14}")
    for name in after:
        (plain, counted), old = after[name], before[name][1]
        print(f"{name:16}{1e3 * plain:10.2f}{1e3 * old:11.2f}{1e3 * counted:10.2f}{counted / old:14.2f}")
    total = sum(times[1] for times in after.values()) / sum(times[1] for times in before.values())
    print(f"{'together':16}{total:45.2f}")


if __name__ == "__main__":
    main()
