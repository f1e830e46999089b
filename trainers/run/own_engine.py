"""vLLM's engine in the trainer's own process: its settings, and the engine made of them and the run's model."""

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
    """Longest prompt plus action, in tokens; all that the model can read when omitted."""
    max_seqs: int = pydantic.Field(default=64, ge=1)
    """Requests that are decoded together; more wait."""
    batched_tokens: int | None = pydantic.Field(default=None, ge=1)
    """Tokens of one step; see ``ServerOptions.batched_tokens``."""
    kv_megabytes: int = pydantic.Field(default=100, ge=1)
    """Memory for cached keys and values, beside the learner's own."""
    block: int | None = pydantic.Field(default=None, ge=1)
    """Tokens per block of the cache; vLLM's own when omitted."""
    eager: bool = True
    """Start at once, without compiling; on a GPU ``false`` is faster once it runs."""

    def options(self, *, longest: int, dtype: str) -> ServerOptions:
        """How it is started.

        Args:
            longest: what the model can read, in tokens.
            dtype: of the weights that it holds.
        """
        given = self.model_dump(exclude={"context_length"})
        return ServerOptions.model_validate(
            given | {"context_length": min(self.context_length or longest, longest), "dtype": dtype}
        )


class OwnEngine:
    """An engine that begins as the learner's model.

    Args:
        options: how to start it.
        model: the learner's; adapters are merged.
        tokenizer: the model's.
        folder: where the model is while the engine lives: it reads one in no other way, and holds what it is sent to
            that one's shapes. What a run that was killed left there is replaced.
    """

    def __init__(self, options: ServerOptions, model: Any, tokenizer: Any, folder: Path) -> None:
        weights = merged(model, dict(model.state_dict())) if adapted(model) else None
        shutil.rmtree(folder, ignore_errors=True)
        save_model(model, tokenizer, folder, weights=weights)
        self.folder = folder
        self.server = EngineServer(folder, options)

    def start(self) -> None:
        """Load the model; some seconds.

        Raises:
            UsageError: vLLM is not installed here.
            InfrastructureError: the engine cannot be made.
        """
        self.server.start()

    def stop(self) -> None:
        """End it, and remove the folder."""
        self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
