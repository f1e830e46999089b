"""A CUDA stream of its own for the policy, so that its small kernels do not wait behind those of a learner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

URGENT = -1
"""Priority of the stream: its kernels start before those that wait in the default one."""


class SideStream:
    """Runs a policy's passes beside those of a learner on the same GPU; on a CPU, and without one, it does nothing.

    Kernels of one stream run one after another, and each sampled token makes the policy wait for its own. In the
    learner's stream, that wait would be for the whole update that the learner has queued. **Never run on a GPU.**

    Args:
        device: device of the model.
        cuda: ``torch.cuda``, or a stand-in for tests.
    """

    def __init__(self, device: torch.device, cuda: Any = torch.cuda) -> None:
        self._cuda, self._device = cuda, device
        self._stream: Any = None
        if device.type == "cuda":
            self._stream = cuda.Stream(device=device, priority=URGENT)
            self._stream.wait_stream(cuda.current_stream(device))  # the model may still be on its way to the GPU

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Run the passes in the block beside the learner's."""
        if self._stream is None:
            yield
            return
        with self._cuda.stream(self._stream):
            yield

    @contextmanager
    def exchanging(self) -> Iterator[None]:
        """Change the weights in the block: after what the learner has queued, and before what it queues next."""
        if self._stream is None:
            yield
            return
        learner = self._cuda.current_stream(self._device)
        self._stream.wait_stream(learner)
        with self._cuda.stream(self._stream):
            yield
        learner.wait_stream(self._stream)
