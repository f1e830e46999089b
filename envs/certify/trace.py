"""The record of an episode, in a form that two processes can compare and a report can describe."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from ...tasks.rng import Rng
from ...tasks.score import Score
from ...tasks.spec import TaskSpec
from ..asked import asked
from ..base import TurnEnv
from ..messages import Action, ActionLike, ImagePart, Message, Observation, TextPart, ToolCall, clip

Play = Callable[[TurnEnv], ActionLike]
"""A way to act: from the environment, whose state it may look at, to the next action."""
Request = tuple[str, dict[str, Any]]
"""``("reset", kwargs)`` or ``("step", kwargs)``: what a script wants done next."""
Script = Generator[Request, Any, "Trace"]


@dataclass(frozen=True, slots=True)
class Beat:
    """One action and its answer, all of it plain JSON."""

    action: Any
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: Any


@dataclass(frozen=True, slots=True)
class Trace:
    """One episode, or its beginning.

    Args:
        first: the first observation and info.
        beats: the turns that followed.
    """

    first: Any
    beats: tuple[Beat, ...]

    @property
    def total(self) -> float:
        """The return so far."""
        return sum(beat.reward for beat in self.beats)

    @property
    def over(self) -> bool:
        """The episode has ended."""
        return bool(self.beats) and (self.beats[-1].terminated or self.beats[-1].truncated)

    @property
    def success(self) -> bool:
        """The episode has ended well."""
        return self.over and bool(self.beats[-1].info.get("success"))

    def actions(self) -> list[Action]:
        """Return the actions, to repeat them."""
        return [action_from(beat.action) for beat in self.beats]

    def to_json(self) -> list[Any]:
        """Plain lists, for another process."""
        return [
            self.first,
            [[b.action, b.observation, b.reward, b.terminated, b.truncated, b.info] for b in self.beats],
        ]

    @classmethod
    def from_json(cls, data: list[Any]) -> Trace:
        """Read what ``to_json`` wrote."""
        return cls(data[0], tuple(Beat(*beat) for beat in data[1]))


def script(play: Play, env: TurnEnv, *, turns: int | None, before: Play | None = None, **reset: Any) -> Script:
    """An episode as a generator of requests, so that callers may answer them in any order, sync or async.

    Args:
        play: the player.
        env: the environment that ``play`` reads.
        turns: stop after this many actions even if the episode goes on; ``None``: one beyond the declared limit.
        before: called before each action; what it answers is thrown away.
        reset: the arguments of ``reset``.
    """
    observation, info = yield ("reset", reset)
    first = [plain(observation), plain(info)]
    beats: list[Beat] = []
    # The limit is read each time: an environment may set it when an episode begins.
    while len(beats) < (env.max_turns + 1 if turns is None else turns):
        if before is not None:
            before(env)
        action = Action.of(play(env))
        observation, reward, terminated, truncated, info = yield ("step", {"action": action})
        beats.append(Beat(plain(action), plain(observation), reward, terminated, truncated, plain(info)))
        if terminated or truncated:
            break
    return Trace(first, tuple(beats))


def again(actions: list[Action]) -> Play:
    """A way to act that repeats ``actions``, and then says nothing."""
    left = iter(actions)
    return lambda env: next(left, Action())


def player(name: str) -> Play:
    """One of the standing players: ``oracle``, ``random`` (the same numbers for every task) or ``null``."""
    rng = Rng("certify", "random player")
    players: dict[str, Play] = {
        "oracle": lambda env: asked(env, "oracle"),
        "random": lambda env: asked(env, "random_action", rng),
        "null": lambda env: "",
    }
    return players[name]


def difference(one: Trace, other: Trace) -> str | None:
    """The first difference of two traces, in words; ``None`` if there is none."""
    if one.first != other.first:
        return f"the first observation differs: {_contrast(one.first, other.first)}"
    for turn, (left, right) in enumerate(zip(one.beats, other.beats, strict=False), 1):
        for field in ("action", "observation", "reward", "terminated", "truncated", "info"):
            a, b = getattr(left, field), getattr(right, field)
            if a != b and not (a != a and b != b):  # NaN equals NaN here: another law speaks of it
                return f"turn {turn}: the {field} differs: {_contrast(a, b)}"
    if len(one.beats) != len(other.beats):
        return f"one has {len(one.beats)} turns, the other {len(other.beats)}"
    return None


def _contrast(a: Any, b: Any) -> str:
    one, other = (x if isinstance(x, str) else json.dumps(x, ensure_ascii=False, default=repr) for x in (a, b))
    start = next((i for i, (p, q) in enumerate(zip(one, other, strict=False)) if p != q), min(len(one), len(other)))
    start = max(0, start - 20)
    lead = "…" if start else ""
    return f"{lead}{clip(one[start:], 90)!r} against {lead}{clip(other[start:], 90)!r}"


def plain(value: Any) -> Any:
    """``value`` as plain JSON; what JSON cannot say becomes the name of its type."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Observation():
            return [plain(message) for message in value.messages]
        case Message():
            extra = [plain(value.tool_calls), value.name, value.tool_call_id]
            return [value.role, [plain(part) for part in value.parts], *(extra if any(extra) else ())]
        case TextPart():
            return value.text
        case ImagePart():
            return f"<{value.mime} {hashlib.sha256(value.data).hexdigest()[:16]}>"
        case Action():
            return [value.text, plain(value.tool_calls), value.problem]
        case ToolCall():
            return [value.name, plain(value.arguments), value.id]
        case TaskSpec():
            return value.to_json()
        case Score():
            return [value.success, dict(value.checks), list(value.collateral), list(value.violations)]
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return f"<{type(value).__name__}>"


def action_from(data: Any) -> Action:
    """The action that ``plain`` turned into ``data``."""
    text, calls, problem = data
    return Action(text, tuple(ToolCall(name, arguments, id) for name, arguments, id in calls), problem)
