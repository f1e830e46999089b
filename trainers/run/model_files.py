"""Loading and saving of a run's model: complete or as adapters over a base, by one process or by several."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import CheckpointError
from ...inference.attention import Attention
from ...inference.models import load_model, save_model, save_structure
from ...rollouts.episode import Episode
from ..learning.lora import (
    LoraConfig,
    adapted,
    adapter_weights,
    attach,
    base_of,
    is_adapter,
    load_adapter,
    merged,
    save_adapter,
)
from ..learning.parallel import ALONE, ProcessGroup, gather_on_main
from ..learning.sharding import materialize
from .checkpoint import SHARDS

Weights = Mapping[str, Tensor] | None
"""Unsharded weights of a model, in the main process only; ``None`` if the model itself is unsharded."""


@dataclass(frozen=True, slots=True)
class Start:
    """The initial model of a run, and its data.

    Args:
        model: model in the run's precision, not sharded yet, on the run's device. Under ``torchrun`` the main process
            has it on the CPU, and the others have a model without data, until ``parallel.shard``.
        tokenizer: tokenizer of the model.
        demonstrations: episodes to learn from, in a run that learns from demonstrations.
        values: action values to train beside the policy, in a value-based run.
    """

    model: Any
    tokenizer: Any
    demonstrations: Sequence[Episode] = ()
    values: Any = None


class ModelFiles:
    """Loads a run's model, and writes it: into checkpoints for resuming, and out of the run for other programs.

    Args:
        dtype: precision of the weights.
        lora: adapters, if only these are trained.
        seed: seed of new adapters.
        world: the processes that learn together.
        attention: implementation of attention.
    """

    def __init__(
        self,
        dtype: str,
        *,
        lora: LoraConfig | None = None,
        seed: int = 0,
        world: ProcessGroup = ALONE,
        attention: Attention = "auto",
    ) -> None:
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.lora = lora
        self.seed = seed
        self.world = world
        self.attention = attention
        self.base: dict[str, str] = {}
        """Source of the frozen part of an adapted model: its ``path`` and the ``digest`` of its weights."""

    def load(self, path: Path | str) -> tuple[Any, Any]:
        """Load model and tokenizer from a model folder, with new adapters if configured, or from a checkpoint.

        Raises:
            ModelError: there is no model.
            CheckpointError: the checkpoint's adapters belong to another base, or other settings.
        """
        if self.lora is None:
            return self._loaded(path)
        saved, read = is_adapter(path), self.world.is_main
        base = base_of(path) if saved else {"path": str(path), "digest": digest(path) if read else ""}
        if saved and read and digest(base["path"]) != base["digest"]:
            raise CheckpointError(
                f"the adapters in {path} belong to the weights that were in {base['path']}, and these have changed; "
                "put the old ones back, or start a new run"
            )
        model, tokenizer = self._loaded(base["path"])
        attach(model, self.lora, seed=self.seed)
        if saved:
            load_adapter(model, path)
        self.base = self.base or base
        return model, tokenizer

    def _loaded(self, path: Path | str) -> tuple[Any, Any]:
        alone, elsewhere = self.world.size == 1, Path(path).parent.joinpath(SHARDS).is_dir()
        model, tokenizer = load_model(
            path,
            dtype=self.dtype,
            device=self.world.device if alone else "cpu",
            attention=self.attention,
            weights=self.world.is_main and not elsewhere,
        )
        if alone and elsewhere:
            materialize(model, self.world.device)  # the checkpoint's shards fill it
        return model, tokenizer

    def weights(self, model: Any) -> Weights:
        """Return the weights that ``export`` writes; all processes have to call it together."""
        if self.lora is None and self.world.size == 1:
            return None
        return gather_on_main(model.state_dict(), self.world)

    def checkpoint_weights(self, model: Any) -> Weights:
        """Return the weights that ``write_checkpoint`` writes; all processes have to call it together.

        Of an adapted model these are the adapters; of a sharded one nothing, since every process writes its shards.
        """
        if self.lora is not None:
            return gather_on_main(adapter_weights(model.state_dict()), self.world)
        return None if self.world.size == 1 else {}

    def write_checkpoint(self, model: Any, tokenizer: Any, weights: Weights, folder: Path) -> None:
        """Write the model of a checkpoint: the trained weights, bit by bit, unless they are in shards."""
        if weights is not None and adapted(model):
            save_adapter(model, weights, folder, base=self.base)
        elif weights is not None and not weights:
            save_structure(model, tokenizer, folder)
        else:
            save_model(model, tokenizer, folder, weights=weights)

    def export(self, model: Any, tokenizer: Any, weights: Weights, folder: Path) -> None:
        """Write a model folder for other programs, with adapters merged; ``adapter/`` has them in peft's format."""
        if weights is None or not adapted(model):
            save_model(model, tokenizer, folder, weights=weights)
            return
        save_model(model, tokenizer, folder, weights=merged(model, weights))
        save_adapter(model, weights, folder / "adapter", base=self.base)


def digest(path: Path | str) -> str:
    """Return a digest of the weights in a model folder; "" for a model that is not in a folder of its own."""
    total = hashlib.sha256()
    files = sorted(Path(path).glob("*.safetensors")) if Path(path).is_dir() else []
    for file in files:
        with file.open("rb") as opened:
            total.update(hashlib.file_digest(opened, "sha256").digest())
    return total.hexdigest() if files else ""
