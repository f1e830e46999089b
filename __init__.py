"""Turnwise: train and evaluate language-model agents by reinforcement learning over many turns.

With Turnwise you register an environment, train an agent, and run evaluations. ``__all__`` here and in the folders
``turnwise.agents``, ``envs``, ``evals``, ``inference``, ``rollouts``, ``sandboxes``, ``service``, ``tasks`` and
``trainers`` is the public API, with all of ``turnwise.errors``. Names are imported on first use; importing this module
imports neither torch nor transformers.
"""

import logging
from typing import TYPE_CHECKING

from .envs.builtin import register_builtin as _register_builtin
from .envs.registry import load_plugins as _load_plugins
from .lazy import attach

if TYPE_CHECKING:
    from .config import load_config
    from .envs.base import TurnEnv
    from .envs.certify.certify import certify
    from .envs.contract import Contract
    from .envs.fork import Forks
    from .envs.messages import Action, ImagePart, Message, Observation, TextPart, ToolCall, message
    from .envs.registry import entries, make, register
    from .envs.remote.connect import connect
    from .envs.step import Step, failure, running, success, termination, truncation
    from .envs.toolenv import ToolEnv
    from .envs.tools import Tool, tool
    from .errors import ToolError, TurnwiseError, UnparseableError
    from .evals.compare import compare
    from .evals.evaluate import evaluate, evaluate_async
    from .inference.policy import Completion, Finish, Policy, Sampling
    from .rollouts.episode import Episode, Outcome, Turn, scored
    from .rollouts.options import RunOptions
    from .rollouts.replay import replay
    from .rollouts.runner import run, run_episodes
    from .rollouts.store import load_episodes
    from .tasks.family import TaskFamily
    from .tasks.rng import Rng
    from .tasks.score import Score
    from .tasks.spec import Split, TaskSpec
    from .trainers.train import train

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Completion",
    "Contract",
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
    "certify",
    "compare",
    "connect",
    "entries",
    "evaluate",
    "evaluate_async",
    "failure",
    "load_config",
    "load_episodes",
    "make",
    "message",
    "register",
    "replay",
    "run",
    "run_episodes",
    "running",
    "scored",
    "success",
    "termination",
    "tool",
    "train",
    "truncation",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # the program decides where the log goes
_register_builtin()
_load_plugins()  # names only, so that gymnasium.make knows them too; nothing of theirs is imported

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__)
