"""Do the trainers still compute the same numbers? Compare the output before and after a refactoring.

    python benchmarks/same_bits.py > before.txt
    python benchmarks/same_bits.py > after.txt && diff before.txt after.txt

Each line names a tiny run of a few steps, with one thread and a fixed seed, and two digests: of the logged metrics
without clock times, and of the exported weights. ``resumed`` stops after two steps and goes on, so its checkpoint is
covered too. ``async`` plays one episode at a time and never ahead of the learner, since the order in which episodes end
otherwise depends on time. Digests are comparable on one machine with one version of torch only.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TIMES = ("seconds", "idle", "tokens_per_second", "perf", "memory")
"""How the names of metrics begin that depend on the machine."""
SHARED: dict[str, Any] = {
    "env": "turnwise/MazeU-v0",
    "seed": 3,
    "steps": 3,
    "checkpoint_every": 2,
    "agent": {"context": "last:1", "max_tokens": 4, "show_tools": False},
    "episodes": {"env_kwargs": {"max_turns": 12}},
    "eval": {"split": "train", "episodes": 3, "every": 2},
    "threads": 1,
    "progress": False,
    "tracking": {"to": []},
}
NANO = {"size": "0.1M", "layers": 1, "hidden": 32}
DEMONSTRATIONS = {"count": 12, "skills": [0.5]}
GROUPS = {"tasks_per_step": 2, "group_size": 3, "minibatch": 4}
CRITIC = {"encoder": {"hidden": 8, "layers": 1, "heads": 1, "intermediate": 8}, "head": 8}
ARCHER = {"episodes_per_step": 3, "critic_steps": 2, "actor_steps": 2, "batch": 8, "warmup": 1, "critic_model": CRITIC}
VALUES = {"warmup": 1, "init": "nano", "nano": {"size": "0.1M", "layers": 1, "hidden": 16}}
SEARCH: dict[str, Any] = {
    "env": "turnwise/SearchTags-v1",
    "levels": [1],
    "agent": {"parser": "search", "show_tools": False, "max_tokens": 12},
    "episodes": {"env_kwargs": {"brief": True, "k": 1, "snippet": 5, "max_turns": 2}},
    "eval": {"episodes": 2, "every": 2},
}
LETTERS = {**NANO, "tokenizer": "byte", "context_length": 1024}
ONE_BY_ONE = {**SHARED["episodes"], "concurrency": 1}

RUNS: dict[str, tuple[str, str, str | None, Mapping[str, Any]]] = {
    "bc": ("behavior_cloning", "CloningConfig", None, {"steps": 25, "nano": NANO, "demonstrations": DEMONSTRATIONS}),
    "loop": ("loop", "LoopConfig", "bc", GROUPS),
    "resumed": ("loop", "LoopConfig", "bc", GROUPS),
    "async": (
        "loop",
        "LoopConfig",
        "bc",
        {**GROUPS, "is_mode": "tis", "overlap": {"enabled": True, "max_staleness": 0}, "episodes": ONE_BY_ONE},
    ),
    "grpo": ("on_policy", "OnPolicyConfig", "bc", {**GROUPS, "algorithm": {"name": "grpo"}}),
    "dapo": (
        "on_policy",
        "OnPolicyConfig",
        "bc",
        {**GROUPS, "algorithm": {"name": "grpo"}, "group_filter": {"max_rounds": 3}, "loss": {"kl": {"coef": 0.1}}},
    ),
    "ppo": ("on_policy", "OnPolicyConfig", "bc", {**GROUPS, "algorithm": {"name": "ppo"}, "values": VALUES}),
    "arpo": (
        "on_policy",
        "OnPolicyConfig",
        "bc",
        {**GROUPS, "group_size": 4, "algorithm": {"name": "arpo"}, "branching": {"strategy": "entropy"}},
    ),
    "archer": ("archer", "ArcherConfig", "bc", {**ARCHER, "baseline": "token", "values": VALUES}),
    "archer-offline": (
        "archer",
        "ArcherConfig",
        "bc",
        {**ARCHER, "mode": "offline", "critic": "iql", "actor": "awr", "demonstrations": DEMONSTRATIONS},
    ),
    "ilql": ("value_based", "ValueBasedConfig", None, {"nano": NANO, "demonstrations": DEMONSTRATIONS}),
    "oreo": ("soft_bellman", "SoftBellmanConfig", "bc", {"demonstrations": DEMONSTRATIONS, "values": VALUES}),
    "mc": ("value_based", "ValueBasedConfig", "bc", {"algorithm": {"name": "monte_carlo"}}),
    "bc-letters": (
        "behavior_cloning",
        "CloningConfig",
        None,
        {**SEARCH, "nano": LETTERS, "batch": 2, "demonstrations": {"count": 2}},
    ),
    "self-play": ("self_play", "SelfPlayConfig", "bc-letters", {**SEARCH, **GROUPS, "group_size": 2, "proposals": 2}),
}
"""Module, configuration, the run whose model it starts from, and its settings, by name."""


def train(name: str, folder: Path, **changes: Any) -> None:
    """Train one of ``RUNS`` in a folder of its name."""
    script, config, start, settings = RUNS[name]
    module = importlib.import_module(f"turnwise.trainers.{script}")
    given = {**SHARED, **settings, "out": str(folder / name), **changes}
    if start is not None:
        given["model"] = str(folder / start / "model")
    module.train(getattr(module, config).model_validate(given))


def digests(run: Path) -> tuple[str, str]:
    """Return what a run logged, without times, and its weights, each as a digest."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    logged = [sorted((name, value) for name, value in line.items() if not name.startswith(TIMES)) for line in lines]
    weights = b"".join(file.read_bytes() for file in sorted((run / "model").rglob("*.safetensors")))
    return _digest(json.dumps(logged).encode()), _digest(weights)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def main() -> None:
    """Train, and print one line for each run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="Keep the runs in this folder.")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as scratch:
        folder = out or Path(scratch)
        for name in RUNS:
            if name == "resumed":
                train(name, folder, steps=2)
            train(name, folder, resume=name == "resumed")
            metrics, weights = digests(folder / name)
            print(f"{name:<15} metrics {metrics}  weights {weights}", flush=True)


if __name__ == "__main__":
    main()
