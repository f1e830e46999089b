"""The order of the two sides of an NCCL transfer, against a group in memory; NCCL itself needs GPUs."""

from __future__ import annotations

import asyncio
import math
import queue
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from turnwise.errors import InfrastructureError, UsageError
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.trainers.weights import nccl as nccl_module
from turnwise.trainers.weights.canary_prompts import Questions
from turnwise.trainers.weights.nccl import Nccl, working
from turnwise.trainers.weights.packing import packs
from turnwise.trainers.weights.vllm_transfer import Native
from turnwise.trainers.weights.weight_sync import WeightSync

from .fake import ANY, FakeServer, nano, nudge, tokenizer

WORDS: Any = tokenizer()
CPU = torch.device("cpu")


class Group:
    """Every worker gets every tensor, in order."""

    def __init__(self, workers: list[queue.Queue[Tensor]]) -> None:
        self.workers = workers

    def broadcast(self, tensor: Tensor, src: int) -> None:
        assert src == 0
        for worker in self.workers:
            worker.put(tensor.clone())


class Receiving(FakeServer):
    """Blocks in the third phase until all announced weights have arrived, as a worker does."""

    def join(self, inbox: queue.Queue[Tensor]) -> Receiving:
        self.inbox = inbox
        self.infos: list[Mapping[str, Any]] = []
        self.since, self.left = 1.0, 0
        return self

    async def started(self) -> float | None:
        self._alive()
        return self.since

    async def leave_transfer(self) -> None:
        self.left += 1

    def restart(self) -> None:
        """A new process: it has its first weights, and belongs to no group."""
        self.since += 1
        self.dead, self.can = False, replace(self.can, started=self.since)
        self.model.load_state_dict(self.base.state_dict())
        self.version, self.paused, self.updating = None, False, False
        self.going.set()
        while not self.inbox.empty():  # what the group in memory kept for the process before
            self.inbox.get()

    async def init_transfer(self, info: Mapping[str, Any]) -> None:
        self._alive()
        self.infos.append(info)

    async def update(self, info: Mapping[str, Any]) -> None:
        if self.sabotage == "refuses":
            raise InfrastructureError(f"server {self.address} failed (500): no such tensor")
        if self.infos[-1].get("packed"):
            self.staged = await self._unpacked(info, self.infos[-1]["packed_buffer_size_bytes"])
            return
        came = [await asyncio.to_thread(self.inbox.get, True, 10) for _ in info["names"]]
        for tensor, kind, shape in zip(came, info["dtype_names"], info["shapes"], strict=True):
            assert (str(tensor.dtype), list(tensor.shape)) == (f"torch.{kind}", shape)
        self.staged = dict(zip(info["names"], came, strict=True))

    async def _unpacked(self, info: Mapping[str, Any], limit: int) -> dict[str, Tensor]:
        """Read packs as vLLM's ``packed_nccl_broadcast_consumer`` does: it knows their sizes from the names alone."""
        found: dict[str, Tensor] = {}
        coming: list[tuple[str, torch.dtype, list[int], int]] = []
        described = list(zip(info["names"], info["dtype_names"], info["shapes"], strict=True))
        for place, (name, kind, shape) in enumerate(described):
            dtype = getattr(torch, kind)
            coming.append((name, dtype, shape, math.prod(shape) * dtype.itemsize))
            if sum(size for *_, size in coming) > limit or place == len(described) - 1:
                pack = await asyncio.to_thread(self.inbox.get, True, 10)
                for part, (its, dtype, shape, _) in zip(
                    torch.split(pack, [size for *_, size in coming]), coming, strict=True
                ):
                    found[its] = part.contiguous().view(dtype).view(shape)
                coming = []
        return found


def stage(
    replicas: int, *, version: str = "0.32.0+fake", workers: int = 1, **settings: Any
) -> tuple[Any, list[Receiving], WeightSync]:
    model = nano(WORDS)
    inboxes: list[queue.Queue[Tensor]] = [queue.Queue() for _ in range(replicas)]
    can = replace(ANY, transfer="nccl", version=version, workers=workers)
    servers = [Receiving(model, WORDS, can=can, address=f"fake:{n}").join(inbox) for n, inbox in enumerate(inboxes)]
    backend = Nccl("trainer", 29600, device=CPU, meet=lambda *place: Group(inboxes), **settings)
    policy = RemotePolicy(servers, patience=1)
    questions = Questions.of(WORDS, context_length=512, temperature=1.0, dtypes=["float32"])
    return model, servers, WeightSync(policy, Native(policy, backend, timeout=60), model, questions)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "megabytes"), [("0.27.1", 256), ("0.28.0", 256), ("0.32.0+cpu", 0)])
async def test_every_replica_gets_every_tensor_while_it_waits_for_them(version: str, megabytes: int) -> None:
    model, servers, transfer = stage(2, version=version, megabytes=megabytes)
    for number in range(3):
        await transfer.send(number)
        nudge(model, seed=number)
    assert [server.infos[0]["rank_offset"] for server in servers] == [1, 2]
    assert {server.infos[0]["world_size"] for server in servers} == {3}
    assert all(("packed" in server.infos[0]) == (version != "0.27.1") for server in servers), "older ones know no packs"


async def test_workers_of_parallel_servers_are_counted() -> None:
    _model, servers, transfer = stage(2, workers=4)
    await transfer.send(0)
    assert [(server.infos[0]["rank_offset"], server.infos[0]["world_size"]) for server in servers] == [(1, 9), (5, 9)]
    _model, servers, transfer = stage(2, workers=4, gpus=2)
    await transfer.send(0)
    assert [server.infos[0]["world_size"] for server in servers] == [5, 5], "the setting is stronger"


async def test_a_restarted_server_is_met_anew_and_the_run_goes_on() -> None:
    model, servers, transfer = stage(2)
    await transfer.send(0)
    nudge(model)
    servers[1].restart()
    await transfer.send(1)
    assert [info["master_port"] for info in servers[0].infos] == [29600, 29601], "a port is used once"
    assert [server.left for server in servers] == [1, 1], "the old group is left first"
    nudge(model)
    await transfer.send(2)
    assert [len(server.infos) for server in servers] == [2, 2], "nobody meets without a reason"


async def test_the_group_goes_on_without_a_server_that_is_down_and_with_it_when_it_is_back() -> None:
    model, servers, transfer = stage(2)
    await transfer.send(0)
    servers[1].dead = True
    nudge(model)
    await transfer.send(1)
    assert servers[0].infos[-1]["world_size"] == 2
    servers[1].restart()
    nudge(model)
    await transfer.send(2)
    assert [server.infos[-1]["world_size"] for server in servers] == [3, 3]
    assert transfer.metrics["sync/replicas"] == 2


def test_packs_are_those_that_vllm_cuts() -> None:
    sizes = [3, 40, 1, 0, 200, 7, 7, 100]
    weights = {str(place): torch.arange(size, dtype=torch.float32) for place, size in enumerate(sizes)}
    weights["8"] = torch.tensor([5])
    for limit in (0, 100, 10_000):
        kept = {False: 0, True: 0}
        for over in kept:
            for pack in packs(weights, torch.bfloat16, limit, over=over):
                data = pack.fill(torch.empty(pack.size + 9, dtype=torch.uint8))
                assert len(data) == pack.size
                assert over or len(pack.tensors) == 1 or pack.size <= limit
                for (name, tensor), kind, part in zip(
                    pack.tensors.items(), pack.kinds, torch.split(data, pack.sizes), strict=True
                ):
                    assert torch.equal(part.clone().view(kind), weights[name].to(kind)), tensor
                    kept[over] += 1
        assert set(kept.values()) == {len(weights)}, "nothing is lost"


def test_a_communicator_that_disabled_itself_is_named() -> None:
    class Silent:
        disabled = True

    with pytest.raises(UsageError, match="found no NCCL library"):
        working(Silent())


async def test_a_server_that_refuses_is_no_deadlock() -> None:
    _model, servers, transfer = stage(1)
    await transfer.send(0)
    servers[0].sabotage = "refuses"
    with pytest.raises(InfrastructureError, match="no such tensor"):
        await transfer.send(1)


async def test_workers_that_never_come_are_no_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    _model, _servers, transfer = stage(1)
    monkeypatch.setattr(nccl_module, "JOINING", 0.05)
    assert isinstance(transfer.transport, Native)
    assert isinstance(transfer.transport.backend, Nccl)
    come = threading.Event()
    monkeypatch.setattr(transfer.transport.backend, "_meet", lambda *place: come.wait(10))
    with pytest.raises(InfrastructureError, match=r"did not meet the trainer at trainer:29600"):
        await transfer.send(0)
    come.set()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
async def test_without_a_gpu_it_is_refused_in_words() -> None:
    backend = Nccl("trainer", 1, device=CPU)
    backend.meet([ANY])
    with pytest.raises(UsageError, match="from GPU to GPU"):
        await backend.join()
