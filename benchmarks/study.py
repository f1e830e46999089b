"""The harness behind docs/results: one command reproduces a study, another writes its tables.

    python benchmarks/study.py maze-fo                        # sweep, then ten seeds of every learner
    python benchmarks/study.py maze-fo --learners bc,ppo,archer --seeds 5:10 --jobs 2
    python benchmarks/study.py report maze-fo                 # tables and curves into docs/results/maze-fo.md

A study is a file in ``benchmarks/studies``. Learning rates are swept with the same list for every learner, on seeds of
their own (100, 101, …); the best mean return decides; then the reported seeds run at that rate. A clone that does not
read, or that is too weak or too strong, is refused as a start (``study_start.py``). Every run is a process with one
thread. Ctrl-C lets each write a checkpoint; the same command resumes them. Every finished run has a line with
its curve in ``benchmarks/results/STUDY``, which is part of the repository. Reports are made from these lines alone, and
more seeds can be added on another machine.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import study_plan as plan
from study_clones import CLONE, WEIGHTS, weights_digest
from study_config import REPORT, Study, load_study
from study_data import play
from study_episodes import played_of
from study_plan import Job
from study_processes import INTERRUPTED, RunProcess
from study_ranks import learned, ranks_of
from study_report import PAGES, write_report
from study_rows import clipping_of, job_of, read_results, trace_of
from study_sequential import seeds_needed
from study_start import Start
from study_together import GROUPS, write_together
from study_values import explained_of

import turnwise
from turnwise.errors import TurnwiseError, UsageError
from turnwise.evals.curves import read_run

HERE = Path(__file__).resolve().parent
LINES = "results.jsonl"
"""One line per run."""
POLL = 0.2


@dataclass
class Running:
    """A run in its process."""

    job: Job
    process: RunProcess
    began: float


class Harness:
    """Runs what a study still needs, so many processes at a time.

    Args:
        study: study to run.
        root: the folder of its runs.
        results: the folder of their results.
        jobs: processes at a time.
        retry: whether to start runs again that failed before.
    """

    def __init__(self, study: Study, root: Path, results: Path, *, jobs: int = 2, retry: bool = False) -> None:
        self.study, self.root, self.jobs = study, root, jobs
        root.mkdir(parents=True, exist_ok=True)
        results.mkdir(parents=True, exist_ok=True)
        self.results = results / LINES
        self.measure_digest = measure_digest(study)
        self.outcomes: dict[Job, float | None] = {}
        self.faults: dict[Job, list[str]] = {}
        for line in read_results(self.results):
            known = line["measure"] == self.measure_digest and not (retry and line["return"] is None)
            if known and not self.is_lost(job_of(line)):
                self.keep(line)
        self.running: list[Running] = []

    def keep(self, line: Mapping[str, Any]) -> None:
        """Note the result of a run, and whether others may start from it."""
        self.outcomes[job_of(line)] = line["return"]
        if line.get("start"):
            self.faults[job_of(line)] = Start.model_validate(line["start"]).faults(self.study.start)

    def is_lost(self, job: Job) -> bool:
        """Whether others start from the model of a run, and it is not on this machine: then it is run again."""
        return job.learner in self.study.needed and not (self.root / job.folder / "run" / "model").exists()

    def run(self, learners: Sequence[str], seeds: Sequence[int]) -> int:
        """Run to the end; how many runs failed. Ctrl-C stops every process after its checkpoint.

        Raises:
            KeyboardInterrupt: after Ctrl-C, once all have stopped.
        """
        if any(map(self.study.reads_data, learners)):
            self.play_data()
        failed = 0
        try:
            while True:
                busy = {running.job for running in self.running}
                waiting = [job for job in self.ready(learners, seeds) if job not in busy]
                for job in waiting[: self.jobs - len(self.running)]:
                    self.start(job)
                if not self.running:
                    return failed
                failed += self.reap()
        except BaseException:  # otherwise this process would wait for the runs at its exit
            self.stop()
            raise

    def ready(self, learners: Sequence[str], seeds: Sequence[int]) -> list[Job]:
        """Return the runs that can start now; of learners whose comparisons are decided, no further seeds."""
        found: dict[Job, None] = {}
        for name in learners:
            needed = seeds_needed(self.study, name, self.outcomes)
            own = [seed for seed in seeds if needed is None or seed < needed]
            found |= dict.fromkeys(plan.ready(self.study, [name], own, self.outcomes))
        return list(found)

    def refuse_unfair(self, job: Job) -> None:
        """Refuse to train from a clone that cannot show a difference between learners.

        Raises:
            UsageError: the gate is closed; the message gives the reasons.
        """
        after = self.study[job.learner].after
        before = None if after is None else plan.reported(self.study, after, job.seed, self.outcomes)
        faults = self.faults.get(before, []) if before is not None else []
        if faults and self.study.start.gate:
            raise UsageError(
                f"{before} is not a fair start: {'; '.join(faults)}. Change its data or settings, or set "
                "gate = false under [start] in the study to run it nevertheless"
            )

    def play_data(self) -> float:
        """Play the offline data, if that has not been done; their mean return."""
        episodes = play(self.study, self.root)
        returns = [episode.total_reward for episode in episodes if episode.scored]
        about = {
            "episodes": len(returns),
            "return": sum(returns) / len(returns),
            "success": sum(episode.success for episode in episodes) / len(returns),
            "turns": sum(len(episode.turns) for episode in episodes) / len(returns),
        }
        (self.results.parent / "data.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        say(f"offline data: {about['episodes']} episodes, mean return {about['return']:.2f}")
        return about["return"]

    def start(self, job: Job) -> None:
        """Start a run, or resume one that was interrupted."""
        self.refuse_unfair(job)
        folder = self.root / job.folder
        folder.mkdir(parents=True, exist_ok=True)
        study = self.study
        measure = {
            "env": study.env,
            "env_kwargs": plan.with_files(study.env_kwargs, study, self.root),
            "n": study.measure.tasks,
            "splits": [study.measure.split],
            "levels": study.levels or [],
            "group_size": study.measure.attempts,
            "seed": plan.measuring_seed(study, job.seed),
            "concurrency": 256,
        }
        order = {
            "script": study[job.learner].script,
            "control": study[job.learner].control,
            "ranked": plan.is_ranked(study, job.learner),
            "words": plan.words(study, job, self.outcomes, root=self.root),
            "measure": measure,
            "measure_digest": self.measure_digest,
            "start": study.start.model_dump() if job.learner in study.starts else None,
        }
        (folder / "job.json").write_text(json.dumps(order, indent=1) + "\n", encoding="utf-8")
        (folder / "result.json").unlink(missing_ok=True)
        process = RunProcess(folder / "job.json", folder / "log.txt")
        self.running.append(Running(job, process, time.monotonic()))

    def reap(self) -> int:
        """Wait until a run finishes, and record its result; return how many failed."""
        while not (over := [running for running in self.running if running.process.poll() is not None]):
            time.sleep(POLL)
        failed = 0
        for running in over:
            self.running.remove(running)
            failed += self.note(running)
        return failed

    def note(self, running: Running) -> bool:
        """Append a finished run to the results; whether it failed. An interrupted one is not finished."""
        job, folder, code = running.job, self.root / running.job.folder, running.process.wait()
        if code == INTERRUPTED or code < 0:
            raise KeyboardInterrupt(f"{job} was stopped")
        line: dict[str, Any] = {
            "study": self.results.parent.name,
            "learner": job.learner,
            "digest": job.digest,
            "value": job.value,
            "seed": job.seed,
            "measure": self.measure_digest,
            "return": None,
        }
        if code == 0:
            line |= json.loads((folder / "result.json").read_text(encoding="utf-8"))
            run = learned(read_run(folder / "run"))
            clipped = clipping_of(run)
            line["episodes"] = sum(float(record.get("episodes") or 0) for record in run.records)
            line |= {"curve": trace_of(run, self.study.curve), "clipped": clipped and asdict(clipped)}
            line |= explained_of(run) | played_of(run) | self.clones(job)
            if ranks := ranks_of(run):
                line["ranks"] = [asdict(rank) for rank in ranks]
        else:
            line["error"] = last_line(folder / "log.txt")
        line["versions"] = versions()
        with self.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.keep(line)
        seconds = time.monotonic() - running.began
        outcome = f"FAILED: {line['error']}" if code else f"return {line['return']:.2f}, success {line['success']:.0%}"
        say(f"[{len(self.outcomes)} done] {job}: {outcome} ({seconds:.0f} s)")
        return code != 0

    def clones(self, job: Job) -> dict[str, str | None]:
        """Return the digests of the weights that a run started from, and of its own if others start from them."""
        found, after = {}, self.study[job.learner].after
        if job.learner in self.study.needed:
            found[WEIGHTS] = weights_digest(self.root / job.folder / "run" / "model")
        before = None if after is None else plan.reported(self.study, after, job.seed, self.outcomes)
        if before is not None:
            found[CLONE] = weights_digest(self.root / before.folder / "run" / "model")
        return found

    def stop(self) -> None:
        """Ask every run to write a checkpoint and end, and wait for them."""
        for running in self.running:
            running.process.interrupt()
        with contextlib.suppress(OSError):  # a full disk may be why
            say(f"stopping {len(self.running)} runs; each writes a checkpoint first")
        for running in self.running:
            running.process.wait()
        self.running.clear()


def measure_digest(study: Study) -> str:
    """Return a digest of the final measurement; a changed one is repeated without training again."""
    return hashlib.sha256(study.measure.model_dump_json().encode()).hexdigest()[:8]


def last_line(log: Path) -> str:
    """The last line that a process wrote."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def versions() -> dict[str, str]:
    """Return the versions behind the numbers."""
    from importlib.metadata import version

    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True, check=False
    )
    named = {name: version(name) for name in ("torch", "transformers", "numpy")}
    python = ".".join(map(str, sys.version_info[:3]))
    return {"turnwise": turnwise.__version__, "commit": described.stdout.strip() or "?", "python": python} | named


def write_reports(names: Sequence[str], results: Path, docs: Path) -> None:
    """Write the pages of these studies, and of several together; without names, of all that have lines.

    Raises:
        UsageError: a named study has no lines, or its lines were made by another version of it. Without names, its page
            stays.
    """
    chosen = names or [path.parent.name for path in sorted(results.glob(f"*/{LINES}"))]
    for name in chosen:
        folder = results / Path(name).stem
        if not (folder / LINES).exists():
            raise UsageError(f"there are no results of {name} in {folder}: run the study first")
        try:
            write_report(load_study(name), folder, read_results(folder / LINES), docs)
        except UsageError as error:
            if names:
                raise
            say(f"{name}: not written; {error}")
            continue
        say(f"{name}: {docs / PAGES / f'{folder.name}.md'}")
    needed = [name for names in GROUPS for name in names]
    if any(name in needed for name in chosen) and all((results / name / LINES).exists() for name in needed):
        write_together(results, docs)


def seed_range(text: str) -> range:
    """Read ``10`` or ``5:10``, with which several processes share the seeds.

    Raises:
        argparse.ArgumentTypeError: it is neither, or names no seed.
    """
    if (found := re.fullmatch(r"(?:(\d+):)?(\d+)", text)) and int(found[1] or 0) < int(found[2]):
        return range(int(found[1] or 0), int(found[2]))
    raise argparse.ArgumentTypeError(f"{text!r} names no seeds: write 10 for 0 … 9, or 5:10 for 5 … 9")


def say(text: str) -> None:
    """A line on the screen, at once."""
    print(time.strftime("%H:%M:%S"), text, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", help="a file of benchmarks/studies without .toml, a path of another one, or: report")
    parser.add_argument("studies", nargs="*", help="after report: which studies (all that have results)")
    parser.add_argument("--learners", help="with commas; all when omitted")
    parser.add_argument("--seeds", type=seed_range, default=range(10), help="N: seeds 0 … N−1; A:B: seeds A … B−1")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--out", type=Path, default=Path("runs/study"), help="the folder of all runs")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="the folder of what came of them")
    parser.add_argument("--docs", type=Path, default=HERE.parent / "docs", help="folder that report writes to")
    parser.add_argument("--retry", action="store_true", help="start runs again that failed before")
    words = parser.parse_args(argv)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # a scheduler's SIGTERM is Ctrl-C
    try:
        if words.study == REPORT:
            write_reports(words.studies, words.results, words.docs)
            return 0
        study = load_study(words.study)
        if study.sequential and words.seeds.start:
            raise UsageError(f"the comparisons of {words.study} are decided with all seeds: leave out --seeds A:B")
        learners = words.learners.split(",") if words.learners else [one.name for one in study.learner]
        name = Path(words.study).stem
        harness = Harness(study, words.out / name, words.results / name, jobs=words.jobs, retry=words.retry)
        failed = harness.run(learners, words.seeds)
        say(f"done: {len(harness.outcomes)} runs in {harness.results}, {failed} failed just now")
        return 1 if failed else 0
    except TurnwiseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stopped:
        print(f"{str(stopped) or 'stopped'}; the same command goes on", file=sys.stderr)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
