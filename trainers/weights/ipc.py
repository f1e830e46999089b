"""vLLM's IPC backend of native weight transfer: a server on the learner's own GPU reads the learner's memory.

What leaves this module is compared with vLLM 0.32's own ``IPCWeightTransferUpdateInfo`` and read by its own
``packed_ipc_consumer`` in a test; only the export of a CUDA buffer and its opening in the server need a GPU. One H200
has run it once, with vLLM 0.26. The canary checks this transport as it does every other.

Weights travel through one buffer on the GPU, a pack at a time, in the type of the server: nothing goes to the machine's
memory. A server has copied a pack when its call returns, so the buffer can be filled again.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import UsageError
from ...inference.serving.launch.process import IPC
from ...inference.serving.server import Capabilities
from .packing import MEGABYTES, described, packs, sent_as
from .vllm_transfer import Anywhere

Export = Callable[[Tensor], Mapping[str, tuple[Any, ...]]]
"""Makes a buffer visible to other processes: arguments to open it, by the UUID of its GPU."""


class Ipc(Anywhere):
    """The trainer's side of the IPC backend.

    Args:
        device: device of the learner.
        dtype: type in which floating-point weights are sent.
        megabytes: size of the buffer; a larger tensor makes it larger.
        export: makes the buffer visible (default: torch's CUDA handles).

    Raises:
        UsageError: the learner is not on a GPU.
    """

    name = IPC

    def __init__(
        self,
        device: torch.device,
        *,
        dtype: torch.dtype | None = None,
        megabytes: int = MEGABYTES,
        export: Export | None = None,
    ) -> None:
        if device.type != "cuda" and export is None:
            raise UsageError(
                f"server.transfer = ipc lets a server read the learner's GPU memory, and the learner is on {device}: "
                "leave it out, and weights travel through files"
            )
        self.device, self.dtype, self.bytes = device, dtype, megabytes * 1_000_000
        self._export = export or exported
        self._each = False

    def meet(self, servers: Sequence[Capabilities]) -> None:
        """Note whether servers want to hear with every update, not once, that tensors are packed: vLLM 0.26 does."""
        self._each = any(server.version.startswith("0.26.") for server in servers)

    def init_info(self, replica: int) -> Mapping[str, Any]:
        """Return that tensors are packed."""
        return {} if self._each else {"packed": True}

    def updates(self, weights: Mapping[str, Tensor]) -> Iterator[Mapping[str, Any]]:
        """Yield names, sizes and the handle of a buffer, which holds a pack until the caller takes the next one."""
        largest = max((each.numel() * sent_as(each, self.dtype).itemsize for each in weights.values()), default=0)
        limit = max(self.bytes, largest)
        buffer = torch.empty(limit, dtype=torch.uint8, device=self.device)
        handle = self._export(buffer)  # once: the server opens it once, and closes it when the update is finished
        for pack in packs(weights, self.dtype, limit, over=False):
            pack.fill(buffer)
            if self.device.type == "cuda":
                torch.cuda.current_stream(self.device).synchronize()
            yield {
                **described(pack.tensors, self.dtype),
                "tensor_sizes": pack.sizes,
                "ipc_handles_pickled": base64.b64encode(pickle.dumps(handle)).decode(),
                **({"packed": True} if self._each else {}),
            }

    def done(self) -> None:
        """Let torch take back the buffer that the servers have closed."""
        if self.device.type == "cuda":
            torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]


def exported(buffer: Tensor) -> Mapping[str, tuple[Any, ...]]:
    """Return the CUDA handle of a buffer by the UUID of its GPU."""
    from torch.multiprocessing.reductions import reduce_tensor

    _, arguments = reduce_tensor(buffer)  # type: ignore[no-untyped-call]
    return {str(torch.cuda.get_device_properties(buffer.device).uuid): arguments}
