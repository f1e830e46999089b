"""``ProgramEnv``: any tool environment, in which the agent acts by programs that call its tools."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Literal

from ...errors import ContractError, ToolError, UsageError
from ...tasks.rng import Rng, stable_hash
from ...tasks.score import Score
from ..base import NearMiss, TaskT
from ..code.backends import spec_for
from ..code.episode_sandbox import EpisodeSandbox
from ..fork import Forks
from ..messages import Action, ActionLike, Observation, ObservationLike, ToolCall, message
from ..step import Step, running
from ..toolenv import ToolEnv
from ..tools import Tool, describe
from .attacks import attacks_on
from .module import Module
from .tools import PythonTools, Ran

How = Literal["tools", "python"]
FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([^\n`]*)\n(.*?)(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
"""A fenced block and its label as people and models write it; a block that was cut off ends with the text."""
PYTHONS = {"", "python", "python3", "py"}
"""Labels of code blocks that contain Python."""
RULES = """\
You act by programs in Python, which run in a session that keeps its variables. A program calls these functions; \
help(NAME) tells more of one. What you print, you see. A call that is refused raises ApiError, whose text says why.

{manual}"""


class ProgramEnv(ToolEnv[TaskT]):
    """A tool environment in which the agent writes programs, and these call its tools.

    It stands before the environment among the bases: ``class Shop(ProgramEnv, ShopWithTools)``. With
    ``actions="tools"`` that is the environment as it was. With ``actions="python"`` the agent has one tool, ``python``;
    a message that calls none is the program itself, or the first block of code in it. Variables, functions and imports
    live on from program to program. Programs run in a sandbox, the tools outside of it, on the environment's own state.

    It forks by replay: what a session holds is in no snapshot, so all programs are run again.

    Args:
        actions: ``"tools"`` or ``"python"``.
        sandbox: the backend; omitted, the first that works here and confines.
        relaxed: limits that may go unenforced where the backend cannot hold them here.
        seconds: the time limit of a program with its calls.
        kwargs: arguments of the environment.
    """

    groups: ClassVar[Sequence[str]] = ()
    """Words that begin the names of tools and are namespaces in programs: with ``("mail",)``, ``mail_search`` is called
    as ``apis.mail.search``."""
    program_calls: ClassVar[int] = 1000
    """Most calls of one program."""

    def __init__(
        self,
        *,
        actions: How = "tools",
        sandbox: str | None = None,
        relaxed: Sequence[str] = (),
        seconds: float = 10.0,
        **kwargs: Any,
    ) -> None:
        if actions not in ("tools", "python"):
            raise UsageError(f"unknown actions {actions!r}; choose tools or python")
        self.how, self.seconds, self.sandbox = actions, seconds, sandbox
        self._programs: tuple[str, ...] = ()
        self._ran: list[Ran] = []
        if actions == "python":
            # The order of a set must be the same when the programs are run again.
            self._spec = spec_for(sandbox, relaxed).model_copy(update={"env": {"PYTHONHASHSEED": "0"}})
            self.forks = Forks.REPLAY
            self.episode_sandbox = EpisodeSandbox(sandbox, self._spec)
            self._tools = PythonTools((), self.episode_sandbox)
        super().__init__(**kwargs)

    # -- programs -----------------------------------------------------------------------------------------------

    def perform(self, tool: Tool, call: ToolCall) -> Any:
        """Make a call of a program, which receives its errors. Override this to observe or disturb calls."""
        return tool.function(**tool.validate(call.arguments))

    def manual(self, module: Module) -> str:
        """Return the description of programs that comes before the first observation.

        Args:
            module: the module with the functions that programs may call.
        """
        return RULES.format(manual=module.manual())

    def offered(self) -> Sequence[Tool]:
        """Return ``python``, or the environment's own tools."""
        return super().offered() if self.how == "tools" else (PYTHON,)

    def python(self, code: str) -> Awaitable[str]:
        """Run Python in a session that keeps its variables; the value of a last expression is shown.

        Args:
            code: statements, which may call the functions of apis.
        """
        return self._run(code)

    async def _run(self, code: str) -> str:
        if self._has_ended:
            raise ToolError("the episode has ended")
        ran = await self._tools.run(code, self.seconds)
        self._programs = (*self._programs, code)
        self._ran.append(ran)
        return ran.text

    @property
    def _has_ended(self) -> bool:
        return any(ran.ended for ran in self._ran)

    def program_in(self, text: str) -> str:
        """The program that a message is: all of it, or its first block of Python if it has blocks; else nothing.

        What stands behind the first block was written without knowing what comes of it.
        """
        text = text.replace("\r\n", "\n")
        blocks = [(kind.strip().lower(), inside) for _, kind, inside in FENCE.findall(text)]
        return next((inside for kind, inside in blocks if kind in PYTHONS), "" if blocks else text).strip("\n")

    # -- an episode ---------------------------------------------------------------------------------------------

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, Rng]:
        first = super()._begin(seed, options)
        self._programs, self._ran = (), []
        if self.how == "python":
            self.episode_sandbox.abandon()
            self.episode_sandbox = EpisodeSandbox(self.sandbox, self._spec)
        return first

    # ``Any``: the environment behind this class may promise something narrower, which an override must not widen.

    def start(self, task: TaskT, rng: Rng) -> Any:
        started = super().start(task, rng)  # type: ignore[safe-super]  # the environment's, which is behind this class
        return started if self.how == "tools" else self._started(started)

    async def _started(self, started: ObservationLike | Awaitable[ObservationLike]) -> Observation:
        first = Observation.of(await started if inspect.isawaitable(started) else started)
        with self._as_tools():
            tools = self.tools
        self._tools = PythonTools(
            tools, self.episode_sandbox, groups=self.groups, calls=self.program_calls, perform=self.perform
        )
        return Observation((message("system", self.manual(self._tools.module)), *first.messages))

    def act(self, action: Action) -> Any:
        return super().act(action) if self.how == "tools" else self._programmed(action)

    async def _programmed(self, action: Action) -> Step:
        """Run the programs of a message."""
        self._ran = []
        if action.tool_calls:
            step = await self._answer(action)
        else:
            step = await self._said(self.program_in(action.text))
        calls = [{"name": call.name, "arguments": call.arguments} for ran in self._ran for call in ran.calls]
        failed = [name for ran in self._ran for name in ran.failed]
        reported = {"calls": calls, **({"tool_errors": [*step.info.get("tool_errors", ()), *failed]} if failed else {})}
        if step.done:
            await self.episode_sandbox.close()
        return replace(step, info={**step.info, **reported})

    async def _said(self, code: str) -> Step:
        """Run a program that is the text of a message."""
        if not code.strip():
            return running("Write a program in Python.", self.unparsed_reward, unparsed=True)
        try:
            text = await self._run(code)
        except ToolError as error:
            return running(f"Error: {error}")
        if not self._has_ended:
            return running(text)
        score = await self._score()
        return Step(Observation.of(text), self._paid(score), terminated=True, score=score)

    def ends_with(self, tool: Tool) -> bool:
        """Return whether the episode has ended: any call of a program may have ended it."""
        return super().ends_with(tool) if self.how == "tools" else self._has_ended

    def _judged(self, step: Step, score: Score) -> Step:
        if self.how == "python":
            self.episode_sandbox.abandon()
        return super()._judged(step, score)

    def close(self) -> None:
        """Release the sandbox."""
        if self.how == "python":
            self.episode_sandbox.abandon()
        super().close()

    # -- for certification, demonstrations and forks ------------------------------------------------------------

    @contextmanager
    def _as_tools(self) -> Iterator[None]:
        """Let the environment act inside this block as if it offered its own tools."""
        how, self.how = self.how, "tools"
        try:
            yield
        finally:
            self.how = how

    def as_program(self, action: ActionLike) -> Action:
        """Return an action by tools as a program that prints the result of each call; an action without calls stays."""
        read = Action.of(action)
        if not read.tool_calls:
            return read
        code = "\n".join(self._tools.module.line(call) for call in read.tool_calls)
        return Action(tool_calls=(ToolCall("python", {"code": code}),))

    def oracle(self) -> Any:
        """Return the environment's own action, as a program if the agent acts by programs."""
        with self._as_tools():
            action = super().oracle()
        return action if self.how == "tools" else self.as_program(action)

    def random_action(self, rng: Rng) -> Any:
        """Return a random call of the environment's tools, as a program if the agent acts by programs."""
        with self._as_tools():
            action = super().random_action(rng)
        return action if self.how == "tools" else self.as_program(action)

    def near_misses(self) -> Any:
        """Return the environment's own near misses, as programs if the agent acts by programs."""
        plays = super().near_misses()
        return plays if self.how == "tools" else {name: self._missed(play) for name, play in plays.items()}

    def attacks(self) -> Any:
        """Return the environment's own, or programs that attack the session and the protocol of its calls."""
        if self.how == "tools":
            return super().attacks()
        with self._as_tools():
            return attacks_on(self.tools[0].name)

    def _missed(self, play: NearMiss) -> NearMiss:
        if not callable(play):
            return [self.as_program(action) for action in play]

        def played(env: Any) -> ActionLike:
            if not isinstance(env.unwrapped, ProgramEnv):
                raise ContractError(f"a near miss of {type(self).__name__} was played in {type(env).__name__}")
            with env.unwrapped._as_tools():
                action = play(env)
            return env.unwrapped.as_program(action)

        return played

    def state_key(self) -> Any:
        """Return the environment's own key; with programs, include them, since no value holds a session's state."""
        key = super().state_key()
        if self.how == "tools" or key is None or not self._programs:
            return key
        return stable_hash(key, *self._programs).hex()[:32]


PYTHON = describe(ProgramEnv.python, "python")
"""The only tool of an agent that writes programs."""
