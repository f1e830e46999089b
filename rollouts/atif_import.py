"""Read ATIF trajectories, of Turnwise and of Harbor, NeMo Gym and OpenEnv, as lines of a chat file.

A trajectory of Turnwise has its task, success and reward in ``extra`` (``atif.py``). ATIF itself has none of them:
other trajectories count as successful demonstrations, like chat messages that say nothing else. Reasoning, tokens and
trajectories of subagents are not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import pydantic

from ..errors import UsageError

START = "ATIF-v1."
"""Beginning of ``schema_version``."""


class _Result(pydantic.BaseModel):
    content: str | list[dict[str, Any]] | None = None
    source_call_id: str | None = None


class _Observation(pydantic.BaseModel):
    results: list[_Result] = []


class _Call(pydantic.BaseModel):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: dict[str, Any] | None = None


class _Step(pydantic.BaseModel):
    step_id: int
    source: Literal["system", "user", "agent"]
    message: str | list[dict[str, Any]] = ""
    tool_calls: list[_Call] | None = None
    observation: _Observation | None = None
    is_copied_context: bool | None = None
    extra: dict[str, Any] | None = None

    def refuse_undemonstrable(self, ours: bool) -> None:
        """Raise ``UsageError`` if the agent did not take this step here, or wrote what no action can repeat.

        Args:
            ours: whether ``extra`` says what Turnwise writes there.
        """
        if self.source == "agent" and self.is_copied_context:
            raise UsageError(f"step {self.step_id} is copied context: the agent did not take it here")
        extras = [each.extra or {} for each in self.tool_calls or ()]
        if ours and ("problem" in (self.extra or {}) or any("arguments" in extra for extra in extras)):
            raise UsageError(f"step {self.step_id} is an action that the environment could not read")


class _Trajectory(pydantic.BaseModel):
    schema_version: str
    steps: list[_Step] = pydantic.Field(min_length=1)
    trajectory_id: str | None = None
    extra: dict[str, Any] | None = None


def is_atif(data: Any) -> bool:
    """Whether a JSON value is an ATIF trajectory of version 1."""
    return isinstance(data, Mapping) and str(data.get("schema_version", "")).startswith(START)


def chat_line(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trajectory as a line of a chat file.

    Raises:
        UsageError: The trajectory has no score, or a step that cannot be demonstrated.
        pydantic.ValidationError: The trajectory does not have ATIF's form.
    """
    trajectory = _Trajectory.model_validate(data)
    extra = trajectory.extra or {}
    ours = {"env", "outcome"} <= extra.keys()
    steps = [step for step in trajectory.steps if not ours or (step.extra or {}).get("sent") is not False]
    for step in steps:
        step.refuse_undemonstrable(ours)
    if ours and "success" not in extra:
        raise UsageError(f"the episode has no score (outcome {extra['outcome']}), so it demonstrates nothing")
    line: dict[str, Any] = {"messages": [message for step in steps for message in _messages(step)]}
    known: dict[str, Any] = {name: extra[name] for name in ("env", "task", "success", "reward") if name in extra}
    if trajectory.trajectory_id is not None:
        known["episode_id"] = trajectory.trajectory_id
    return line | known


def _messages(step: _Step) -> Iterator[dict[str, Any]]:
    """Yield the message of a step, and those of its results."""
    if step.source != "agent":
        yield {"role": step.source, "content": _content(step.message)}
    else:
        calls = [
            {"id": call.tool_call_id, "function": {"name": call.function_name, "arguments": json.dumps(call.arguments)}}
            for call in step.tool_calls or ()
        ]
        yield {"role": "assistant", "content": _content(step.message), "tool_calls": calls or None}
    for result in step.observation.results if step.observation is not None else ():
        role = "tool" if step.tool_calls else "user"  # what a shell prints in answer to text is what a user would say
        yield {"role": role, "content": _content(result.content), "tool_call_id": result.source_call_id}


def _content(content: Any) -> Any:
    """Return the content of a chat message; an image in a file is refused where the message is read."""
    return [_part(part) for part in content] if isinstance(content, list) else content


def _part(part: Mapping[str, Any]) -> Any:
    source = part.get("source")
    if part.get("type") == "image" and isinstance(source, Mapping):
        return {"type": "image_url", "image_url": {"url": source.get("path")}}
    return part
