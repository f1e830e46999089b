"""``ApiAgent``: a model behind a chat API as an agent, for evaluation and data. It cannot be trained."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from ...envs.messages import Action, Observation, ToolCall, clip
from ...envs.tools import Tool
from ...errors import InfrastructureError, UsageError
from ...inference.bounded_json import loads
from ..agent import CHAT_API, Decision, EpisodeContext
from ..own_text import with_system
from ..thoughts import OPEN, thoughts_in, without_thoughts
from ..tool_calls import ToolCallParser
from .client import Answer, ApiClient
from .conversation import Call, Exchange, Reply, api_name, exchange, tools_in_text
from .dialect import Request
from .settings import DEFAULT_MAX_TOKENS


class ApiAgent:
    """Sends the whole conversation with its tools each turn, and takes the model's answer as the action.

    The model's reasoning is recorded as the turn's thoughts; tokens, cost and latency under ``info["chat_api"]``.

    Args:
        client: client of the server.
        max_tokens: length of the longest answer in tokens, reasoning included.
        temperature: sampling temperature; ``None`` leaves it to the provider. Many reasoning models accept none.
        system: text added to the system message at the start of the episode.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        temperature: float | None = None,
        system: str | None = None,
    ) -> None:
        self.client, self.max_tokens, self.temperature, self.system = client, max_tokens, temperature, system

    def start(self, context: EpisodeContext) -> ApiSession:
        """Return a session for one episode.

        Raises:
            UsageError: two tools have the same name in an API.
        """
        names = {api_name(tool.name): tool.name for tool in context.tools}
        if len(names) < len(context.tools):
            raise UsageError(f"two tools of {context.env_id} have the same name for an API: {', '.join(names)}")
        return ApiSession(self, context, names)

    def remarks(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        """Report failed requests and lost answers; see ``Remarking``."""
        notes = []
        if faults := self.client.faults:
            kinds = ", ".join(f"{count} × {kind}" for kind, count in faults.most_common())
            notes.append(f"{faults.total():,} requests failed and were sent again: {kinds}")
        if lost := self.client.spending.lost:
            notes.append(f"answers that were lost on their way may have cost up to ${lost:.4f} more")
        return tuple(notes)


class ApiSession:
    """An ``ApiAgent`` in one episode."""

    def __init__(self, agent: ApiAgent, context: EpisodeContext, names: dict[str, str]) -> None:
        self._agent, self._context, self._names = agent, context, names
        self._in_text = agent.client.settings.tools == "text" and bool(context.tools)
        self._exchanges: list[Exchange] = []
        self._last: Reply | None = None
        self._used: set[str] = set()
        self._open = True
        agent.client.open()

    @property
    def patience(self) -> float:
        """Seconds that the server may fail; see ``SelfTimed``."""
        return self._agent.client.settings.patience

    async def act(self, observation: Observation) -> Decision:
        """Ask the model for its next message.

        Raises:
            InfrastructureError: the server kept failing.
            UsageError: the key, the model or a setting is wrong, or the spending cap is reached.
            PolicyError: the conversation does not fit into the model's context.
        """
        started = time.perf_counter()
        if not self._exchanges:
            observation = self._opened(observation)
        self._exchanges.append(exchange(self._last, observation))
        try:
            answer = await self._agent.client.ask(self._request(), self._context.episode_id)
        except InfrastructureError:
            self._exchanges.pop()  # as if ``act`` had not been called
            raise
        reply = self._last = answer.reply
        self._used.update(call.id for call in reply.calls)
        action, reasoning = self._action(reply)
        seconds = time.perf_counter() - started
        info = {CHAT_API: _record(answer)}
        return Decision(action, finish=reply.finish, seconds=seconds, thoughts=reasoning, info=info)

    def repeatable(self) -> None:
        """See ``Repeatable``."""

    async def over(self, observation: Observation) -> tuple[int, ...]:
        """Return no ids: a chat API gives none."""
        return ()

    async def close(self) -> None:
        """Leave the connections to the other sessions."""
        if self._open:
            self._open = False
            await self._agent.client.close()

    def _opened(self, observation: Observation) -> Observation:
        tools = tools_in_text(self._context.tools) if self._in_text else ""
        system = "\n\n".join(filter(None, (self._agent.system, tools)))
        return with_system(observation, system) if system else observation

    def _request(self) -> Request:
        tools: Sequence[Tool] = () if self._in_text else self._context.tools
        return Request(
            model=self._agent.client.server.model,
            exchanges=tuple(self._exchanges),
            tools=tools,
            max_tokens=self._agent.max_tokens,
            temperature=self._agent.temperature,
            extra=self._agent.client.settings.body,
            used=frozenset(self._used),
        )

    def _action(self, reply: Reply) -> tuple[Action, str]:
        """Split a reply into the action and the reasoning."""
        said, unfinished = without_thoughts(reply.text)
        thought = said != reply.text or reply.text.lstrip().startswith(OPEN)  # otherwise the text may be about the tag
        reasoning = reply.reasoning or thoughts_in(reply.text)
        if self._in_text:
            return ToolCallParser().parse(reply.text), reasoning
        if unfinished and thought:
            return Action(problem="Your <think> was never closed. Write </think>, then your answer."), reasoning
        calls: list[ToolCall] = []
        for number, call in enumerate(reply.calls, 1):
            arguments = _arguments(call)
            if isinstance(arguments, str):
                return Action(said, problem=f"Tool call {number}, of {clip(call.name)}: {arguments}."), reasoning
            calls.append(ToolCall(self._names.get(call.name, call.name), arguments, call.id))
        return Action(said, tuple(calls)), reasoning


def _arguments(call: Call) -> dict[str, Any] | str:
    """The arguments, or a description of the mistake."""
    if not call.arguments.strip():
        return {}  # some servers write a call without arguments like this
    try:
        arguments = loads(call.arguments, largest=math.inf)
    except ValueError as error:
        return f"its arguments are not JSON that a tool can take ({error}): {clip(call.arguments)!r}"
    if not isinstance(arguments, dict):
        return f"its arguments must be a JSON object, not {clip(call.arguments)!r}"
    return arguments


def _record(answer: Answer) -> dict[str, Any]:
    """The record of an answer, for the turn's ``info``."""
    usage = answer.reply.usage
    tokens = (
        {}
        if usage is None
        else {
            "prompt_tokens": usage.prompt,
            "cached_tokens": usage.cached,
            "completion_tokens": usage.completion,
            "reasoning_tokens": usage.reasoning,
        }
    )
    return {
        "model": answer.reply.model,
        **tokens,
        "cost": None if answer.cost is None else float(answer.cost),
        "seconds": answer.seconds,
        "kept": answer.kept,
        "attempts": answer.attempts,
    }
