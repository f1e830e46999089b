"""``ToolFaults``: tools that time out, fail temporarily, lose their answers or are missing."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium

from ...errors import UsageError
from ...tasks.rng import unit_hash
from ..base import NearMiss
from ..contract import Contract
from ..messages import Action, ActionLike, Message, Observation, TextPart, ToolCall, clip, message
from ..step import OUT_OF_TURNS
from ..toolenv import ToolEnv
from ..tools import Tool
from .base import Judging, Resets, Resetting, Stepping, Steps, TurnWrapper

SILENT = "Error: {name} did not answer in time."
"""The answer to a call that was never made, and to one whose answer was lost: the agent cannot tell the two apart."""
FAILED = "Error: {name} is unavailable for the moment; try again."
REACHING = (None, "lost")
"""Possible fates of a call."""
SKIPPED = "Error: {name} was not called, since a call before it failed."
SURPLUS = "Error: one message may call {most} tools; {more} were not called."


class ToolFaults(TurnWrapper):
    """Let tool calls fail as they do outside, by rates, the same for a task and a seed in every process and fork.

    A call that times out or meets an error does not reach the environment, nor do those after it in the same message;
    the same call gets through when it is tried again. A lost answer belongs to a call that was made. A missing tool
    is neither listed nor can it be called. Each time the agent reads an error observation, and
    ``info["faults"]`` says what was done. Messages without calls pass.

    A turn in which nothing reached the environment is a turn here and none there: its turn limit leaves as many
    actions as ever, and the episode ends after twice as many, as it ends at the environment's own limit.

    Args:
        env: the environment; wrap it with this before wrappers that change observations.
        timeouts: the share of calls that are not made and not answered.
        errors: the share of calls that are refused for the moment.
        lost: the share of calls that are made and whose answer is lost.
        missing: the share of tools that are withheld; one is always left.
        until: after so many actions withheld tools come back, described in the observation; ``None``: never.
        keep: names of tools that are never withheld.
        seed: another seed gives other faults.

    Raises:
        UsageError: a rate is no share, the rates of calls sum to more than 1, or ``until`` leaves nothing withheld.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        timeouts: float = 0.0,
        errors: float = 0.0,
        lost: float = 0.0,
        missing: float = 0.0,
        until: int | None = None,
        keep: Collection[str] = (),
        seed: int = 0,
    ) -> None:
        super().__init__(
            env, timeouts=timeouts, errors=errors, lost=lost, missing=missing, until=until, keep=keep, seed=seed
        )
        for name, rate in {"timeouts": timeouts, "errors": errors, "lost": lost, "missing": missing}.items():
            if not 0 <= rate <= 1:
                raise UsageError(f"{name} must be a share between 0 and 1; got {rate}")
        if timeouts + errors + lost > 1:
            raise UsageError(
                f"timeouts, errors and lost must sum to at most 1; they sum to {timeouts + errors + lost:g}"
            )
        if until is not None and until < 1:
            raise UsageError(f"until must be at least 1; got {until}")
        self._rates = {"timeout": timeouts, "error": errors, "lost": lost}
        self._missing, self._until, self._keep, self._seed = missing, until, frozenset(keep), seed
        self._digest, self._returned = "", False
        self._calls = 0
        self._failed: frozenset[str] = frozenset()  # what gets through when it is tried again

    @property
    def max_turns(self) -> int:
        """Twice the environment's own limit where calls may fail to reach it."""
        undelivered = self._rates["timeout"] + self._rates["error"]
        return int(self.env.get_wrapper_attr("max_turns")) * (2 if undelivered else 1)

    @property
    def contract(self) -> Contract:
        """The environment's contract, with room for the messages that this wrapper adds."""
        inner: Contract = super().contract
        described = len(json.dumps([tool.to_json() for tool in self._known()])) if self._until else 0
        return replace(inner, max_observation_chars=inner.max_observation_chars + described + 10_000)

    @property
    def tools(self) -> Sequence[Tool]:
        """The available tools: the environment's own without those that are currently missing."""
        withheld = self.withheld
        return tuple(tool for tool in self._known() if tool.name not in withheld)

    @property
    def withheld(self) -> frozenset[str]:
        """The names of the tools that are missing at present."""
        if not self._missing or not self._digest or self._returned:
            return frozenset()
        drawn = {tool.name: self._drawn("tool", tool.name) for tool in self._known() if tool.name not in self._keep}
        missing = {name for name, draw in drawn.items() if draw < self._missing}
        if len(missing) == len(self._known()):
            missing.remove(max(drawn, key=lambda name: drawn[name]))
        return frozenset(missing)

    def resetting(self, seed: int | None, options: Mapping[str, Any] | None) -> Resets:
        """Start an episode; which tools are missing depends on the task."""
        reset = yield Resetting(seed, options)
        self._digest, self._returned = self.task.digest, False
        self._calls, self._failed = 0, frozenset()
        return reset  # type: ignore[no-any-return]

    def stepping(self, action: ActionLike) -> Steps:
        """Pass on the calls that get through, and answer the others with errors."""
        read = Action.of(action)
        fates = [] if read.problem else self._fates(read.tool_calls[: self._most])
        reaching = [call for call, fate in zip(read.tool_calls, fates, strict=False) if fate in REACHING]
        if len(reaching) == len(fates):  # the environment has its own word for what is too many
            reaching += read.tool_calls[self._most :]
        if reaching or not fates:
            through = Action(read.text, tuple(reaching)) if fates else read
            observation, reward, terminated, truncated, info = yield Stepping(through)
        else:
            observation, reward, terminated, truncated = Observation(), 0.0, False, False
            info = {"obs_key": self.env.get_wrapper_attr("state_key")()}
        if set(fates) - {None}:
            observation = self._merged(read.tool_calls, fates, observation, over=terminated)
            info = {**info, **_told(read.tool_calls, fates, info)}
        if self.turn >= self.max_turns and not terminated and not truncated:
            score = yield Judging()
            truncated = bool(self.env.get_wrapper_attr("max_turns_truncates"))
            terminated = not truncated
            info = {**info, "score": score, "success": score.success, OUT_OF_TURNS: True}
        return Observation((*observation.messages, *self._back())), reward, terminated, truncated, info

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return ``None``: the return of a list of actions depends on which of them get through."""
        return {}

    # -- what happens to calls -----------------------------------------------------------------------------------

    def _fates(self, calls: Sequence[ToolCall]) -> list[str | None]:
        """Return the fault of each call of one message; ``None`` for a call that gets through."""
        fates: list[str | None] = []
        withheld = self.withheld
        for call in calls:
            if {"timeout", "error"} & set(fates):
                fates.append("skipped")
            elif str(call.name) in withheld:
                fates.append("missing")
            else:
                fates.append(self._fate(call))
        return fates

    def _fate(self, call: ToolCall) -> str | None:
        self._calls += 1
        key = _key(call)
        if key in self._failed:
            self._failed -= {key}
            return None
        left = self._drawn("call", self._calls)
        for fault, rate in self._rates.items():
            if left < rate:
                self._failed |= {key}
                return fault
            left -= rate
        return None

    def _drawn(self, kind: str, which: str | int) -> float:
        return unit_hash("tool faults", self._seed, self._digest, kind, which)

    def _merged(
        self, calls: Sequence[ToolCall], fates: Sequence[str | None], observation: Observation, *, over: bool
    ) -> Observation:
        """Return one answer per call, in their order: the environment's own, or the error in its place."""
        reached = sum(fate in REACHING for fate in fates)
        own = [message for message in observation.messages if message.role == "tool"]
        own = own[-reached - (reached == len(fates) < len(calls)) :] if reached else []
        rest = [message for message in observation.messages if all(message is not answer for answer in own)]
        answers: list[Message] = []
        for call, fate in zip(calls, fates, strict=False):
            if fate in REACHING and own:  # the environment may have stopped before this call
                answer = own.pop(0)
                answers.append(answer.with_text(SILENT.format(name=_name(call))) if fate else answer)
            elif fate not in REACHING and not (over and not own):
                answers.append(_answer(call, self._said(call, str(fate))))
        if (more := len(calls) - self._most) > 0 and reached < len(fates) and not over:
            answers.append(_answer(calls[self._most], SURPLUS.format(most=self._most, more=more)))
        return Observation((*answers, *own, *rest))

    def _said(self, call: ToolCall, fate: str) -> str:
        if fate == "missing":
            names = ", ".join(tool.name for tool in self.tools)
            return f"Error: there is no tool {_name(call)!r}. You have: {names}."
        return {"timeout": SILENT, "error": FAILED, "skipped": SKIPPED}[fate].format(name=_name(call))

    @property
    def _most(self) -> int:
        """Most calls of one message that the environment runs."""
        return int(getattr(self.unwrapped, "max_calls", ToolEnv.max_calls))

    def _known(self) -> Sequence[Tool]:
        known: Sequence[Tool] = self.env.get_wrapper_attr("tools")
        return known

    def _back(self) -> tuple[Message, ...]:
        """Describe the tools that return in this turn, since the agent's prompt lists only those of the start."""
        if self.turn != self._until:
            return ()
        names, self._returned = self.withheld, True
        if not names:
            return ()
        described = json.dumps([tool.to_json()["function"] for tool in self._known() if tool.name in names])
        return (message("user", f"These tools can be called from now on: {described}"),)


def _told(calls: Sequence[ToolCall], fates: Sequence[str | None], info: Mapping[str, Any]) -> dict[str, Any]:
    faults = [{"tool": _name(call), "fault": fate} for call, fate in zip(calls, fates, strict=False) if fate]
    failed = [*info.get("tool_errors", ()), *(fault["tool"] for fault in faults)]
    return {"faults": faults, "tool_errors": failed} if faults else {}


def _answer(call: ToolCall, text: str) -> Message:
    return Message("tool", (TextPart(text),), name=_name(call), tool_call_id=call.id or None)


def _name(call: ToolCall) -> str:
    return clip(str(call.name))


def _key(call: ToolCall) -> str:
    try:
        return json.dumps([call.name, call.arguments], sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr((call.name, call.arguments))
