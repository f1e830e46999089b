"""Convert episodes to ATIF 1.8, the trajectory format that Harbor, NeMo Gym and OpenEnv write and read.

Tokens and log-probabilities stand in ``metrics`` of each agent step. What ATIF has no field for stands in ``extra``:
per step ``reward``, ``terminated``, ``truncated``, ``versions``, ``finish`` and ``seat``; per trajectory the task, the
outcome, and for a scored episode its success and reward.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..agents.agent import CHAT_API
from ..envs.messages import ImagePart, Message, TextPart, ToolCall
from ..envs.tools import Tool
from .episode import Episode, Turn

VERSION = "ATIF-v1.8"
"""Version of the format."""
SOURCES = {"system": "system", "user": "user"}
"""ATIF's source of a message by its role; results of tools belong to the step that called them."""


def to_atif(episode: Episode, tools: Sequence[Tool] = ()) -> dict[str, Any]:
    """Return an episode as an ATIF trajectory.

    An episode that failed for other reasons than the agent's has no reward and no success. Turns that a fork shares
    with its parent are marked ``is_copied_context``, so that no reader trains on them twice.

    Args:
        episode: any episode.
        tools: tools that its environment offers.
    """
    steps = _Steps()
    for index, turn in enumerate(episode.turns):
        copied = episode.fork is not None and index < episode.fork.turn
        steps.add(turn.observation.messages, copied)
        steps.act(turn, copied)
    if episode.final_observation is not None:
        steps.add(episode.final_observation.messages, False)
    agent: dict[str, Any] = {"name": "turnwise", "version": importlib.metadata.version("turnwise")}
    if tools:
        agent["tool_definitions"] = [tool.to_json() for tool in tools]
    sampled = [turn for turn in episode.own_turns if turn.action_ids]
    return {
        "schema_version": VERSION,
        "session_id": episode.group_id,
        "trajectory_id": episode.episode_id,
        "agent": agent,
        "steps": steps.made,
        "final_metrics": {
            "total_prompt_tokens": sum(len(turn.prompt_ids) for turn in sampled),
            "total_completion_tokens": sum(len(turn.action_ids) for turn in sampled),
            "total_steps": len(steps.made),
        },
        "extra": _extra(episode),
    }


def _extra(episode: Episode) -> dict[str, Any]:
    task = asdict(episode.task) | {"split": str(episode.task.split)}
    extra: dict[str, Any] = {"env": episode.env_id, "task": task, "outcome": str(episode.outcome)}
    if episode.scored:
        extra |= {"success": episode.success, "reward": episode.total_reward}
    if episode.score is not None:
        extra["checks"] = dict(episode.score.checks)
    if episode.error:
        extra["error"] = episode.error
    if episode.fork is not None:
        extra["fork"] = {"parent": episode.fork.parent, "turn": episode.fork.turn}
    return extra | {"attempts": episode.attempts, "fingerprints": dict(episode.fingerprints)}


class _Steps:
    """Steps in order; results of tools find the step of their call."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []
        self._waiting: list[str] = []

    def add(self, messages: Sequence[Message], copied: bool) -> None:
        """Add the messages of an observation."""
        for message in messages:
            if message.role == "tool":
                self._answer(message)
            else:
                source = SOURCES.get(message.role, "agent")
                # An assistant's message that the environment shows was not the agent's: no reader may train on it.
                self._put(source, _content(message), copied or source == "agent")

    def act(self, turn: Turn, copied: bool) -> None:
        """Add the agent's action, and how it was sampled."""
        step = self._put("agent", turn.action.text, copied)
        step["llm_call_count"] = 1 if turn.action_ids or turn.by_chat_api else 0
        if turn.thoughts and step["llm_call_count"]:
            step["reasoning_content"] = turn.thoughts
        calls = list(_calls(turn.action.tool_calls, step["step_id"]))
        if calls:
            step["tool_calls"] = calls
        self._waiting = [call["tool_call_id"] for call in calls]
        if turn.action_ids:
            step["metrics"] = {
                "prompt_tokens": len(turn.prompt_ids),
                "completion_tokens": len(turn.action_ids),
                "prompt_token_ids": list(turn.prompt_ids),
                "completion_token_ids": list(turn.action_ids),
                "logprobs": list(turn.logprobs),
            }
        elif turn.by_chat_api:
            told = turn.info[CHAT_API]
            known = {"prompt_tokens": "prompt_tokens", "completion_tokens": "completion_tokens", "cost": "cost_usd"}
            step["metrics"] = {ours: told[name] for name, ours in known.items() if told.get(name) is not None}
        extra: dict[str, Any] = {"reward": turn.reward, "terminated": turn.terminated, "truncated": turn.truncated}
        extra |= {"finish": str(turn.finish), "seat": turn.seat}
        if turn.versions:
            extra["versions"] = list(turn.versions)
        if turn.action.problem:
            extra["problem"] = turn.action.problem
        if not turn.sent:
            extra["sent"] = False
        step["extra"] = extra

    def _answer(self, message: Message) -> None:
        last = next((step for step in reversed(self.made) if step["source"] == "agent"), None)
        if last is None:  # the answer to a call that came before the episode
            self._put("system", _content(message), True)
            return
        known = {call["tool_call_id"] for call in last.get("tool_calls", ())}
        id = message.tool_call_id if message.tool_call_id in known else next(iter(self._waiting), None)
        if id in self._waiting:
            self._waiting.remove(id)
        result: dict[str, Any] = {"content": _content(message)}
        if id is not None:
            result["source_call_id"] = id
        last.setdefault("observation", {"results": []})["results"].append(result)

    def _put(self, source: str, message: Any, copied: bool) -> dict[str, Any]:
        step: dict[str, Any] = {"step_id": len(self.made) + 1, "source": source, "message": message}
        if copied:
            step["is_copied_context"] = True
        self.made.append(step)
        return step


def _calls(calls: Sequence[ToolCall], step: int) -> Iterator[dict[str, Any]]:
    """Yield calls; one without an id, or with that of another, gets its own."""
    seen: set[str] = set()
    for index, call in enumerate(calls):
        id = call.id if call.id and call.id not in seen else f"call_{step}_{index}"
        seen.add(id)
        given: Any = call.arguments
        made: dict[str, Any] = {"tool_call_id": id, "function_name": str(call.name), "arguments": {}}
        if isinstance(given, Mapping):
            made["arguments"] = dict(given)
        else:  # what an agent sent in place of an object
            made["extra"] = {"arguments": given}
        yield made


def _content(message: Message) -> Any:
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return message.text
    return [_part(part) for part in message.parts]


def _part(part: TextPart | ImagePart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image", "source": {"media_type": part.mime, "path": part.data_url}}
