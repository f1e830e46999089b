"""A training run: its folder, model, agent and learner, opened together and left in a state to resume from."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, cast

import torch

from ...agents.models import load_model, save_model
from ...envs.registry import find
from ...errors import CheckpointError, UsageError
from ...rollouts.episode import Episode
from ...rollouts.pool import EnvPool
from ...rollouts.store import EpisodeStore, load_episodes
from ..learning.learner import Learner, OptimizerConfig
from .checkpoint import Checkpoint
from .collect import Collected, collect
from .early_stop import EarlyStop
from .generators import capture_generators, restore_generators, seed_generators
from .metrics import MetricsLog, StepProgress, Stopwatch, read_metrics
from .overlap import OverlapConfig, Overlapped, Source, in_thread
from .run_folder import RunFolder
from .sampler import TaskSampler
from .setup import MAY_CHANGE, RunResult, TrainConfig, family_and_tools, round_seed, with_temperature
from .weights import Copied, InProcess, Probe, Updatable, WeightTransfer, own_copy

T = TypeVar("T")
CANARY = "What is the answer?"
"""What the canary asks: any text does, since only log-probabilities are compared."""
TOLERANCES = {"float32": 1e-3, "bfloat16": 0.1}
"""How far the two sides of the canary may differ. Measured on random nano models: 1e-6, and 0.02 to 0.05."""


class Stateful(Protocol):
    """What a checkpoint can hold."""

    def state_dict(self) -> Mapping[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class TrainingRun:
    """The state of a run, and what happens to it between the steps of an algorithm.

    ::

        with TrainingRun(config, "loop") as run:            # the folder is held, and logs are closed at the end
            checkpoint = run.begin()
            run.open(*run.load(...), checkpoint, ...)
            async with run:                                 # environments are closed at the end

    Leaving the inner block by cancellation, which is what Ctrl-C becomes under ``asyncio.run``, writes a checkpoint:
    a step that was being learnt is finished first, and of one that was being collected the finished episodes are kept.

    With ``overlap``, episodes are played in the background from the first ``collect`` on, and ``learn`` runs in a
    thread; a checkpoint then also names the tasks that were drawn and are not over, which a resumed run plays again.

    Args:
        config: the run's settings.
        algorithm: names it, in the folder and on the progress bar.
        may_change: settings, besides the usual ones, that a resumed run may set anew.

    Raises:
        UnknownEnvironmentError: there is no such environment; nothing is written.
    """

    def __init__(self, config: TrainConfig, algorithm: str, *, may_change: Collection[str] = ()) -> None:
        find(config.env)
        self.config = config
        self.step = 0
        self.metrics: dict[str, float] = {}
        self.folder = RunFolder(config.out, algorithm, keep=config.keep_checkpoints)
        self._may_change = (*MAY_CHANGE, *may_change)
        self._kept: dict[str, Stateful] = {}
        self.pending: list[Episode] = []
        """Episodes of the present step that are over and not yet trained on."""
        self._asked = 0
        self._resumed: Checkpoint | None = None
        self._overlap: Overlapped | None = None
        self._saved: tuple[int, int, int] | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.folder.held())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def begin(self) -> Checkpoint | None:
        """Start the folder, or find the checkpoint to continue from (none, if the run died before its first).

        Raises:
            UsageError: the folder is taken, or the run in it cannot be resumed with these settings.
        """
        if self.config.threads is not None:
            torch.set_num_threads(self.config.threads)
        if not self.config.resume:
            self.folder.begin(self.config)
            return None
        checkpoint = self.folder.resume(self.config, may_change=self._may_change)
        for problem in checkpoint.passed_over if checkpoint else ():
            print(f"passed over a newer checkpoint: {problem}", file=sys.stderr)
        if checkpoint is None:
            print(f"{self.folder.path} has no checkpoint yet: the run begins anew", file=sys.stderr)
        elif checkpoint.step > self.config.steps:
            raise UsageError(
                f"the run in {self.folder.path} has been trained for {checkpoint.step} steps already, more than "
                f"steps={self.config.steps}; ask for as many or more, or start a new run"
            )
        return checkpoint

    def load(self, path: Path | str) -> tuple[Any, Any]:
        """Model and tokenizer of a folder, in the run's precision and place."""
        return load_model(path, dtype=getattr(torch, self.config.dtype), device=self.config.device)

    def open(
        self,
        model: Any,
        tokenizer: Any,
        checkpoint: Checkpoint | None,
        *,
        optimizer: OptimizerConfig,
        overlap: OverlapConfig | None = None,
    ) -> Self:
        """Make the learner, the agent and all that goes with them around a model."""
        config = self.config
        self.model, self.tokenizer = model, tokenizer
        self.pool = EnvPool.of(config.env, isolation=config.episodes.isolation, env_kwargs=config.episodes.env_kwargs)
        family, self.tools = family_and_tools(config.env, config.episodes.env_kwargs)
        self.sampler = TaskSampler(family, split=config.split, levels=config.levels, pool=config.pool, seed=config.seed)
        levels = config.eval.levels or config.levels
        self._held_out = TaskSampler(family, split=config.eval.split, levels=levels).peek(config.eval.episodes)
        self.learner = Learner(model, optimizer, temperature=config.agent.temperature, dump=self.folder.dump)
        seed_generators(config.seed)
        self._resumed = checkpoint
        if checkpoint is not None:
            self._restore(checkpoint)
        probe = Probe(tuple(tokenizer.encode(CANARY)), tolerance=TOLERANCES[config.dtype])
        self.weights: WeightTransfer
        if overlap is not None and overlap.enabled:
            aside = config.agent.model_copy(update={"threaded": True})
            self.agent = aside.agent(own_copy(model), tokenizer, version=self.step)
            self.weights = Copied(cast(Updatable, self.agent.policy), model, probe)
            self._overlap = self._overlapped(overlap)
        else:
            self.agent = config.agent.agent(model, tokenizer, version=self.step)
            self.weights = InProcess(cast(Updatable, self.agent.policy), model, probe)
        log = MetricsLog(self.folder.path, resume_at=self.step, tensorboard=config.tensorboard)
        self.log = self._stack.enter_context(log)
        judge = config.eval
        self.early = EarlyStop(patience=judge.patience, stop_at=judge.stop_at, logged=read_metrics(log.path))
        self._bar = self._stack.enter_context(
            StepProgress(self.folder.algorithm, config.steps, done=self.step, enabled=config.progress)
        )
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._overlap is not None:
            await self._overlap.close()
        await self.pool.close()
        if isinstance(error, asyncio.CancelledError):
            self.checkpoint()

    def keep(self, name: str, part: Stateful) -> None:
        """Let checkpoints hold a part of the algorithm (a critic, a replay), and give it back its state on resume.

        Args:
            name: of the part, unique in the run.
            part: its state is plain types and tensors.

        Raises:
            CheckpointError: the run is resumed from a checkpoint without such a part.
        """
        self._kept[name] = part
        if self._resumed is not None:
            states = self._resumed.tensors.get("kept", {})
            if name not in states:
                raise CheckpointError(f"checkpoint {self._resumed.path} holds no {name}; start a new run")
            part.load_state_dict(states[name])
            restore_generators(self._resumed.tensors["generators"])  # making the part may have drawn numbers

    async def learn(self, learning: Callable[[], T]) -> T:
        """Do the step's learning: all that changes the model and does not wait for anything."""
        return learning() if self._overlap is None else await in_thread(learning)

    def clock(self) -> Stopwatch:
        """A watch for one step, which also knows for how long episodes were played beside it."""
        overlap = self._overlap
        return Stopwatch() if overlap is None else Stopwatch(lambda: overlap.generating)

    async def collect(self, tasks: int, group_size: int) -> Collected:
        """Groups for the present step; asked again within it, further ones.

        The data cursor stays: it moves when they have been trained on.

        Where play overlaps with learning, the groups are those that were over first, and the cursor is at what was
        drawn; what is not trained yet is in every checkpoint.
        """
        if self._overlap is not None:
            return await self._overlap.collect(self.step, tasks, group_size)
        first, self._asked = self._asked, self._asked + tasks
        drawn = self.sampler.peek(self._asked)[first:]
        options = self.config.episodes.options(
            seed=round_seed("train", self.config.seed, self.step), group_size=group_size
        )
        done = tuple(self.pending)
        return await collect(self.pool, self.agent, drawn, options=options, first=first, done=done, keep=self.pending)

    @property
    def over(self) -> bool:
        """Whether the last step is done, or an evaluation ended the run early."""
        return self.step >= self.config.steps or self.early.reason is not None

    def finish_step(self, tasks: int = 0) -> None:
        """The step has been learnt: move on, past its tasks."""
        self.step += 1
        self._asked = 0
        if self._overlap is not None:
            self._overlap.trained()
            return
        self.sampler.cursor += tasks
        self.pending = []

    async def evaluate(self) -> None:
        """Evaluate on the held-out tasks, if it is time to and was not done yet; always the same episodes."""
        every, done = self.config.eval.every, self.log.has(self.step, "eval/return")
        due = self.step in (0, self.config.steps) or (every and self.step % every == 0)
        if done or not due or not self._held_out:
            return
        await self.weights.send(self.step)
        agent, temperature = self.agent, self.config.eval.temperature
        if temperature is not None:
            agent = with_temperature(agent, temperature)
        options = self.config.episodes.options(seed=round_seed("eval", self.config.seed))
        played = (await collect(self.pool, agent, self._held_out, options=options)).metrics()
        wanted = ("return", "success", "turns", "episodes", "unscored")
        found = {f"eval/{name}": played[name] for name in wanted if name in played}
        if self.early.see(self.step, found) and self.config.eval.keep_best:
            self.folder.keep_best(self._export, step=self.step)
        self.report(found)

    def report(self, metrics: Mapping[str, float], *, advance: bool = False) -> None:
        """Log numbers of the step that was finished last, and show the most telling ones."""
        self.log.write(self.step, metrics)
        self.metrics.update(metrics)
        shown = ("loss", "return", "success", "eval/return", "eval/success")
        self._bar.show({name: self.metrics[name] for name in shown if name in self.metrics}, advance=advance)

    def checkpoint_if_due(self) -> None:
        """Write a checkpoint at every so many steps, and at the last."""
        if self.step == self.config.steps or self.step % self.config.checkpoint_every == 0:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Write one now, unless the newest is of this very state."""
        state = self._state()
        if self._saved == state:
            return
        progress: dict[str, Any] = {"cursor": self.sampler.cursor, "version": self.step}
        if self._overlap is not None:
            progress["overlap"] = self._overlap.state_dict()
        self.folder.checkpoints.save(
            self.step,
            write_model=lambda path: save_model(self.model, self.tokenizer, path),
            progress=progress,
            tensors={
                "learner": self.learner.state_dict(),
                "generators": capture_generators(),
                "kept": {name: part.state_dict() for name, part in self._kept.items()},
            },
            write_pending=self._write_pending if self.pending else None,
        )
        self._saved = state

    def finish(self) -> RunResult:
        """Export the model, with how it acted, and say what there is."""
        notes = [f"stopped early: {self.early.reason}"] if self.early.reason and self.step < self.config.steps else []
        if notes:
            self.checkpoint()
        best = self.early.best
        if not self.config.eval.keep_best or best is None:
            self._export(self.folder.model)
        elif self.folder.export_best(step=best[0]):
            notes.append(f"the model is that of step {best[0]}, with a held-out return of {best[1]:.4g}")
        else:
            self._export(self.folder.model)
            notes.append(f"the model is the last one: that of the best evaluation, at step {best[0]}, was not kept")
        return RunResult(self.folder.path, self.folder.model, self.step, dict(self.metrics), "; ".join(notes))

    def _export(self, folder: Path) -> None:
        save_model(self.model, self.tokenizer, folder)
        self.config.agent.settings.save(folder)

    def _restore(self, checkpoint: Checkpoint) -> None:
        self.step = checkpoint.step
        self.sampler.cursor = int(checkpoint.progress["cursor"])
        self.learner.load_state_dict(checkpoint.tensors["learner"])
        restore_generators(checkpoint.tensors["generators"])
        if checkpoint.pending.is_dir():
            self.pending = load_episodes(checkpoint.pending)
        self._saved = self._state()

    def _state(self) -> tuple[int, int, int]:
        """What tells one checkpoint from the next."""
        return self.step, len(self.pending), self.sampler.cursor

    def _overlapped(self, overlap: OverlapConfig) -> Overlapped:
        options = self.config.episodes.options(seed=round_seed("train", self.config.seed))
        source = Source(self.pool, self.agent, self.sampler, options, self.config.steps)
        progress: Mapping[str, Any] = self._resumed.progress if self._resumed is not None else {}
        return Overlapped(
            source,
            max_staleness=overlap.max_staleness,
            pending=self.pending,
            version=self.step,
            drawn=progress.get("overlap", {}).get("drawn", ()),
        )

    def _write_pending(self, folder: Path) -> None:
        with EpisodeStore(folder) as store:
            for episode in self.pending:
                store.append(episode)
