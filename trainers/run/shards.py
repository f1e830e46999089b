"""The sharded part of a checkpoint (torch.distributed.checkpoint): every process writes and reads its own shards.

A run of one process needs none of this: its model is an ordinary model folder, and its optimizer is in ``tensors.pt``.
Shards can be read by any number of processes, also by one.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from ...errors import CheckpointError
from ..learning.parallel import ProcessGroup
from .checkpoint import file_digest

MODEL, OPTIMIZER = "model/", "optimizer/"
"""Prefixes of names: ``model/NAME`` and ``optimizer/INDEX/MOMENT``, where INDEX counts the trained parameters."""

DESCRIPTIONS = ("torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem")
"""Modules of torch whose data classes describe shards."""
PLAIN = {
    ("torch", "Size"),
    ("torch.serialization", "_get_layout"),
    ("pathlib", "PosixPath"),
    ("pathlib", "WindowsPath"),
}
"""Classes and functions, besides torch's own descriptions, that the description of shards may create."""


def shards_of(model: Any, optimizer: Mapping[int, Mapping[str, Any]], *, whole: bool) -> dict[str, Tensor]:
    """Return the tensors of a model and its optimizer by the names that they have in a checkpoint.

    Args:
        model: sharded model.
        optimizer: moments by the index of their parameter.
        whole: whether all weights belong to the checkpoint; otherwise it has the adapters elsewhere.
    """
    weights = own_weights(model) if whole else {}
    return {MODEL + name: value for name, value in weights.items()} | {
        f"{OPTIMIZER}{index}/{name}": value for index, moments in optimizer.items() for name, value in moments.items()
    }


def own_weights(model: Any) -> dict[str, Tensor]:
    """Return the weights and persistent buffers of a model, in place; what modules share has one of its names."""
    found: dict[int, tuple[str, Tensor]] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        found.setdefault(id(value), (name, value.detach()))
    return dict(found.values())


def copied(state: Any) -> Any:
    """Return a nested state with a copy of every tensor, or of this process's shard of it, on the CPU."""
    if isinstance(state, Tensor):  # torch's own stager would leave tensors that are on the CPU as they are
        return state.detach().to("cpu", copy=True)
    if isinstance(state, Mapping):
        return {name: copied(value) for name, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(copied(value) for value in state)
    return copy.deepcopy(state)


def write_shards(shards: Mapping[str, Tensor], folder: Path, world: ProcessGroup, group: Any) -> dict[str, str]:
    """Write this process's shards; all processes call it together.

    Args:
        shards: tensors by name, the same names in every process.
        folder: folder that all processes see.
        world: the processes.
        group: group for this alone, since training may go on meanwhile.

    Returns:
        The digest of every process's file, by name, in each process.

    Raises:
        CheckpointError: a process could not write.
    """
    try:
        with _quiet():
            save(dict(shards), storage_writer=FileSystemWriter(folder), process_group=group)
    except CheckpointException as error:
        reasons = sorted({f"process {rank}: {failed[0]}" for rank, failed in error.failures.items()})
        raise CheckpointError(f"cannot write the shards of a checkpoint: {'; '.join(reasons)}") from error
    mine = {path.name: file_digest(path) for path in folder.glob(f"__{world.rank}_*.distcp")}
    found: list[dict[str, str]] = [{} for _ in range(world.size)]
    dist.all_gather_object(found, mine, group=group)
    return {name: digest for each in found for name, digest in each.items()}


def read_shards(folder: Path, model: Any, parameters: Sequence[Tensor], *, alone: bool) -> dict[int, dict[str, Tensor]]:
    """Read the shards of this process: weights into the model, in place; all processes call it together.

    Args:
        folder: folder of ``write_shards``, written by any number of processes.
        model: model of this process, sharded or whole.
        parameters: its trained parameters, in order.
        alone: whether this is the only process.

    Returns:
        The optimizer's moments by the index of their parameter, sharded as the parameter is.

    Raises:
        CheckpointError: the shards do not fit the model, or cannot be read.
    """
    reader = _Reader(folder)
    try:
        with _quiet():
            described = reader.read_metadata().state_dict_metadata
            # torch unpickles whatever is described as bytes, and would so run the code of a stranger's checkpoint.
            if odd := [name for name, found in described.items() if not isinstance(found, TensorStorageMetadata)]:
                raise CheckpointError(f"the shards in {folder} hold something other than tensors: {odd[0]}")
            weights = {MODEL + name: value for name, value in own_weights(model).items()}
            there = {name for name in described if name.startswith(MODEL)}
            if there and there != set(weights):
                unlike = _differing(there, set(weights))
                raise CheckpointError(f"the shards in {folder} are not of this model: {unlike}")
            moments: dict[int, dict[str, Tensor]] = {}
            for name, found in described.items():
                if name.startswith(OPTIMIZER):
                    index, moment = name.removeprefix(OPTIMIZER).split("/")
                    moments.setdefault(int(index), {})[moment] = _room_for(found, parameters[int(index)])
            wanted = (weights if there else {}) | shards_of(model, moments, whole=False)
            load(wanted, storage_reader=reader, no_dist=alone)
    except (CheckpointException, pickle.UnpicklingError, OSError, IndexError, ValueError) as error:
        raise CheckpointError(f"the shards in {folder} do not fit this run, or cannot be read: {error}") from error
    return moments


class _Reader(FileSystemReader):
    """torch's reader, except that reading the description of the shards runs no code."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
        with Path(self.path, ".metadata").open("rb") as file:
            found = _Unpickler(file).load()
        if getattr(found, "storage_meta", None) is None:
            found.storage_meta = StorageMeta()
        found.storage_meta.load_id = self.load_id
        return found


class _Unpickler(pickle.Unpickler):
    """Creates only the plain classes that describe shards."""

    def find_class(self, module: str, name: str) -> Any:
        described = module in DESCRIPTIONS
        if (module, name) in PLAIN or described or module == "torch":  # first, since to find a class imports its module
            found = super().find_class(module, name)
            if isinstance(found, torch.dtype) or (module, name) in PLAIN or (described and is_dataclass(found)):
                return found
            if described and isinstance(found, type) and issubclass(found, Enum):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} does not belong in a checkpoint")


def _room_for(described: Any, parameter: Tensor) -> Tensor:
    """Return a tensor to read into: sharded as the parameter, if it has the same shape."""
    if described.size == parameter.shape:
        return torch.zeros_like(parameter, dtype=described.properties.dtype, requires_grad=False)
    return torch.zeros(described.size, dtype=described.properties.dtype)


def _differing(there: set[str], wanted: set[str]) -> str:
    return ", ".join(sorted(name.removeprefix(MODEL) for name in there ^ wanted)[:3])


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide torch's warnings about its own deprecated names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield
