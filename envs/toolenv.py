"""``ToolEnv``: an environment whose typed methods are the agent's tools."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, cast

from ..errors import ContractError, ToolError, TurnwiseError, UnparseableError
from ..tasks.rng import Rng
from ..tasks.score import Score
from .author_line import at, defined_at
from .background import completed
from .base import Reset, TaskT, TurnEnv
from .messages import Action, ActionLike, Message, Observation, ObservationLike, Part, TextPart, ToolCall, clip
from .sampling import random_arguments
from .step import Step, running
from .tools import MARK, Tool, shown, tools_of


class ToolEnv(TurnEnv[TaskT]):
    """An environment acted in through tools. An author writes ``start``, tools marked ``@tool``, and ``judge``.

    A call that does not fit (unknown name, wrong arguments, a tool that raises ``ToolError``) is answered with an
    observation that says what to change. Any other exception of a tool is a bug of its author and raises: the episode
    then says nothing about the agent. A successful call of a tool marked ``ends=True`` ends the episode, and
    ``judge`` scores the world: the reward is 1 for success and 0 otherwise, unless ``reward`` says differently.
    """

    max_calls: ClassVar[int] = 16
    """Most calls of one message to run; the rest is refused."""
    message_seconds: ClassVar[float] = 60.0
    """Seconds after which no further call of one message starts. Calls that each end in time could otherwise take
    longer together than a run waits for one step, which would not be scored."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for attribute, value in vars(cls).items():
            if getattr(value, MARK, None) and hasattr(ToolEnv, attribute):
                raise ContractError(
                    f"tool {cls.__name__}.{attribute} would replace the environment's own {attribute!r}; rename "
                    f"the method and write @tool(name={attribute!r}){at(defined_at(value))}"
                )

    @property
    def tools(self) -> Sequence[Tool]:
        """The marked methods, bound to this environment."""
        return tuple(tool.bind(self) for tool in self.offered())

    def offered(self) -> Sequence[Tool]:
        """Return the available tools, unbound: all of the class, unless an instance offers fewer."""
        return tools_of(type(self))

    def ends_with(self, tool: Tool) -> bool:
        """Return whether the call of a tool that just succeeded ends the episode."""
        return tool.ends

    def said(self, text: str) -> Step | ObservationLike | Awaitable[Step | ObservationLike]:
        """Answer a message that calls no tool."""
        names = ", ".join(tool.name for tool in self.tools)
        return running(f"Call a tool. You have: {names}.", self.unparsed_reward, unparsed=True)

    def reward(self, score: Score) -> float:
        """Return the reward at the end of the episode: 1 for success by default."""
        return float(score.success)

    def random_action(self, rng: Rng) -> ActionLike:
        """Return a random tool with random arguments that fit its schema."""
        tool = rng.pick(self.offered())
        return ToolCall(tool.name, random_arguments(tool.parameters, rng))

    def _begun(self, content: ObservationLike) -> Reset:
        if not self.offered() and not tools_of(type(self)):  # a mode that offers none of them is the author's choice
            name, where = type(self).__name__, at(defined_at(type(self)))
            raise ContractError(f"{name} has no tools; mark its methods with @tw.tool{where}")
        return super()._begun(content)

    def act(self, action: Action) -> Step | ObservationLike | Awaitable[Step | ObservationLike]:
        """Run the calls of one message in order; stop after one that ends the episode."""
        if not action.tool_calls:
            return self.said(action.text)
        answer = self._answer(action)
        return completed(answer) if _needs_no_loop(type(self)) else answer

    def _judged(self, step: Step, score: Score) -> Step:
        # The world is judged however the episode ends, so it is paid for however it ends: success is never worth 0.
        return replace(step, score=score, reward=step.reward + self._paid(score))

    async def _answer(self, action: Action) -> Step:
        tools = {tool.name: tool for tool in self.offered()}
        answers: list[Message] = []
        failed: list[str] = []
        began = _now()
        for index, call in enumerate(action.tool_calls):
            refused = ""
            if index == self.max_calls:
                refused = f"one message may call {index} tools"
            elif index and _now() - began >= self.message_seconds:
                refused = f"the calls of one message have {self.message_seconds:g} seconds"
            if refused:
                left = len(action.tool_calls) - index
                answers.append(_answered(call, TextPart(f"Error: {refused}; {left} were not called.")))
                break
            parts, ok = await self._call(tools, call)
            answers.append(_answered(call, *parts))
            if not ok:
                failed.append(clip(str(call.name)))
            elif self.ends_with(tools[call.name]):
                return await self._ended(answers, failed)
        return Step(Observation(tuple(answers)), info=_failures(failed))

    async def _call(self, tools: dict[str, Tool], call: ToolCall) -> tuple[Sequence[Part], bool]:
        tool = tools.get(str(call.name))
        if tool is None:
            return [TextPart(f"Error: there is no tool {clip(str(call.name))!r}. You have: {', '.join(tools)}.")], False
        try:
            result: Any = tool.function(self, **tool.validate(call.arguments))
            result = await result if inspect.isawaitable(result) else result
        except (ToolError, UnparseableError) as error:
            return [TextPart(f"Error: {error}")], False
        except TurnwiseError:
            raise
        except Exception as error:
            error.add_note(f"in the tool {tool.name!r}; to answer the agent with an error, raise tw.ToolError")
            raise
        return shown(result, tool), True

    async def _ended(self, answers: list[Message], failed: list[str]) -> Step:
        if type(self).judge is TurnEnv.judge:
            name, where = type(self).__name__, at(defined_at(type(self)))
            raise ContractError(f"{name} has no judge(); write one that returns tw.Score(success=...){where}")
        score = await self._score()
        return Step(
            Observation(tuple(answers)), self._paid(score), terminated=True, score=score, info=_failures(failed)
        )

    def _paid(self, score: Score) -> float:
        paid = self.reward(score)
        try:
            return Step(Observation(), paid).reward
        except ContractError:
            raise self._wrong("reward", paid, "a finite number") from None


def _now() -> float:
    """Return the time of the event loop in seconds; 0 without a loop, where tools do not wait."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0


def _answered(call: ToolCall, *parts: Part) -> Message:
    # Half a surrogate pair, as in a file's odd name, is not text.
    clean = (TextPart(p.text.encode("utf-8", "replace").decode()) if isinstance(p, TextPart) else p for p in parts)
    return Message("tool", tuple(clean), name=clip(str(call.name)), tool_call_id=call.id or None)


def _failures(failed: list[str]) -> dict[str, Any]:
    return {"tool_errors": failed} if failed else {}


def _needs_no_loop(cls: type) -> bool:
    return _is_sync(cast(Hashable, cls))


@lru_cache(maxsize=1024)
def _is_sync(cls: Any) -> bool:
    functions = [cls.judge, *(tool.function for tool in tools_of(cls))]
    return not any(inspect.iscoroutinefunction(function) for function in functions)
