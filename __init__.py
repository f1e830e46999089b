"""Turnwise: train and evaluate language-model agents by reinforcement learning over many turns.

Three things are done with it: register an environment, train an agent with a trainer script, run sandboxed
evaluation episodes. This module is the front door: everything named in ``__all__`` is public. Importing it
does not import torch.
"""

import importlib
import typing

from .envs.base import TurnEnv
from .envs.builtin import register_builtin
from .envs.fork import Forks
from .envs.messages import Action, ImagePart, Message, Observation, TextPart, ToolCall, message
from .envs.registry import entries, load_plugins, make, register
from .envs.step import Step, failure, running, success, termination, truncation
from .envs.toolenv import ToolEnv
from .envs.tools import Tool, tool
from .errors import ToolError, TurnwiseError, UnparseableError
from .inference.policy import Completion, Finish, Policy, Sampling
from .tasks.family import TaskFamily
from .tasks.rng import Rng
from .tasks.score import Score
from .tasks.spec import Split, TaskSpec

if typing.TYPE_CHECKING:
    from .rollouts.episode import Episode, Outcome, Turn, scored
    from .rollouts.options import RunOptions
    from .rollouts.runner import run, run_episodes

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Completion",
    "Episode",
    "Finish",
    "Forks",
    "ImagePart",
    "Message",
    "Observation",
    "Outcome",
    "Policy",
    "Rng",
    "RunOptions",
    "Sampling",
    "Score",
    "Split",
    "Step",
    "TaskFamily",
    "TaskSpec",
    "TextPart",
    "Tool",
    "ToolCall",
    "ToolEnv",
    "ToolError",
    "Turn",
    "TurnEnv",
    "TurnwiseError",
    "UnparseableError",
    "entries",
    "failure",
    "make",
    "message",
    "register",
    "run",
    "run_episodes",
    "running",
    "scored",
    "success",
    "termination",
    "tool",
    "truncation",
]

register_builtin()
load_plugins()  # names only, so that gymnasium.make knows them too; nothing of theirs is imported

_ROLLOUTS = {
    "Episode": "episode",
    "Outcome": "episode",
    "RunOptions": "options",
    "Turn": "episode",
    "run": "runner",
    "run_episodes": "runner",
    "scored": "episode",
}
"""Names of the front door that are imported on first use, since few processes need them, and their modules."""

if not typing.TYPE_CHECKING:  # a type checker would take every name for one that exists

    def __getattr__(name: str) -> typing.Any:
        if name not in _ROLLOUTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = getattr(importlib.import_module(f".rollouts.{_ROLLOUTS[name]}", __name__), name)
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *_ROLLOUTS})
