"""Convert episodes to chat messages in JSON lines, the format of supervised fine-tuning, and read demonstrations back.

A line is one conversation in the format of OpenAI's chat API::

    {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}, …],
     "tools": […], "task": {…}, "success": true, "reward": 1.0}

An episode whose states were valued by rollouts has ``"step_values"``: the mean return from the state before each
assistant message, or null. ``arguments`` of a tool call are a JSON string, as that API sends them. When reading, only
``messages`` is required.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import pydantic

from ..envs.messages import Action, ImagePart, Message, Observation, Part, TextPart, ToolCall
from ..envs.tools import Tool
from ..errors import UsageError
from ..inference.bounded_json import no_constant
from ..tasks.rng import stable_hash
from ..tasks.score import Score
from ..tasks.spec import Split, TaskSpec
from .atif_import import START, chat_line, is_atif
from .episode import Episode, Outcome, Turn
from .step_values import state_values

DATA_URL = "data:"
"""Start of an image URL that contains the image itself."""


def exportable(episode: Episode) -> bool:
    """Whether an episode is a conversation to learn from: scored, with an action in it, every action readable."""
    return (
        episode.scored
        and bool(episode.turns)
        and not any(turn.action.problem or turn.info.get("unparsed") for turn in episode.turns if turn.sent)
    )


def to_chat(episode: Episode, tools: Sequence[Tool] = ()) -> dict[str, Any]:
    """Write an episode as one line of a chat file.

    Args:
        episode: a scored episode.
        tools: tools that its environment offers; the line has their JSON Schemas.
    """
    messages: list[Message] = []
    for turn in episode.turns:
        messages += [*turn.observation.messages, *([turn.action.message] if turn.sent else [])]
    line: dict[str, Any] = {"messages": [_message_json(message) for message in with_call_ids(messages)]}
    if tools:
        line["tools"] = [tool.to_json() for tool in tools]
    task = asdict(episode.task) | {"split": str(episode.task.split)}
    named = {"episode_id": episode.episode_id, "env": episode.env_id, "task": task}
    scored: dict[str, Any] = {"success": episode.success, "reward": episode.total_reward}
    if episode.lookaheads:
        values = zip(episode.turns, state_values(episode), strict=True)
        scored["step_values"] = [value for turn, value in values if turn.sent]
    return line | named | scored


def from_chat(path: Path, env_id: str, split: Split = Split.TRAIN) -> Iterator[Episode]:
    """Read demonstrations: one episode per line, in the form of a conversation or of an ATIF trajectory.

    A file that ends in ``.json`` has a single one. Messages between two assistant messages form an observation. The
    last action gets the reward. A line without ``task`` gets a separate task, which names it and generates nothing.

    Args:
        path: JSONL file, or ``.json`` file, to read.
        env_id: environment of the conversations.
        split: split of tasks that a line does not name.

    Raises:
        UsageError: the file cannot be read, or a line is not a conversation or belongs to another environment; the
            message has its number.
    """
    lines: dict[str, int] = {}
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, text in enumerate([file.read()] if path.suffix == ".json" else file, 1):
                if text.strip():
                    episode = _episode(text, f"{path}, line {number}", env_id, split)
                    first = lines.setdefault(episode.episode_id, number)
                    if first != number:
                        raise UsageError(
                            f"{path}, line {number}: its episode_id {episode.episode_id!r} is line {first}'s"
                        )
                    yield episode
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None


class _Function(pydantic.BaseModel):
    name: str
    arguments: str | dict[str, Any] = "{}"


class _Call(pydantic.BaseModel):
    function: _Function
    id: str = ""


class _Said(pydantic.BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None
    name: str | None = None
    tool_call_id: str | None = None


class _Line(pydantic.BaseModel):
    messages: list[_Said] = pydantic.Field(min_length=1)
    env: str | None = None
    task: TaskSpec | None = None
    success: bool = True
    reward: float | None = pydantic.Field(default=None, allow_inf_nan=False)
    episode_id: str | None = None


def _episode(text: str, where: str, env_id: str, split: Split) -> Episode:
    try:
        line = _line(text)
        if line.env not in (None, env_id):
            raise ValueError(
                f"the line belongs to environment {line.env}, not {env_id}; import each with its own --env"
            )
        turns, rest = _turns([_message(said) for said in line.messages])
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(map(str, first["loc"]))
        raise UsageError(f"{where}{f', {at}' if at else ''}: {first['msg']}") from None
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    mark = stable_hash("imported", env_id, where if line.episode_id is None else line.episode_id)
    task = line.task or TaskSpec(env_id, "imported", 1, int.from_bytes(mark[:6]), split)
    reward = float(line.success) if line.reward is None else line.reward
    final = Observation(tuple(rest)) if rest else None
    *before, last = turns
    return Episode(
        episode_id=line.episode_id or f"{mark.hex()[:16]}-0",
        env_id=env_id,
        task=task,
        group_id=mark.hex()[:16],
        turns=(*(Turn(*each, reward=0.0) for each in before), Turn(*last, reward=reward, terminated=True)),
        outcome=Outcome.COMPLETED,
        final_observation=final,
        score=Score(line.success),
        fingerprints={"imported": where, "task": task.digest},
    )


def _line(text: str) -> _Line:
    try:
        data = json.loads(text) if f'"{START}' in text else None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:  # pydantic says what is wrong
        data = None
    if data is None or not is_atif(data):
        return _Line.model_validate_json(text)
    return _Line.model_validate(chat_line(data))


def _turns(messages: Sequence[Message]) -> tuple[list[tuple[Observation, Action]], list[Message]]:
    """Return pairs of observation and action, and the observation after the last action."""
    turns: list[tuple[Observation, Action]] = []
    heard: list[Message] = []
    for message in messages:
        if message.role != "assistant":
            heard.append(message)
            continue
        if not heard:
            raise ValueError("two assistant messages in a row" if turns else "the first message is the assistant's")
        turns.append((Observation(tuple(heard)), Action(message.text, message.tool_calls)))
        heard = []
    if not turns:
        raise ValueError("the conversation has no assistant message")
    return turns, heard


def _message(said: _Said) -> Message:
    content = [{"type": "text", "text": said.content}] if isinstance(said.content, str) else said.content or []
    parts = tuple(_part(part) for part in content if part.get("text") != "")
    calls = tuple(_call(call) for call in said.tool_calls or ())
    return Message("system" if said.role == "developer" else said.role, parts, calls, said.name, said.tool_call_id)


def _call(call: _Call) -> ToolCall:
    arguments: Any = call.function.arguments
    try:
        arguments = json.loads(arguments, parse_constant=no_constant) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise ValueError(
            f"the arguments of {call.function.name} are not a JSON object: {call.function.arguments!r:.60}"
        )
    return ToolCall(call.function.name, arguments, call.id)


def _part(part: dict[str, Any]) -> Part:
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return TextPart(part["text"])
    image = part.get("image_url")
    url = image.get("url") if kind == "image_url" and isinstance(image, dict) else None
    head, comma, data = (url if isinstance(url, str) else "").partition(";base64,")
    if not comma or not head.startswith(DATA_URL):
        raise ValueError(f"content must be text or an image as a data: URL; got {part!r:.60}")
    return ImagePart(base64.b64decode(data, validate=True), head.removeprefix(DATA_URL))


def with_call_ids(messages: Sequence[Message]) -> Iterator[Message]:
    """Give calls without an id one, and each result the id of its call, in order, as chat APIs require."""
    waiting: list[str] = []
    for number, message in enumerate(messages):
        if message.tool_calls:
            calls = [
                call if call.id else replace(call, id=f"call_{number}_{index}")
                for index, call in enumerate(message.tool_calls)
            ]
            waiting = [call.id for call in calls]
            message = replace(message, tool_calls=tuple(calls))
        elif message.role == "tool" and waiting:
            first = waiting.pop(0)
            message = message if message.tool_call_id else replace(message, tool_call_id=first)
        yield message


def _message_json(message: Message) -> dict[str, Any]:
    content: Any = message.text
    if any(isinstance(part, ImagePart) for part in message.parts):
        content = [_part_json(part) for part in message.parts]
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
        }
        for call in message.tool_calls
    ]
    named = {"name": message.name, "tool_call_id": message.tool_call_id, "tool_calls": calls}
    return {"role": message.role, "content": content} | {name: value for name, value in named.items() if value}


def _part_json(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": part.data_url}}
