"""A training run: its folder, model, agent and learner, opened together and left in a state to resume from."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import torch

from ...envs.registry import find
from ...errors import CheckpointError, UsageError
from ...rollouts.branching import Strategy
from ...rollouts.episode import Episode
from ...rollouts.pool import EnvPool
from ...rollouts.store import load_episodes
from ..collect.async_rollouts import AsyncRollouts, OverlapConfig, Source, in_thread
from ..collect.collect import Collected, Played, collect
from ..collect.sampler import TaskSampler, family_and_tools, held_out, round_seed
from ..learning.learner import Learner, OptimizerConfig
from ..learning.main_process import StoppedByMain, run_on_main
from ..learning.parallel import ALONE, processes, shard, world
from ..weights.to_servers import ToServers
from .actor import Actor, sampling_copy
from .checkpoint import Checkpoint, Stateful
from .conclusion import nothing_learned, success_line
from .early_stop import EarlyStop
from .generators import capture_generators, restore_generators, seed_generators
from .kept_episodes import KeptEpisodes, write_episodes
from .metrics import MetricsLog, StepProgress, Stopwatch, read_metrics
from .model_files import ModelFiles
from .openings import openings
from .run_folder import RunFolder
from .settings import MAY_CHANGE, RunResult, TrainConfig, with_temperature
from .uninterrupted import TornError

T = TypeVar("T")
P = TypeVar("P", bound=Played)


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
        together: whether ``torchrun`` may start it in many processes: all of them then run the script, each learns its
            share, and what plays, evaluates or writes happens in process 0 alone.

    Raises:
        UnknownEnvironmentError: there is no such environment; nothing is written.
    """

    def __init__(
        self, config: TrainConfig, algorithm: str, *, may_change: Collection[str] = (), together: bool = False
    ) -> None:
        find(config.env)
        self.config = config
        self.step = 0
        self.metrics: dict[str, float] = {}
        self.folder = RunFolder(config.out, algorithm, keep=config.keep_checkpoints)
        self._may_change = (*MAY_CHANGE, *may_change)
        self._together = together
        self.world = ALONE
        self._kept: dict[str, Stateful] = {}
        self.pending: list[Episode] = []
        """Episodes of the present step that are over and not yet trained on."""
        self._asked = 0
        self._resumed: Checkpoint | None = None
        self._overlap: AsyncRollouts | None = None
        self._saved: tuple[int, int, int] | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        config = self.config
        if processes() > 1 and not self._together:
            raise UsageError(f"{self.folder.algorithm} trains in one process; start it without torchrun")
        self.world = self._stack.enter_context(world(config.device))
        if self.world.is_main:
            self._stack.enter_context(self.folder.held())
        self.files = ModelFiles(config.dtype, lora=config.lora, seed=config.seed, world=self.world)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def begin(self) -> Checkpoint | None:
        """Start the folder, or find the checkpoint to continue from: see ``RunFolder.entered``."""
        if self.config.threads is not None:
            torch.set_num_threads(self.config.threads)
        if not self.world.is_main:
            path = self.world.broadcast(Path())
            return self.folder.checkpoints.load(path) if path != Path() else None
        checkpoint = self.folder.entered(self.config, may_change=self._may_change)
        self.world.broadcast(checkpoint.path if checkpoint else Path())
        return checkpoint

    def load(self, path: Path | str) -> tuple[Any, Any]:
        """Model and tokenizer of a folder, in the run's precision and place, with adapters if there are to be any."""
        return self.files.load(path)

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
        own = sampling_copy(config, model, overlap, self.world)
        self.model, self.tokenizer = shard(model, self.world), tokenizer
        self.pool = EnvPool.of(config.env, isolation=config.episodes.isolation, env_kwargs=config.episodes.env_kwargs)
        family, self.tools = family_and_tools(config.env, config.episodes.env_kwargs)
        self.sampler = TaskSampler(family, split=config.split, levels=config.levels, pool=config.pool, seed=config.seed)
        levels = config.eval.levels or config.levels
        self._held_out = held_out(family, config.eval.split, levels, config.eval.episodes)
        temperature, dump = config.agent.temperature, self.folder.dump
        self.learner = Learner(model, optimizer, temperature=temperature, dump=dump, world=self.world)
        seed_generators(config.seed)
        self._resumed = checkpoint
        if checkpoint is not None:
            self._restore(checkpoint)
        acting = Actor.of(config, model, tokenizer, own=own, version=self.step, files=self.files)
        self.agent, self.weights, self._serving = acting.agent, acting.weights, acting.serving
        if self.world.is_main:
            for line in openings(config, model, self.agent, self.tools):
                print(f"turnwise: {line}", file=sys.stderr)
        if overlap is not None and overlap.enabled:
            self._overlap = self._overlapped(overlap)
        if self.world.is_main:
            log = MetricsLog(self.folder.path, resume_at=self.step, tensorboard=config.tensorboard)
            self.log = self._stack.enter_context(log)
            self._episodes = self._stack.enter_context(KeptEpisodes(self.folder.episodes, config.keep_episodes))
        logged = self.world.broadcast(read_metrics(self.log.path) if self.world.is_main else [])
        self.early = EarlyStop(patience=config.eval.patience, stop_at=config.eval.stop_at, logged=logged)
        shown = config.progress and self.world.is_main
        bar = StepProgress(self.folder.algorithm, config.steps, done=self.step, enabled=shown)
        self._bar = self._stack.enter_context(bar)
        return self

    async def __aenter__(self) -> Self:
        if self._serving is not None:
            await self._serving.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._overlap is not None:
            await self._overlap.close()
        await self.pool.close()
        # Any other interruption may have come in the midst of learning, of which a checkpoint would keep one half.
        if isinstance(error, asyncio.CancelledError | StoppedByMain) and not isinstance(error, TornError):
            self.checkpoint()
        if self._serving is not None:
            await self._serving.close()

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

    async def collect(self, tasks: int, group_size: int, strategy: Strategy | None = None) -> Collected:
        """Groups for the present step, played by a strategy if there is one; asked again within it, further ones.

        The data cursor stays: it moves when they have been trained on.

        Where play overlaps with learning, the groups are those that were over first, and the cursor is at what was
        drawn; what is not trained yet is in every checkpoint.
        """
        if self._overlap is not None:
            return self.record(await self._overlap.collect(self.step, tasks, group_size))
        first, self._asked = self._asked, self._asked + tasks
        drawn = self.sampler.peek(self._asked)[first:]
        seed = round_seed("train", self.config.seed, self.step)
        options = self.config.episodes.options(seed=seed, group_size=group_size)
        play = partial(collect, self.pool, self.agent, drawn, options=options, strategy=strategy, first=first)
        return self.record(await run_on_main(self.world, lambda: play(done=tuple(self.pending), keep=self.pending)))

    def record(self, played: P) -> P:
        """Keep episodes of the present step for readers, if ``keep_episodes`` asks for it; what was played."""
        if self.world.is_main:
            self._episodes.add(self.step, played.groups)
        return played

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
        every = self.config.eval.every
        due = self.step in (0, self.config.steps) or (every and self.step % every == 0)
        done = self.world.broadcast(self.world.is_main and self.log.has(self.step, "eval/episodes"))
        if done or not due or not self._held_out:
            return
        await self.weights.send(self.step)
        agent, temperature = self.agent, self.config.eval.temperature
        if temperature is not None:
            agent = with_temperature(agent, temperature)
        options = self.config.episodes.options(seed=round_seed("eval", self.config.seed))
        collected = await run_on_main(self.world, lambda: collect(self.pool, agent, self._held_out, options=options))
        found = collected.held_out_metrics()
        if self.early.see(self.step, found) and self.config.eval.keep_best:
            export = self._exporter()
            if self.world.is_main:
                self.folder.keep_best(export, step=self.step)
        self.report(found)

    def report(self, metrics: Mapping[str, float], *, advance: bool = False) -> None:
        """Log numbers of the step that was finished last, and show the most telling ones."""
        if advance and isinstance(self.weights, ToServers):
            metrics = {**metrics, **self.weights.metrics}
        if self.world.is_main:
            self.log.write(self.step, metrics)
        self.metrics.update(metrics)
        self._bar.show(metrics, advance=advance)
        self._bar.warn(nothing_learned([{"step": self.step, **metrics}]))

    def checkpoint_if_due(self) -> None:
        """Write a checkpoint at every so many steps, and at the last."""
        if self.step == self.config.steps or self.step % self.config.checkpoint_every == 0:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Write one now, unless the newest is of this very state."""
        state = self._state()
        if self.world.broadcast(self._saved == state):
            return
        progress: dict[str, Any] = {"cursor": self.sampler.cursor, "version": self.step}
        if self._overlap is not None:
            progress["overlap"] = self._overlap.state_dict()
        weights = self.files.weights(self.model)
        tensors = {
            "learner": self.learner.state_dict(),
            "generators": capture_generators(),
            "kept": {name: part.state_dict() for name, part in self._kept.items()},
        }
        if self.world.is_main:
            self.folder.checkpoints.save(
                self.step,
                write_model=lambda path: self.files.write_checkpoint(self.model, self.tokenizer, weights, path),
                progress=progress,
                tensors=tensors,
                write_pending=partial(write_episodes, tuple(self.pending)) if self.pending else None,
            )
        self._saved = state

    def finish(self) -> RunResult:
        """Export the model, with how it acted, and say what there is."""
        notes = [f"stopped early: {self.early.reason}"] if self.early.reason and self.step < self.config.steps else []
        if notes:
            self.checkpoint()
        export, success = self._exporter(), ""
        if self.world.is_main:
            notes += self.folder.export(export, best=self.early.best if self.config.eval.keep_best else None)
            lines = read_metrics(self.log.path)
            notes += filter(None, [nothing_learned(lines)])
            success = success_line(lines, str(self.config.eval.split))
        self.world.broadcast(None)
        note = "; ".join(notes)
        return RunResult(self.folder.path, self.folder.model, self.step, dict(self.metrics), note, success)

    def _exporter(self) -> Callable[[Path], None]:
        """Writes the present model, with how it acted, as others read it; all processes have to ask at once."""
        weights = self.files.weights(self.model)

        def export(folder: Path) -> None:
            self.files.export(self.model, self.tokenizer, weights, folder)
            self.config.agent.settings.save(folder)

        return export

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

    def _overlapped(self, overlap: OverlapConfig) -> AsyncRollouts:
        options = self.config.episodes.options(seed=round_seed("train", self.config.seed))
        source = Source(self.pool, self.agent, self.sampler, options, self.config.steps)
        drawn = self._resumed.progress.get("overlap", {}).get("drawn", ()) if self._resumed is not None else ()
        most = overlap.max_staleness
        return AsyncRollouts(source, max_staleness=most, pending=self.pending, version=self.step, drawn=drawn)
