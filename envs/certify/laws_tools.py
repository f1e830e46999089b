"""Laws of tools: they are described, they never raise, and a call that does not fit changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pydantic

from ...errors import ToolError
from ...tasks.rng import Rng
from ...tasks.spec import TaskSpec
from ...verdicts import NotApplicable
from ..base import TurnEnv
from ..messages import Action, Observation, ToolCall
from ..sampling import random_arguments
from ..step import OUT_OF_TURNS
from ..tools import Tool
from .findings import Broken, blaming
from .harness import Harness
from .law import Law
from .over_the_wire import fork as fork_of
from .trace import plain

NASTY = ("", "A" * 50_000, "'; DROP TABLE t; --", "../../etc/passwd", "\x00", "{{7*7}}", "🙂", "%s%n", "-0", "null")
HUGE = (10**30, -(10**30), 0)
"""Whole numbers that no database, list or clock holds."""
WRONG: tuple[Any, ...] = ([], {}, "A" * 50_000, -1.5, None, True, [[[]]], {"$ne": 1}, "'; DROP TABLE t; --")
LOOK_AHEAD = 8
"""How many turns of the oracle are compared after a call that must have changed nothing."""


def tools_described(harness: Harness) -> None:
    """Every tool has what an agent needs to know, in JSON."""
    for tool in _tools(harness):
        try:
            json.dumps(tool.to_json())
        except (TypeError, ValueError) as error:
            raise Broken(f"the description of tool {tool.name!r} is not JSON: {error}") from None
        if not tool.description.strip():
            raise Broken(f"tool {tool.name!r} has no description")
        for name, part in tool.parameters.get("properties", {}).items():
            if not set(part) & {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"} - {"description"}:
                raise Broken(f"parameter {name!r} of tool {tool.name!r} has no type in its schema: {part}")


def tools_never_raise(harness: Harness) -> None:
    """Calls with odd but possible arguments are answered; the answer has one message per call."""
    for number, spec in enumerate(harness.few):
        rng = Rng("certify", "nasty", spec.digest)
        for tool in _tools(harness):
            for turn, arguments in enumerate(_odd_calls(tool, rng)):
                if harness.effort.takes_turns and turn % len(harness.few) != number:
                    continue
                env = harness.make()
                env.reset(options={"task": spec})
                observation, _ = _called(harness, env, spec, tool, arguments)
                roles = [message.role for message in observation.messages]
                if env is env.unwrapped and roles != ["tool"]:  # a wrapper may add messages
                    raise Broken(
                        f"the answer to one call of {tool.name!r} has messages of {roles}, not of one tool", spec
                    )


def _odd_calls(tool: Tool, rng: Rng) -> list[dict[str, Any]]:
    """Arguments with an odd value in every place for it, each once: a tool without a place for one gets few calls."""
    odd = [_with(random_arguments(tool.parameters, rng), nasty) for nasty in (*NASTY, *HUGE)]
    return [arguments for number, arguments in enumerate(odd) if arguments not in odd[:number]]


def bad_calls_change_nothing(harness: Harness) -> str | None:
    """A call that does not fit the schema is refused in words, and the world goes on as if it had not been made."""
    tools = _tools(harness)
    if harness.sample is not harness.sample.unwrapped:
        raise NotApplicable("the turn limit of a wrapped environment, which this law moves, belongs to its wrappers")
    for spec in harness.few:
        for tool in tools:
            bad = list(_misfits(tool))
            if harness.wire is not None:
                harness.need_places(2)
                bad = bad[: harness.sample.max_turns // 2]  # a server's limit does not move
            env = harness.make()
            env.reset(options={"task": spec})
            twin = fork_of(env)
            for arguments in bad:
                if harness.wire is None:
                    env.max_turns = env.turn + 10
                observation, over = _called(harness, env, spec, tool, arguments)
                shown = f"{tool.name}({arguments!r:.100})"
                if over:
                    raise Broken(f"the bad call {shown} ends the episode", spec)
                if "error" not in observation.text.casefold():
                    raise Broken(
                        f"the answer to the bad call {shown} is {observation.text[:100]!r}, not an error", spec
                    )
            _same_world(harness, env, twin, spec, f"bad calls of {tool.name!r} change the world")
    return "wrong types were not sent: a server may convert them" if harness.wire is not None else None


def _same_world(harness: Harness, env: TurnEnv, twin: TurnEnv, spec: TaskSpec, text: str) -> None:
    """Two environments whose turn counts differ have the same world, as far as state keys and the oracle can tell."""
    if env.state_key() != twin.state_key():
        raise Broken(f"{text}: the state key is {env.state_key()!r} instead of {twin.state_key()!r}", spec)
    if not harness.has_oracle:
        return
    if harness.wire is None:
        env.max_turns = env.turn + 10 * LOOK_AHEAD
    for _ in range(LOOK_AHEAD):
        ours, theirs = Action.of(env.oracle()), Action.of(twin.oracle())
        if ours != theirs:
            raise Broken(f"{text}: the oracle now chooses {plain(ours)} instead of {plain(theirs)}", spec)
        one, other = harness.answer(env, ("step", {"action": ours})), harness.answer(twin, ("step", {"action": theirs}))
        if one[4].get(OUT_OF_TURNS) or other[4].get(OUT_OF_TURNS):  # a turn limit that belongs to one of them alone
            return
        if (one[0], *one[1:4], one[4].get("success")) != (other[0], *other[1:4], other[4].get("success")):
            raise Broken(f"{text}: {plain(ours)} now returns {plain(one[:4])} instead of {plain(other[:4])}", spec)
        if one[2] or one[3]:
            return


def _tools(harness: Harness) -> list[Tool]:
    tools = list(harness.sample.tools)
    if not tools:
        raise NotApplicable("there are no tools")
    return tools


def _misfits(tool: Tool) -> list[Any]:
    """Arguments that the tool's own schema refuses."""
    good = random_arguments(tool.parameters, Rng("certify", tool.name))
    tries: list[Any] = [{**good, "no_such_argument": 1}, {**good, "": "A" * 50_000}, [1, 2], "text"]
    tries += [{name: value for name, value in good.items() if name != left} for left in good]
    tries += [{**good, name: wrong} for name in tool.parameters.get("properties", {}) for wrong in WRONG]
    return [arguments for arguments in tries if _refused(tool, arguments)]


def _refused(tool: Tool, arguments: Any) -> bool:
    if tool.arguments is pydantic.BaseModel:  # a server's, known only by its schema
        known, needed = tool.parameters.get("properties", {}), tool.parameters.get("required", ())
        closed = tool.parameters.get("additionalProperties") is False
        given = arguments if isinstance(arguments, dict) else None
        return given is None or not set(needed) <= set(given) or (closed and not set(given) <= set(known))
    try:
        tool.validate(arguments)
    except ToolError:
        return True
    return False


def _with(value: Any, nasty: str | int) -> Any:
    """Replace every text, or every whole number, in ``value``."""
    if isinstance(value, dict):
        return {key: _with(item, nasty) for key, item in value.items()}
    if isinstance(value, list):
        return [_with(item, nasty) for item in value]
    return nasty if type(value) is type(nasty) else value


def _called(harness: Harness, env: TurnEnv, spec: TaskSpec, tool: Tool, arguments: Any) -> tuple[Observation, bool]:
    cure = "where the agent's arguments are wrong, raise tw.ToolError: its text becomes the observation"
    with blaming(f"{tool.name}({arguments!r:.100})", spec, cure=cure):
        observation, _, terminated, truncated, _ = harness.answer(
            env, ("step", {"action": ToolCall(tool.name, arguments)})
        )
    return observation, terminated or truncated


TOOL_LAWS = (
    Law("tools_described", "every tool and parameter is described in JSON Schema", tools_described),
    Law("tools_never_raise", "no call raises, whatever its texts are", tools_never_raise),
    Law(
        "bad_calls_change_nothing", "a call that does not fit is refused and changes nothing", bad_calls_change_nothing
    ),
)
"""Laws of tools."""
