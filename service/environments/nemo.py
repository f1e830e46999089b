"""NeMo Gym's grammar (releases 0.4 and 0.7): rows of its datasets, responses of models as actions, and results.

A row names its task under ``turnwise``. NeMo Gym's clients send no token, but keep the credentials of a URL. So the
user ``nemo`` and the token stand in front of the host in Gym's configuration.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ...envs.messages import Action, Message, Observation, TextPart, ToolCall, clip
from ...envs.remote.frames import of
from ...errors import RequestError, UsageError
from ...tasks.spec import TaskSpec
from ..requests import parsed
from . import ors
from .access import credentials
from .catalog import Catalog, Served
from .task_lists import task_at

USER = "nemo"
"""User name by which the server recognizes NeMo Gym's clients."""
ROW = "turnwise"
"""Field of a row with the environment's id and the task."""
SERVER = "turnwise"
"""Name of the server in the names of its tools over MCP."""
FINISHED = "The episode has finished. This call did nothing."
"""Answer to a call after the end."""
RESERVED = ("seed_session", "verify", "close_session", "aggregate_metrics", "reverify_mode", "mcp")
"""Names that a tool cannot have, since Gym calls a tool by its name as the path."""


def password(headers: Mapping[str, str]) -> str | None:
    """Return the password of HTTP's basic authentication, or ``None`` for a request that is not NeMo Gym's."""
    user, given = credentials(headers) or ("", "")
    return given if user == USER else None


def row_of(
    env: str, digest: str, task: TaskSpec, opening: Observation, tools: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a row of a dataset.

    Args:
        env: id of the environment on the server.
        digest: digest of this environment; a server on which it differs refuses the row.
        task: its task.
        opening: first observation, which the model reads.
        tools: tools to offer, as JSON with ``name``, ``description`` and ``parameters``.

    Raises:
        UsageError: a tool has a name that NeMo Gym uses itself.
    """
    if taken := [tool["name"] for tool in tools if tool["name"] in RESERVED]:
        raise UsageError(f"NeMo Gym uses the path /{taken[0]} itself, so that {env} cannot have a tool of this name")
    offered = [{"type": "function", "strict": False, **tool} for tool in tools]
    params: dict[str, Any] = {"input": [_input(message) for message in opening.messages]}
    return {
        "responses_create_params": params | ({"tools": offered} if offered else {}),
        ROW: {"env": env, "digest": digest, "task": task.to_json()},
    }


def chosen(catalog: Catalog, row: Mapping[str, Any]) -> tuple[Served, TaskSpec]:
    """Return the environment and the task of a row: a whole ``task``, or ``split`` and ``index``.

    A row with a ``digest`` is for this version of the environment alone, since the model reads the row.

    Raises:
        RequestError: the row names no task or one that does not exist, or was written for another environment.
    """
    named = row.get(ROW)
    if isinstance(named, dict):
        named = {key: value for key, value in named.items() if value is not None}  # as in OpenEnv's ``reset``
    if not isinstance(named, dict) or not ("task" in named or {"split", "index"} <= named.keys()):
        raise RequestError(
            f'a row needs "{ROW}": {{"env": …, "task": …}}, as `turnwise export-nemo` writes it', code="bad_frame"
        )
    served = catalog.named(of(named["env"], str, "env")) if "env" in named else catalog.first
    digest = named.get("digest", served.digest)
    if digest != served.digest:
        raise RequestError(
            f"the row was written for another version of {served.id} than this server has, or for other arguments "
            f"(digest {digest!r:.40} instead of {served.digest}): write it again with `turnwise export-nemo`",
            code="conflict",
        )
    if "task" in named:
        return served, TaskSpec.from_json(of(named["task"], dict, "task"))
    return served, task_at(served, of(named["split"], str, "split"), of(named["index"], int, "index"))


def calls_in(response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tool calls of a model's response.

    Raises:
        RequestError: one of them has no name or no id.
    """
    calls = [item for item in output_of(response) if item.get("type") == "function_call"]
    for call in calls:  # all of them before the first one acts
        of(call.get("name"), str, "name")
        of(call.get("call_id"), str, "call_id")
    return calls


def arguments_of(call: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of a tool call, or ``None`` if they are not a JSON object that an answer may repeat."""
    text = of(call.get("arguments"), str, "arguments")
    try:
        arguments = parsed(text or "{}")
    except RequestError:
        return None
    return arguments if isinstance(arguments, dict) else None


def action_of(tools: Sequence[Mapping[str, Any]], response: Mapping[str, Any]) -> Action:
    """Return the action of a model's response: its text and its tool calls.

    Args:
        tools: tools of the environment, as our own protocol has them.
        response: response of OpenAI's Responses API, as JSON.
    """
    text, calls = "".join(map(_text_in, output_of(response))), list[ToolCall]()
    for item in calls_in(response):
        arguments = arguments_of(item)
        if arguments is None:
            return Action(text, problem=f"Error: the arguments of {clip(item['name'])} are not a JSON object.")
        calls.append(ToolCall(item["name"], arguments, item["call_id"]))
    if calls and (not tools or (len(calls) == 1 and calls[0].name == ors.say_of(tools))):
        return ors.action_of(tools, calls[0].name, dict(calls[0].arguments))
    return Action(text, tuple(calls))


def last_message(response: Mapping[str, Any]) -> str | None:
    """Return the message with which a model ended an episode, or ``None`` if it did not end with one."""
    output = output_of(response)
    whole = output and output[-1].get("type") == "message" and not response.get("incomplete_details")
    return _text_in(output[-1]) if whole else None


def text_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of messages; Gym has no images there."""
    return "\n".join("".join(part.get("text", "") for part in each["parts"]) for each in messages)


def outputs_of(
    messages: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, str]], str | None]:
    """Return the output of each call, which a model's next request needs, and the observation besides.

    Args:
        messages: messages of an observation.
        calls: calls of the model's response.
    """
    ids = [call["call_id"] for call in calls]
    answers = {id: text_of(own) for id in ids if (own := [each for each in messages if each.get("tool_call_id") == id])}
    rest = text_of([each for each in messages if each.get("tool_call_id") not in answers]) or None
    for id in ids:
        if id not in answers:  # an observation that answers no call by its id answers the first one
            answers[id], rest = rest or "This call was not made.", None
    return [{"call_id": id, "output": answers[id]} for id in dict.fromkeys(ids)], rest


def masked(row: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """Return the answer to ``verify`` for a rollout whose reward is not known; release 0.7 leaves it out of its means.

    Args:
        row: row of the rollout.
        reason: reason for which the reward is not known.
    """
    mask = {"mask_sample": True, "failure_kind": "verifier_error", "failure_reason": reason}
    return {**row, "reward": 0.0, "success": False, **mask}


def metrics_of(responses: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the answer to ``aggregate_metrics``: means over all episodes that were measured, and by task.

    Args:
        responses: answers to ``verify``; those with ``mask_sample`` have no reward.
    """
    tasks: dict[Any, list[Mapping[str, Any]]] = {}
    responses = [each for each in responses if not each.get("mask_sample")]
    for each in responses:
        tasks.setdefault(of(each.get("_ng_task_index") or 0, int, "_ng_task_index"), []).append(each)
    groups = [{"_ng_task_index": index, **_means(tasks[index])} for index in sorted(tasks)]
    means = _means(responses)
    return {"group_level_metrics": groups, "agent_metrics": means, "key_metrics": means}


def _means(responses: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for key in ("reward", "success"):
        values = [value for each in responses if (value := _finite(each.get(key))) is not None]
        found |= {f"mean/{key}": statistics.fmean(values)} if values else {}
    return found


def _finite(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:  # an integer beyond 1e308
        return None
    return number if math.isfinite(number) else None


def output_of(response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the items of a response: messages, tool calls, and in a stored one what answered them."""
    return [of(item, dict, "output") for item in of(response.get("output"), list, "output")]


def _text_in(item: Mapping[str, Any]) -> str:
    content = item.get("content") if item.get("type") == "message" else None
    if isinstance(content, str):
        return content
    parts = [of(part, dict, "content") for part in of(content or [], list, "content")]
    return "".join(of(part.get("text"), str, "text") for part in parts if part.get("type") == "output_text")


def _input(message: Message) -> dict[str, Any]:
    """Return a message as the input of a request; the role ``tool`` is the user's there."""
    content: Any = message.text
    if any(not isinstance(part, TextPart) for part in message.parts):
        content = [
            {"type": "input_text", "text": part.text}
            if isinstance(part, TextPart)
            else {"type": "input_image", "image_url": part.data_url, "detail": "auto"}
            for part in message.parts
        ]
    return {"type": "message", "role": "user" if message.role == "tool" else message.role, "content": content}
