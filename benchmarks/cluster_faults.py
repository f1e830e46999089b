"""Kill workers, nodes and drivers at random while LOOP and ArCHer train on a Ray cluster, and check the account.

    python benchmarks/cluster_faults.py --out runs/faults --kills 100   # both algorithms, half of the kills each
    python benchmarks/cluster_faults.py --out runs/faults --kills 200   # resumes after the first 100
    python benchmarks/cluster_faults.py --out runs/faults-code --kills 30 --env turnwise/CodeSynthesis-v1

The same configuration runs undisturbed with another seed. Every drawn episode must be trained or failed once, and no
actor, process or file may be left. A control group or folder of a killed process may stay until the next process starts
a sandbox or a browser. Lengths and returns must have the undisturbed distributions: a two-sample Kolmogorov–Smirnov
test says so, with the smallest change that it would have found.

With ``--env turnwise/MiniWoB-GuessNumber-v1``, episodes run in Chromium, which must leave no profile either, and about
half of them are solved; with ``--env turnwise/Web-v1``, hardly any. Kills are timed while episodes are played; the log
of the driver says how many of them a dead worker had.

``--env`` takes any environment, and ``--set`` its settings and those of its agent, over those of ``ENVS``:
``--set episodes.env_kwargs.max_turns=8 agent.max_tokens=40 'agent.parser="tools"'``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import ray
from cluster_faults_account import checked, steps
from cluster_faults_guesses import ENV as GUESSES
from cluster_faults_guesses import recorded
from cluster_faults_leftovers import Leftovers, unfinished
from ray.cluster_utils import Cluster

NODE = "127.0.0.2"
MAZE = "turnwise/MazeU-v0"
ENVS: dict[str, dict[str, Any]] = {
    MAZE: {
        "agent.context": "last:1",
        "agent.max_tokens": 4,
        "agent.show_tools": False,
        "episodes.env_kwargs.max_turns": 12,
    },
    "turnwise/CodeSynthesis-v1": {
        "levels": [1],
        "agent.max_tokens": 20,
        "episodes.env_kwargs.actions": "text",
        "episodes.env_kwargs.max_turns": 2,
        "episodes.env_kwargs.partial": True,
    },
    "turnwise/Web-v1": {
        "levels": [1],
        "agent.parser": "tools",
        "agent.context": "short:1:110",
        "agent.max_tokens": 40,
        "agent.show_tools": False,
        "episodes.env_kwargs.templates": ["shop_wish"],
        "episodes.env_kwargs.brief": True,
        "episodes.env_kwargs.max_turns": 8,
    },
    GUESSES: {
        "agent.parser": "text",
        "agent.context": "last:1",
        "agent.max_tokens": 12,
        "agent.show_tools": False,
        "episodes.env_kwargs.max_turns": 8,
    },
}
"""Settings of environments that a nano model can learn a little of."""
KINDS = {"worker": 0.6, "actor": 0.2, "raylet": 0.1, "driver": 0.1}
"""Share of each kind: SIGKILL to a worker's process, SIGTERM to one, SIGKILL to a raylet, SIGKILL to the driver."""
MOST = 3
"""Largest number of kills between two steps: a run stops once ten workers in a row have died without an episode."""
SHARED: dict[str, Any] = {
    "threads": 1,
    "progress": False,
    "tracking.to": [],
}
TRAIN: dict[str, Any] = {
    "optimizer.lr": 1e-4,  # slow, so that many episodes are of about the same policy
    "checkpoint_every": 1,
    "keep_episodes": "all",
    "eval.split": "train",
    "eval.episodes": 2,
    "eval.every": 0,
    "rollouts.engine": "ray",
    "rollouts.workers": 2,
    "rollouts.episodes_per_worker": 8,
    "rollouts.worker_timeout": 20.0,
}
OWN: dict[str, dict[str, Any]] = {
    "loop": {"tasks_per_step": 4, "group_size": 4, "minibatch": 8},
    "archer": {
        "episodes_per_step": 16,
        "critic_steps": 2,
        "actor_steps": 2,
        "batch": 16,
        "warmup": 1,
        "critic_model.encoder.hidden": 8,
        "critic_model.encoder.layers": 1,
        "critic_model.encoder.heads": 1,
        "critic_model.encoder.intermediate": 8,
        "critic_model.head": 8,
    },
}
CLONING: dict[str, Any] = {
    "steps": 22,
    "batch": 32,
    "optimizer.lr": 3e-3,
    "nano.size": "0.1M",
    "nano.layers": 1,
    "nano.hidden": 32,
    "demonstrations.count": 24,
    "demonstrations.skills": [0.5],
    "eval.split": "train",
    "eval.episodes": 4,
    "eval.every": 0,
}
CLONES: dict[str, dict[str, Any]] = {
    "turnwise/CodeSynthesis-v1": {"steps": 120, "demonstrations.count": 400, "demonstrations.only_success": True},
    "turnwise/Web-v1": {
        "env": "turnwise/WebHTML-v1",
        "steps": 150,
        "batch": 16,
        "demonstrations.count": 800,
        "demonstrations.skills": [1.0],
        "nano.layers": 2,
        "nano.hidden": 64,
        "nano.tokenizer": "word",
        "nano.vocab_size": 2000,
        "nano.context_length": 2048,
    },
    GUESSES: {"steps": 200, "demonstrations.count": 60, "nano.layers": 2, "nano.hidden": 64, "nano.tokenizer": "word"},
}
"""Further settings of cloning, by environment."""


def command(algorithm: str, out: Path, settings: dict[str, Any], *, resume: bool = False) -> list[str]:
    """Return the command that trains."""
    file = out.with_suffix(".toml")
    file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in (SHARED | settings).items()))
    words = [sys.executable, "-m", "turnwise", "train", algorithm, "--config", str(file), "--out", str(out)]
    return [*words, *(["--resume"] if resume else [])]


class Faults:
    """A cluster of two nodes, and what kills its parts."""

    def __init__(self, rng: random.Random, kinds: list[str]) -> None:
        self.rng, self.kinds = rng, {kind: KINDS[kind] for kind in kinds}
        self.folder = tempfile.mkdtemp(prefix="tw-", dir="/tmp")
        os.environ |= {"RAY_TMPDIR": self.folder, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": "1"}
        self.leftovers = Leftovers(Path(self.folder) / "files")
        self.node = {"num_cpus": 2, "object_store_memory": 80_000_000, "node_ip_address": NODE}
        head = self.node | {"include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.second = self.cluster.add_node(**self.node)
        ray.init(address=self.cluster.address, log_to_driver=False, configure_logging=False, _node_ip_address=NODE)

    def workers(self) -> list[Any]:
        """Return the processes of our actors, which are below this one."""
        import psutil

        found = []
        for process in psutil.Process().children(recursive=True):
            try:
                if process.cmdline()[:1] and process.cmdline()[0].startswith("ray::Worker"):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def kill(self, driver: subprocess.Popen[bytes]) -> str:
        """Kill something at random; return its kind, or nothing if there was none of it."""
        kind = self.rng.choices(list(self.kinds), list(self.kinds.values()))[0]
        self.leftovers.look()
        if kind == "driver":
            driver.kill()
            driver.wait()
            return kind
        if kind == "raylet":
            self.cluster.remove_node(self.second, allow_graceful=False)
            self.second = self.cluster.add_node(**self.node)
            return kind
        workers = self.workers()
        if not workers:
            return ""
        os.kill(self.rng.choice(workers).pid, signal.SIGKILL if kind == "worker" else signal.SIGTERM)
        return kind

    def alive(self) -> list[str]:
        """Return what is left of a run: actors that have not ended, and processes of workers."""
        for _ in range(150):
            actors = [each for each in ray._private.state.actors().values() if each["State"] != "DEAD"]
            left = [f"actor {each['ActorID']}" for each in actors] + [f"process {each.pid}" for each in self.workers()]
            if not left:
                break
            time.sleep(0.2)
        return [*left, *self.leftovers.processes()]

    def close(self) -> None:
        """End the cluster."""
        ray.shutdown()
        self.cluster.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


def disturbed(
    faults: Faults, algorithm: str, out: Path, settings: dict[str, Any], kills: int, until: float
) -> Counter[str]:
    """Train until there were enough kills, and then to the end; a driver that was killed resumes."""
    book = out.parent / f"{out.name}-kills.json"
    done: Counter[str] = Counter(json.loads(book.read_text()) if book.exists() else {})
    more = settings["steps"]
    settings = settings | {"steps": more + len(steps(out)), "rollouts.address": faults.cluster.address}
    with (out.parent / f"{out.name}.log").open("ab") as log:
        while True:
            resume = (out / "config.json").exists()
            driver = subprocess.Popen(command(algorithm, out, settings, resume=resume), stdout=log, stderr=log)
            clock = Clock(faults.rng, out, driver)
            while driver.poll() is None:
                time.sleep(0.2)
                faults.leftovers.look()
                due = done.total() < kills and time.time() < until
                if driver.poll() is None and due and clock.strikes() and (kind := faults.kill(driver)):
                    done[kind] += 1
                    book.write_text(json.dumps(done))
            enough = done.total() >= kills or time.time() >= until
            if driver.returncode == 0 and enough:
                return done
            if driver.returncode == 0:
                settings["steps"] += more
            elif driver.returncode != -signal.SIGKILL:
                raise SystemExit(f"{algorithm} ended with {driver.returncode}; see {log.name}")


class Clock:
    """Times of kills: while episodes are played, and only by a driver that has made a step.

    A run whose driver dies sooner each time makes no progress. After a step, episodes are played for about as long as
    in that step, so a kill comes within this time; further kills follow while the same step lasts.

    Args:
        rng: source of the times.
        out: folder of the run.
        driver: process of the driver.
    """

    def __init__(self, rng: random.Random, out: Path, driver: subprocess.Popen[bytes]) -> None:
        self.rng, self.out, self.driver = rng, out, driver
        self.seen, self.left, self.due = len(steps(out)), 0, 0.0

    def strikes(self) -> bool:
        """Whether it is time to kill something."""
        lines, now = steps(self.out), time.time()
        if len(lines) > self.seen:
            self.seen, self.left = len(lines), MOST
            self.due = now + self.rng.uniform(0.1, 0.8) * lines[-1]["seconds/collect"]
        if not self.left or now < self.due:
            return False
        self.left, self.due = self.left - 1, now + self.rng.uniform(2.0, 6.0)
        return True


def settings_of(env: str, words: list[str]) -> dict[str, Any]:
    """Return the settings of an environment and its agent, those given as ``NAME=JSON`` over the known ones."""
    given = (word.partition("=") for word in words)
    return {"env": env, **ENVS.get(env, {}), **{name: json.loads(value) for name, _, value in given}}


def undisturbed(algorithm: str, out: Path, settings: dict[str, Any], count: int) -> None:
    """Train as many steps with the local engine and another seed, if that is not done yet."""
    if len(steps(out)) < count:
        wanted = {"steps": count, "seed": 1, "rollouts.engine": "local"}
        words = command(algorithm, out, settings | wanted, resume=(out / "config.json").exists())
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> None:
    """Run what is missing, and check everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/faults"))
    parser.add_argument("--kills", type=int, default=100, help="number of kills in all")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop to kill after this time")
    parser.add_argument("--steps", type=int, default=30, help="steps after which the number of kills is looked at")
    parser.add_argument("--algorithms", default=",".join(OWN), help="algorithms that train; both by default")
    parser.add_argument("--env", default=MAZE, help="environment to train on")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=JSON", help="settings of environment and agent")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of kills; all by default")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed of the kills")
    args = parser.parse_args()
    out, algorithms, began = args.out.resolve(), args.algorithms.split(","), time.time()
    for option, words, known in (("--kinds", args.kinds.split(","), KINDS), ("--algorithms", algorithms, OWN)):
        if unknown := [word for word in words if word not in known]:
            parser.error(f"{option}: unknown {unknown[0]!r}; choose from {', '.join(known)}")
    out.mkdir(parents=True, exist_ok=True)
    model, env = out / "bc", settings_of(args.env, args.set)
    if not (model / "model").exists():
        settings = CLONING | env | CLONES.get(args.env, {})
        if args.env == GUESSES:
            settings["demonstrations.store"] = str(out / "demonstrations")
            with ProcessPoolExecutor(1, get_context("spawn")) as own:  # its browser ends with it
                count, turns = settings["demonstrations.count"], settings["episodes.env_kwargs.max_turns"]
                own.submit(recorded, out / "demonstrations", count, turns).result()
        subprocess.run(command("bc", model, settings), check=True, stdout=subprocess.DEVNULL)
    faults = Faults(random.Random(args.seed), args.kinds.split(","))
    wrong: list[str] = []
    try:
        for number, algorithm in enumerate(algorithms, 1):
            settings = {**TRAIN, **env, **OWN[algorithm], "model": str(model / "model"), "steps": args.steps}
            until = began + 60 * args.minutes * number / len(algorithms)
            killed = disturbed(faults, algorithm, out / algorithm, settings, args.kills // len(algorithms), until)
            left, own = faults.alive(), faults.leftovers
            print(f"{algorithm}: until the next start of a sandbox or browser: {len(own.groups())} control groups and "
                  f"{len(own.files())} temporary files or folders of killed processes; browsers seen: {own.browsers}",
                  flush=True)  # fmt: skip
            undisturbed(algorithm, out / f"{algorithm}-calm", settings, len(steps(out / algorithm)))
            left += [*own.processes(), *own.groups(), *own.files(), *unfinished(out)]
            wrong += checked(algorithm, out / algorithm, out / f"{algorithm}-calm", killed, left)
    finally:
        faults.close()
    print("\n".join(wrong) or "nothing is wrong", f"({(time.time() - began) / 60:.1f} minutes, load "
          f"{os.getloadavg()[0]:.1f}, seed {args.seed})")  # fmt: skip
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
