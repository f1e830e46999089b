"""Policies and engines: models that sample tokens, in this process or on vLLM servers.

``__all__`` is public, and imported on first use. Everything else in this folder is internal and may change.
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .models import load_model, load_tokenizer, save_model
    from .nano import NanoConfig, build_model, build_tokenizer
    from .policy import Completion, Finish, Policy, Sampling
    from .policy_checks import PolicyContract
    from .serving.http.client import ServerClient
    from .serving.remote_policy import RemotePolicy
    from .serving.server import AdapterHost, Pausable, Sampler, WeightReceiver
    from .transformers_policy import TransformersPolicy

__all__ = [
    "AdapterHost",
    "Completion",
    "Finish",
    "NanoConfig",
    "Pausable",
    "Policy",
    "PolicyContract",
    "RemotePolicy",
    "Sampler",
    "Sampling",
    "ServerClient",
    "TransformersPolicy",
    "WeightReceiver",
    "build_model",
    "build_tokenizer",
    "load_model",
    "load_tokenizer",
    "save_model",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__)
