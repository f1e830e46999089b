"""vLLM's engine in the trainer's own process: its settings, and the engine made from them and the run's model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pydantic

from ...config import Config
from ...inference.models import save_model
from ...inference.serving.engine.engine import EngineServer
from ...inference.serving.launch.process import ServerOptions
from ..learning.lora import adapted, merged


class EngineConfig(Config):
    """An engine in this process, which takes weights from memory: for one trainer on one machine."""

    context_length: int | None = pydantic.Field(default=None, ge=2)
    """Longest prompt plus action, in tokens (default: the context length of the model)."""
    max_seqs: int = pydantic.Field(default=64, ge=1)
    """Requests that are decoded together; others wait."""
    batched_tokens: int | None = pydantic.Field(default=None, ge=1)
    """Tokens of one step; see ``ServerOptions.batched_tokens``."""
    kv_megabytes: int | None = pydantic.Field(default=None, ge=1)
    """Memory in megabytes for cached keys and values, beside the learner's own (default: 100, or what is left of
    ``memory_share``)."""
    memory_share: float | None = pydantic.Field(default=None, gt=0, lt=1)
    """Share of the GPU's memory for the engine: weights, activations, and keys and values."""
    block: int | None = pydantic.Field(default=None, ge=1)
    """Tokens per block of the cache (default: vLLM's)."""
    eager: bool = True
    """Start immediately, without compiling; on a GPU ``false`` is faster after the start."""

    def options(self, *, longest: int, dtype: str, sleep: bool = False) -> ServerOptions:
        """Return the options to start it with.

        Args:
            longest: context length of the model, in tokens.
            dtype: data type of its weights.
            sleep: whether it is to free its memory between two steps.
        """
        given = self.model_dump(include=set(EngineConfig.model_fields) - {"context_length"})
        return ServerOptions.model_validate(
            given | {"context_length": min(self.context_length or longest, longest), "dtype": dtype, "sleep": sleep}
        )


class OwnEngine:
    """An engine that starts with the learner's model.

    Args:
        options: how to start it.
        model: the learner's model; adapters are merged.
        tokenizer: tokenizer of the model.
        folder: folder of the model while the engine lives. The engine can only load from a folder, and checks later
            weights against the shapes there. Leftovers of a run that was killed are replaced.
    """

    def __init__(self, options: ServerOptions, model: Any, tokenizer: Any, folder: Path) -> None:
        weights = merged(model, dict(model.state_dict())) if adapted(model) else None
        shutil.rmtree(folder, ignore_errors=True)
        save_model(model, tokenizer, folder, weights=weights)
        self.folder = folder
        self.server = EngineServer(folder, options)

    def start(self) -> None:
        """Load the model, which takes some seconds.

        Raises:
            UsageError: vLLM is not installed here.
            InfrastructureError: the engine cannot be created.
        """
        self.server.start()

    def stop(self) -> None:
        """Stop the engine, and remove the folder."""
        self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
