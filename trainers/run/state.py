"""The state of a run: everything that its checkpoints store, written and restored."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import CheckpointError
from ...logs import event
from ..collect.collector import Collector
from ..collect.sampler import TaskSampler
from ..learning.learner import Learner
from ..learning.parallel import ProcessGroup
from .background import Background
from .checkpoint import Checkpoint, Checkpoints, Stateful, scratch_shards
from .generators import capture_generators, restore_generators
from .kept_episodes import write_episodes
from .model_files import ModelFiles, Start
from .shards import copied, shards_of, write_shards

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class RunState:
    """The step, the model and its learner, the data cursor, unlearned episodes, and the parts of the algorithm.

    Args:
        checkpoints: checkpoints of the run.
        files: writer of the model.
        start: the model and its tokenizer.
        learner: learner of the model, with its state restored.
        sampler: sampler of tasks; its cursor is behind the last drawn one.
        collector: collector with the episodes that are not trained on yet.
        world: the processes that learn together.
        steps: number of steps of the whole run.
        every: steps between checkpoints.
        background: writer of checkpoints, beside the training or in its turn.
        resumed: the checkpoint that the run continues from.
    """

    checkpoints: Checkpoints
    files: ModelFiles
    start: Start
    learner: Learner
    sampler: TaskSampler
    collector: Collector
    world: ProcessGroup
    steps: int
    every: int
    background: Background
    resumed: Checkpoint | None = None
    step: int = field(init=False)
    parts: dict[str, Stateful] = field(init=False, default_factory=dict)
    _saved: tuple[int, int, int] | None = field(init=False)
    _group: Any = field(init=False)

    def __post_init__(self) -> None:
        self.step = self.resumed.step if self.resumed is not None else 0
        self._saved = self._mark() if self.resumed is not None else None
        self._group = self.world.new_group()

    def keep(self, name: str, part: Stateful) -> None:
        """Add a part of the algorithm (a critic, a replay) to checkpoints, and restore its state on resume.

        Args:
            name: name of the part, unique in the run.
            part: object whose state is plain types and tensors.

        Raises:
            CheckpointError: The run is resumed from a checkpoint without such a part.
        """
        self.parts[name] = part
        if self.resumed is None:
            return
        states = self.resumed.tensors.get("kept", {})
        if name not in states:
            raise CheckpointError(f"checkpoint {self.resumed.path} holds no {name}; start a new run")
        part.load_state_dict(states[name])
        restore_generators(self.resumed.tensors["generators"])  # creating the part may have drawn random numbers

    def finish_step(self, tasks: int) -> None:
        """Count a step that has been learned.

        Args:
            tasks: number of tasks drawn for it.
        """
        self.step += 1
        self.collector.trained(tasks)

    def save_if_due(self) -> None:
        """Write a checkpoint after every ``every`` steps, and after the last, which is complete on return."""
        self.background.check()
        if self.step == self.steps or self.step % self.every == 0:
            self.save(wait=self.step == self.steps)

    def save(self, *, wait: bool = True) -> None:
        """Write a checkpoint, unless the newest is of this very state. All processes must call it at once.

        Args:
            wait: whether it must be complete on return, also if checkpoints are written in the background.

        Raises:
            CheckpointError: this or an earlier checkpoint could not be written.
        """
        mark = self._mark()
        # Process 0 decides: writing the model gathers shards from all processes, which hang if one of them skips it.
        if not self.world.broadcast(self._saved == mark):
            # First, since to begin a checkpoint is to remove the folders of unfinished ones, and its copy needs memory.
            self.background.wait()
            self.background.run(self._writing())
            self._saved = mark
        if wait:
            self.background.wait()

    def _writing(self) -> Callable[[], None]:
        """Return a function that writes the present state; if that is done in the background, copy what will change."""
        progress: dict[str, Any] = {"cursor": self.sampler.cursor, "version": self.step}
        if ahead := self.collector.state_dict():
            progress["overlap"] = ahead
        progress["account"] = self.collector.account.state_dict()
        step, model, later = self.step, self.start.model, self.background.enabled
        weights, pending = self.files.checkpoint_weights(model), tuple(self.collector.pending)
        learner, shards = dict(self.learner.state_dict()), None
        if self.world.size > 1:
            learner["optimizer"] = optimizer = dict(learner["optimizer"])
            shards = shards_of(model, optimizer.pop("state"), whole=self.files.lora is None)
        tensors: dict[str, Any] = {
            "learner": learner,
            "generators": capture_generators(),
            "kept": {name: part.state_dict() for name, part in self.parts.items()},
        }
        scratch = self.world.broadcast(self.checkpoints.begin() if self.world.is_main else Path())
        shards = copied(shards) if later else shards
        write_own = None if shards is None else partial(write_shards, shards, world=self.world, group=self._group)
        if not self.world.is_main:
            assert write_own is not None
            return partial(_finish, write_own, scratch_shards(scratch))
        if later:
            weights, tensors = copied(model.state_dict() if weights is None else weights), copied(tensors)

        def save() -> None:
            self.checkpoints.save(
                step,
                write_model=partial(self.files.write_checkpoint, model, self.start.tokenizer, weights),
                progress=progress,
                tensors=tensors,
                write_pending=partial(write_episodes, pending) if pending else None,
                write_shards=write_own,
                scratch=scratch,
            )
            event(LOG, "checkpoint", f"wrote the checkpoint of step {step}", {"step": step})

        return save

    def _mark(self) -> tuple[int, int, int]:
        """Return numbers that differ between one checkpoint and the next."""
        return self.step, len(self.collector.pending), self.sampler.cursor


def _finish(write_own: Callable[[Path], object], folder: Path) -> None:
    write_own(folder)
