"""The order in which the policy's stream and the learner's wait for each other; CUDA itself needs a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.side_stream import SideStream
from turnwise.inference.transformers_policy import TransformersPolicy


class Queue:
    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def wait_stream(self, other: Queue) -> None:
        self.log.append(f"{self.name} waits for {other.name}")


class Cuda:
    """Records what ``torch.cuda`` would do."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.default = Queue(self.log, "learner")

    def Stream(self, *, device: torch.device, priority: int) -> Queue:
        assert priority < 0, "urgent"
        return Queue(self.log, "policy")

    def current_stream(self, device: torch.device) -> Queue:
        return self.default

    @contextmanager
    def stream(self, chosen: Queue) -> Iterator[None]:
        self.log.append(f"in {chosen.name}")
        yield
        self.log.append(f"out of {chosen.name}")


def test_passes_run_beside_the_learner_and_weights_change_between_its_work() -> None:
    cuda = Cuda()
    side = SideStream(torch.device("cuda:1"), cuda)
    assert cuda.log == ["policy waits for learner"], "for the model that is being copied"
    cuda.log.clear()
    with side.passing():
        cuda.log.append("pass")
    assert cuda.log == ["in policy", "pass", "out of policy"], "it waits for nothing"
    cuda.log.clear()
    with side.exchanging():
        cuda.log.append("copy")
    assert cuda.log == [
        "policy waits for learner",
        "in policy",
        "copy",
        "out of policy",
        "learner waits for policy",
    ]


async def test_on_a_cpu_there_is_no_stream() -> None:
    class None_:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"torch.cuda.{name} on a CPU")

    side = SideStream(torch.device("cpu"), None_())
    with side.passing(), side.exchanging():
        pass
    tokenizer = build_tokenizer("byte")
    model = build_model(NanoConfig(tokenizer="byte", size="0.1M", layers=1, hidden=32, context_length=64), tokenizer)
    policy = TransformersPolicy(model, threaded=True)
    policy.update(model.state_dict(), 3)
    assert policy.version == 3
