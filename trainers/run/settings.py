"""Settings of every training script: episodes, agent, evaluation, and the initial model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import pydantic
import torch

from ...agents.chat import ChatAgent
from ...agents.settings import AgentSettings
from ...config import Config, merge_defaults
from ...inference.models import available_device, resolve_device
from ...inference.policy import Policy
from ...inference.transformers_policy import TransformersPolicy
from ...renamed import warn, with_new_names
from ...rollouts.options import Isolation, RolloutsConfig, RunOptions, Seed
from ...service.process import ProgramConfig
from ...service.program import ProgramAgent
from ...tasks.family import TaskFamily
from ...tasks.spec import Split
from ..collect.async_rollouts import OverlapConfig
from ..collect.curriculum import Curriculum
from ..learning.learner import OptimizerConfig
from ..learning.lora import LoraConfig
from ..learning.parallel_config import ParallelConfig
from ..tracking.settings import RENAMED, RENAMED_VALUES, TrackingConfig
from .hardware import HardwareConfig, profiled
from .kept_episodes import Keep
from .may_change import MAY_CHANGE
from .model_files import ModelFiles, Start
from .server_settings import ServerConfig


class EpisodeConfig(Config):
    """Settings for playing episodes."""

    concurrency: int = pydantic.Field(default=64, ge=1)
    """Number of episodes that run at once."""
    turn_timeout: float | None = pydantic.Field(default=300.0, gt=0)
    """Seconds that the agent has for one turn."""
    hedge_resets: bool = False
    """Let a slow reset race with a second one; see ``RunOptions.hedge_resets``."""
    env_timeout: float | None = pydantic.Field(default=120.0, gt=0)
    """Seconds that the environment has for one call."""
    episode_timeout: float | None = pydantic.Field(default=None, gt=0)
    """Seconds for one episode; beyond them it is ``policy_failed`` if the agent was acting, else canceled."""
    retries: int = pydantic.Field(default=2, ge=0)
    """Retries of an episode after an infrastructure failure."""
    isolation: Isolation = "auto"
    """Place of environments: ``inline``, ``thread`` or ``process``; ``auto`` asks the environment."""
    env_kwargs: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Constructor arguments of the environment, and ``turn_limit``: a limit that the run sets, which truncates."""

    def options(self, *, seed: int, group_size: int = 1) -> RunOptions:
        """Return the runner's options for one round."""
        return RunOptions(seed=seed, group_size=group_size, **self.model_dump())


class AgentConfig(AgentSettings):
    """How a language model acts during training; the trainer divides its logits by the same temperature.

    The default of each setting is the value that is saved beside the initial model.
    """

    max_batch: int = pydantic.Field(default=64, ge=1)
    """The most requests in one forward pass."""
    threaded: bool = False
    """Sample on a thread of its own, for slow environments. Without it, a run is reproducible bit by bit on a CPU."""
    program: ProgramConfig | None = None
    """A program that plays the episodes, a black box that asks the model for answers (default: the model acts itself).
    Then ``context``, ``parser``, ``system`` and ``show_tools`` have no effect, since the program decides on them."""

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
        """Return the settings to save beside the trained model, so that ``agent_from`` makes it act as in training."""
        return AgentSettings(**self.model_dump(include=set(AgentSettings.model_fields)))

    def agent(self, model: Any, tokenizer: Any, *, version: int = 0, autocast: torch.dtype | None = None) -> ChatAgent:
        """Return an agent that samples from ``model``, which the learner may share, in the learner's precision."""
        how: dict[str, Any] = {"max_batch": self.max_batch, "threaded": self.threaded, "autocast": autocast}
        return self.over(TransformersPolicy(model, tokenizer, version=version, **how), tokenizer)

    def over(self, policy: Policy, tokenizer: Any) -> ChatAgent:
        """Return an agent that samples from a policy, wherever that is."""
        chat = ChatAgent.of(self, policy, tokenizer)
        return chat if self.program is None else ProgramAgent(chat, self.program)


class EvalConfig(Config):
    """Evaluation during training, on the same tasks each time: held-out ones, unless ``eval.split`` is ``split``."""

    every: int = pydantic.Field(default=10, ge=0)
    """Steps between evaluations; 0 means only before the first step and after the last."""
    split: Split = Split.DEV
    """Split of the evaluation tasks."""
    levels: list[int] | None = None
    """Levels of the evaluation tasks (default: those of training)."""
    episodes: int = pydantic.Field(default=50, ge=0)
    """Number of tasks, one episode each, the same ones every time; 0 turns evaluation off."""
    temperature: float | None = pydantic.Field(default=None, ge=0)
    """Sampling temperature (default: that of training); 0 for greedy."""
    patience: int | None = pydantic.Field(default=None, ge=1)
    """Stop when the return has not risen for so many evaluations (default: never)."""
    stop_at: float | None = pydantic.Field(default=None, gt=0, le=1)
    """Stop when this share of the tasks is solved (default: never)."""
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
    """The requirements of a script on its run.

    Args:
        algorithm: name of the algorithm in the run's folder and on the progress bar.
        optimizer: the optimizer's settings, with the updates of the whole run where the configuration has no ``total``.
        overlap: whether episodes are played while the learner learns.
        family: source of training tasks; ``None`` for the environment's own.
        may_change: settings that a resumed run may change.
        many_processes: whether ``torchrun`` may start several processes. Each learns its share; the main one plays,
            evaluates and writes.
        samples_in_learning: whether the script samples from the policy while it learns, besides ``overlap``.
        correction: correction for a sampler that differs from the learner, resolved; ``none`` in scripts without one.
    """

    algorithm: str
    optimizer: OptimizerConfig
    overlap: OverlapConfig = field(default_factory=OverlapConfig)
    family: TaskFamily[Any] | None = None
    may_change: tuple[str, ...] = MAY_CHANGE
    many_processes: bool = False
    samples_in_learning: bool = False
    correction: str = "none"


class TrainConfig(Config):
    """Settings of every training script, and the methods that ``open_run`` calls on them."""

    renamed: ClassVar[Mapping[str, str]] = {"pool": "max_tasks", **RENAMED}
    renamed_values: ClassVar[Mapping[str, Mapping[Any, Any]]] = RENAMED_VALUES
    cures: ClassVar[Mapping[str, str]] = {
        "env": "name an environment's id (`turnwise envs` lists them) or file, as env=my_env.py",
        "learning_rate": "it is optimizer.lr",
        "model": "clone one with `turnwise train bc env=ENV`, then add model=runs/bc/model",
    }

    env: str
    """The environment's id."""
    out: str
    """The run's folder."""
    seed: Seed = 0
    """Seed of tasks, sampling and shuffling."""
    resume: bool = False
    """Continue the run in ``out`` from its newest whole checkpoint."""
    steps: int = pydantic.Field(default=100, ge=1)
    """Training steps in all. You may raise it on resume."""
    split: Split = Split.TRAIN
    """Split of the training tasks."""
    levels: list[int] | None = None
    """Levels of the tasks (default: all)."""
    max_tasks: int | None = pydantic.Field(default=None, ge=1)
    """Number of different tasks to train on (default: as many as there are)."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """The optimizer."""
    lora: LoraConfig | None = None
    """Train low-rank adapters and leave the model as it is (default: train everything)."""
    agent: AgentConfig = AgentConfig()
    """How the model acts."""
    server: ServerConfig | None = None
    """Servers that sample in the trainer's place and receive every version of the weights (default: the model samples
    in this process)."""
    episodes: EpisodeConfig = EpisodeConfig()
    """Settings for playing episodes."""
    rollouts: RolloutsConfig = RolloutsConfig()
    """Place of episodes: this process, or workers on a Ray cluster."""
    eval: EvalConfig = EvalConfig()
    """Evaluation on held-out tasks."""
    checkpoint_every: int = pydantic.Field(default=10, ge=1)
    """Steps between checkpoints."""
    checkpoint_in_background: bool = False
    """Write checkpoints while the next steps are played and learned: a step waits only for a copy in the machine's own
    memory. A kill may then lose one checkpoint more."""
    keep_checkpoints: int = pydantic.Field(default=2, ge=1)
    """Number of the newest checkpoints to keep."""
    keep_episodes: Keep = "none"
    """Training episodes to keep in ``training_episodes/``: ``none``, ``sample`` (the attempts at the first task of each
    step) or ``all``. Scripts that play none, such as behavior cloning, refuse the last two."""
    device: str = "auto"
    """Device of the model: ``auto`` is the GPU if torch sees one, otherwise the CPU."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights; ``bfloat16`` needs ``lora``. The softmax is always 32-bit."""
    hardware: HardwareConfig = HardwareConfig()
    """The hardware that the run is made for; on a GPU, its profile replaces defaults that are meant for a CPU."""
    parallel: ParallelConfig = ParallelConfig()
    """How processes that ``torchrun`` started share the model."""
    threads: int | None = pydantic.Field(default=None, ge=1)
    """Threads that torch may use on a CPU (default: torch's choice). Small models are fastest with 1 or 2."""
    progress: bool = True
    """Show a progress bar (on a terminal)."""
    tracking: TrackingConfig = TrackingConfig()
    """Trackers that show the numbers of ``metrics.jsonl``: TensorBoard and others."""

    profile_steps: list[Annotated[int, pydantic.Field(ge=1)]] = pydantic.Field(default_factory=list)
    """Steps to trace with torch's profiler, e.g. ``[3]``: ``profiles/step-3.json.gz`` in the run's folder opens in
    Perfetto or ``chrome://tracing``. A traced step is slower."""

    def plan(self) -> Plan:
        """Return the requirements of the script."""
        raise NotImplementedError

    async def start(self, files: ModelFiles, resumed: Path | None) -> Start:
        """Load or build the initial model.

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
        """Return the given settings, completed by those that follow from them: in most scripts none."""
        return given

    @pydantic.model_validator(mode="before")
    @classmethod
    def _filled(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        given = with_new_names(given, cls, report=warn)  # before it is merged with settings under their new names
        saved = trained_settings(given.get("model")).model_dump(exclude_unset=True)
        return profiled(merge_defaults({"agent": saved} if saved else {}, cls.filled(given)))

    @pydantic.model_validator(mode="after")
    def _updates_survive(self) -> Self:
        if self.dtype == "bfloat16" and self.lora is None:  # measured: 20 updates at 1e-6 changed 2 of 109,760 weights
            raise ValueError(
                "dtype = bfloat16 rounds updates below a 256th of a weight away, so training all weights learns almost "
                "nothing: set lora.rank to train adapters, or dtype = float32 with optimizer.autocast = bfloat16"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _profiles_own_steps(self) -> Self:
        # An error, since it costs nothing to correct now, and after the run there is no trace.
        if late := [step for step in self.profile_steps if step > self.steps]:
            raise ValueError(f"profile_steps names step {late[0]}, and the run ends with step {self.steps}")
        return self

    @pydantic.model_validator(mode="after")
    def _nested(self) -> Self:
        if self.server is not None:
            self.server.limits(self.episodes.turn_timeout)
        return self

    @pydantic.model_validator(mode="after")
    def _one_cluster(self) -> Self:
        if self.server is not None and self.server.ray is not None:
            self.server.ray.agree_with(self.rollouts, "a run")
        return self

    @pydantic.field_validator("device")
    @classmethod
    def _device(cls, name: str) -> str:
        chosen = resolve_device(name)
        available_device(chosen)  # check it here, before demonstrations are played
        return chosen


class PolicyConfig(TrainConfig):
    """Settings of scripts that improve a model that can act already."""

    model: str
    """The model folder to start from: a model that succeeds sometimes, such as one from behavior cloning."""
    curriculum: Curriculum | None = None
    """Choice of tasks by measured success (default: levels in turn)."""

    @pydantic.model_validator(mode="after")
    def _curriculum_of_own_steps(self) -> Self:
        overlap: OverlapConfig | None = getattr(self, "overlap", None)
        if self.curriculum is not None and (overlap is not None and overlap.enabled):
            raise ValueError(
                "a curriculum chooses the tasks of a step by the steps before it, and with overlap tasks are drawn "
                "ahead: leave curriculum or overlap out"
            )
        if self.curriculum is not None and getattr(self, "mode", None) == "offline":
            raise ValueError("mode = offline plays no tasks to choose: leave curriculum out")
        return self

    async def start(self, files: ModelFiles, resumed: Path | None) -> Start:
        return Start(*files.load(resumed or self.model))


def trained_settings(model: Any) -> AgentSettings:
    """Return the settings that a model was trained with, if it is a folder that has any."""
    return AgentSettings.beside(Path(model).expanduser()) if isinstance(model, str) else AgentSettings()


def refuse_greedy(agent: AgentConfig) -> None:
    """Refuse greedy sampling in scripts that learn from samples of their own model.

    Raises:
        ValueError: the temperature is 0, so all attempts at a task are the same.
    """
    if agent.temperature == 0:
        raise ValueError(
            "agent.temperature = 0 acts greedily: every attempt at a task is the same, and nothing can be learned from "
            "it; set it above 0 (eval.temperature = 0 evaluates greedily)"
        )
