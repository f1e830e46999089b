"""The order of the two sides of an NCCL transfer, against a group in memory; NCCL itself needs GPUs."""

from __future__ import annotations

import asyncio
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
from turnwise.trainers.weights.nccl import Nccl
from turnwise.trainers.weights.vllm_transfer import Native
from turnwise.trainers.weights.weight_sync import WeightSync

from .fake import ANY, FakeServer, nano, nudge, tokenizer

WORDS: Any = tokenizer()


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
        self.told: Mapping[str, Any] = {}
        return self

    async def init_transfer(self, info: Mapping[str, Any]) -> None:
        self.told = info

    async def update(self, info: Mapping[str, Any]) -> None:
        if self.sabotage == "refuses":
            raise InfrastructureError(f"server {self.address} failed (500): no such tensor")
        came = [await asyncio.to_thread(self.inbox.get, True, 10) for _ in info["names"]]
        for tensor, kind, shape in zip(came, info["dtype_names"], info["shapes"], strict=True):
            assert (str(tensor.dtype), list(tensor.shape)) == (f"torch.{kind}", shape)
        self.staged = dict(zip(info["names"], came, strict=True))


def stage(replicas: int, **settings: Any) -> tuple[Any, list[Receiving], WeightSync]:
    model = nano(WORDS)
    inboxes: list[queue.Queue[Tensor]] = [queue.Queue() for _ in range(replicas)]
    servers = [
        Receiving(model, WORDS, can=replace(ANY, transfer="nccl"), address=f"fake:{n}").join(inbox)
        for n, inbox in enumerate(inboxes)
    ]
    backend = Nccl("trainer", 29600, replicas=replicas, meet=lambda *place: Group(inboxes), **settings)
    policy = RemotePolicy(servers, patience=1)
    questions = Questions.of(WORDS, context_length=512, temperature=1.0, dtypes=["float32"])
    return model, servers, WeightSync(policy, Native(policy, backend, timeout=60), model, questions)


async def test_every_replica_gets_every_tensor_while_it_waits_for_them() -> None:
    model, servers, transfer = stage(2)
    for version in range(3):
        await transfer.send(version)
        nudge(model, seed=version)
    assert [server.told["rank_offset"] for server in servers] == [1, 2]
    assert {server.told["world_size"] for server in servers} == {3}


async def test_a_group_that_lost_a_member_does_not_go_on_without_it() -> None:
    _model, servers, transfer = stage(2)
    await transfer.send(0)
    servers[1].dead = True
    with pytest.raises(InfrastructureError, match="needs the same servers that it started with"):
        await transfer.send(1)


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
    with pytest.raises(UsageError, match="from GPU to GPU"):
        await Nccl("trainer", 1, replicas=1).join()
