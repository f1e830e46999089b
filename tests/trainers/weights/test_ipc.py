"""Weights by CUDA IPC, up to the handle of the buffer: the rest needs a GPU."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from turnwise.errors import UsageError
from turnwise.inference.serving.launch.process import IPC, ServerOptions
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.trainers.weights.canary_prompts import Questions
from turnwise.trainers.weights.ipc import Ipc
from turnwise.trainers.weights.vllm_transfer import Native
from turnwise.trainers.weights.weight_sync import WeightSync

from .fake import ANY, FakeServer, nano, nudge, tokenizer

WORDS: Any = tokenizer()
CPU = torch.device("cpu")
UUID = "GPU-1"


class Shared:
    """Memory that both sides see: a handle is a number."""

    def __init__(self) -> None:
        self.buffers: list[Tensor] = []

    def export(self, buffer: Tensor) -> Mapping[str, tuple[Any, ...]]:
        self.buffers.append(buffer)
        return {UUID: (len(self.buffers) - 1,)}


class Reading(FakeServer):
    """Reads packs as vLLM's ``packed_ipc_consumer`` does: it copies each, since the buffer is used again."""

    def share(self, shared: Shared) -> Reading:
        self.shared, self.packs = shared, 0
        return self

    async def init_transfer(self, info: Mapping[str, Any]) -> None:
        assert info == {"packed": True}

    async def start_update(self) -> None:
        await super().start_update()
        self.staged = {}

    async def update(self, info: Mapping[str, Any]) -> None:
        (number,) = pickle.loads(base64.b64decode(info["ipc_handles_pickled"]))[UUID]
        self.packs += 1
        parts = self.shared.buffers[number][: sum(info["tensor_sizes"])].split(info["tensor_sizes"])
        for name, kind, shape, part in zip(info["names"], info["dtype_names"], info["shapes"], parts, strict=True):
            self.staged[name] = part.view(getattr(torch, kind)).view(shape).clone()


@pytest.mark.parametrize("megabytes", [0, 256])
async def test_weights_arrive_in_packs_of_one_buffer(megabytes: int) -> None:
    model, shared = nano(WORDS), Shared()
    server = Reading(model, WORDS, can=replace(ANY, transfer=IPC)).share(shared)
    policy = RemotePolicy([server], patience=1)
    questions = Questions.of(WORDS, context_length=512, temperature=1.0, dtypes=["float32"])
    backend = Ipc(CPU, megabytes=megabytes, export=shared.export)
    transfer = WeightSync(policy, Native(policy, backend, timeout=60), model, questions)
    for version in range(3):
        await transfer.send(version)
        nudge(model, seed=version)
    assert len(shared.buffers) == 3, "a transfer exports its buffer once"
    assert (server.packs > 3) == (megabytes == 0)
    largest = max(each.numel() * each.element_size() for each in model.state_dict().values())
    assert shared.buffers[0].numel() == max(largest, megabytes * 1_000_000), "the largest tensor fits"


def test_a_learner_without_a_gpu_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="the learner is on cpu"):
        Ipc(CPU)


def test_the_launcher_lets_the_server_read_handles_only_for_this_transfer() -> None:
    permitted = "VLLM_ALLOW_INSECURE_SERIALIZATION"
    assert ServerOptions(transfer=IPC).variables({})[permitted] == "1"
    assert permitted not in ServerOptions(transfer="nccl").variables({})


@pytest.mark.vllm
def test_vllm_reads_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything of vLLM's side but opening the handle, in whose place the same buffer is."""
    from vllm.distributed.weight_transfer.ipc_engine import IPCWeightTransferInitInfo, IPCWeightTransferUpdateInfo
    from vllm.distributed.weight_transfer.packed_tensor import packed_ipc_consumer

    monkeypatch.setenv("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=UUID))
    shared: list[Tensor] = []

    def export(buffer: Tensor) -> Mapping[str, tuple[Any, ...]]:
        shared.append(buffer)
        return {UUID: tuple(range(8))}  # as many arguments as ``rebuild_cuda_tensor`` takes at least

    class Importer:
        def rebuild(self, arguments: list[Any]) -> Tensor:
            assert arguments[6] == 0, "vLLM puts its own device there"
            return shared[-1]

    weights = {f"{size}": torch.randn(size, 3) for size in (1, 500, 20)} | {"n": torch.arange(4)}
    backend = Ipc(CPU, dtype=torch.bfloat16, megabytes=0, export=export)
    assert IPCWeightTransferInitInfo(**backend.init_info(0)).packed
    came: dict[str, Tensor] = {}
    for info in backend.updates(weights):
        read = IPCWeightTransferUpdateInfo(**info)
        assert isinstance(read.ipc_handles, dict)
        came |= packed_ipc_consumer(
            read.ipc_handles,
            read.names,
            read.shapes,
            read.dtype_names,
            read.tensor_sizes or [],
            0,
            Importer(),
        )
    assert len(shared) == 1
    for name, tensor in weights.items():
        assert torch.equal(came[name], tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor)
