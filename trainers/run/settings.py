"""Settings of every training script: episodes, agent, evaluation, and what a run starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import pydantic

from ...agents.chat import ChatAgent
from ...agents.settings import AgentSettings
from ...config import Config, beneath
from ...inference.models import chosen_device, existing_device
from ...inference.policy import Policy
from ...inference.transformers_policy import TransformersPolicy
from ...rollouts.options import Isolation, RunOptions
from ...service.process import ProgramConfig
from ...service.program import ProgramAgent
from ...tasks.family import TaskFamily
from ...tasks.spec import Split
from ..collect.async_rollouts import OverlapConfig
from ..learning.learner import OptimizerConfig
from ..learning.lora import LoraConfig
from .kept_episodes import Keep
from .model_files import ModelFiles, Start
from .servers import ServerConfig

MAY_CHANGE = (
    "out",
    "resume",
    "steps",
    "eval",
    "checkpoint_every",
    "keep_checkpoints",
    "keep_episodes",
    "progress",
    "tensorboard",
    "episodes.concurrency",
    "episodes.turn_timeout",
    "episodes.env_timeout",
    "episodes.episode_timeout",
    "episodes.retries",
    "threads",
    "device",
    "agent.max_batch",
    "agent.threaded",
    "server",
    "optimizer.microbatch_tokens",
    "optimizer.layout",
    "optimizer.recompute",
)
"""What a resumed run may set anew: it changes what is learnt in the last digits at most (but a linear schedule does end
at ``steps``)."""


class EpisodeConfig(Config):
    """How episodes are played."""

    concurrency: int = pydantic.Field(default=64, ge=1)
    """How many episodes are alive at once."""
    turn_timeout: float | None = pydantic.Field(default=300.0, gt=0)
    """Seconds that the agent has for one turn."""
    env_timeout: float | None = pydantic.Field(default=120.0, gt=0)
    """Seconds that the environment has for one call."""
    episode_timeout: float | None = pydantic.Field(default=None, gt=0)
    """Seconds for one episode; beyond them it is ``policy_failed`` if the agent was acting, else cancelled."""
    retries: int = pydantic.Field(default=2, ge=0)
    """How often an episode is tried again after a failure of the machinery."""
    isolation: Isolation = "auto"
    """Where environments live: ``inline``, ``thread`` or ``process``; ``auto`` asks the environment."""
    env_kwargs: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Constructor arguments of the environment."""

    def options(self, *, seed: int, group_size: int = 1) -> RunOptions:
        """The runner's options for one round."""
        return RunOptions(seed=seed, group_size=group_size, **self.model_dump())


class AgentConfig(AgentSettings):
    """How a language model acts while it is trained; the trainer divides its logits by the same temperature.

    What is not set is what is saved beside the model that training starts from.
    """

    max_batch: int = pydantic.Field(default=64, ge=1)
    """The most requests in one forward pass."""
    threaded: bool = False
    """Sample on a thread of its own: for slow environments. Off, a run is reproducible bit by bit on a CPU."""
    program: ProgramConfig | None = None
    """A program that plays the episodes, a black box that asks the model for answers; omitted, the model acts itself.
    ``context``, ``parser``, ``system`` and ``show_tools`` are then the program's affair."""

    @pydantic.field_validator("program")
    @classmethod
    def _one_temperature(cls, program: ProgramConfig | None) -> ProgramConfig | None:
        if program is not None and not program.fixed_temperature:
            raise ValueError(
                "fixed_temperature = false lets the program choose temperatures that the learner does not know of"
            )
        return program

    @pydantic.field_validator("top_p")
    @classmethod
    def _unfiltered(cls, top_p: float) -> float:
        if top_p < 1:
            raise ValueError("training scores the whole distribution (trap 17): top_p must be 1, and is for eval only")
        return top_p

    @property
    def settings(self) -> AgentSettings:
        """What is saved beside the trained model, so that ``agent_from`` makes it act as it was trained."""
        return AgentSettings(**self.model_dump(include=set(AgentSettings.model_fields)))

    def agent(self, model: Any, tokenizer: Any, *, version: int = 0) -> ChatAgent:
        """An agent that samples from ``model``, which the learner may share."""
        policy = TransformersPolicy(model, tokenizer, max_batch=self.max_batch, threaded=self.threaded, version=version)
        return self.over(policy, tokenizer)

    def over(self, policy: Policy, tokenizer: Any) -> ChatAgent:
        """An agent that samples from a policy, wherever that is."""
        chat = ChatAgent.of(self, policy, tokenizer)
        return chat if self.program is None else ProgramAgent(chat, self.program)


class EvalConfig(Config):
    """Evaluation while training, on tasks that are never trained on."""

    every: int = pydantic.Field(default=10, ge=0)
    """Steps between evaluations; 0 means only before the first step and after the last."""
    split: Split = Split.DEV
    """Which part of the family."""
    levels: list[int] | None = None
    """Which levels; those trained on when omitted."""
    episodes: int = pydantic.Field(default=50, ge=0)
    """How many tasks, one episode each, the same ones every time; 0 evaluates nothing."""
    temperature: float | None = pydantic.Field(default=None, ge=0)
    """Of sampling; that of training when omitted, 0 for greedy."""
    patience: int | None = pydantic.Field(default=None, ge=1)
    """Stop when the return has not risen for so many evaluations; never when omitted."""
    stop_at: float | None = pydantic.Field(default=None, gt=0, le=1)
    """Stop when this share of the tasks is solved; never when omitted."""
    keep_best: bool = False
    """Export the model of the best evaluation, by return, instead of the last step's."""

    @pydantic.model_validator(mode="after")
    def _something_to_judge_by(self) -> Self:
        judged = [name for name in ("patience", "stop_at", "keep_best") if getattr(self, name) not in (None, False)]
        if judged and not (self.every and self.episodes):
            raise ValueError(
                f"{', '.join(judged)} judges by evaluations while training, and there are none with "
                f"every={self.every} and episodes={self.episodes}"
            )
        return self


@dataclass(frozen=True, slots=True)
class Plan:
    """What a script asks of its run.

    Args:
        algorithm: names it in the run's folder and on the progress bar.
        optimizer: the optimizer's settings, with the updates of the whole run where the configuration has no ``total``.
        overlap: whether episodes are played while the learner learns.
        family: the source of training tasks; ``None`` for the environment's own.
        may_change: settings that a resumed run may change.
        many_processes: whether ``torchrun`` may start several processes. Each learns its share; the main one plays,
            evaluates and writes.
    """

    algorithm: str
    optimizer: OptimizerConfig
    overlap: OverlapConfig = field(default_factory=OverlapConfig)
    family: TaskFamily[Any] | None = None
    may_change: tuple[str, ...] = MAY_CHANGE
    many_processes: bool = False


class TrainConfig(Config):
    """Settings that every training script has, and what ``open_run`` asks of a script."""

    env: str
    """The environment's id."""
    out: str
    """The run's folder."""
    seed: int = pydantic.Field(default=0, ge=0)
    """Of tasks, sampling and shuffling."""
    resume: bool = False
    """Continue the run in ``out`` from its newest whole checkpoint."""
    steps: int = pydantic.Field(default=100, ge=1)
    """Training steps in all. May be raised on resume."""
    split: Split = Split.TRAIN
    """Which tasks to train on."""
    levels: list[int] | None = None
    """Levels of the tasks; all when omitted."""
    pool: int | None = pydantic.Field(default=None, ge=1)
    """How many different tasks to train on; as many as there are when omitted."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """The optimizer."""
    lora: LoraConfig | None = None
    """Train adapters of low rank and leave the model as it is; everything is trained when omitted."""
    agent: AgentConfig = AgentConfig()
    """How the model acts."""
    server: ServerConfig | None = None
    """Servers that sample in the trainer's place, and are sent every version of the weights; omitted, the model samples
    in this process."""
    episodes: EpisodeConfig = EpisodeConfig()
    """How episodes are played."""
    eval: EvalConfig = EvalConfig()
    """Evaluation on held-out tasks."""
    checkpoint_every: int = pydantic.Field(default=10, ge=1)
    """Steps between checkpoints."""
    keep_checkpoints: int = pydantic.Field(default=2, ge=1)
    """How many of the newest checkpoints to keep."""
    keep_episodes: Keep = "none"
    """Which training episodes to keep in ``training_episodes/``: ``none``, ``sample`` (the attempts at the first task
    of each step) or ``all``. Refused where none are played, as in behavior cloning."""
    device: str = "auto"
    """Where the model lives: ``auto`` is the GPU if torch sees one, otherwise the CPU."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights. The softmax is 32-bit in either case."""
    threads: int | None = pydantic.Field(default=None, ge=1)
    """Threads that torch may use on a CPU; its own choice when omitted. Small models are fastest with 1 or 2."""
    progress: bool = True
    """Show a progress bar (on a terminal)."""
    tensorboard: bool = True
    """Write TensorBoard files beside ``metrics.jsonl``."""

    def plan(self) -> Plan:
        """Return what the script asks of its run."""
        raise NotImplementedError

    async def start(self, files: ModelFiles, resumed: Path | None) -> Start:
        """Load or build what the run starts from.

        Args:
            files: loads models.
            resumed: the model folder of the checkpoint to continue from; ``None`` in a new run.

        Raises:
            ModelError: There is no such model.
            UsageError: The demonstrations are not usable.
        """
        raise NotImplementedError

    @classmethod
    def filled(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """What was set, and whatever else follows from it: in most scripts nothing."""
        return given

    @pydantic.model_validator(mode="before")
    @classmethod
    def _filled(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        saved = trained_settings(given.get("model")).model_dump(exclude_unset=True)
        return beneath({"agent": saved} if saved else {}, cls.filled(given))

    @pydantic.model_validator(mode="after")
    def _nested(self) -> Self:
        if self.server is not None:
            self.server.limits(self.episodes.turn_timeout)
        return self

    @pydantic.field_validator("device")
    @classmethod
    def _device(cls, name: str) -> str:
        chosen = chosen_device(name)
        existing_device(chosen)  # here, and not when demonstrations have been played
        return chosen


class PolicyConfig(TrainConfig):
    """Settings of scripts that improve a model that acts already."""

    model: str
    """The model folder to start from: one that succeeds sometimes, such as behaviour cloning makes."""

    async def start(self, files: ModelFiles, resumed: Path | None) -> Start:
        return Start(*files.load(resumed or self.model))


def trained_settings(model: Any) -> AgentSettings:
    """The settings that a model was trained with, if it is a folder that holds any."""
    return AgentSettings.beside(Path(model).expanduser()) if isinstance(model, str) else AgentSettings()


def refuse_greedy(agent: AgentConfig) -> None:
    """For scripts that learn from what their own model samples.

    Raises:
        ValueError: the temperature is 0: attempts at a task are then all the same.
    """
    if agent.temperature == 0:
        raise ValueError(
            "agent.temperature = 0 acts greedily: every attempt at a task is the same, and nothing can be learned from "
            "it; set it above 0 (eval.temperature = 0 evaluates greedily)"
        )
