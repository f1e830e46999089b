"""Servers on a Ray cluster of two nodes: placed, synced, killed, moved, joined late, and none left behind."""

from __future__ import annotations

import asyncio
import copy
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pydantic
import pytest

from turnwise import Sampling
from turnwise.errors import InfrastructureError, UsageError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.learning.parallel import ALONE
from turnwise.trainers.learning.scorer import Scorer
from turnwise.trainers.run.engine_settings import RayServersConfig
from turnwise.trainers.run.ray_servers import save_base
from turnwise.trainers.run.server_settings import ServerConfig
from turnwise.trainers.run.servers import Serving

from ...inference.serving.test_launch import alive, eventually
from ...rollouts.ray_cluster import alive as actors
from ...rollouts.ray_cluster import two_nodes
from ..weights.fake import nudge

STAND_IN = Path(__file__).parents[2] / "inference" / "serving" / "fake_vllm.py"
PROMPT = tuple(range(5, 25))


def nano() -> tuple[Any, Any]:
    tokenizer = build_tokenizer("byte")
    shape = NanoConfig(tokenizer="byte", size="0.1M", layers=1, hidden=32, context_length=128)
    return build_model(shape, tokenizer), tokenizer


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray")
    with two_nodes() as started:
        yield started


class Run:
    """The part of a run that has to do with servers.

    Args:
        folder: folder of the run.
        command: command in place of vLLM's Python.
        settings: settings of the servers.
    """

    def __init__(self, folder: Path, command: str = "", **settings: Any) -> None:
        self.pids = folder / "pids"
        self.pids.touch()
        python = folder / "python"
        python.write_text(f'#!/bin/sh\nPIDS={self.pids} exec {command or f"{sys.executable} {STAND_IN}"} "$@"\n')
        python.chmod(0o755)
        self.model, self.tokenizer = nano()
        placing = {"resources": {"CPU": 1.0}, "address": "auto", "python": str(python), **settings}
        self.serving = Serving(
            ServerConfig.model_validate({"ray": placing, "timeout": 60.0}),
            self.model,
            self.tokenizer,
            out=folder / "run",
            version=0,
            dtype="float32",
            lora=None,
            base={},
            scorer=Scorer(temperature=0.7),
        )
        assert self.serving.placed is not None
        self.placed = self.serving.placed

    def servers(self, url: str = "") -> list[int]:
        """Ids of the processes of servers that ever started, or of those at one URL, the newest last."""
        found = [line.split() for line in self.pids.read_text().splitlines()]
        return [int(pid) for pid, port in found if url.endswith(f":{port}") or not url]

    async def sample(self, count: int) -> set[int]:
        """Versions of the tokens of some requests."""
        wanted = Sampling(max_tokens=8, seed=1)
        policy = self.serving.policy
        found = await asyncio.gather(*(policy.generate(PROMPT, wanted, session=str(each)) for each in range(count)))
        return {version for each in found for version in each.versions}

    async def send(self, version: int) -> float:
        """Send other weights, and let the canary of each replica judge; return the number of replicas."""
        nudge(self.model, seed=version)
        await self.serving.weights.send(version)
        return self.serving.weights.metrics["sync/replicas"]

    async def until_ready(self, starts: Sequence[int]) -> None:
        """Wait until each server has become ready so many times."""
        for server, wanted in zip(self.placed.servers, starts, strict=True):
            for _ in range(600):
                try:
                    found = await server.status()
                except InfrastructureError:
                    found = None
                if found is not None and found.state == "ready" and found.starts >= wanted:
                    break
                await asyncio.sleep(0.1)
            else:
                raise AssertionError(f"{server.address} never became ready: {found}")


@pytest.mark.slow
@pytest.mark.shift
async def test_servers_on_two_nodes_live_through_a_run(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, replicas=2, delivery="push")
    await run.serving.open()
    try:
        assert await run.send(1) == 2
        assert await run.sample(12) == {1}
        # A server is killed under load: its host starts it again, and no request is lost.
        victim = await run.placed.servers[1].status()
        under_load = asyncio.create_task(run.sample(24))
        os.kill(run.servers(victim.url)[-1], 9)
        assert await under_load == {1}
        # Its host is killed: Ray starts another, and its server has another address.
        os.kill(victim.pid, 9)
        assert await run.sample(12) == {1}
        await run.until_ready([1, 1])
        moved = await run.placed.servers[1].status()
        assert moved.pid != victim.pid
        assert await run.send(2) == 2, "a replica that came back must take part again"
        assert await run.sample(12) == {2}
        assert all(server.pushed for server in run.placed.servers)
    finally:
        await run.serving.close()
    assert not actors(), "an actor was left"
    assert eventually(lambda: not any(map(alive, run.servers()))), "a server was left"
    assert not (tmp_path / "run" / "served").exists()


@pytest.mark.slow
@pytest.mark.shift
async def test_a_server_without_room_joins_when_there_is_room(cluster: Any, tmp_path: Path) -> None:
    import ray

    class Occupant:
        def here(self) -> None:
            """Return once it has its place."""

    occupant = ray.remote(Occupant).options(num_cpus=0, resources={"second": 2.0}).remote()
    await occupant.here.remote()
    run = Run(tmp_path, replicas=2, wait_for=1, resources={"second": 2.0})
    await run.serving.open()
    try:
        assert await run.send(1) == 1
        ray.kill(occupant)
        await run.until_ready([1, 1])
        assert await run.sample(12) == {1}
        assert await run.send(2) == 2
        assert await run.sample(12) == {2}
    finally:
        await run.serving.close()
    assert not actors(), "an actor was left"
    assert eventually(lambda: not any(map(alive, run.servers()))), "a server was left"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "settings", "error", "said"),
    [
        ("sh -c 'echo ValueError: no such thing; exit 3'", {}, InfrastructureError, "ValueError: no such thing"),
        ("", {"resources": {"second": 9.0}, "start_timeout": 1.0}, InfrastructureError, "0 of 1 servers are ready"),
    ],
)
async def test_what_cannot_start_is_one_line(
    cluster: Any, tmp_path: Path, command: str, settings: Any, error: type[Exception], said: str
) -> None:
    run = Run(tmp_path, command, **settings)
    with pytest.raises(error, match=said):
        await run.serving.open()
    assert not actors(), "an actor was left"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ray": {"replicas": 1, "wait_for": 2}}, "wait_for = 2 waits for more"),
        ({"ray": {"delivery": "mail"}}, "delivery"),
        ({"ray": {}, "urls": ["http://localhost:1"]}, "name one of urls"),
        ({"ray": {}, "engine": {}}, "name one of urls"),
        ({}, "name one of urls"),
        ({"ray": {}, "transfer": "ipc"}, "transfer = ipc"),
        ({"ray": {}, "transfer": "memory"}, "transfer = memory"),
        ({"ray": {}, "exchange_there": "/there"}, "exchange_there"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: Any, said: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=said):
        ServerConfig.model_validate(settings)


def test_options_of_servers_follow_the_settings() -> None:
    config = RayServersConfig(context_length=64, max_seqs=3, threads=2, extra=("--tensor-parallel-size", "2"))
    options = config.options(longest=128, dtype="bfloat16", sleep=True)
    assert (options.context_length, options.max_seqs, options.threads) == (64, 3, 2)
    assert options.extra == ("--tensor-parallel-size", "2")
    assert options.dtype == "bfloat16"
    assert options.sleep


def test_servers_start_with_the_model_under_its_adapters(tmp_path: Path) -> None:
    import torch

    from turnwise.inference.models import load_model

    model, tokenizer = nano()
    before = copy.deepcopy(model.state_dict())
    attach(model, LoraConfig(rank=2))
    for name, value in model.named_parameters():
        if "lora_B" in name:
            value.data.fill_(0.3)
    save_base(model, tokenizer, tmp_path / "served", ALONE)
    found = load_model(tmp_path / "served")[0].state_dict()
    assert found.keys() == before.keys()
    assert all(torch.equal(found[name], value) for name, value in before.items())


def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"server.ray needs Ray: pip install 'turnwise\[ray\]'"):
        Run(tmp_path)
