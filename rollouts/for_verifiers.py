"""A taskset for verifiers and prime-rl, without importing them before it is made.

A plugin of verifiers 0.4 is a module whose ``__all__`` has one ``Taskset`` and one ``Env``. ``verifiers_taskset``
returns both. The environment is the user of the conversation: each observation is a user message, and each reply of
the model is an action.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..agents.parsers import AUTO, ActionParser, parser_for
from ..agents.tool_calls import CallParser, described
from ..envs.base import TurnEnv
from ..envs.messages import Action, Message, TextPart
from ..envs.registry import make
from ..errors import UsageError
from ..tasks.family import TaskFamily
from ..tasks.spec import Split, TaskSpec

REWARD = "turnwise"
"""Name of the reward in a trace."""


class Play:
    """One episode of an environment, in a thread of its own.

    Args:
        id: id of the environment.
        kwargs: constructor arguments of the environment.
        parser: name of the parser that reads replies.
    """

    def __init__(self, id: str, kwargs: dict[str, Any], parser: str) -> None:
        self._id, self._kwargs, self._parser = id, kwargs, parser
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="turnwise-verifiers")
        self._env: TurnEnv | None = None
        self._reader: ActionParser | None = None
        self.total, self.turns, self.over = 0.0, 0, False
        self.ended: dict[str, Any] = {}
        """How the episode ended: ``terminated``, ``truncated`` and ``success``."""

    async def start(self, task: TaskSpec) -> tuple[str, str]:
        """Start the episode; return the system message and the first user message."""
        started: tuple[str, str] = await self._aside(self._start, task)
        return started

    async def answer(self, reply: str) -> str:
        """Let a reply act, and return the next user message."""
        said: str = await self._aside(self._answer, reply)
        return said

    async def give_up(self) -> None:
        """Answer with empty messages up to the turn limit, as an agent that says nothing more."""
        while not self.over:
            await self.answer("")

    async def close(self) -> None:
        """Close the environment and its thread."""
        if self._env is not None:
            await self._aside(self._env.close)
        self._thread.shutdown(wait=False)

    async def _aside(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _start(self, task: TaskSpec) -> tuple[str, str]:
        self._env = make(self._id, **self._kwargs)
        observation, _ = self._env.reset(options={"task": task})
        tools = [tool.to_json() for tool in self._env.tools]
        self._reader = parser_for(self._parser, tools)
        system = [_text([one]) for one in observation.messages if one.role == "system"]
        if isinstance(self._reader, CallParser):
            system.append(described(tools, self._reader.how))
        return "\n\n".join(system), _text([one for one in observation.messages if one.role != "system"])

    def _answer(self, reply: str) -> str:
        if self._env is None or self._reader is None:
            raise UsageError("start() comes before the first reply")
        action = self._reader.parse(reply) if reply else Action("")
        observation, reward, terminated, truncated, info = self._env.step(action)
        self.total, self.turns, self.over = self.total + reward, self.turns + 1, terminated or truncated
        if self.over:
            self.ended = {"terminated": terminated, "truncated": truncated, "success": bool(info.get("success"))}
        return _text(observation.messages)


def _family(
    id: str, kwargs: dict[str, Any], count: int | None, split: Split | str, level: int | None, parser: str
) -> TaskFamily[Any]:
    """Return the family of an environment, for which all arguments fit."""
    if count is not None and count < 1:
        raise UsageError(f"count is {count}; it must be at least 1")
    env = make(id, **kwargs)
    try:
        family = env.tasks()
        family.spec(0, split=split, level=family.usual[0] if level is None else level)
        parser_for(parser, [tool.to_json() for tool in env.tools])
    finally:
        env.close()
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
            await _run(Play(id, kwargs, parser), task, agents.player)

    return Taskset, Env


async def _run(play: Play, task: Any, player: Any) -> None:
    """Play an episode, and record its reward unless the player failed."""
    try:
        system, said = await play.start(TaskSpec.from_json(task.data.spec))
        own = "\n\n".join(text for text in (system, task.data.system_prompt) if text)
        async with player.interaction(task.with_data(system_prompt=own or None)) as interaction:
            segment = await interaction.turn(said)
            while not segment.terminated:
                said = await play.answer(segment.last_reply)
                if play.over:
                    break
                segment = await interaction.turn(said)
        trace = interaction.trace
        if trace.errors:
            return  # a failure of the model's server is not a zero
        turns = play.turns
        await play.give_up()
        trace.record_reward(REWARD, play.total)
        trace.record_metrics({"success": play.ended["success"], "turns": turns})
        trace.info[REWARD] = {**play.ended, "task": task.data.spec}
    finally:
        await play.close()


def _text(messages: Sequence[Message]) -> str:
    for message in messages:
        if any(not isinstance(part, TextPart) for part in message.parts):
            raise UsageError("this observation has another part than text, such as an image, and verifiers reads text")
    return "\n\n".join(message.text for message in messages)
