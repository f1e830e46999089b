"""``OpenEnv``: an environment of an OpenEnv server, as an environment of this process."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import ContractError, InfrastructureError, UnparseableError
from ...tasks.family import SeededFamily, TaskFamily
from ...tasks.rng import Rng
from ...tasks.score import Score
from ...tasks.spec import TaskSpec
from ..base import TurnEnv
from ..contract import Contract
from ..fork import Forks
from ..messages import Action, ActionLike, Message, Observation, TextPart, ToolCall, message
from ..remote.address import Address, openenv_place
from ..remote.env import LOOP, close_later
from ..remote.wire import Wire
from ..sampling import random_arguments
from ..step import OUT_OF_TURNS, Step
from ..tools import Tool
from .forms import ActionForm, flags_of, metadata_of, observation_of, result_of, tools_of
from .session import OpenEnvSession, fetched, places_at

MAX_CALLS = 16
"""Most calls of one message that become steps; the rest is refused."""


@dataclass(frozen=True, slots=True)
class _Described:
    name: str
    about: str
    version: str
    form: ActionForm
    tools: tuple[Tool, ...]


DESCRIBING = 60.0
"""Seconds for all questions to a server before the first episode."""


class OpenEnv(TurnEnv):
    """An environment that an OpenEnv server runs; ``turnwise.make("openenv://host:port")`` creates it.

    Each episode is a session on the server's WebSocket. OpenEnv knows only ``done``: the episode terminates with it,
    unless ``metadata`` says ``truncated``. It has no fork, so a fork starts a session with the same seed and repeats
    the actions, which is as faithful as the environment is deterministic.

    Args:
        address: the server.
        base: path of the environment on the server; often empty.
        max_turns: limit of turns, after which the run truncates the episode, since OpenEnv announces none.
        success_at: last reward from which an episode counts as a success, where ``metadata`` has no ``success``.
        instructions: text before the first observation (default: the server's description, and how to answer).
    """

    blocking = False
    forks = Forks.REPLAY
    max_turns_truncates = True
    contract = Contract(max_seconds=60.0)

    def __init__(
        self,
        address: Address,
        base: str = "",
        *,
        max_turns: int | None = None,
        success_at: float = 1.0,
        instructions: str | None = None,
    ) -> None:
        self._place = address, base
        self._session = OpenEnvSession(address, base)
        self._described = LOOP.wait(_described(address, base))
        self._success_at = success_at
        form, about = self._described.form, self._described.about
        told = "\n\n".join(filter(None, (about, form.instructions)))
        self._instructions = told if instructions is None else instructions
        super().__init__(max_turns=max_turns)
        self._closing = weakref.finalize(self, close_later, self._session)

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that the agent may call."""
        return self._described.tools

    @property
    def wire(self) -> Wire:
        """The connection, as certification needs to know it. It opens some sessions, to count the server's places."""
        return Wire("openenv", LOOP.wait(places_at(*self._place)))

    @property
    def remote_digest(self) -> str:
        """The version that the server announces, as far as it announces one."""
        return f"openenv:{self._described.name}:{self._described.version}"

    def tasks(self) -> TaskFamily[Any]:  # type: ignore[override]
        """Return the family of its tasks, which differ only by their seeds."""
        return SeededFamily(self._described.name)

    async def start(self, task: TaskSpec, rng: Rng) -> Observation:
        """Start a session, or reset the one that there is."""
        if not self._closing.alive:
            raise ContractError("this environment is closed; make another one")
        data = await LOOP.run(self._session.reset(task.seed))
        first = observation_of(data.get("observation"))
        head = (message("user", self._instructions),) if self._instructions else ()
        return Observation((*head, *first.messages))

    async def act(self, action: Action) -> Step:
        """Take one action: a text, or the calls of tools, each of which is a step of OpenEnv."""
        if action.tool_calls:
            if not self._described.form.calls:
                raise UnparseableError(f"There are no tools. {self._described.form.instructions}")
            return await self._called(action.tool_calls)
        if not self._described.form.speaks:
            raise UnparseableError(f"Call a tool. You have: {', '.join(tool.name for tool in self.tools)}.")
        data = await LOOP.run(self._session.step(self._described.form.action(action.text)))
        return self._step(observation_of(data.get("observation")), data)

    def random_action(self, rng: Rng) -> ActionLike:
        """Return a random action that fits the server's schema."""
        if self.tools and not (self._described.form.speaks and rng.random() < 0.5):
            tool = rng.pick(self.tools)
            return ToolCall(tool.name, random_arguments(tool.parameters, rng))
        return self._described.form.random(rng)

    def close(self) -> None:
        """End the session."""
        self._closing()
        super().close()

    # -- the inside -----------------------------------------------------------------------------------------------

    _place: tuple[Address, str]
    _session: OpenEnvSession
    _described: _Described

    async def _called(self, calls: Sequence[ToolCall]) -> Step:
        answers: list[Message] = []
        failed: list[str] = []
        paid = 0.0
        data: Mapping[str, Any] = {}
        for call in calls[:MAX_CALLS]:
            sent = {"type": "call_tool", "tool_name": call.name, "arguments": call.arguments}
            try:
                data = await LOOP.run(self._session.step(sent))
            except UnparseableError as error:
                part, succeeded = TextPart(f"Error: {error}"), False
            else:
                part, succeeded = result_of(data.get("observation") or {})
                paid += flags_of(data)[0]
            answers.append(Message("tool", (part,), name=call.name, tool_call_id=call.id or None))
            failed += [] if succeeded else [call.name]
            if data.get("done"):
                break
        else:
            if left := len(calls) - MAX_CALLS if len(calls) > MAX_CALLS else 0:
                text = TextPart(f"Error: one message may call {MAX_CALLS} tools; {left} were not called.")
                answers.append(Message("tool", (text,), name=calls[MAX_CALLS].name))
        info = {"tool_errors": failed} if failed else {}
        return replace(self._step(Observation(tuple(answers)), data, info), reward=paid)

    def _step(self, observation: Observation, data: Mapping[str, Any], info: Mapping[str, Any] | None = None) -> Step:
        reward, terminated, truncated, success = flags_of(data)
        if not (terminated or truncated):
            return Step(observation, reward, info=info or {})
        solved = reward >= self._success_at if success is None else success  # the last call's, not the message's sum
        limited = {OUT_OF_TURNS: True} if metadata_of(data).get(OUT_OF_TURNS) is True else {}
        return Step(observation, reward, terminated, truncated, Score(success=solved), {**(info or {}), **limited})


def openenv(id: str, **kwargs: Any) -> OpenEnv:
    """Create the environment that ``openenv://host:port`` names; the arguments are those of ``OpenEnv``.

    Raises:
        UsageError: the id is malformed, or names no OpenEnv server.
        InfrastructureError: the server cannot be reached.
    """
    address, base = openenv_place(id)
    return OpenEnv(address, base, **kwargs)


async def _described(address: Address, base: str) -> _Described:
    try:
        async with asyncio.timeout(DESCRIBING):
            return await _asked(address, base)
    except TimeoutError:
        raise InfrastructureError(f"{address} has not described itself within {DESCRIBING:g} s") from None


async def _asked(address: Address, base: str) -> _Described:
    schema, about = await fetched(address, base, "schema"), await fetched(address, base, "metadata")
    form = ActionForm.of(schema.get("action") or {})
    tools: tuple[Tool, ...] = ()
    if form.calls:
        session = OpenEnvSession(address, base)
        try:
            await session.reset(0)
            listed = await session.step({"type": "list_tools"})
            tools = tools_of((listed.get("observation") or {}).get("tools") or ())
        finally:
            await session.close()
    name = str(about.get("name") or base or "openenv")
    return _Described(name, str(about.get("description") or ""), str(about.get("version") or ""), form, tools)
