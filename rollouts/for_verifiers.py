"""A taskset for verifiers and prime-rl, without importing them before it is made.

A plugin of verifiers 0.4 is a module whose ``__all__`` has one ``Taskset`` and one ``Env``. ``verifiers_taskset``
returns both. The environment is the user of the conversation: each observation is a user message, and each reply of
the model is an action.
"""

from __future__ import annotations

import itertools
from asyncio import wrap_future
from collections.abc import Iterator
from typing import Any

from ..agents.parsers import AUTO
from ..errors import UsageError
from ..tasks.family import TaskFamily
from ..tasks.spec import Split, TaskSpec
from .text_episode import TextEpisode, ThreadedEpisode, checked_env

REWARD = "turnwise"
"""Name of the reward in a trace."""


def _family(
    id: str, kwargs: dict[str, Any], count: int | None, split: Split | str, level: int | None, parser: str
) -> TaskFamily[Any]:
    """Return the family of an environment, for which all arguments fit."""
    if count is not None and count < 1:
        raise UsageError(f"count is {count}; it must be at least 1")
    with checked_env(id, kwargs, parser) as env:
        family = env.tasks()
        family.spec(0, split=split, level=family.usual[0] if level is None else level)
    return family


def verifiers_taskset(
    id: str,
    *,
    count: int | None = None,
    split: Split | str = Split.TRAIN,
    level: int | None = None,
    parser: str = AUTO,
    **kwargs: Any,
) -> tuple[type[Any], type[Any]]:
    """Return the two classes of a plugin for verifiers 0.4: a ``Taskset``, and an ``Env`` with the role ``player``.

    An exception of the environment fails the episode of verifiers, which then has no reward. If the run ends the
    conversation before the environment does, the world is judged as at the turn limit.

    Args:
        id: id of the environment, with or without tools. Tools are described in the system message.
        count: number of tasks (default: all of a family with a fixed number, otherwise without end).
        split: split of the tasks.
        level: level of the tasks (default: the usual ones in turn).
        parser: how a reply becomes an action, as in ``AgentSettings``.
        kwargs: constructor arguments of the environment.

    Raises:
        UsageError: verifiers is not installed, or an argument does not fit.
        TaskError: there is no such split or level.
        UnknownEnvironmentError: there is no such environment.
    """
    try:
        import verifiers.v1 as vf
    except ModuleNotFoundError:
        raise UsageError("verifiers_taskset needs verifiers: pip install verifiers==0.4.0") from None
    family = _family(id, kwargs, count, split, level, parser)
    most = family.seeds if count is None else count

    class Data(vf.TaskData):  # type: ignore[misc]
        spec: dict[str, Any]

    class Task(vf.Task[Data]):  # type: ignore[misc]
        pass

    class Taskset(vf.Taskset[Task, vf.TasksetConfig]):  # type: ignore[misc]
        INFINITE = most is None

        def load(self) -> Iterator[Any]:
            for number in itertools.count() if most is None else range(most):
                at = family.usual[number % len(family.usual)] if level is None else level
                spec = family.spec(number, split=split, level=at)
                yield Task(Data(name=f"{id}#{number}", prompt=None, spec=spec.to_json()), self.config.task)

    class Config(vf.EnvConfig):  # type: ignore[misc]
        player: vf.AgentConfig = vf.AgentConfig()

    class Env(vf.Env[Config]):  # type: ignore[misc]
        async def run(self, task: Any, agents: Any) -> None:
            await _run(ThreadedEpisode(TextEpisode(id, kwargs, parser)), task, agents.player)

    return Taskset, Env


async def _run(play: ThreadedEpisode, task: Any, player: Any) -> None:
    """Play an episode, and record its reward unless the player failed."""
    try:
        system, said = await wrap_future(play.submit("start", TaskSpec.from_json(task.data.spec)))
        own = "\n\n".join(text for text in (system, task.data.system_prompt) if text)
        async with player.interaction(task.with_data(system_prompt=own or None)) as interaction:
            segment = await interaction.turn(said)
            while not segment.terminated:
                said = await wrap_future(play.submit("answer", segment.last_reply))
                if play.episode.over:
                    break
                segment = await interaction.turn(said)
        trace = interaction.trace
        if trace.errors:
            return  # a failure of the model's server is not a zero
        turns = play.episode.turns
        await wrap_future(play.submit("give_up"))
        trace.record_reward(REWARD, play.episode.total)
        trace.record_metrics({"success": play.episode.ended["success"], "turns": turns})
        trace.info[REWARD] = {**play.episode.ended, "task": task.data.spec}
    finally:
        await wrap_future(play.close())
