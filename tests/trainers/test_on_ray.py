"""Training with episodes on a Ray cluster is the run of the local engine: same metrics, same weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import turnwise as tw
from turnwise.evals.statistics import student
from turnwise.rollouts.episode import Episode
from turnwise.rollouts.store import load_episodes
from turnwise.trainers import archer, loop, on_policy
from turnwise.trainers.collect import async_rollouts
from turnwise.trainers.collect.scheduler import StalenessScheduler
from turnwise.trainers.run.metrics import read_metrics

from ..rollouts.ray_cluster import alive, two_nodes
from . import small
from .late_success import LateSuccess
from .test_archer import config as archer_config
from .test_on_policy import running

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")]
RAY = {"engine": "ray", "address": "auto", "workers": 2, "episodes_per_worker": 4}
EPISODES = small.SHARED["episodes"]
MACHINE = (*small.MEASURED, "ray/")
STANDING = {
    "env": "test/LateSuccess-v0",
    "episodes": {"concurrency": 64},
    "steps": 10,
    "tasks_per_step": 16,
    "group_size": 2,
    "minibatch": 32,
    "epochs": 1,
    "optimizer": {"lr": 1e-12},
    "keep_episodes": "all",
    "checkpoint_every": 10,
    "eval": {"episodes": 0},
}
"""320 episodes of a policy whose weights stand still."""


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    pytest.importorskip("ray", reason="turnwise[ray] is not installed")
    with two_nodes():
        yield


def metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of a run, except for those of the machine."""
    lines = read_metrics(folder / "metrics.jsonl")
    return [{name: value for name, value in line.items() if not name.startswith(MACHINE)} for line in lines]


def compared(train: Callable[[Any], Any], config: Callable[..., Any], out: Path, **changes: Any) -> None:
    """Train with both engines, and compare everything."""
    train(config(out / "local", **changes))
    train(config(out / "ray", rollouts=RAY, **changes))

    local, there = metrics(out / "local"), metrics(out / "ray")
    assert len(local) == len(there) > 0
    for here, other in zip(local, there, strict=True):
        assert other == pytest.approx(here, rel=1e-3, abs=1e-5), "an algorithm must not know where episodes are played"
    counted = [line for line in there if "rollouts/drawn" in line]
    assert counted
    for line in counted:
        failed = sum(value for name, value in line.items() if name.startswith("rollouts/failed_"))
        assert line["rollouts/drawn"] == line["rollouts/trained"] + failed + line["rollouts/open"]
    weights = [load_file(out / engine / "model" / "model.safetensors") for engine in ("local", "ray")]
    assert all(torch.allclose(tensor, weights[1][name], atol=1e-5) for name, tensor in weights[0].items())
    assert alive() == [], "a run leaves no actor behind"


def test_archer(tmp_path: Path, cloned: Path) -> None:
    compared(archer.train, lambda out, **changes: archer_config(out, cloned / "model", **changes), tmp_path, steps=2)


@pytest.mark.slow
@pytest.mark.shift
def test_a_forked_tree(tmp_path: Path, cloned: Path) -> None:
    tree = {"strategy": "entropy", "tokens": 4}
    changes = {"group_size": 4, "branching": tree}
    compared(on_policy.train, lambda out, **more: running(out, cloned / "model", "arpo", **changes, **more), tmp_path)


@pytest.mark.shift("ray")
def test_loop_and_restarts_from_its_episodes(tmp_path: Path, cloned: Path) -> None:
    quiet = {"split": "train", "episodes": 2, "every": 0}

    def looping(out: Path, **changes: Any) -> Any:
        return small.looping(out, cloned / "model", steps=2, keep_episodes="all", eval=quiet, **changes)

    compared(loop.train, looping, tmp_path / "loop")
    store = tmp_path / "loop" / "ray" / "training_episodes"
    assert load_episodes(store)
    branching = {"strategy": "restart", "store": str(store), "share": 0.5, "only_success": False}

    def restarting(out: Path, **changes: Any) -> Any:
        return running(out, cloned / "model", "grpo", branching=branching, group_size=4, **changes)

    compared(on_policy.train, restarting, tmp_path / "restart")


@pytest.mark.shift("ray")
def test_overlapped_steps_leave_no_group_out(tmp_path: Path, cloned: Path) -> None:
    """With weights that stand still, an episode is the same whenever it is played. So if slow groups were left out, or
    came twice, the trained episodes would differ from those of the local engine, or their tasks from those of
    synchronous steps.
    """
    still = {"steps": 4, "keep_episodes": "all", "optimizer": {"lr": 1e-12}, "eval": {"episodes": 0}}
    overlap = {"overlap": {"enabled": True, "max_staleness": 1}, "episodes": {**EPISODES, "concurrency": 12}}
    runs: dict[str, dict[str, Any]] = {"synchronous": {}, "local": overlap, "ray": {**overlap, "rollouts": RAY}}
    kept = {}
    for name, changes in runs.items():
        loop.train(small.looping(tmp_path / name, cloned / "model", **still, **changes))
        kept[name] = load_episodes(tmp_path / name / "training_episodes")

    ends = [{each.episode_id: (each.success, len(each.turns)) for each in kept[name]} for name in ("local", "ray")]
    assert len(kept["ray"]) == len(ends[1]) == 24, "each episode of four steps of two groups once"
    assert ends[1] == ends[0], "the engine changed which episodes are trained, or what became of them"
    tasks = [sorted(each.task.seed for each in kept[name]) for name in ("synchronous", "ray")]
    assert tasks[0] == tasks[1], "asynchronous steps left out groups that synchronous ones train"
    lines = [line for line in read_metrics(tmp_path / "ray" / "metrics.jsonl") if "rollouts/drawn" in line]
    for line in lines:
        failed = sum(value for name, value in line.items() if name.startswith("rollouts/failed_"))
        assert line["rollouts/drawn"] == line["rollouts/trained"] + failed + line["rollouts/open"]
    assert max(line["overlap/staleness_max"] for line in lines) <= 1
    assert alive() == []


class FirstToFinish(StalenessScheduler):
    """The fault that must show: each step trains the groups that finish first, and the others are dropped."""

    def finish(self, episode: Episode) -> None:
        if episode.group_id in self.untrained:
            super().finish(episode)

    def trained(self) -> list[Episode]:
        learned = super().trained()
        self.untrained.clear()
        self.pending.clear()
        self._over.clear()
        self.gate.accepted, self.gate.running = (self.gate.version + 1) * self.gate.batch, 0
        return learned

    def _chosen(self, count: int) -> list[str] | None:
        return self._over[:count] if len(self._over) >= count else None


def successes(folder: Path) -> list[tuple[int, float]]:
    """Return the task and the share of successes of each trained group, in the order of the tasks."""
    groups = defaultdict[str, list[Episode]](list)
    for episode in load_episodes(folder / "training_episodes"):
        groups[episode.group_id].append(episode)
    return sorted((each[0].task.seed, fmean(one.success for one in each)) for each in groups.values())


@pytest.mark.shift("ray")
def test_success_that_takes_long_counts_as_often_as_in_synchronous_steps(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights stand still, so all runs sample the same success: 320 episodes in 160 groups of two. The 99 %
    interval of their difference, task by task, is narrow enough to see the bias of a copy that drops slow groups.
    """
    tw.register("test/LateSuccess-v0", LateSuccess)
    there = {"overlap": {"enabled": True, "max_staleness": 1}, "rollouts": RAY | {"episodes_per_worker": 64}}
    found, last = {}, {}
    for name, changes in {"synchronous": {}, "ray": there, "dropping": there}.items():
        if name == "dropping":
            monkeypatch.setattr(async_rollouts, "StalenessScheduler", FirstToFinish)
        loop.train(small.looping(tmp_path / name, cloned / "model", **STANDING, **changes))
        found[name], last[name] = successes(tmp_path / name), read_metrics(tmp_path / name / "metrics.jsonl")[-1]
        assert len(found[name]) == 160

    synchronous, asynchronous = found["synchronous"], found["ray"]
    assert [task for task, _ in asynchronous] == [task for task, _ in synchronous], "a group was left out"
    assert last["ray"]["rollouts/drawn"] == last["ray"]["rollouts/trained"] == 320
    pairs = zip(synchronous, asynchronous, strict=True)
    apart = student([other - here for (_, here), (_, other) in pairs], confidence=0.99)
    assert not apart.excludes_zero, f"asynchronous steps on Ray estimate another success: {apart}"

    true, hasty = (
        student([share for _, share in found[name]], confidence=0.99) for name in ("synchronous", "dropping")
    )
    assert apart.low is not None
    assert true.low is not None
    assert hasty.high is not None
    assert hasty.high < true.low, f"the measurement does not see dropped groups: {hasty} against {true}"
    reach, bias = apart.value - apart.low, true.value - hasty.value
    assert reach < bias, f"the comparison above could not see a bias of {bias:.3f}: {apart}"
    line = last["dropping"]
    assert line["rollouts/drawn"] > line["rollouts/trained"] + line["rollouts/open"], "the account shows them, too"
