"""The state of a run: everything that its checkpoints hold, written and restored."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...errors import CheckpointError
from ..collect.collector import Collector
from ..collect.sampler import TaskSampler
from ..learning.learner import Learner
from ..learning.parallel import ProcessGroup
from .checkpoint import Checkpoint, Checkpoints, Stateful
from .generators import capture_generators, restore_generators
from .kept_episodes import write_episodes
from .model_files import ModelFiles, Start


class RunState:
    """The step, the model and its learner, the data cursor, unlearned episodes, and the parts of the algorithm.

    Args:
        checkpoints: where they are written.
        files: writes the model.
        start: the model and its tokenizer.
        learner: of the model; its state is restored already.
        sampler: its cursor is at what was drawn.
        collector: holds episodes that are not trained on yet.
        world: the processes that learn together.
        steps: of the whole run.
        every: steps between checkpoints.
        resumed: the checkpoint that the run continues from.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        files: ModelFiles,
        start: Start,
        learner: Learner,
        sampler: TaskSampler,
        collector: Collector,
        world: ProcessGroup,
        steps: int,
        every: int,
        resumed: Checkpoint | None = None,
    ) -> None:
        self.step = resumed.step if resumed is not None else 0
        self.steps = steps
        self.parts: dict[str, Stateful] = {}
        self._every = every
        self._checkpoints = checkpoints
        self._files = files
        self._start = start
        self._learner = learner
        self._sampler = sampler
        self._collector = collector
        self._world = world
        self._resumed = resumed
        self._saved = self._mark() if resumed is not None else None

    def keep(self, name: str, part: Stateful) -> None:
        """Let checkpoints hold a part of the algorithm (a critic, a replay), and restore its state on resume.

        Args:
            name: of the part, unique in the run.
            part: its state is plain types and tensors.

        Raises:
            CheckpointError: The run is resumed from a checkpoint without such a part.
        """
        self.parts[name] = part
        if self._resumed is None:
            return
        states = self._resumed.tensors.get("kept", {})
        if name not in states:
            raise CheckpointError(f"checkpoint {self._resumed.path} holds no {name}; start a new run")
        part.load_state_dict(states[name])
        restore_generators(self._resumed.tensors["generators"])  # making the part may have drawn numbers

    def finish_step(self, tasks: int) -> None:
        """Count a step that has been learned.

        Args:
            tasks: how many tasks were drawn for it.
        """
        self.step += 1
        self._collector.trained(tasks)

    def save_if_due(self) -> None:
        """Write a checkpoint at every so many steps, and at the last."""
        if self.step == self.steps or self.step % self._every == 0:
            self.save()

    def save(self) -> None:
        """Write a checkpoint, unless the newest is of this very state. All processes must call it at once."""
        mark = self._mark()
        if self._world.broadcast(self._saved == mark):
            return
        progress: dict[str, Any] = {"cursor": self._sampler.cursor, "version": self.step}
        if ahead := self._collector.state_dict():
            progress["overlap"] = ahead
        weights, pending = self._files.weights(self._start.model), tuple(self._collector.pending)
        tensors: Mapping[str, Any] = {
            "learner": self._learner.state_dict(),
            "generators": capture_generators(),
            "kept": {name: part.state_dict() for name, part in self.parts.items()},
        }
        if self._world.is_main:
            self._checkpoints.save(
                self.step,
                write_model=partial(self._files.write_checkpoint, self._start.model, self._start.tokenizer, weights),
                progress=progress,
                tensors=tensors,
                write_pending=partial(write_episodes, pending) if pending else None,
            )
        self._saved = mark

    def _mark(self) -> tuple[int, int, int]:
        """Return what tells one checkpoint from the next."""
        return self.step, len(self._collector.pending), self._sampler.cursor
