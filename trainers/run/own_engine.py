"""vLLM's engine in the trainer's own process, made from its settings and the run's model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ...inference.models import save_model
from ...inference.serving.engine.engine import EngineServer
from ...inference.serving.launch.process import ServerOptions
from ..learning.lora import adapted, merged


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
