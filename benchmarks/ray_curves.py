"""Compare learning curves of LOOP and ArCHer between the local engine and two workers on Ray, seed by seed.

    python benchmarks/ray_curves.py --out runs/ray-curves                      # LOOP with 5 seeds, ArCHer with 3
    python benchmarks/ray_curves.py --out runs/ray-curves --minutes 10         # as far as it gets; repeat to go on
    python benchmarks/ray_curves.py --out runs/ray-curves --report             # only what is there

``--runs quickstart`` trains with the quickstart's own configurations, with 5 seeds.

Both engines of a seed start from the same clone with the same settings, one after the other. A curve is the success of
the training episodes of each step; its area is the mean over the steps. Each finished run is a line in
``results/ray-curves/lines.jsonl``, and the same command resumes one that was interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from turnwise.evals.statistics import student
from turnwise.trainers.run.metrics import read_metrics

RESULTS = Path(__file__).parent / "results" / "ray-curves" / "lines.jsonl"
NODE = "127.0.0.2"
SEEDS = {"loop": 5, "archer": 3, "quickstart": 5}
ENGINES = ("local", "ray")
INTERRUPTED = (130, -signal.SIGTERM)
"""Exit codes of a run that was interrupted, the second one before it had started. It can be resumed."""
WINDOWS = 3
"""Parts of a curve that are compared one by one."""
SHARED: dict[str, Any] = {
    "agent.context": "last:1:bare",
    "agent.max_tokens": 4,
    "eval.every": 0,
    "threads": 1,
    "progress": False,
    "tracking.to": [],
}
ENVS: dict[str, dict[str, Any]] = {
    "loop": {"env": "turnwise/Maze-v0", "levels": [1], "eval.split": "dev"},
    "archer": {
        "env": "turnwise/MazeMedium-v0",
        "episodes.env_kwargs.rewards": "success",
        "episodes.env_kwargs.max_turns": 12,
        "eval.split": "train",
    },
}
"""Environment of both engines and of the clone that they start from, by algorithm."""
CLONING: dict[str, dict[str, Any]] = {
    "loop": {"steps": 150, "batch": 128, "demonstrations.count": 400, "demonstrations.skills": [0.35]},
    "archer": {
        "steps": 200,
        "batch": 64,
        "optimizer.lr": 5e-3,
        "optimizer.schedule": "linear",
        "optimizer.warmup": 10,
        "demonstrations.count": 500,
        "demonstrations.skills": [0.45, 0.55],
        "demonstrations.habits": 0.25,
    },
}
CLONE: dict[str, Any] = {"nano.size": "0.1M", "eval.episodes": 2}
TRAIN: dict[str, Any] = {"eval.episodes": 100, "keep_episodes": "none"}
OWN: dict[str, dict[str, Any]] = {
    "loop": {
        "steps": 18,
        "tasks_per_step": 12,
        "group_size": 8,
        "epsilon": 0.2,
        "epochs": 2,
        "minibatch": 48,
        "optimizer.lr": 1e-3,
        "episodes.env_kwargs.rewards": "success",
    },
    # As archer-demos of the study archer-medium: the critic learns from the demonstrations of the clone first.
    "archer": {
        "steps": 12,
        "episodes_per_step": 10,
        "critic_steps": 40,
        "actor_steps": 12,
        "batch": 128,
        "utterances": 4,
        "centered": "state",
        "warmup": 1,
        "fresh_per_state": 16,
        "merge_equal": True,
        "critic_pretraining.updates": 200,
        "critic_pretraining.critic": "iql",
        "critic_pretraining.keep": True,
        "agent.max_batch": 256,
        "episodes.concurrency": 256,
        "optimizer.lr": 1e-4,
        "critic_model.optimizer.lr": 1e-3,
    },
}


class TimeIsOverError(Exception):
    """Raised when the time ends while a run is under way, which can be resumed."""


def trained(algorithm: str, out: Path, settings: dict[str, Any], until: float, config: str = "") -> float:
    """Train a run, from where it was interrupted; return its seconds of processor time, without those of Ray.

    Args:
        algorithm: name of the algorithm.
        out: folder of the run.
        settings: its settings.
        until: time at which it is interrupted.
        config: configuration that they change; empty for ``SHARED``.

    Raises:
        TimeIsOverError: it was interrupted.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "turnwise", "train", algorithm, "--out", str(out), "--config"]
    if config:
        words += [config, *(f"{name}={value}" for name, value in settings.items()), "progress=false"]
    else:
        file = out.with_suffix(".toml")
        file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in (SHARED | settings).items()))
        words.append(str(file))
    words += ["--resume"] if (out / "config.json").exists() else []
    spent, before = out.with_suffix(".seconds"), os.times()
    with out.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            process.wait(max(0.0, until - time.time()))
        except subprocess.TimeoutExpired:
            process.terminate()  # a shell's background jobs ignore SIGINT
            process.wait()
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    seconds += float(spent.read_text()) if spent.exists() else 0.0
    spent.write_text(str(seconds))
    if process.returncode in INTERRUPTED:
        raise TimeIsOverError
    if process.returncode:
        raise SystemExit(f"{out} ended with {process.returncode}; see {log.name}")
    return seconds


def curve(out: Path) -> tuple[list[float], float]:
    """Return the success of the training episodes of each step, and that of the evaluation at the end."""
    lines = read_metrics(out / "metrics.jsonl")
    played = [line["success"] for line in lines if line.get("success") is not None]
    return played, next(line["eval/success"] for line in reversed(lines) if "eval/success" in line)


class Cluster:
    """A cluster with two processors, or none until it is needed."""

    def __init__(self) -> None:
        self._cluster: Any = None
        self._folder = ""

    @property
    def address(self) -> str:
        """Address of the cluster, which starts now if it has not yet."""
        if self._cluster is None:
            from ray.cluster_utils import Cluster as Started

            self._folder = tempfile.mkdtemp(prefix="tw-", dir="/tmp")
            os.environ |= {"RAY_TMPDIR": self._folder, "RAY_USAGE_STATS_ENABLED": "0"}
            node = {"num_cpus": 2, "object_store_memory": 80_000_000, "node_ip_address": NODE}
            self._cluster = Started(initialize_head=True, head_node_args=node | {"include_dashboard": False})
        return str(self._cluster.address)

    def close(self) -> None:
        """End the cluster."""
        if self._cluster is not None:
            self._cluster.shutdown()
            shutil.rmtree(self._folder, ignore_errors=True)


def lines() -> dict[tuple[str, int, str], dict[str, Any]]:
    """Return the finished runs, by algorithm, seed and engine."""
    found = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    return {(line["algorithm"], line["seed"], line["engine"]): line for line in found}


def trained_from(clone: Path, name: str, seed: int, folder: Path, how: Mapping[str, Any], until: float) -> float:
    """Train a run from its clone, which is trained first if it is missing; return the run's processor seconds.

    Args:
        clone: folder of the clone, which both engines share.
        name: name of the run in ``SEEDS``.
        seed: its seed.
        folder: its folder.
        how: settings of its engine.
        until: time at which it is interrupted.
    """
    made, model = (clone / "model" / "config.json").exists(), {"model": str(clone / "model")}
    if name == "quickstart":
        if not made:
            trained("bc", clone, {"seed": seed}, until, "quickstart-bc")
        return trained("loop", folder, {"seed": seed, **model, **how}, until, "quickstart-loop")
    shared = {**ENVS[name], "seed": seed}
    if not made:
        trained("bc", clone, {**CLONE, **shared, **CLONING[name]}, until)
    data = {"demonstrations.store": str(clone / "demonstrations")} if name == "archer" else {}
    return trained(name, folder, {**TRAIN, **shared, **OWN[name], **model, **data, **how}, until)


def run(out: Path, until: float, names: Sequence[str]) -> None:
    """Train what is missing: a seed with both engines, of the runs with these names in turn."""
    cluster = Cluster()
    try:
        for seed in range(max(SEEDS.values())):
            for algorithm in (name for name in names if seed < SEEDS[name]):
                for engine in ENGINES:
                    if (algorithm, seed, engine) in lines():
                        continue
                    how: dict[str, Any] = {"rollouts.engine": engine}
                    if engine == "ray":
                        how |= {"rollouts.address": cluster.address, "rollouts.workers": 2}
                    folder = out / f"{algorithm}-{seed}-{engine}"
                    clone = out / f"bc-{algorithm}-{seed}"
                    seconds = trained_from(clone, algorithm, seed, folder, how, until)
                    played, final = curve(folder)
                    line = {"algorithm": algorithm, "seed": seed, "engine": engine, "cpu_seconds": round(seconds, 1)}
                    RESULTS.parent.mkdir(parents=True, exist_ok=True)
                    with RESULTS.open("a") as file:
                        file.write(
                            json.dumps(line | {"curve": [round(each, 4) for each in played], "eval": final}) + "\n"
                        )
                    print(f"{algorithm} {seed} {engine}: area {np.mean(played):.3f}, end {final:.2f}, {seconds:.0f} s",
                          flush=True)  # fmt: skip
    except TimeIsOverError:
        print("the time is over; repeat the command to go on")
    finally:
        cluster.close()


def report(names: Sequence[str]) -> None:
    """Compare the engines, over the seeds that both have."""
    there = lines()
    for algorithm in names:
        wanted = SEEDS[algorithm]
        seeds = [seed for seed in range(wanted) if all((algorithm, seed, engine) in there for engine in ENGINES)]
        print(f"\n{algorithm}: {len(seeds)} of {wanted} seeds")
        if len(seeds) < 2:
            continue
        both = {engine: [there[algorithm, seed, engine] for seed in seeds] for engine in ENGINES}
        curves = {engine: np.array([line["curve"] for line in found]) for engine, found in both.items()}
        parts = {f"part {part + 1} of the steps": {engine: np.array_split(each, WINDOWS, axis=1)[part].mean(1)
                 for engine, each in curves.items()} for part in range(WINDOWS)}  # fmt: skip
        parts["all steps"] = {engine: each.mean(1) for engine, each in curves.items()}
        parts["evaluation at the end"] = {
            engine: np.array([line["eval"] for line in found]) for engine, found in both.items()
        }
        print("success | local (95 %) | ray (95 %) | ray − local by seed (95 %) | mean of ray within that of local")
        for name, values in parts.items():
            local, ray = student(values["local"].tolist()), student(values["ray"].tolist())
            apart = student((values["ray"] - values["local"]).tolist())
            inside = local.low <= ray.value <= local.high
            shown = " | ".join(f"{each.value:.3f} ({each.low:.3f} to {each.high:.3f})" for each in (local, ray, apart))
            print(f"{name} | {shown} | {'yes' if inside else 'NO'}")
        print(f"steps with equal success: {(curves['local'] == curves['ray']).mean():.0%}")


def main() -> None:
    """Train what is missing, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/ray-curves"))
    parser.add_argument("--minutes", type=float, default=60.0, help="interrupt what runs after this time")
    parser.add_argument("--report", action="store_true", help="train nothing")
    parser.add_argument("--runs", nargs="*", choices=SEEDS, default=["loop", "archer"], help="runs to compare")
    args = parser.parse_args()
    if not args.report:
        run(args.out.resolve(), time.time() + 60 * args.minutes, args.runs)
    report(args.runs)


if __name__ == "__main__":
    main()
