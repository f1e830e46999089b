"""The training loop: sync, collect, learn, report, checkpoint, evaluate. Every algorithm goes through this one."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import ClassVar, Generic, TypeVar

from ...rollouts.episode import Episode
from ...rollouts.rows import check_turn
from ...stop_signals import run_until_stopped
from ..collect.collect import Experience, NothingPlayed
from ..learning.groups import Group
from ..learning.uninterrupted import uninterrupted
from .conclusion import RunResult
from .metrics import Stopwatch
from .opening import open_run
from .run import Run
from .settings import TrainConfig
from .unusable import UnusableEpisodes

C = TypeVar("C", bound=TrainConfig)


class Trainer(ABC, Generic[C]):
    """One algorithm's part in the training loop, created when its run is open.

    The constructor of a subclass creates the parts of the algorithm besides the policy (a critic, a replay), and passes
    those that checkpoints must store to ``run.state.keep``. Under ``torchrun`` every process creates it, with parts in
    the same state, and passes those that compute with a model to ``run.together.lead``. The main process alone calls
    the methods.

    Args:
        config: the settings of the script.
        run: an open run.
    """

    plays: ClassVar[bool] = True
    """Whether steps sample from the policy, so that it needs the present weights."""
    note = ""
    """A remark on the whole run."""

    def __init__(self, config: C, run: Run) -> None:
        self.config, self.run = config, run

    async def begin(self) -> None:
        """Prepare once, before the first step."""
        return

    async def aclose(self) -> None:
        """Release what the constructor opened."""
        return

    async def collect(self) -> Experience:
        """Play the episodes of a step."""
        return NothingPlayed()

    def check(self, episode: Episode) -> None:
        """Refuse an episode that the algorithm cannot learn from. It is dropped and counted.

        Raises:
            ContractError: the recorded tokens do not fit together, or something is missing.
        """
        for index, turn in enumerate(episode.turns):
            if turn.action_ids:
                check_turn(episode, index, turn)

    @abstractmethod
    async def learn(self, groups: Sequence[Group], clock: Stopwatch) -> Mapping[str, float]:
        """Learn from a step's episodes, and return numbers to log. It is never interrupted.

        Args:
            groups: groups that ``collect`` returned; empty if no episodes are played.
            clock: stopwatch of the step, for the seconds of parts of learning.
        """


def train_with(trainer: type[Trainer[C]], config: C) -> RunResult:
    """Open a run and train to its last step, or until Ctrl-C, which leaves a checkpoint to resume from.

    Args:
        trainer: the algorithm.
        config: the settings of its script.

    Raises:
        TurnwiseError: See ``open_run``.
        DivergedError: A loss or gradient was not finite.
        KeyboardInterrupt: After Ctrl-C, once the checkpoint is written.
    """
    return run_until_stopped(_train(trainer, config))


async def _train(trainer: type[Trainer[C]], config: C) -> RunResult:
    async with open_run(config) as run, aclosing(trainer(config, run)) as opened:
        return await train_steps(opened)


async def train_steps(trainer: Trainer[C]) -> RunResult:
    """Take the remaining steps of an open run, and export its model; other processes than the main one follow it."""
    run = trainer.run
    if not run.world.is_main:
        followed: RunResult = await run.together.follow()
        return followed
    unusable = UnusableEpisodes(trainer.check)
    await trainer.begin()
    await run.evaluate()
    while not run.over:
        await asyncio.sleep(0)  # Ctrl-C takes effect here
        clock = run.clock()
        played: Experience = NothingPlayed()
        if trainer.plays:
            # At the beginning of a step, not at the end of the last: a resumed run then needs no special case.
            with clock("sync"):
                await run.weights.send(run.step)
            with clock("collect"):
                async with run.servers.watching():
                    played = await trainer.collect()
            await run.rest()
        # Dropped here and not in ``learn``, so that no algorithm can forget to check what it trains on.
        groups, dropped = unusable.without(played.groups)
        with clock("learn"):
            # A Ctrl-C must not leave a policy that moved and a critic that did not: the step is finished first.
            learned = await uninterrupted(trainer.learn(groups, clock))
        # Without overlap, the data cursor moves only now: a run that is killed before draws the same tasks again.
        run.state.finish_step(played.tasks)
        accounts = run.collector.accounts() if trainer.plays else {}
        metrics = {**played.metrics(), **accounts, **dropped, **learned}
        # Before the checkpoint: a run that resumes from it keeps the lines up to its step, which must include this one.
        run.report(metrics | clock.metrics(metrics.get("action_tokens", metrics.get("tokens", 0.0))))
        run.state.save_if_due()
        await run.evaluate()
    await asyncio.sleep(0)  # an interrupt in the last step must not cut the closing of environments short
    result = run.finish(trainer.note)
    run.together.end(result)
    return result
