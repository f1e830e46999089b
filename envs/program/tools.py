"""``PythonTools``: programs in a sandbox that call tools of the trusted process while they run."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import ToolError, UnparseableError
from ...sandboxes.result import ExecResult
from ...sandboxes.sandbox import Session
from ..code.episode_sandbox import EpisodeSandbox
from ..code.formatting import outcome
from ..messages import ToolCall, clip
from ..tools import Tool, jsonable
from .module import Module

OVER = "the episode has ended; nothing more can be called"
Perform = Callable[[Tool, ToolCall], Any]
"""A function that calls a tool and returns the value or an awaitable of it. The program receives its errors."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a program.

    Args:
        text: the output and the ending of the program, as an agent reads them.
        result: the result from the sandbox.
        calls: its well-formed calls in order, including refused ones.
        failed: names of the tools that refused a call.
        ended: whether one of them ended the episode.
    """

    text: str
    result: ExecResult
    calls: tuple[ToolCall, ...]
    failed: tuple[str, ...]
    ended: bool


class PythonTools:
    """Runs programs in the Python session of a sandbox; the tools are functions of a module there, called ``apis``.

    A call is made as a ``ToolEnv`` makes it: arguments are checked against the schema, and what does not fit, like
    whatever the tool raises, is an ``ApiError`` inside. After a successful call of a tool that ends the episode every
    other one is refused.

    Args:
        tools: what can be called, bound.
        episode_sandbox: sandbox whose Python session runs the programs; the first program opens it.
        groups: namespaces, see ``function_of``.
        name: the name of the module.
        calls: the largest number of calls of one program.
        perform: a function that makes a call; by default the tool's function is called.

    Raises:
        ContractError: two tools would have one name in Python.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        episode_sandbox: EpisodeSandbox,
        *,
        groups: Iterable[str] = (),
        name: str = "apis",
        calls: int = 1000,
        perform: Perform | None = None,
    ) -> None:
        self.module, self.episode_sandbox, self.calls = Module(tools, groups, name), episode_sandbox, calls
        self._perform = perform or _performed
        self._tools = {tool.name: tool for tool in tools}
        self._ready: Session | None = None

    async def run(self, code: str, seconds: float = 10.0) -> Ran:
        """Run a program in the state that the previous one left.

        Args:
            code: Python statements; the value of a last expression is shown.
            seconds: its time limit, with all its calls.

        Raises:
            ToolError: no program can be run now, by the doing of an earlier one; the next may find a new session.
            SandboxError: the sandbox failed.
            InfrastructureError: a tool raised it.
        """
        session = await self._session()
        run = _Run(self._tools, self._perform)
        result = await session.run(code, timeout=seconds, answer=run.answer, asks=self.calls)
        text = outcome(result, seconds)
        if not session.alive:
            text += "\nThe session has ended: the next program finds none of its variables."
        return Ran(text, result, tuple(run.calls), tuple(run.failed), run.ended)

    async def _session(self) -> Session:
        """Return the session, with the module in it."""
        session = await self.episode_sandbox.session()
        if session is not self._ready:
            made = await session.run(self.module.source(), timeout=30.0)
            if not made.ok:  # a file that an earlier program left may stand where the standard library should
                raise ToolError(f"the session could not start: {made.stderr.text[-500:]}")
            self._ready = session
        return session


@dataclass
class _Run:
    """The calls of one program."""

    tools: Mapping[str, Tool]
    perform: Perform
    calls: list[ToolCall] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    ended: bool = False

    async def answer(self, request: bytes) -> bytes:
        """Handle a request from a program, in any form.

        Raises:
            InfrastructureError: the infrastructure failed, and not the call.
        """
        name = "call"
        try:
            call = _call_in(request)
            self.calls.append(call)
            name = call.name
            if self.ended:
                raise ToolError(OVER)
            tool = self.tools.get(name)
            if tool is None:
                raise ToolError(f"there is no tool {clip(name)!r}. You have: {', '.join(self.tools)}.")
            value = self.perform(tool, call)
            value = await value if inspect.isawaitable(value) else value
            said = json.dumps({"value": jsonable(value, tool)}).encode()
        except (ToolError, UnparseableError) as error:
            self.failed.append(clip(name))
            return json.dumps({"error": str(error)}).encode()
        self.ended = tool.ends
        return said


def _performed(tool: Tool, call: ToolCall) -> Any | Awaitable[Any]:
    return tool.function(**tool.validate(call.arguments))


def _call_in(request: bytes) -> ToolCall:
    """Parse a request into a call.

    Raises:
        ToolError: it is none.
    """
    try:
        read = json.loads(request, parse_constant=_refused)
    except (ValueError, RecursionError):
        raise ToolError("the request is not valid JSON") from None
    if not isinstance(read, dict) or not isinstance(read.get("tool"), str):
        raise ToolError("the request names no tool")
    return ToolCall(read["tool"], read.get("arguments", {}))


def _refused(constant: str) -> None:
    raise ValueError(constant)
