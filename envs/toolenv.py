"""``ToolEnv``: an environment whose typed methods are the agent's tools."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Sequence
from functools import lru_cache
from typing import Any

from ..tasks.rng import Rng
from ..tasks.score import Score
from .background import completed
from .base import TurnEnv
from .messages import Action, ActionLike, Message, Observation, ObservationLike, TextPart, ToolCall, clip
from .sampling import random_arguments
from .step import Step, running
from .tools import Tool, refusal, render, tools_of


class ToolEnv(TurnEnv):
    """An environment acted in through tools. An author writes ``start``, tools marked ``@tool``, and ``judge``.

    A call that does not fit (unknown name, wrong arguments, a tool that raises) answers with an observation that
    says what to change; nothing an agent sends can raise. A successful call of a tool marked ``ends=True`` ends
    the episode, and ``judge`` scores the world: the reward is 1 for success and 0 otherwise, unless ``reward``
    says differently.
    """

    @property
    def tools(self) -> Sequence[Tool]:
        """The marked methods, bound to this environment."""
        return tuple(tool.bind(self) for tool in tools_of(type(self)))

    def said(self, text: str) -> Step | ObservationLike | Awaitable[Step | ObservationLike]:
        """Answer a message that calls no tool."""
        names = ", ".join(tool.name for tool in self.tools)
        return running(f"Call a tool. You have: {names}.", self.unparsed_reward, unparsed=True)

    def reward(self, score: Score) -> float:
        """The reward at the end of the episode: success, by default."""
        return float(score.success)

    def random_action(self, rng: Rng) -> ActionLike:
        """A random tool with random arguments that fit its schema."""
        tool = rng.pick(tools_of(type(self)))
        return ToolCall(tool.name, random_arguments(tool.parameters, rng))

    def act(self, action: Action) -> Step | ObservationLike | Awaitable[Step | ObservationLike]:
        """Run the calls of one message in order; stop after one that ends the episode."""
        if not action.tool_calls:
            return self.said(action.text)
        answer = self._answer(action)
        return completed(answer) if _needs_no_loop(type(self)) else answer

    async def _answer(self, action: Action) -> Step:
        tools = {tool.name: tool for tool in tools_of(type(self))}
        answers: list[Message] = []
        failed: list[str] = []
        for call in action.tool_calls:
            text, ok = await self._call(tools, call)
            answers.append(Message("tool", (TextPart(text),), name=call.name, tool_call_id=call.id or None))
            if not ok:
                failed.append(call.name)
            elif tools[call.name].ends:
                return await self._ended(answers, failed)
        return running(answers, **({"tool_errors": failed} if failed else {}))

    async def _call(self, tools: dict[str, Tool], call: ToolCall) -> tuple[str, bool]:
        tool = tools.get(call.name)
        if tool is None:
            return f"Error: there is no tool {clip(call.name)!r}. You have: {', '.join(tools)}.", False
        try:
            result: Any = tool.function(self, **tool.validate(dict(call.arguments)))
            return render(await result if inspect.isawaitable(result) else result), True
        except Exception as error:
            return refusal(call.name, error), False

    async def _ended(self, answers: list[Message], failed: list[str]) -> Step:
        judged = self.judge()
        score = await judged if inspect.isawaitable(judged) else judged
        info = {"tool_errors": failed} if failed else {}
        return Step(Observation(tuple(answers)), self.reward(score), terminated=True, score=score, info=info)


@lru_cache(maxsize=1024)
def _needs_no_loop(cls: type[ToolEnv]) -> bool:
    functions = [cls.judge, *(tool.function for tool in tools_of(cls))]
    return not any(inspect.iscoroutinefunction(function) for function in functions)
