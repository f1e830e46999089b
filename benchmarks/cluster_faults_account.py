"""Check the account of a run that was disturbed, and compare its episodes with those of an undisturbed one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ks_2samp

from turnwise.rollouts.store import load_episodes
from turnwise.trainers.run.metrics import read_metrics

PER_STEP = 16
"""Episodes of a step."""


def steps(out: Path) -> list[dict[str, Any]]:
    """Return the metrics of the training steps."""
    path = out / "metrics.jsonl"
    return [line for line in read_metrics(path) if "rollouts/drawn" in line] if path.exists() else []


def checked(algorithm: str, out: Path, calm: Path, killed: Counter[str], left: list[str]) -> list[str]:
    """Print what was found, and return what is wrong."""
    lines, episodes = steps(out), load_episodes(out / "training_episodes")
    wrong = [f"{algorithm}: left behind: {each}" for each in left]
    for line in lines:
        failed = sum(value for name, value in line.items() if name.startswith("rollouts/failed_"))
        if line["rollouts/drawn"] != line["rollouts/trained"] + failed + line["rollouts/open"]:
            wrong.append(f"{algorithm}: the account of step {line['step']} does not add up")
    ids = Counter(episode.episode_id for episode in episodes)
    if twice := [name for name, count in ids.items() if count > 1]:
        wrong.append(f"{algorithm}: counted twice: {twice}")
    last = lines[-1]
    if not len(ids) == last["rollouts/drawn"] == PER_STEP * len(lines):
        wrong.append(f"{algorithm}: {len(ids)} episodes kept, {last['rollouts/drawn']} drawn, {len(lines)} steps")
    if [line["step"] for line in lines] != list(range(1, len(lines) + 1)):
        wrong.append(f"{algorithm}: a step is missing or there twice")
    failed = sum(not episode.scored for episode in episodes)
    again = sum(episode.attempts > 1 for episode in episodes)
    print(f"{algorithm}: {killed.total()} kills {dict(killed)}, {len(lines)} steps, {len(ids)} episodes each once, "
          f"{again} played again, {failed} not scored, {len(left)} left behind", flush=True)  # fmt: skip
    others = load_episodes(calm / "training_episodes")
    for name, measure in {"length": lambda e: len(e.turns), "return": lambda e: sum(t.reward for t in e.turns)}.items():
        mine, theirs = [np.array([float(measure(e)) for e in each if e.scored]) for each in (episodes, others)]
        test = ks_2samp(mine, theirs)
        means = f"{mine.mean():.3f} (n = {len(mine)}) against {theirs.mean():.3f} (n = {len(theirs)})"
        found = f"KS D = {test.statistic:.3f}, p = {test.pvalue:.3f}; {power(theirs, len(mine))}"
        print(f"  {name}: mean {means}, {found}", flush=True)
        if test.pvalue < 0.01:
            wrong.append(f"{algorithm}: the distribution of {name} differs, p = {test.pvalue:.4f}")
    return wrong


def power(values: Any, size: int) -> str:
    """Return the smallest share of values, replaced by the smallest one, that the test finds in 80 % of samples."""
    rng = np.random.default_rng(0)
    for share in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5):
        found = 0
        for _ in range(100):
            sample = rng.choice(values, size)
            sample[rng.random(size) < share] = values.min()
            found += ks_2samp(sample, rng.choice(values, len(values))).pvalue < 0.05
        if found >= 80:
            return f"{share:.0%} replaced by the smallest value would be found in 80 % of samples (at 5 %)"
    return "power below 80 % even if half of the values were replaced"
