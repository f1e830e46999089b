"""Queues and caches of servers: read from what vLLM prints, and a server that fails changes nothing but numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from turnwise.errors import InfrastructureError
from turnwise.inference.policy import Sampling
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.http.load import read_load
from turnwise.inference.serving.launch.process import VllmProcess
from turnwise.inference.serving.server import ServerLoad
from turnwise.trainers.run.server_meter import ServerMeter

TEXT = """# HELP vllm:num_requests_running Number of requests in model execution batches.
vllm:num_requests_running{engine="0",model_name="policy"} 3.0
vllm:num_requests_running{engine="1",model_name="policy"} 4.0
vllm:num_requests_waiting{engine="0",model_name="a b"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
vllm:prefix_cache_queries_total{engine="0"} 1e+03
vllm:prefix_cache_queries_created{engine="0"} 1.7e+09
vllm:prefix_cache_hits_total{engine="0"} 250.0
"""


def test_engines_of_one_server_add_up() -> None:
    assert read_load(TEXT) == ServerLoad(running=7, waiting=1, cache_use=0.5, queried=1000, found=250)


@pytest.mark.parametrize(
    "text", ["", "<html>", None, TEXT.replace("250.0", "NaN"), TEXT.replace("1e+03", "-1"), TEXT.replace("0.75", "x")]
)
def test_what_is_no_count_is_none(text: Any) -> None:
    assert read_load(text) is None


class Server:
    """Reports one load after another; an error is raised, and ``None`` hangs."""

    def __init__(self, address: str, loads: Sequence[Any]) -> None:
        self.address, self.loads = address, list(loads)

    async def load(self) -> Any:
        load = self.loads.pop(0) if len(self.loads) > 1 else self.loads[0]
        if load is None:
            await asyncio.sleep(3600)
        if isinstance(load, Exception):
            raise load
        return load


def loads(*queried: int) -> list[ServerLoad]:
    return [ServerLoad(number, 2 * number, 0.5, each, each / 2) for number, each in enumerate(queried)]


async def watched(*servers: Any) -> dict[str, float]:
    asked, enough = [], asyncio.Event()

    class Watched(ServerMeter):
        async def _ask(self) -> Any:
            asked.append(await super()._ask())
            if len(asked) == 4:  # the fourth question begins after the third answer was kept
                enough.set()
            return asked[-1]

    meter = Watched(servers, every=0.01)
    async with meter.watching():
        await enough.wait()
    return meter.metrics()


async def test_a_step_has_means_the_longest_queue_and_the_share_of_hits() -> None:
    numbers = await watched(Server("a", loads(100, 100, 300)))
    assert numbers["servers/prefix_hits"] == 0.5
    assert 1 <= numbers["servers/running"] <= 2
    assert numbers["servers/waiting_max"] == 4


async def test_servers_that_fail_hang_or_do_not_count_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.trainers.run.server_meter.LONGEST", 0.02)
    broken = Server("b", [InfrastructureError("gone")])
    alone = await watched(Server("a", loads(100, 100, 300)))
    numbers = await watched(Server("a", loads(100, 100, 300)), broken, Server("c", [None]), object())
    assert numbers["servers/prefix_hits"] == alone["servers/prefix_hits"]
    assert await watched(broken) == {}
    assert await watched(Server("c", [None])) == {}


async def test_a_restarted_server_counts_from_zero_again() -> None:
    assert "servers/prefix_hits" not in await watched(Server("a", loads(100, 100, 10)))


async def test_an_error_of_the_step_is_passed_on() -> None:
    servers: list[Any] = [Server("a", loads(1))]
    with pytest.raises(RuntimeError, match="of the step"):
        async with ServerMeter(servers).watching():
            raise RuntimeError("of the step")


@pytest.mark.vllm
async def test_the_real_server_prints_what_is_read(vllm_server: VllmProcess) -> None:
    client = ServerClient(vllm_server.url)
    await client.probe()  # which samples, too
    before = await client.load()
    await client.generate(tuple(range(1, 200)), Sampling(max_tokens=2, seed=0))
    after = await client.load()
    await client.close()
    assert before is not None
    assert after is not None
    assert after.queried == before.queried + 199
    assert (after.running, after.waiting) == (0, 0)


async def test_a_ctrl_c_while_the_watch_ends_is_heard() -> None:
    class Lingering(Server):
        async def load(self) -> Any:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                await asyncio.sleep(0.05)
                raise

    async def step() -> None:
        server: Any = Lingering("a", [None])
        async with ServerMeter([server]).watching():
            await asyncio.sleep(0.01)  # it asks by now
            asyncio.get_running_loop().call_later(0.01, task.cancel)

    task = asyncio.create_task(step())
    with pytest.raises(asyncio.CancelledError):
        await task
