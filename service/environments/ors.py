"""The Open Reward Standard's grammar (openreward 0.1.167): what its messages mean to an environment of turns.

There, an agent acts by tools alone, so that an additional tool takes text. A result knows one flag, ``finished``.
Whether the episode terminated or was truncated, its turn and its success stand in ``metadata``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...envs.messages import Action, ToolCall, clip
from ...envs.remote.problems import problem_of
from . import openenv
from .access import Client

SAY = "send_text"
"""Name of the tool that takes text; underscores follow it if the environment has a tool of this name."""
CHUNK = 4096
"""Maximum characters of one event; OpenReward's client cannot read lines of more than 128 KiB."""
STATUS = {"bad_frame": 422, "invalid_request": 422, "task": 400, "usage": 400}
STATUS |= {"body_too_large": 413, "body_too_slow": 408}
STATUS |= {"unknown_environment": 404, "lost": 404, "conflict": 409, "busy": 429, "full": 503, "draining": 503}
"""HTTP status by our kind of error; any other is 500. The client repeats requests after 429 and 503."""


def tools_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the answer to ``tools`` and ``task_tools``.

    Args:
        tools: tools as our own protocol has them.
    """
    listed = [
        {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]} for tool in tools
    ]
    text = {"type": "string", "description": "What to say."}
    schema = {"type": "object", "properties": {"text": text}, "required": ["text"]}
    about = "Say something to the environment. It answers." if listed else "Act, or say something, in words."
    listed.append({"name": say_of(tools), "description": about, "input_schema": schema})
    return {
        "tools": listed,
        "terminal_tool": None,
        "supports_score_group": False,
        "message_block_types": ["text", "image"],
    }


def say_of(tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of the tool that takes text."""
    name, names = SAY, {tool["name"] for tool in tools}
    while name in names:
        name += "_"
    return name


def action_of(tools: Sequence[Mapping[str, Any]], name: str, given: dict[str, Any]) -> Action:
    """Return the action of a call; a call that has no meaning there is an action, too, and the environment answers it.

    Args:
        tools: tools of the environment, as our own protocol has them.
        name: name of the called tool.
        given: arguments of the call.
    """
    say = say_of(tools)
    if name == say:
        text = given.get("text")
        return Action(text) if isinstance(text, str) else Action(problem=_misread(say, given))
    if not tools:  # an environment of text alone would read an empty text
        return Action(problem=f"Error: there is no tool {clip(name)!r}. You have: {say}.")
    return Action(tool_calls=(ToolCall(name, given),))


def blocks_of(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts of messages as blocks of text and images."""
    return [_block(part) for message in messages for part in message["parts"]]


def messages_of(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return messages as a conversation; the role ``tool`` is the user's there."""
    return [
        {"role": "user" if each["role"] == "tool" else each["role"], "blocks": blocks_of([each])} for each in messages
    ]


def result_of(answer: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return one of our answers as the result of a call.

    Args:
        answer: answer to a step.
        name: id of the session.
    """
    seen = openenv.observed(answer, name)
    metadata = seen["metadata"] | ({"tool_error": True} if openenv.went_wrong(answer["info"]) else {})
    blocks = blocks_of(answer["observation"])
    output = {"blocks": blocks, "metadata": metadata, "reward": answer["reward"], "finished": seen["done"]}
    return {"ok": True, "output": output}


def finished() -> dict[str, Any]:
    """Return the result of a call after the end, which does nothing."""
    return {"ok": False, "error": "the episode has finished; start another session", "reason": "episode_finished"}


def events_of(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the events that carry a result; the last one is ``end``."""
    text = json.dumps(result, separators=(",", ":"))
    for at in range(0, len(text), CHUNK):
        part = text[at : at + CHUNK]
        if at and part.startswith(" "):  # the client strips it; spaces exist only inside strings, so this is the same
            part = "\\u0020" + part[1:]
        yield event("end" if at + CHUNK >= len(text) else "chunk", part)


def event(kind: str, data: str) -> str:
    """Return a server-sent event of one line."""
    return f"event: {kind}\r\ndata: {data}\r\n\r\n"


def problem(error: Exception, client: Client, verb: str) -> tuple[int, str]:
    """Return the HTTP status and the one line that describe an exception which ``verb`` raised."""
    found = problem_of(error, hidden=not client.operator, verb=verb)
    return STATUS.get(found["kind"], 500), found["message"]


def _misread(say: str, given: Mapping[str, Any]) -> str:
    """Return the answer to a call of the tool that takes text, without a text."""
    names = clip(", ".join(given)) or "no arguments"
    got = f"text of type {type(given['text']).__name__}" if "text" in given else names
    return f"Error: {say} takes one argument, text, which is a string; got {got}."


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    if "text" in part:
        return {"type": "text", "text": part["text"], "detail": None}
    return {"type": "image", "data": part["image"], "mimeType": part["mime"], "detail": None}
