"""An open training run: everything that the steps of an algorithm use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from ...agents.chat import ChatAgent
from ...envs.tools import Tool
from ...rollouts.branching import Strategy
from ...rollouts.pool import EnvPool
from ..collect.collect import Collected, Experience
from ..collect.collector import Collector
from ..collect.sampler import TaskSampler
from ..learning.joint_calls import JointCalls
from ..learning.kl import KLConfig
from ..learning.learner import Learner
from ..learning.learner_records import Observe, records_of
from ..learning.parallel import ProcessGroup
from ..learning.reference import Reference
from ..weights.transfer import WeightTransfer
from ..weights.weight_sync import WeightSync
from .conclusion import RunResult, episodes_lost, nothing_learned, success_line
from .early_stop import EarlyStop
from .evaluation import Evaluation
from .metrics import Stopwatch, read_metrics
from .model_files import ModelFiles, Start, Weights
from .performance import Performance
from .reports import Reports
from .run_folder import RunFolder
from .server_meter import ServerMeter
from .settings import TrainConfig
from .state import RunState

T = TypeVar("T")
E = TypeVar("E", bound=Experience)


@dataclass(frozen=True, slots=True)
class Run:
    """A run from ``open_run``; no attribute is added later.

    Args:
        config: settings of the run.
        world: the processes that learn together.
        together: calls that all of them make together; the main one runs the script.
        folder: folder of the run.
        files: loading and writing of its model.
        start: its model, tokenizer and demonstrations.
        tools: tools of the environment.
        pool: environments.
        sampler: source of training tasks.
        learner: learner that updates the model.
        agent: agent that acts.
        weights: transfer of the learner's weights to the agent's policy.
        collector: collector that plays the episodes of a step.
        evaluation: evaluation on held-out tasks.
        early: rule that decides whether the run stops early.
        reports: logs and progress bar.
        performance: speed, memory and traces.
        servers: queues and caches of the servers that sample, if any.
        state: the step, and the other state of a checkpoint.
    """

    config: TrainConfig
    world: ProcessGroup
    together: JointCalls
    folder: RunFolder
    files: ModelFiles
    start: Start
    tools: tuple[Tool, ...]
    pool: EnvPool
    sampler: TaskSampler
    learner: Learner
    agent: ChatAgent
    weights: WeightTransfer
    collector: Collector
    evaluation: Evaluation
    early: EarlyStop
    reports: Reports
    performance: Performance
    servers: ServerMeter
    state: RunState

    @property
    def step(self) -> int:
        """The number of finished steps, which is also the version of the policy."""
        return self.state.step

    @property
    def model(self) -> Any:
        """The model that is trained."""
        return self.start.model

    @property
    def over(self) -> bool:
        """Whether the last step is done, or an evaluation ended the run early."""
        return self.step >= self.state.steps or self.early.reason is not None

    def clock(self) -> Stopwatch:
        """Return a watch for one step, which begins now."""
        self.performance.begin(self.step + 1)
        return Stopwatch(self.collector.background)

    async def collect(self, tasks: int, group_size: int, strategy: Strategy | None = None) -> Collected:
        """Collect groups for the present step: see ``Collector.collect``."""
        return self.record(await self.collector.collect(self.step, tasks, group_size, strategy))

    def record(self, played: E) -> E:
        """Keep episodes of the present step for readers, if ``keep_episodes`` asks for it; return what was played."""
        self.reports.keep(self.step, played.groups)
        return played

    @property
    def observe(self) -> Observe | None:
        """Function that stores the learner's numbers of the step's kept episodes; ``None`` if none are kept."""
        kept, step = self.reports.kept, self.step + 1
        if not kept:
            return None
        return lambda *given: self.reports.learned(records_of(*given, step=step, only=kept))

    async def rest(self) -> None:
        """Let servers on the learner's GPU free their memory until the next transfer, if ``server.sleep`` says so."""
        if self.world.is_main and self.config.server is not None:
            await cast(WeightSync, self.weights).rest()

    async def learn(self, learning: Callable[[], T]) -> T:
        """Call a learning function: in a thread if episodes are played meanwhile, otherwise right here."""
        if self.collector.background is None:
            return learning()

        def threaded() -> T:
            self.world.claim_thread()
            return learning()

        return await asyncio.to_thread(threaded)

    def reference(self, penalty: KLConfig, start: str) -> Reference | None:
        """Load the frozen policy of a KL penalty; ``None`` without a penalty.

        Args:
            penalty: its settings.
            start: the model folder to use when the penalty names none.

        Raises:
            ModelError: There is no such model, or it has another vocabulary.
        """
        if not penalty.coef:
            return None
        config = self.config
        reference = Reference.load(
            penalty.reference or start,
            self.start.tokenizer,
            dtype=getattr(torch, config.dtype),
            device=config.device,
            attention=config.hardware.attention,
            scorer=self.learner.scorer,
        )
        self.state.keep("reference", reference)
        return self.together.lead("reference", reference, "scored")

    def report(self, metrics: Mapping[str, float]) -> None:
        """Log the numbers of the last finished step, and show the most important ones."""
        if isinstance(self.weights, WeightSync):
            metrics = {**metrics, **self.weights.metrics}
        metrics = {**metrics, **self.performance.metrics(), **self.servers.metrics()}
        self.reports.write(self.step, metrics, advance=True)

    async def evaluate(self) -> None:
        """Evaluate on the held-out tasks, if an evaluation is due and not done yet."""
        if self.reports.has(self.step, "eval/episodes") or not self.evaluation.due(self.step):
            return
        began = time.perf_counter()
        await self.weights.send(self.step)
        found = await self.evaluation.metrics()
        found["seconds/evaluate"] = time.perf_counter() - began
        if self.early.see(self.step, found) and self.evaluation.keep_best:
            self.folder.keep_best(self._exporter(), step=self.step)
        self.reports.write(self.step, found)

    def finish(self, note: str = "") -> RunResult:
        """Export the model with the settings of its agent, and return the outcome.

        Args:
            note: a remark of the algorithm.
        """
        notes = [note]
        if self.early.reason and self.step < self.config.steps:
            notes.append(f"stopped early: {self.early.reason}")
            self.state.save()
        notes += self.folder.export(self._exporter(), best=self.early.best if self.config.eval.keep_best else None)
        lines = read_metrics(self.folder.metrics)
        notes += [nothing_learned(lines), episodes_lost(lines)]
        success = success_line(lines, str(self.config.eval.split))
        text, latest = "; ".join(filter(None, notes)), dict(self.reports.latest)
        return RunResult(self.folder.path, self.folder.model, self.step, latest, text, success)

    def gathered(self) -> Weights:
        """Return the unsharded weights of the present model; all processes call it together."""
        return self.files.weights(self.model)

    def _exporter(self) -> Callable[[Path], None]:
        """Return a function that writes the present model for other programs."""
        weights: Weights = self.together.call("run", "gathered")

        def export(folder: Path) -> None:
            self.files.export(self.model, self.start.tokenizer, weights, folder)
            self.config.agent.settings.save(folder)

        return export
