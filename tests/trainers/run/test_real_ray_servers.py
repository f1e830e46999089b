"""Two real vLLM servers that Ray places: synced, joined late, killed under load, and no episode lost."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from turnwise import Sampling
from turnwise.agents.chat import ChatAgent
from turnwise.errors import InfrastructureError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.serving.placed import PlacedServer
from turnwise.rollouts.episode import Episode
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.rollouts.runner import run_episodes
from turnwise.trainers.learning.scorer import Scorer
from turnwise.trainers.run.server_settings import ServerConfig
from turnwise.trainers.run.servers import Serving

from ...inference.serving.test_launch import alive, eventually
from ...rollouts.ray_cluster import ENV, tasks, two_nodes
from ...rollouts.ray_cluster import alive as actors
from ..weights.fake import nudge

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800), pytest.mark.shift("vllm: ray")]

EPISODES = 60
PROMPT = tuple(range(5, 25))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray")
    with two_nodes() as started:
        yield started


def serving(folder: Path, **settings: Any) -> Serving:
    tokenizer = build_tokenizer("byte")
    model = build_model(NanoConfig(tokenizer="byte", size="0.1M", context_length=2048), tokenizer)
    placing = {"address": "auto", "max_seqs": 8, "kv_megabytes": 200, "delivery": "push", **settings}
    return Serving(
        ServerConfig.model_validate({"ray": placing}),
        model,
        tokenizer,
        out=folder / "run",
        version=0,
        dtype="float32",
        lora=None,
        base={},
        scorer=Scorer(temperature=1.0),
    )


def server_pids(server: PlacedServer, url: str) -> list[int]:
    """Ids of the processes whose command line has the port of a server."""
    port = url.rpartition(":")[2]
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if port.encode() in words and b"--port" in words and not any(b"watchdog" in word for word in words):
            found.append(int(path.parent.name))
    assert found, f"no process of {server.address}"
    return found


async def play(served: Serving, version: int) -> list[Episode]:
    agent = ChatAgent(served.policy, served.tokenizer, sampling=Sampling(max_tokens=24))
    options = RunOptions(concurrency=16, seed=version, env_kwargs={"turn_limit": 3}, turn_timeout=None, retries=0)
    pool = EnvPool.of(ENV, env_kwargs=options.env_kwargs)
    async with pool, aclosing(run_episodes(pool, agent, tasks(EPISODES), options=options)) as run:
        return [episode async for episode in run]


def summary(episodes: list[Episode]) -> tuple[Counter[str], set[int], int]:
    """Outcomes, versions of tokens and number of turns."""
    turns = [turn for episode in episodes for turn in episode.turns]
    versions = {version for turn in turns for version in turn.versions}
    return Counter(episode.outcome.value for episode in episodes), versions, len(turns)


async def test_two_servers_live_through_kill_and_late_start(cluster: Any, tmp_path: Path) -> None:
    import ray

    class Occupant:
        def here(self) -> None:
            """Return once it has its place."""

    occupant = ray.remote(Occupant).options(num_cpus=0, resources={"second": 2.0}).remote()
    await occupant.here.remote()
    served = serving(tmp_path, replicas=2, wait_for=1, resources={"second": 2.0})
    assert served.placed is not None
    pids: set[int] = set()
    began = time.perf_counter()
    try:
        await served.open()
        print(f"\nfirst server ready after {time.perf_counter() - began:.1f} s, load {os.getloadavg()[0]:.1f}")
        await send(served, 1, replicas=1)
        ray.kill(occupant)  # now there is room for the second server, which joins late
        before = time.perf_counter()
        outcomes, versions, turns = summary(await play(served, 1))
        print(f"one server: {dict(outcomes)}, {turns} turns, {time.perf_counter() - before:.1f} s")
        assert versions == {1}
        assert sum(outcomes.values()) == EPISODES
        assert not outcomes["infra_failed"]
        await ready(served, began)
        await caught_up(served, 1)
        await send(served, 2, replicas=2)
        pids |= await everywhere(served)

        before, victim = time.perf_counter(), await served.placed.servers[0].status()
        playing = asyncio.create_task(play(served, 2))
        await until_busy(served.placed.servers[0])
        for pid in server_pids(served.placed.servers[0], victim.url):
            os.kill(pid, 9)
        outcomes, versions, turns = summary(await playing)
        print(f"one of two killed under load: {dict(outcomes)}, {turns} turns, {time.perf_counter() - before:.1f} s")
        assert versions == {2}
        assert sum(outcomes.values()) == EPISODES
        assert not outcomes["infra_failed"], "episodes were lost with the server"

        before = time.perf_counter()
        await ready(served, before)
        await caught_up(served, 2)
        await send(served, 3, replicas=2)
        pids |= await everywhere(served)
        outcomes, versions, turns = summary(await play(served, 3))
        print(f"both again: {dict(outcomes)}, {turns} turns")
        assert versions == {3}
        assert not outcomes["infra_failed"]
    finally:
        await served.close()
    assert not actors(), "an actor was left"
    assert eventually(lambda: not any(map(alive, pids))), "a server was left"


async def caught_up(served: Serving, version: int) -> None:
    """Sample until both servers take part; each token must have the version of the last transfer."""
    before, wanted = time.perf_counter(), Sampling(max_tokens=4, seed=1)
    members = served.policy._replicas.members
    for session in range(0, 8000, 8):  # further sessions each time, as of further episodes
        asked = (served.policy.generate(PROMPT, wanted, session=str(session + each)) for each in range(8))
        found = await asyncio.gather(*asked)
        assert {each for completion in found for each in completion.versions} == {version}
        if all(replica.up for replica in members):
            break
        await asyncio.sleep(0.1)
    causes = served.policy._replicas.causes
    assert all(replica.up for replica in members), f"a server never had the weights of version {version}: {causes}"
    print(f"version {version} on both between transfers, after {time.perf_counter() - before:.1f} s")
    outcomes, versions, turns = summary(await play(served, version))
    print(f"both with what was kept: {dict(outcomes)}, {turns} turns")
    assert versions == {version}
    assert not outcomes["infra_failed"]


async def until_busy(server: PlacedServer) -> None:
    """Wait until a server samples."""
    for _ in range(2400):
        load = await server.load()
        if load is not None and load.running > 0:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{server.address} has nothing to do")


async def send(served: Serving, version: int, *, replicas: int) -> None:
    nudge(served.weights.model, seed=version)
    await served.weights.send(version)
    found = served.weights.metrics
    shown = {name: round(value, 6) for name, value in found.items() if re.search("seconds|replicas|gap|warn", name)}
    print(f"version {version}: {shown}")
    assert found["sync/replicas"] == replicas
    assert found["canary/gap_mean"] < 1e-4, "the two sides compute different numbers"


async def ready(served: Serving, began: float) -> None:
    assert served.placed is not None
    for server in served.placed.servers:
        for _ in range(2400):
            try:
                if (await server.status()).state == "ready":
                    break
            except InfrastructureError:
                pass
            await asyncio.sleep(0.1)
        else:
            raise AssertionError(f"{server.address} is not ready")
    print(f"both servers ready {time.perf_counter() - began:.1f} s later")


async def everywhere(served: Serving) -> set[int]:
    assert served.placed is not None
    found = {server: (await server.status()).url for server in served.placed.servers}
    return {pid for server, url in found.items() for pid in server_pids(server, url)}
