"""Frames of the environment protocol: messages, actions, tools, scores and steps as JSON text, and back.

The frames themselves are described in ``docs/serve_environments.md``. Numbers, strings (lone surrogates included) and
images survive the way there and back exactly. Tuples of an environment's ``info`` arrive as lists, as in a store.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import pydantic

from ...errors import ContractError, EnvironmentFailedError, RequestError
from ...tasks.score import Score
from ..base import Reset, Stepped
from ..messages import Action, ImagePart, Message, Observation, Part, TextPart, ToolCall, bounded
from ..plain_json import plain
from ..tools import Tool

PROTOCOL = 1
"""Version of the protocol; a server and a client of different versions refuse each other."""
PATH = "/turnwise/v1"
"""Path of the WebSocket."""
EPISODE = re.compile(r"[0-9a-f]{32}")
"""An episode's id, which the client draws at random, so that no other client can guess it."""
MAX_DEPTH_ERROR = "the JSON is nested too deeply"

_ENCODER = json.JSONEncoder(default=plain, separators=(",", ":"))
Verb = Literal["describe", "instance", "reset", "step", "oracle", "random", "fork", "close"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hello:
    """The first frame of a server.

    Args:
        capacity: number of episodes that it plays at a time.
        load: number of episodes that it plays now.
        heartbeat: seconds between two heartbeats.
        reattach: seconds that an episode waits for its client after a broken socket.
        frame: maximum bytes of a request.
        environments: digest by id of every environment.
        operator: whether the token is the operator's key.
    """

    capacity: int
    load: int
    heartbeat: float
    reattach: float
    frame: int
    environments: Mapping[str, str]
    operator: bool


def encode(frame: Mapping[str, Any]) -> str:
    """Return a frame as JSON text in ASCII.

    Raises:
        ContractError: it holds something that is not JSON.
    """
    try:
        return _ENCODER.encode(frame)
    except (TypeError, ValueError, RecursionError) as error:
        raise ContractError(f"the environment's answer is not JSON: {error}") from None


def decode(text: str | bytes) -> dict[str, Any]:
    """Return the JSON object of a frame.

    Raises:
        RequestError: it is not a JSON object.
    """
    try:
        frame = json.loads(text)
    except RecursionError:
        raise RequestError(MAX_DEPTH_ERROR, code="bad_frame") from None
    except ValueError as error:
        raise RequestError(f"a frame must be a JSON object: {error}"[:200], code="bad_frame") from None
    if not isinstance(frame, dict):
        raise RequestError(f"a frame must be a JSON object, not {type(frame).__name__}", code="bad_frame")
    return frame


def of(value: Any, kind: type[T], name: str) -> T:
    """Return a value of a frame if it has the right type.

    Raises:
        RequestError: it has another.
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        got = "it is missing" if value is None else f"got {value!r:.60}"
        raise RequestError(f"{name} must be of type {kind.__name__}; {got}", code="bad_frame", param=name)
    return value


def observation_to_json(observation: Observation) -> list[dict[str, Any]]:
    """Return the messages of an observation."""
    return [_message(message) for message in observation.messages]


def observation_from_json(given: Sequence[Mapping[str, Any]]) -> Observation:
    """Return the observation with these messages."""
    return Observation(
        tuple(
            Message(
                each["role"],
                tuple(map(_part_from, each["parts"])),
                tuple(map(_call_from, each.get("tool_calls", ()))),
                each.get("name"),
                each.get("tool_call_id"),
            )
            for each in given
        )
    )


def action_to_json(action: Action) -> dict[str, Any]:
    """Return an action as an object."""
    return {"text": action.text, "tool_calls": [_call(call) for call in action.tool_calls], "problem": action.problem}


def sendable(action: Action) -> Action:
    """Return an action, or one with a ``problem`` in place of an action that JSON cannot hold."""
    action = bounded(action)
    try:
        encode(action_to_json(action))
    except ContractError:
        return Action(problem="Your action cannot be sent: it is not JSON.")
    return action


def action_from_json(given: Any) -> Action:
    """Return the action of a client.

    Raises:
        RequestError: it is not an action.
    """
    body = of(given, dict, "action")
    if unknown := set(body) - {"text", "tool_calls", "problem"}:
        wrong = min(unknown)
        raise RequestError(f"an action has text, tool_calls and problem, but not {wrong!r:.60}", code="bad_frame")
    problem = body.get("problem")
    calls = [of(call, dict, "tool_calls") for call in of(body.get("tool_calls", []), list, "tool_calls")]
    for call in calls:
        of(call.get("name"), str, "tool_calls.name")
        of(call.get("id", ""), str, "tool_calls.id")
    return Action(
        of(body.get("text", ""), str, "text"),
        tuple(map(_call_from, calls)),
        None if problem is None else of(problem, str, "problem"),
    )


def tools_to_json(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return tools as a client needs them."""
    return [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters, "ends": tool.ends}
        for tool in tools
    ]


def tools_from_json(given: Sequence[Mapping[str, Any]]) -> tuple[Tool, ...]:
    """Return the tools of a remote environment; their functions exist only there."""
    return tuple(_tool(each["name"], each["description"], each["parameters"], each["ends"]) for each in given)


def reset_to_json(observation: Observation, info: Mapping[str, Any], tools: Sequence[Tool]) -> dict[str, Any]:
    """Return the answer to ``reset``."""
    answer = {"observation": observation_to_json(observation), "info": dict(info), "tools": tools_to_json(tools)}
    return cast("dict[str, Any]", json.loads(encode(answer)))


def reset_from_json(data: Mapping[str, Any]) -> tuple[Reset, tuple[Tool, ...]]:
    """Return observation, info and tools of an answer to ``reset``."""
    return _read(
        lambda: ((observation_from_json(data["observation"]), data["info"]), tools_from_json(data["tools"])), "reset"
    )


def stepped_to_json(stepped: Stepped) -> dict[str, Any]:
    """Return the answer to ``step``; the score of a last step stands in ``info``, as in process."""
    observation, reward, terminated, truncated, info = stepped
    score = info.get("score")
    if isinstance(score, Score):
        info = {**info, "score": _score(score)}
    return {
        "observation": observation_to_json(observation),
        "reward": float(reward),
        "terminated": bool(terminated),
        "truncated": bool(truncated),
        "info": info,
        "scored": isinstance(score, Score),
    }


def stepped_from_json(data: Mapping[str, Any]) -> Stepped:
    """Return the five results of an answer to ``step``."""

    def read() -> Stepped:
        info = dict(data["info"])
        if data["scored"]:
            info["score"] = Score(**info["score"])
        observation = observation_from_json(data["observation"])
        return observation, float(data["reward"]), data["terminated"], data["truncated"], info

    return _read(read, "step")


def _read(read: Callable[[], T], verb: str) -> T:
    try:
        return read()
    except (KeyError, TypeError, ValueError, ContractError) as error:
        raise EnvironmentFailedError(
            f"the server's answer to {verb} cannot be read: {type(error).__name__}: {error}"
        ) from None


def _score(score: Score) -> dict[str, Any]:
    return {
        "success": score.success,
        "checks": dict(score.checks),
        "collateral": list(score.collateral),
        "violations": list(score.violations),
    }


def _message(message: Message) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "parts": [_part(part) for part in message.parts]}
    if message.tool_calls:
        made["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.name is not None:
        made["name"] = message.name
    if message.tool_call_id is not None:
        made["tool_call_id"] = message.tool_call_id
    return made


def _part(part: Part) -> dict[str, Any]:
    return {"text": part.text} if isinstance(part, TextPart) else {"image": part.base64, "mime": part.mime}


def _part_from(given: Mapping[str, Any]) -> Part:
    if "text" in given:
        return TextPart(given["text"])
    try:
        return ImagePart(base64.b64decode(given["image"], validate=True), given["mime"])
    except binascii.Error as error:
        raise ValueError(f"an image is not base64: {error}") from None


def _call(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name, "arguments": call.arguments, "id": call.id}


def _call_from(given: Mapping[str, Any]) -> ToolCall:
    return ToolCall(given["name"], given.get("arguments", {}), given.get("id", ""))


def _tool(name: str, description: str, parameters: dict[str, Any], ends: bool) -> Tool:
    def elsewhere(*_: Any, **__: Any) -> Any:
        raise EnvironmentFailedError(f"tool {name!r} exists only on the server; call it through step()")

    return Tool(name, description, parameters, pydantic.BaseModel, elsewhere, ends)
