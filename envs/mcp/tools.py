"""Tools of MCP servers for any tool environment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, cast

from ...errors import ContractError, ToolError, TurnwiseError
from ...logs import event
from ...tasks.rng import Rng, stable_hash
from ...tasks.score import Score
from ..background import resolve
from ..base import Stepped
from ..fork import Forks
from ..messages import Action, ActionLike, Observation, ObservationLike, Part, TextPart, ToolCall
from ..sampling import random_arguments
from ..step import Step
from ..toolenv import ToolEnv
from ..tools import Tool, tools_of
from .connection import ServerLostError
from .content import parts_of, unfolded
from .listing import McpTool, tools_of_servers
from .program import LimitError
from .servers import Servers, shared
from .spec import ServerSpec

LOG = logging.getLogger(__name__)
REPEATING = 45.0
"""Seconds for repeating the actions of an episode, to find out whether they are why a server died."""
_repeating: ContextVar[bool] = ContextVar("repeating", default=False)


class McpTools(ToolEnv):
    """A tool environment whose agent may also call the tools of any MCP servers.

    Name the servers in ``servers``; their tools stand beside your own. Turnwise asks each server for its tools once
    per process, when it creates the first environment. In an episode, the first call starts a server for this episode
    alone. The server ends with the episode, unless its spec says ``stateless``.

    A fork starts servers of its own and repeats the calls: it is as faithful as they are deterministic.

    A call that exceeds the limit of its server is refused. A call may also lose a server that has state, which ends
    the episode. This is the agent's failure in two cases: the call took too long and another server of the spec starts,
    or the server died and dies again when the actions of the episode are repeated. Otherwise the infrastructure failed.

    Args:
        servers: the servers to use instead of those of the class.
        kwargs: arguments of the environment.
    """

    servers: ClassVar[Sequence[ServerSpec]] = ()
    """Specs of the servers whose tools the agent gets."""
    forks = Forks.REPLAY
    message_seconds = (
        30.0  # so that a step with a last call that hangs, and its examination, ends before a run gives up
    )

    def __init__(self, *, servers: Sequence[ServerSpec] | None = None, **kwargs: Any) -> None:
        specs = tuple(type(self).servers if servers is None else servers)
        self._offered = _beside(cast(Hashable, type(self)), specs)
        self._running = Servers()
        super().__init__(**kwargs)

    @property
    def folder(self) -> Path:
        """The episode's own folder, ``{folder}`` in specs: write there what servers shall find, look what they left.

        Agents see it as ``/episode``, whatever its real name.
        """
        return self._running.folder

    @property
    def start_seconds(self) -> dict[str, float]:
        """Seconds that the start of each server of this episode took, by name; servers without a call are left out."""
        return self._running.seconds

    async def use(self, tool: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Call a server's tool yourself, e.g. to set the world up or to judge it.

        Args:
            tool: the name by which agents call it.
            arguments: the arguments of the call.

        Returns:
            The text of its answer.

        Raises:
            ToolError: the arguments do not fit, or the server answers with an error.
            InfrastructureError: the server does not start, or is lost.
        """
        found = next((each for each in self._offered if isinstance(each, McpTool) and each.name == tool), None)
        if found is None:
            raise ToolError(f"no server offers {tool!r} here")
        parts: tuple[Part, ...] = await found.function(self, **found.validate(arguments or {}))
        return "".join(part.text for part in parts if isinstance(part, TextPart))

    def offered(self) -> Sequence[Tool]:
        """Return the tools of the class, then those of the servers in the order in which they list them."""
        return self._offered

    def random_action(self, rng: Rng) -> ActionLike:
        """Return a random tool with random arguments; skip tools with schemas that the generator does not support."""
        tool = rng.pick(self.offered())
        try:
            return ToolCall(tool.name, random_arguments(tool.parameters, rng))
        except (AttributeError, KeyError, TypeError, ValueError):
            return ToolCall(tool.name)

    def act(self, action: Action) -> Step | ObservationLike | Awaitable[Step | ObservationLike]:
        """Run the calls of one message in order. They wait for servers, so they need an event loop."""
        return self._answer(action) if action.tool_calls else self.said(action.text)

    def close(self) -> None:
        """End the servers of the episode."""
        self._running.abandon()

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, Rng]:
        first = super()._begin(seed, options)
        self._running.abandon()
        self._running = Servers()
        return first

    def step(self, action: ActionLike) -> Stepped:
        """Take one action. If it loses or spoils a server, so that nothing can be judged, the agent has failed."""
        try:
            return super().step(action)
        except (ServerLostError, LimitError) as error:
            return self._ended_by(resolve(self._failure(error)))

    async def astep(self, action: ActionLike) -> Stepped:
        """Take one action without blocking the event loop."""
        try:
            return await super().astep(action)
        except (ServerLostError, LimitError) as error:
            return self._ended_by(await self._failure(error))

    def _ended_by(self, step: Step) -> Stepped:
        return self._stepped(self._left(step))

    async def _failure(self, error: ServerLostError | LimitError) -> Step:
        how = "answers too slowly, or too much, to be judged"
        if isinstance(error, ServerLostError):
            if _repeating.get() or not (error.late or await self._lost_again()):
                raise error
            how = "does not answer any more" if error.late else "has died"
        event(LOG, "server lost", f"{error}; it is the agent's failure", level=logging.WARNING)
        score = Score(success=False)
        text = f"Error: a server of your tools {how}. The episode is over."
        return Step(Observation.of(text), self._paid(score), terminated=True, score=score)

    async def _lost_again(self) -> bool:
        """Return whether a server dies again when the actions so far are repeated on another environment."""
        token = _repeating.set(True)
        try:
            async with asyncio.timeout(REPEATING):
                twin = await asyncio.to_thread(self.fork)
        except ServerLostError:
            return True
        except TimeoutError:  # then a run repeats them, if it tries the episode again
            deaths = _deaths(type(self).__name__, self.task.digest, self._played())
            deaths.append(None)
            return len(deaths) > 1
        except TurnwiseError as error:
            text = f"the actions before a server died could not be repeated: {error}"
            event(LOG, "server lost", text, level=logging.WARNING)
            return False
        finally:
            _repeating.reset(token)
        twin.close()
        return False

    def _played(self) -> bytes:
        try:
            return stable_hash(repr(self._actions))
        except (ValueError, RecursionError):  # a number with too many digits, or lists in lists
            return stable_hash(self.turn)

    async def _called(self, spec: ServerSpec, tool: str, arguments: dict[str, Any]) -> tuple[Part, ...]:
        try:
            return await _parts(shared(spec) if spec.stateless else self._running, spec, tool, arguments)
        except ServerLostError as lost:
            if spec.stateless:
                return await _elsewhere(lost, spec, tool, arguments)
            if lost.late:
                await _startable(spec)
            raise


async def _parts(servers: Servers, spec: ServerSpec, tool: str, arguments: dict[str, Any]) -> tuple[Part, ...]:
    """Return what the agent sees of a server's answer.

    Raises:
        ToolError: the server refused the call.
        ServerLostError: the call is its last.
    """
    folder = servers.folder
    result = await servers.call(spec, tool, unfolded(arguments, folder))
    parts = parts_of(result, spec.max_chars, folder)
    if result.is_error:
        raise ToolError("".join(part.text for part in parts if isinstance(part, TextPart)))
    return parts


@lru_cache(maxsize=4096)
def _deaths(env: str, task: str, actions: bytes) -> list[None]:
    """Return how often a server died in this process after these actions, which took too long to be repeated."""
    return []


async def _elsewhere(lost: ServerLostError, spec: ServerSpec, tool: str, arguments: dict[str, Any]) -> tuple[Part, ...]:
    """Repeat on another server a call by which a stateless server died: it may have died of another call.

    Raises:
        ToolError: the other one dies, too, or the call was late.
        InfrastructureError: no other one starts.
    """
    if lost.late:
        await _startable(spec)
        raise ToolError(f"{tool}: the server hangs upon this call; it is started again")
    other = Servers()
    try:
        return await _parts(other, spec, tool, arguments)
    except ServerLostError:
        raise ToolError(f"{tool}: the server dies of this call; it is started again") from None
    finally:
        other.abandon()


async def _startable(spec: ServerSpec) -> None:
    """Start a server, on which no agent has called anything.

    Raises:
        InfrastructureError: it does not start, or does not list its tools.
    """
    other = Servers()
    try:
        await other.tools(spec)
    finally:
        other.abandon()


@lru_cache(maxsize=256)
def _beside(cls: Hashable, specs: tuple[ServerSpec, ...]) -> tuple[Tool, ...]:
    """Return the tools of a class, and then those of servers."""
    own = tools_of(cast(type, cls))
    theirs = tools_of_servers(specs, _calling) if specs else ()
    names = {tool.name for tool in own}
    for tool in theirs:
        if tool.name in names:
            raise ContractError(
                f"MCP server {tool.spec.name!r} offers {tool.name!r}, and so does the environment: "
                "give the server a prefix, or deny its tool"
            )
    return (*own, *theirs)


def _calling(spec: ServerSpec, tool: str) -> Callable[..., Any]:
    """Return the function of an unbound tool of a server; its first argument is the environment."""

    async def call(env: McpTools, arguments: dict[str, Any]) -> tuple[Part, ...]:
        return await env._called(spec, tool, arguments)

    return call
