"""Whether learners still read when they have learned: their models, with the answers of their own task and of another.

    python benchmarks/study_reading.py limits --learners bc,ppo --out runs/study

The measurement is that of a study's start (``study_start.py``). It needs the models, so the folder of the runs; its
lines go to ``reading.jsonl`` beside the study's results, and ``study.py report`` makes a table of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from study_config import Study, load_study
from study_rows import Row, job_of, measured_run, read_lines, read_results, table_rows
from study_statistics import over_seeds, spread

from turnwise.errors import TurnwiseError

LINES = "reading.jsonl"
READING = (
    "What reading adds to the return after training: a model plays with the answers of its own task, and blind, with "
    "those that its actions would get in another one. Intervals are over seeds, each measured over tasks. What a "
    "learner does not reach beyond the clone at a lower temperature is sharpening."
)
"""Text before the table."""


def reading_table(rows: Sequence[Row], lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line per learner whose models were measured: success with its own and with other answers, and the gain."""
    table = [
        "| learner | seeds | success | at T = 0.5 (95 %) | at T = 0 (95 %) | blind | reading adds (95 %) |",
        "|---|---|---|---|---|---|---|",
    ]
    by_run = {measured_run(line): line for line in lines}
    for row in rows:
        if found := [by_run[run] for line in row.lines if (run := measured_run(line)) in by_run]:
            own, warm, cold, blind = (
                over_seeds([one["plays"][who]["success"] for one in found], 0, 1)
                for who in ("T=1", "T=0.5", "T=0", "blind")
            )
            gain = spread(over_seeds([one["reads"] for one in found]), 2)
            table.append(
                f"| {row.name} | {len(found)} | {own.value:.0%} | {spread(warm, 2)} | {spread(cold, 2)} "
                f"| {blind.value:.0%} | {gain} |"
            )
    return table if len(table) > 2 else []


def measure(study: Study, learners: Sequence[str], results: Path, out: Path) -> int:
    """Measure every finished run of these learners that has no line yet; return how many have no model here."""
    from study_worker import measured_start  # reports need no PyTorch

    done = {measured_run(line) for line in read_lines(results / LINES)}
    absent = 0
    for row in table_rows(study, read_results(results / "results.jsonl")):
        for line in row.lines if row.name in learners else ():
            job = job_of(line)
            folder = out / job.folder
            if measured_run(line) in done:
                continue
            if not (folder / "run" / "model").is_dir():
                absent += 1
                continue
            order = json.loads((folder / "job.json").read_text(encoding="utf-8"))
            start = measured_start(order | {"start": study.start.model_dump()}, folder / "run" / "model")
            found = asdict(job) | {"measure": line["measure"]} | start.model_dump()
            with (results / LINES).open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
            print(f"{job}: reading adds {start.reads:.2f} ({start.low:.2f} … {start.high:.2f})", flush=True)
    return absent


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", help="a file of benchmarks/studies without .toml")
    parser.add_argument("--learners", help="with commas; all when omitted")
    parser.add_argument("--out", type=Path, default=Path("runs/study"), help="the folder of all runs")
    parser.add_argument("--results", type=Path, default=here / "results", help="the folder of what came of them")
    words = parser.parse_args(argv)
    try:
        study, name = load_study(words.study), Path(words.study).stem
        learners = words.learners.split(",") if words.learners else [one.name for one in study.learner]
        for learner in learners:
            _ = study[learner]  # an unknown one is an error before anything plays
        absent = measure(study, learners, words.results / name, words.out / name)
    except TurnwiseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if absent:
        print(f"{absent} runs have no model in {words.out}: train them there again, or name its folder with --out")
    return 1 if absent else 0


if __name__ == "__main__":
    sys.exit(main())
