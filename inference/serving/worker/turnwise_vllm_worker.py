"""Load weights from files into vLLM's worker, for platforms where vLLM itself has no weight transfer (CPU).

The module is stand-alone, because it runs inside the server, where Turnwise may not be installed. ``VllmProcess`` puts
its folder on the server's path. By hand::

    PYTHONPATH=…/inference/serving/worker python -m vllm.entrypoints.openai.api_server --model FOLDER \\
        --weight-transfer-config '{"backend": "turnwise_files"}' \\
        --worker-extension-cls turnwise_vllm_worker.Reporting

The four phases, as vLLM names them (version 0.32):

===================================  ===================================================================
``/init_weight_transfer_engine``     ``{"init_info": {}}``
``/start_weight_update``
``/update_weights``                  ``{"update_info": {"path": "…"}}``: one safetensors file or a folder of
                                     them, with the whole model; they are read and checked
``/finish_weight_update``            ``{"weight_version": "7"}``: the server uses the weights
===================================  ===================================================================

An update is all or nothing. Any fault (no such file, a name missing or unknown, another shape, a number that is not
finite) is an error of ``/update_weights`` that names it. The server then continues with its current weights, and a new
update may start. vLLM itself silently keeps the old values of a missing tensor.

A model with tied embeddings is saved without ``lm_head.weight``. This module adds it, since vLLM has a second copy.

On GPUs use vLLM's own backend instead (``--weight-transfer-config '{"backend": "nccl"}'``), which sends from memory to
memory. This one works there too, as a fallback.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

BACKEND = "turnwise_files"
HEAD = "lm_head.weight"
EMBEDDING = "embed_tokens.weight"
SHOWN = 4
"""Maximum number of names in an error."""

Shapes = Mapping[str, tuple[int, ...]]


class WeightsError(ValueError):
    """Raised for an update that cannot be used; the weights do not change."""


@dataclass
class FilesInit(WeightTransferInitInfo):
    """Empty, since trainer and server need not agree on anything in advance."""


@dataclass
class FilesUpdate(WeightTransferUpdateInfo):
    """Location of the new weights.

    Args:
        path: safetensors file, or folder of such files, on this machine.
    """

    path: str


@dataclass
class Report:
    """Record of the last update; ``turnwise_report`` returns it through ``/collective_rpc``."""

    updates: int = 0
    path: str = ""
    tensors: int = 0
    bytes: int = 0
    seconds: float = 0.0
    metadata: dict[str, str] = field(default_factory=dict)


class FilesEngine(WeightTransferEngine[FilesInit, FilesUpdate]):
    """Weight-transfer engine that reads files."""

    init_info_cls = FilesInit
    update_info_cls = FilesUpdate
    supports_draft_weight_update = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.report = Report()
        self._staged: dict[str, torch.Tensor] | None = None
        self._coming = Report()
        self._wanted: Shapes | None = None

    def init_transfer_engine(self, init_info: FilesInit) -> None:
        """Drop an update that an earlier trainer may have left unfinished."""
        self._staged = None

    def start_weight_update(self) -> None:
        """Drop unfinished updates; the model changes only after all checks."""
        self._staged = None

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Read and check weights; overridden because vLLM's method then waits for an accelerator."""
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info: FilesUpdate) -> None:
        """Read and check the files, and keep their tensors until the update finishes.

        Raises:
            WeightsError: the files are not a complete model like the served one.
        """
        if self._staged is not None:
            raise WeightsError("the update has a second path; put all files of a version into one folder")
        began = time.perf_counter()
        paths = files_at(update_info.path)
        if self._wanted is None:
            self._wanted = shapes_of(files_at(str(self.model_config.model)))
        tensors, metadata = read(paths)
        tensors = completed(tensors, self._wanted, tied=ties(self.model_config), where=update_info.path)
        self._staged = tensors
        total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        seconds = time.perf_counter() - began
        self._coming = Report(self.report.updates + 1, update_info.path, len(tensors), total, seconds, metadata)

    def finish_weight_update(self) -> None:
        """Load the new weights into the model.

        Raises:
            WeightsError: no weights arrived.
        """
        if self._staged is None:
            raise WeightsError("no weights arrived between start and finish of the update")
        began = time.perf_counter()
        staged, self._staged = self._staged, None
        initialize_layerwise_reload(self.model)
        try:
            self.model.load_weights(iter(staged.items()))
        finally:
            finalize_layerwise_reload(self.model, self.model_config)
        if self.device.type != "cpu":
            torch.accelerator.synchronize()
        self._coming.seconds += time.perf_counter() - began
        self.report = self._coming

    def shutdown(self) -> None:
        """Free the memory of an unfinished update."""
        self._staged = None

    @staticmethod
    def trainer_send_weights(iterator: Any, trainer_args: Any) -> None:
        """Refuse: the trainer writes files itself (vLLM 0.26 declares this method abstract)."""
        raise NotImplementedError


class Reporting:
    """Mixin for vLLM's worker. Naming it makes vLLM import this module, which registers the engine."""

    def turnwise_report(self) -> dict[str, Any]:
        """Return the record of the last update as a dictionary; empty with another backend."""
        engine = getattr(self, "weight_transfer_engine", None)
        return dict(vars(engine.report)) if isinstance(engine, FilesEngine) else {}


def files_at(path: str) -> list[Path]:
    """Return the safetensors files that a path names, sorted.

    Raises:
        WeightsError: there are no such files.
    """
    place = Path(path)
    found = sorted(place.glob("*.safetensors")) if place.is_dir() else [place]
    if not found or not all(file.is_file() for file in found):
        raise WeightsError(f"on the server, {path} is neither a safetensors file nor a folder with one")
    return found


def shapes_of(paths: Sequence[Path]) -> Shapes:
    """Return names and shapes of the tensors in files, from their headers alone."""
    found: dict[str, tuple[int, ...]] = {}
    for path in paths:
        with _opened(path) as file:
            found |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    return found


def read(paths: Sequence[Path]) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Return all tensors of the files, and the metadata in their headers."""
    tensors: dict[str, torch.Tensor] = {}
    metadata: dict[str, str] = {}
    for path in paths:
        with _opened(path) as file:
            metadata |= file.metadata() or {}
            for name in file.keys():  # noqa: SIM118
                if name in tensors:
                    raise WeightsError(f"{name} is in more than one file; {path} repeats it")
                tensors[name] = file.get_tensor(name)
    return tensors, metadata


def ties(model_config: Any) -> bool:
    """Return whether a model shares one tensor between input and output embedding."""
    return bool(getattr(model_config.hf_text_config, "tie_word_embeddings", False))


def completed(
    tensors: Mapping[str, torch.Tensor], wanted: Shapes, *, tied: bool, where: str
) -> dict[str, torch.Tensor]:
    """Check an update against the served model, and return it with both tensors of tied embeddings.

    Args:
        tensors: tensors of the update, by name.
        wanted: names and shapes of the served model.
        tied: whether input and output embedding share one tensor; the update may then omit the latter.
        where: origin of the tensors, for messages.

    Raises:
        WeightsError: names or shapes differ, or values are not finite; the message has the names.
    """
    optional = {HEAD} if tied else set()
    if missing := sorted(set(wanted) - set(tensors) - optional):
        raise WeightsError(f"{where} lacks {_listed(missing)}; their old values would remain")
    if unknown := sorted(set(tensors) - set(wanted) - optional):
        raise WeightsError(
            f"{where} has {_listed(unknown)}, which belong to another model or to adapters that were not merged"
        )
    for name, tensor in tensors.items():
        if name in wanted and tuple(tensor.shape) != wanted[name]:
            raise WeightsError(
                f"{where}: {name} has shape {tuple(tensor.shape)}, but the served model has {wanted[name]}"
            )
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise WeightsError(f"{where}: {name} has values that are not finite; did training diverge?")
    if tied and HEAD in tensors:
        embedding = next((tensors[name] for name in tensors if name.endswith(EMBEDDING)), None)
        if embedding is None or not torch.equal(embedding, tensors[HEAD]):
            raise WeightsError(f"{where}: {HEAD} differs from the input embedding, but the served model ties them")
    head = {HEAD: next(tensors[name] for name in tensors if name.endswith(EMBEDDING))} if tied else {}
    return head | dict(tensors)


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (OSError, SafetensorError) as error:
        raise WeightsError(
            f"cannot read {path} ({error}); was it written completely, then renamed into place?"
        ) from None


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


if BACKEND not in WeightTransferEngineFactory._registry:  # vLLM may import this module twice, under two names
    WeightTransferEngineFactory.register_engine(BACKEND, FilesEngine)
