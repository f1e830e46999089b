"""Whole runs of two processes: each algorithm learns what it learns in one, and nothing is trained twice."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import allclose

from turnwise.inference.models import save_model
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.rollouts.learner_records import read_record
from turnwise.rollouts.store import load_episodes
from turnwise.trainers import archer, loop, on_policy, self_play
from turnwise.trainers.archer_settings import ArcherConfig
from turnwise.trainers.collect.proposals import Round, earning
from turnwise.trainers.learning.groups import Group
from turnwise.trainers.loop import LoopConfig
from turnwise.trainers.on_policy import OnPolicyConfig
from turnwise.trainers.run.metrics import Stopwatch, read_metrics
from turnwise.trainers.run.run_folder import RunFolder
from turnwise.trainers.run.settings import TrainConfig
from turnwise.trainers.run.training import train_with
from turnwise.trainers.self_play import SelfPlayConfig

from . import small

GROUPS = {"tasks_per_step": 2, "group_size": 3, "minibatch": 4}
VALUES = {"warmup": 1, "lr": 1e-3, "minibatches": 2, "microbatch_tokens": 64}
SHAPE = {"hidden": 8, "layers": 1, "heads": 1, "intermediate": 8}
ARCHER = {"episodes_per_step": 3, "critic_steps": 2, "actor_steps": 2, "batch": 8, "warmup": 1}
KEPT = {"keep_episodes": "all", "epsilon": 1e-3, "optimizer": {"lr": 1e-3}}
"""Settings with which some tokens are clipped, and recorded."""
REFERENCE = {"kl": {"coef": 0.1}}
SEARCH: dict[str, Any] = {
    "env": "turnwise/SearchTags-v1",
    "levels": [1],
    "agent": {"parser": "search", "show_tools": False, "max_tokens": 12},
    "episodes": {"env_kwargs": {"brief": True, "k": 1, "snippet": 5, "max_turns": 2}},
    "eval": {"episodes": 2, "every": 0},
}


class Paid(self_play.SelfPlayTrainer):
    """Pays proposals in turn, since a model that knows only characters asks no question that could earn anything."""

    async def collect(self) -> Round:
        played = await super().collect()
        groups = tuple(
            replace(group, members=tuple(earning(one, float(place)) for place, one in enumerate(group.members)))
            for group in played.proposing.groups
        )
        return replace(played, proposing=replace(played.proposing, groups=groups))


def train_paid(config: SelfPlayConfig) -> None:
    train_with(Paid, config)


RUNS: dict[str, tuple[Callable[[Any], object], type[TrainConfig], Mapping[str, Any]]] = {
    "loop": (loop.train, LoopConfig, GROUPS),
    "grpo": (on_policy.train, OnPolicyConfig, {**GROUPS, "algorithm": {"name": "grpo"}, "loss": REFERENCE}),
    "ppo": (on_policy.train, OnPolicyConfig, {**GROUPS, "algorithm": {"name": "ppo"}, "values": VALUES}),
    "archer": (
        archer.train,
        ArcherConfig,
        {**ARCHER, "critic_model": {"encoder": SHAPE, "head": 8}, "baseline": "token", "values": VALUES},
    ),
    "archer-copy": (archer.train, ArcherConfig, {**ARCHER, "critic_model": {"encoder": {"kind": "copy"}, "head": 8}}),
    "archer-shared": (
        archer.train,
        ArcherConfig,
        {**ARCHER, "critic_model": {"encoder": {"kind": "shared"}, "head": 8}, "lora": {"rank": 2}},
    ),
    "self-play": (
        train_paid,
        SelfPlayConfig,
        {**SEARCH, "tasks_per_step": 2, "proposals": 2, "group_size": 2, "minibatch": 2},
    ),
}
IN_CORE = ("loop", "ppo", "archer", "self-play")
"""One run for each trainer, with values in ``ppo``; the others have another loss or encoder."""


def settings(name: str, folder: Path, models: Path, **changes: Any) -> TrainConfig:
    own = {"out": str(folder / name), "model": str(models / ("characters" if name == "self-play" else "clone"))}
    usual = {"steps": 3, "checkpoint_every": 3, "eval": {"split": "train", "episodes": 2, "every": 0}}
    return RUNS[name][1].model_validate({**small.SHARED, **usual, **RUNS[name][2], **own, **changes})


def train_all(configs: Mapping[str, TrainConfig]) -> None:
    for name, config in configs.items():
        RUNS[name][0](config)


def ranked(rank: int, ports: Sequence[int], target: Callable[[Any], object], given: Sequence[Any]) -> None:
    """Call a function once for each argument, each time as one of two processes that meet at another port."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    for number, each in zip(ports, given, strict=True):
        os.environ["MASTER_PORT"] = str(number)
        target(each)


def pair(target: Callable[[Any], object], given: Sequence[Any]) -> list[ForkServerProcess]:
    ports = [small.meeting_port() for _ in given]
    found = [small.FORKS.Process(target=ranked, args=(rank, ports, target, given)) for rank in range(2)]
    for process in found:
        process.start()
    return found


def joined(processes: Sequence[ForkServerProcess]) -> list[int | None]:
    for process in processes:
        process.join(240)
    return [process.exitcode for process in processes]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, cloned: Path) -> Path:
    """A folder with a model for mazes, and one that knows single characters."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "clone").symlink_to(cloned / "model")
    tokenizer = build_tokenizer("byte")
    shape = NanoConfig(size="0.1M", layers=1, hidden=32, tokenizer="byte", context_length=1024)
    save_model(build_model(shape, tokenizer), tokenizer, folder / "characters")
    return folder


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))  # where the processes find this module


def train_one(named: tuple[str, TrainConfig]) -> None:
    name, config = named
    RUNS[name][0](config)


def numbers(folder: Path) -> list[dict[str, float]]:
    lines = read_metrics(folder / "metrics.jsonl")
    return [{name: value for name, value in line.items() if not name.startswith(small.MEASURED)} for line in lines]


def clips(folder: Path) -> dict[str, list[tuple[int | None, tuple[int, ...], tuple[int, ...]]]]:
    """Return the updates and the clipped tokens of each kept episode by its id."""
    found = {}
    for episode in load_episodes(folder / "training_episodes"):
        record = read_record(folder / "training_episodes", episode.episode_id, int(episode.fingerprints["step"]))
        assert record is not None, episode.episode_id
        found[episode.episode_id] = [(record.updates, turn.clipped_low, turn.clipped_high) for turn in record.turns]
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize(
    "names",
    [IN_CORE, pytest.param(tuple(name for name in RUNS if name not in IN_CORE), marks=pytest.mark.shift)],
    ids=["core", "others"],
)
def test_two_processes_learn_what_one_does(tmp_path: Path, models: Path, names: Sequence[str]) -> None:
    """Steps are compared as long as rounding changes no sampled token: the first loss and gradient to 1e-5."""
    one, two = tmp_path / "one", tmp_path / "two"
    kept = {name: KEPT if name == "loop" else {} for name in names}
    processes = pair(train_one, [(name, settings(name, two, models, **kept[name])) for name in names])
    assert joined(processes) == [0, 0]
    for name in names:
        train_one((name, settings(name, one, models, **kept[name])))
        mine, theirs = numbers(one / name), numbers(two / name)
        assert [line["step"] for line in mine] == [line["step"] for line in theirs], name
        assert any("grad_norm" in line for line in mine), f"{name}: the policy learned"
        for first, second in zip(mine, theirs, strict=True):
            assert first.keys() == second.keys(), name
            for metric, value in first.items():
                tight = metric in ("loss", "grad_norm", "value_loss", "value_grad_norm", "critic/loss")
                bound: dict[str, Any] = {"rel": 1e-5, "abs": 1e-5} if tight else {"rel": 1e-2, "abs": 1e-3}
                assert second[metric] == pytest.approx(value, **bound), f"{name}: {metric} of step {first['step']}"
        weights, others = (load_file(each / name / "model" / "model.safetensors") for each in (one, two))
        assert all(allclose(weight, others[key], atol=1e-4) for key, weight in weights.items()), name
    if "loop" not in names:
        return
    recorded = clips(one / "loop")
    assert clips(two / "loop") == recorded, "each clipped token is counted once, whichever process computed it"
    assert any(sum(low) + sum(high) for turns in recorded.values() for _, low, high in turns), "some are clipped"


@pytest.mark.slow
@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("name", ["ppo", pytest.param("archer-copy", marks=pytest.mark.shift)])
def test_what_two_processes_saved_one_process_continues(tmp_path: Path, models: Path, name: str) -> None:
    assert joined(pair(train_one, [(name, settings(name, tmp_path / "parts", models, steps=2))])) == [0, 0]
    train_one((name, settings(name, tmp_path / "parts", models, resume=True)))
    train_one((name, settings(name, tmp_path / "whole", models)))
    *_, parts = (line for line in numbers(tmp_path / "parts" / name) if "grad_norm" in line)
    *_, whole = (line for line in numbers(tmp_path / "whole" / name) if "grad_norm" in line)
    assert parts["step"] == whole["step"] == 3
    for metric in ("loss", "grad_norm", "return", "tokens"):
        assert parts[metric] == pytest.approx(whole[metric], rel=1e-3, abs=1e-5), metric


# -- asynchronous rollouts --------------------------------------------------------------------------------------------


class Watched(loop.LoopTrainer):
    """Notes in a file which tasks were learned, step by step."""

    async def learn(self, groups: Sequence[Group], clock: Stopwatch) -> dict[str, float]:
        learned = await super().learn(groups, clock)
        note(Path(self.config.out), [self.run.step + 1, [group.group_id for group in groups]])
        return learned


def note(folder: Path, entry: object) -> None:
    with Path(folder, "trained.jsonl").open("a") as notes:
        notes.write(json.dumps(entry) + "\n")


def train_watched(config: LoopConfig) -> None:
    train_with(Watched, config)


def trained(folder: Path) -> list[tuple[int, list[str]]]:
    path = folder / "trained.jsonl"
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.slow
@pytest.mark.usefixtures("importable")
def test_trap_24_asynchronous_rollouts_of_two_processes_train_every_task_once_through_kills(
    tmp_path: Path, models: Path
) -> None:
    changes = {"steps": 8, "checkpoint_every": 2, "eval": {"episodes": 0}, "episodes": small.SHARED["episodes"]}
    overlap = {"enabled": True, "max_staleness": 1}
    config = settings("loop", tmp_path, models, overlap=overlap, **changes)
    folder = Path(config.out)
    lives: list[list[tuple[int, list[str]]]] = []
    for hit, signal_number, after in ((0, signal.SIGINT, 1), (1, signal.SIGKILL, 3), (0, signal.SIGKILL, 5)):
        noted = len(trained(folder))
        processes = pair(train_watched, [config])
        while not any(step >= after for step, _ in trained(folder)[noted:]):
            assert all(process.is_alive() for process in processes), "the run ended before it came so far"
            time.sleep(0.01)
        os.kill(processes[hit].pid or 0, signal_number)
        codes = joined(processes)
        assert None not in codes, "no process waits for one that is gone"
        lives.append(trained(folder)[noted:])
        config = config.model_copy(update={"resume": True})
    noted = len(trained(folder))
    assert joined(pair(train_watched, [config])) == [0, 0]
    lives.append(trained(folder)[noted:])
    kept: list[tuple[int, list[str]]] = []
    for life in lives:
        first_step = min((step for step, _ in life), default=10**9)
        kept = [entry for entry in kept if entry[0] < first_step] + life  # steps after the last checkpoint are lost
    assert [step for step, _ in kept] == list(range(1, 9))
    groups = [group for _, each in kept for group in each]
    assert len(groups) == len(set(groups)) == 16, "every task once"
    checkpoint = RunFolder(config.out, "loop").checkpoints.latest()
    assert checkpoint.progress["cursor"] == 16
    assert checkpoint.progress["overlap"]["drawn"] == []
    lines = [line for line in read_metrics(folder / "metrics.jsonl") if "loss" in line]
    assert all(line["overlap/staleness_max"] <= 1 for line in lines)
    assert max(line["mismatch_p99"] for line in lines if line["overlap/staleness_max"] == 0) < 1e-3
