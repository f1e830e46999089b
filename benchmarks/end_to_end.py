"""Check that training over vLLM reaches the return of training in one process, and measure where the time goes.

LOOP and ArCHer on LMRL-Gym's fully observed maze, from the same weak clone, with the same settings, seeds and numbers
of episodes. One side samples in the trainer's own process and alternates with learning. The others sample from a real
vLLM server, which gets new weights after every update: LOOP alternating, LOOP overlapped (staleness of one version,
truncated importance sampling), ArCHer alternating with fresh utterances from the server. The trained models are
measured in process, on the same tasks with the same luck. Intervals are 95 % Student intervals over seeds; differences
are within a seed.

One server serves all runs, one after the other. Everything is kept in ``--out``, and the same command resumes the
measurement. Run it in the environment with vLLM:

    .venv-vllm/bin/python benchmarks/end_to_end.py --out DIR [--seeds 5] [--sides loop loop-overlap] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kept import note_settings, shown, trained
from rich.console import Console
from rich.table import Table

from turnwise.agents.named import agent_from
from turnwise.errors import UsageError
from turnwise.evals.evaluation import run_evaluation
from turnwise.evals.settings import EvalConfig
from turnwise.evals.statistics import student
from turnwise.inference.serving.launch.process import FILES, ServerOptions, VllmProcess
from turnwise.tasks.spec import Split
from turnwise.trainers.run.metrics import read_metrics

ENV = "turnwise/MazeFO-v0"
PARTS = ("collect", "learn", "sync", "fresh")
"""Parts of a step's seconds; overlapped, ``collect`` is the time that the learner waited for episodes. ``fresh``, the
time that ArCHer waited for utterances, is a part of ``learn``."""


@dataclass(frozen=True)
class Side:
    """An algorithm, and where it samples.

    Args:
        word: name of the algorithm for ``turnwise train``.
        config: name of a shipped configuration.
        beside: side to compare it with; its own name if it samples in process.
        words: further settings.
    """

    word: str
    config: str
    beside: str
    words: tuple[str, ...] = ()

    @property
    def served(self) -> bool:
        """Whether a server samples."""
        return any(word.startswith("server.") for word in self.words)


def sides(url: str, loop_steps: int, archer_steps: int) -> dict[str, Side]:
    """All sides by name, with a server at an address."""
    looping = (f"steps={loop_steps}", "tasks_per_step=5", "group_size=5", "minibatch=25")
    archer = (f"steps={archer_steps}", "batch=128", "actor_steps=6", "utterances=2")  # a quarter of the file's requests
    server = (f'server.urls=["{url}"]',)
    overlap = ("overlap.enabled=true", "overlap.max_staleness=1", "is_mode=tis")
    return {
        "loop": Side("loop", "loop-maze", "loop", looping),
        "loop-served": Side("loop", "loop-maze", "loop", looping + server),
        "loop-overlap": Side("loop", "loop-maze", "loop", looping + server + overlap),
        "archer": Side("archer", "archer-maze-fo", "archer", archer),
        "archer-served": Side("archer", "archer-maze-fo", "archer", archer + server),
    }


@dataclass(frozen=True)
class Ran:
    """One side's run with one seed.

    Args:
        side: name of the side.
        value: mean return of the trained model.
        success: share of solved episodes.
        seconds: seconds of all training steps.
        parts: seconds of each part of these steps.
        mismatch: largest difference of a recorded log-probability and the learner's own, on-policy or not.
        gap: largest difference that a canary found.
        staleness: mean age of the trained tokens, in versions.
        spanning: share of actions with tokens of more than one version.
    """

    side: str
    seed: int
    value: float
    success: float
    seconds: float
    parts: Mapping[str, float]
    mismatch: float
    gap: float
    staleness: float
    spanning: float


def ran(name: str, side: Side, seed: int, start: Path, out: Path) -> Ran:
    """Train on one side with one seed and measure it, or read what was."""
    folder = out / f"{name}-{seed}"
    words = [f"model={start}", f"seed={seed}", "eval.every=0", "agent.context=last:1:bare", *side.words]
    model = trained(side.word, side.config, words, folder)
    value, success = measured(model, folder / "measured")
    lines = [line for line in read_metrics(folder / "metrics.jsonl") if "seconds/step" in line]
    parts = defaultdict[str, float](float)
    for line in lines:
        for part in PARTS:
            parts[part] += line.get(f"seconds/{part}") or 0.0

    def over(metric: str) -> list[float]:
        return [line.get(metric) or 0.0 for line in lines]

    return Ran(
        side=name,
        seed=seed,
        value=value,
        success=success,
        seconds=sum(over("seconds/step")),
        parts=dict(parts),
        mismatch=max(over("mismatch_max")),
        gap=max(over("sync/canary_gap_max")),
        staleness=statistics.mean(over("staleness_mean")),
        spanning=statistics.mean(over("overlap/spanning")),
    )


def measured(model: Path, store: Path) -> tuple[float, float]:
    """Mean return and success of a model, sampled in process: four episodes from each of the 25 starts."""
    config = EvalConfig(env=ENV, policy=str(model), splits=(Split.TRAIN,), n=25, group_size=4, seed=1000)
    summary = run_evaluation(
        config, agent_from(str(model), max_batch=256, seed=1000), store=store, resume=store.exists()
    )
    return summary.mean_return.value, summary.success.value


def table(runs: Sequence[Ran], chosen: Mapping[str, Side]) -> Table:
    """One line per side."""
    found = Table(title="the same training, sampled in process and by vLLM")
    columns = ("side", "return", "difference", "success", "seconds", *PARTS, "mismatch", "canary", "staleness")
    for column in columns:
        found.add_column(column, justify="left" if column == "side" else "right")
    by_name = {name: {run.seed: run for run in runs if run.side == name} for name in chosen}
    for name, side in chosen.items():
        mine, beside = by_name[name], by_name[side.beside]
        total = sum(run.seconds for run in mine.values())
        found.add_row(
            name,
            shown(student([run.value for run in mine.values()]), 1),
            shown(student([run.value - beside[seed].value for seed, run in mine.items()]), 1),
            f"{statistics.mean(run.success for run in mine.values()):.0%}",
            shown(student([run.seconds for run in mine.values()]), 0),
            *(f"{sum(run.parts[part] for run in mine.values()) / total:.0%}" for part in PARTS),
            f"{max(run.mismatch for run in mine.values()):.1e}",
            f"{max(run.gap for run in mine.values()):.1e}" if side.served else "–",
            f"{statistics.mean(run.staleness for run in mine.values()):.2f}",
        )
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table, and write the numbers if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sides", nargs="+", choices=list(sides("", 0, 0)), default=list(sides("", 0, 0)))
    parser.add_argument("--loop-steps", type=int, default=30)
    parser.add_argument("--archer-steps", type=int, default=25)
    parser.add_argument("--cloned", type=int, default=60, help="updates of the clone that all start from")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    settings = {name: getattr(arguments, name) for name in ("loop_steps", "archer_steps", "cloned")}
    try:
        note_settings(arguments.out, settings)
    except UsageError as error:
        parser.error(str(error))
    words = [f"env={ENV}", f"steps={arguments.cloned}", "agent.context=last:1:bare", "eval.episodes=0", "eval.every=0"]
    start = trained("bc", "bc-maze", words, arguments.out / "clone")
    runs = list[Ran]()
    with VllmProcess(
        start, ServerOptions(context_length=256, transfer=FILES), log=arguments.out / "server.log"
    ) as vllm:
        known = sides(vllm.url, arguments.loop_steps, arguments.archer_steps)
        wanted = {*arguments.sides, *(known[name].beside for name in arguments.sides)}
        chosen = {name: side for name, side in known.items() if name in wanted}
        for seed in range(arguments.seeds):
            for name, side in chosen.items():
                runs.append(ran(name, side, seed, start, arguments.out))
                print(f"{name}, seed {seed}: return {runs[-1].value:.2f}, {runs[-1].seconds:.0f} s", flush=True)
    console = Console(width=180)
    console.print(table(runs, chosen))
    console.print(f"the clone returns {measured(start, arguments.out / 'clone' / 'measured')[0]:.2f}")
    if arguments.json:
        found = {"settings": settings, "runs": [asdict(one) for one in runs]}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
