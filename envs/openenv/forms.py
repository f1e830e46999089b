"""The forms of OpenEnv: how an agent's text becomes an action there, and an observation becomes text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic

from ...errors import EnvironmentFailedError, UnparseableError
from ...tasks.rng import Rng
from ..messages import Observation, TextPart, clip
from ..remote.frames import observation_from_json
from ..sampling import random_arguments
from ..tools import Tool

OWN = ("metadata", "type")
"""Fields of every action, which the agent does not fill in."""
FLAGS = ("done", "reward", "metadata")
"""Fields of every observation that are not its content."""


@dataclass(frozen=True, slots=True)
class ActionForm:
    """How to write an action, by its JSON Schema.

    Args:
        schema: schema of the fields that an agent fills in.
        field: the only field to fill in, whose value the agent writes as it is; ``None`` if it writes a JSON object.
        calls: whether an action calls a tool.
    """

    schema: Mapping[str, Any]
    field: str | None
    calls: bool

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> ActionForm:
        """Return the form of a server's action schema."""
        properties = schema.get("properties") or {}
        calls = {"tool_name", "arguments"} <= set(properties)
        hidden = (*OWN, "tool_name", "arguments") if calls else OWN
        fields = {name: part for name, part in properties.items() if name not in hidden}
        required = [name for name in schema.get("required") or () if name in fields]
        single = required if len(required) == 1 else list(fields)
        kept = {"type": "object", "properties": fields, "required": required}
        if "$defs" in schema:
            kept["$defs"] = schema["$defs"]
        return cls(kept, single[0] if len(single) == 1 else None, calls)

    @property
    def speaks(self) -> bool:
        """Whether an action may be text."""
        return bool(self.schema["properties"])

    @property
    def instructions(self) -> str:
        """How to answer, for the agent; ``""`` if only tools act."""
        if not self.speaks:
            return ""
        if self.field is None:
            return f"Answer with a JSON object that fits this schema: {json.dumps(self.schema, ensure_ascii=False)}"
        part = self.schema["properties"][self.field]
        about = f" ({part['description']})" if part.get("description") else ""
        if part.get("type") == "string":
            kind = f": one of {', '.join(map(str, part['enum']))}" if part.get("enum") else ""
        else:
            bounds = {name: value for name, value in part.items() if name not in ("title", "description")}
            kind = f", as JSON that fits {json.dumps(bounds, ensure_ascii=False)}"
        return f"Answer with the {self.field}{about} and nothing else{kind}."

    def action(self, text: str) -> dict[str, Any]:
        """Return the action that an agent's text stands for.

        Raises:
            UnparseableError: it stands for none; the agent reads why.
        """
        if not self.speaks:
            raise UnparseableError("Call a tool.")
        if self.field is not None and self.schema["properties"][self.field].get("type") == "string":
            return {self.field: text}
        plain = text.strip().removeprefix("```json").strip("`").strip()
        try:
            value = json.loads(plain, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise UnparseableError(f"Your answer is not JSON: {clip(text)!r}. {self.instructions}") from None
        if self.field is not None and not isinstance(value, dict):
            return {self.field: value}
        if not isinstance(value, dict):
            raise UnparseableError(f"Your answer is not a JSON object: {clip(text)!r}. {self.instructions}")
        return value

    def random(self, rng: Rng) -> str:
        """Return a text that stands for a random action that fits the schema."""
        drawn = random_arguments(dict(self.schema), rng)
        if self.field is None:
            return json.dumps(drawn)
        value = drawn.get(self.field, "")
        return value if isinstance(value, str) else json.dumps(value)


def tools_of(listed: Sequence[Mapping[str, Any]]) -> tuple[Tool, ...]:
    """Return the tools that a server lists; their functions exist only there.

    Raises:
        EnvironmentFailedError: the list cannot be read.
    """
    try:
        return tuple(
            Tool(
                each["name"],
                each.get("description") or "",
                each.get("input_schema") or each.get("inputSchema") or {"type": "object", "properties": {}},
                pydantic.BaseModel,
                _elsewhere,
            )
            for each in listed
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise EnvironmentFailedError(f"the server's list of tools cannot be read: {error!r}") from None


def observation_of(given: Any) -> Observation:
    """Return an observation as messages: those that a server of Turnwise sends, a single text, or else its JSON."""
    if not isinstance(given, Mapping):
        return Observation.of(given if isinstance(given, str) else _json(given))
    fields = {name: value for name, value in given.items() if name not in FLAGS and value is not None}
    if isinstance(fields.get("messages"), list) and "text" in fields:
        try:
            return observation_from_json(fields["messages"])
        except (KeyError, TypeError, ValueError):  # a field of that name, and of another form
            pass
    if len(fields) == 1 and isinstance(only := next(iter(fields.values())), str):
        return Observation.of(only)
    return Observation.of(_json(fields))


def result_of(given: Mapping[str, Any]) -> tuple[TextPart, bool]:
    """Return what a tool answered, and whether the call succeeded."""
    error, result = given.get("error"), given.get("result")
    if error:
        message = error.get("message") if isinstance(error, Mapping) else error
        return TextPart(f"Error: {message}"), False
    if isinstance(result, Mapping) and isinstance(content := result.get("content"), list):
        texts = [part["text"] for part in content if isinstance(part, Mapping) and isinstance(part.get("text"), str)]
        failed = bool(result.get("is_error") or result.get("isError"))
        if texts:
            text = "\n".join(texts)
            return TextPart(f"Error: {text}" if failed else text), not failed
    return TextPart(result if isinstance(result, str) else _json(result)), True


def flags_of(data: Mapping[str, Any]) -> tuple[float, bool, bool, bool | None]:
    """Return reward, terminated, truncated and success of an answer.

    ``done`` means terminated, unless ``metadata`` says ``truncated``. Success is ``None`` where ``metadata`` says
    nothing of it.
    """
    told = metadata_of(data)
    done, reward, success = bool(data.get("done")), data.get("reward"), told.get("success")
    if reward is not None and not isinstance(reward, int | float):
        raise EnvironmentFailedError(f"the server's reward is not a number: {reward!r:.60}")
    truncated = done and told.get("truncated") is True and told.get("terminated") is not True
    return float(reward or 0.0), done and not truncated, truncated, success if isinstance(success, bool) else None


def metadata_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of an answer: those of the observation, and those beside it."""
    inner, outer = data.get("observation"), data.get("metadata")
    told = inner.get("metadata") if isinstance(inner, Mapping) else None
    return {**(told if isinstance(told, Mapping) else {}), **(outer if isinstance(outer, Mapping) else {})}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _elsewhere(*_: Any, **__: Any) -> Any:
    raise EnvironmentFailedError("the tool exists only on the server; call it through step()")
