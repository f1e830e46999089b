"""Verification of a stored rollout of NeMo Gym, for which no session is open: the environment plays it again.

A reward counts only if the environment answers each action as it did then. Otherwise, the sample is masked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...envs.messages import Action
from ...envs.remote.frames import of
from . import nemo, ors
from .catalog import Served
from .episodes import Episodes
from .served_episode import ServedEpisode

NEEDED = ("all", "same_seed_same_episode", "replay_equals_original")
"""Laws from which an environment must not be exempt, so that it can be played again."""
PREFIX = f"mcp__{nemo.SERVER}__"
"""Prefix of our tools' names where an agent called them over MCP."""
CLIPPED = 120
"""Maximum characters of an answer in the reason for a mask."""

Answers = list[tuple[str, str]]
"""Answers to a turn: the output of each call, by its id, and a message with the id ``""``."""


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """One turn of a stored rollout.

    Args:
        action: action of the agent.
        calls: tool calls of the action, which have outputs.
        answers: answers of the environment; ``None`` after the last message, which nothing answers.
    """

    action: Action
    calls: Sequence[Mapping[str, Any]]
    answers: Answers | None


def replays(served: Served) -> bool:
    """Return whether an environment promises the same answers to the same actions."""
    return not any(law in served.description["contract"]["exempt"] for law in NEEDED)


async def play_again(
    episodes: Episodes, episode: ServedEpisode, tools: Sequence[Mapping[str, Any]], row: Mapping[str, Any]
) -> str:
    """Play the actions of a stored rollout, and return how the environment differs, or ``""``.

    Args:
        episodes: episodes of the server.
        episode: episode of the row's task, without a turn so far.
        tools: tools of the environment, as our own protocol has them.
        row: row with the rollout's ``response``.

    Raises:
        RequestError: the response has another form.
    """
    response = of(row.get("response"), dict, "response")
    by_call = _acts_by_calls(tools, row, response)
    turns = _calls(tools, response) if by_call else _steps(tools, response)
    for number, turn in enumerate(turns, 1):
        if not episode.over:
            answer = await episodes.step(episode, episode.turn, turn.action)
            found = _answers(answer, turn, by_call=by_call, over=episode.over)
        else:
            found = [(each["call_id"], nemo.FINISHED) for each in turn.calls]
        if turn.answers is not None and found != turn.answers:
            return f"the answer to turn {number} differs: {_clip(found)} now, {_clip(turn.answers)} in the rollout"
    return ""


def _answers(answer: Mapping[str, Any], turn: StoredTurn, *, by_call: bool, over: bool) -> Answers:
    """Return what an agent reads of our answer to a turn."""
    if by_call:
        return [(each["call_id"], nemo.text_of(answer["observation"])) for each in turn.calls]
    if over:  # the agent reads nothing more
        return []
    outputs, text = nemo.outputs_of(answer["observation"], turn.calls)
    return [(each["call_id"], each["output"]) for each in outputs] + ([("", text)] if text else [])


def _acts_by_calls(tools: Sequence[Mapping[str, Any]], row: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
    """Return whether each call was a turn of its own, as ``simple_agent`` and agents of MCP act."""
    offered = of(of(row.get("responses_create_params") or {}, dict, "params").get("tools") or [], list, "tools")
    names = {of(tool, dict, "tools").get("name") for tool in offered}
    return ors.say_of(tools) in names or any(_ours(call) for call in nemo.calls_in(response))


def _calls(tools: Sequence[Mapping[str, Any]], response: Mapping[str, Any]) -> list[StoredTurn]:
    """Return the calls that reached the environment, and the last message, each as a turn."""
    outputs: dict[str, Answers] = {}
    for item in nemo.output_of(response):
        if _is_output(item):
            outputs.setdefault(item["call_id"], []).append(_answer(item))
    calls, turns = nemo.calls_in(response), list[StoredTurn]()
    over_mcp = any(map(_ours, calls))  # such an agent has tools of its own besides
    for call in calls:
        stored = outputs.get(of(call.get("call_id"), str, "call_id"))
        answer = stored.pop(0) if stored else None
        arguments = nemo.arguments_of(call)
        if answer is None or arguments is None or (over_mcp and not _ours(call)):
            continue  # the agent did not make it, or answered it itself
        name = of(call.get("name"), str, "name").removeprefix(PREFIX)
        turns.append(StoredTurn(ors.action_of(tools, name, arguments), [call], [answer]))
    message = nemo.last_message(response)
    return turns if message is None else [*turns, StoredTurn(Action(message), [], None)]


def _steps(tools: Sequence[Mapping[str, Any]], response: Mapping[str, Any]) -> list[StoredTurn]:
    """Return each part of the model between two answers as a turn."""
    turns, made, read = list[StoredTurn](), list[Mapping[str, Any]](), Answers()

    def end() -> None:
        part = {"output": list(made)}
        turns.append(StoredTurn(nemo.action_of(tools, part), nemo.calls_in(part), list(read)))
        made.clear()
        read.clear()

    for item in nemo.output_of(response):
        answered = _is_output(item) or item.get("role") == "user"
        if read and not answered:
            end()
        if answered:
            read.append(_answer(item))
        else:
            made.append(item)
    if made or read:
        end()
    return turns


def _ours(call: Mapping[str, Any]) -> bool:
    return str(call.get("name")).startswith(PREFIX)


def _is_output(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "function_call_output" and isinstance(item.get("call_id"), str)


def _answer(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return the call's id and the text of an output, or ``""`` and the text of a message."""
    content = item.get("output") if _is_output(item) else item.get("content")
    if not isinstance(content, str):
        content = "".join(str(of(part, dict, "content").get("text", "")) for part in of(content, list, "content"))
    return (item["call_id"] if _is_output(item) else ""), content


def _clip(answers: Answers) -> str:
    if not answers:
        return "nothing"
    text = " | ".join(text for _, text in answers)
    return repr(text if len(text) <= CLIPPED else f"{text[:CLIPPED]}…")
