"""Episodes as Arrow columns and back, losslessly.

One row is one episode; its turns are a list of structs, so that ids and log-probabilities stay typed arrays while one
file rename commits everything. What only JSON can hold (``info``, tool arguments) is a JSON string. Parquet's strings
are UTF-8, but a model can write a lone surrogate into JSON: such a text is stored as ``MARK`` and its JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..envs.messages import Action, ImagePart, Message, Observation, Part, TextPart, ToolCall
from ..envs.plain_json import plain
from ..errors import ContractError, StoreError
from ..inference.policy import Finish
from ..tasks.score import Score
from ..tasks.spec import TaskSpec
from .episode import Episode, Fork, Lookahead, Outcome, Turn
from .schema import SCHEMA

MARK = "\ufdd0"
"""A code point that is not a character and never will be; it starts a text that UTF-8 cannot represent."""

DERIVED = ("success", "total_reward", "out_of_turns")
"""Columns derived from the others, for queries; null unless the episode is scored."""


def to_table(episode: Episode) -> pa.Table:
    """Return one episode as an Arrow table of ``SCHEMA`` with one row.

    Raises:
        ContractError: the episode holds something that is neither typed nor JSON; the message names it.
    """
    try:
        return pa.Table.from_pylist([_row(episode)], schema=SCHEMA)
    except (pa.ArrowException, OverflowError, TypeError, AttributeError) as error:
        raise ContractError(f"episode {episode.episode_id} cannot be recorded: {error}") from error


def from_table(table: pa.Table) -> Iterator[Episode]:
    """Yield the episodes of a table, one after another.

    Raises:
        StoreError: a row does not hold an episode, e.g. an outcome that does not exist; the message names it.
    """
    for batch in table.to_batches(max_chunksize=64):
        for row in batch.to_pylist():
            try:
                yield _episode(row)
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                raise StoreError(f"the record of episode {row['episode_id']} is damaged: {error}") from error


def contradictions(table: pa.Table) -> Iterator[tuple[str, str, Any, Any]]:
    """Find derived columns that disagree with their episodes: id, column, stored value, actual value."""
    ids, turns = table["episode_id"].to_pylist(), from_table(table)
    columns = {name: table[name].to_pylist() for name in DERIVED}
    for number, (id, episode) in enumerate(zip(ids, turns, strict=True)):
        for name in DERIVED:
            stored, is_so = columns[name][number], getattr(episode, name) if episode.scored else None
            if stored != is_so:
                yield text_in(id), name, stored, is_so


def _row(episode: Episode) -> dict[str, Any]:
    task, score = episode.task, episode.score
    return {
        "episode_id": text_out(episode.episode_id),
        "group_id": text_out(episode.group_id),
        "env_id": text_out(episode.env_id),
        "task": {
            "family": text_out(task.family),
            "template": text_out(task.template),
            "level": task.level,
            "seed": task.seed,
            "split": str(task.split),
        },
        "outcome": str(episode.outcome),
        "success": episode.success if episode.scored else None,
        "total_reward": episode.total_reward if episode.scored else None,
        "turns": [_turn_row(turn, f"turn {i} of episode {episode.episode_id}") for i, turn in enumerate(episode.turns)],
        "final_observation": None
        if episode.final_observation is None
        else _observation_row(episode.final_observation, f"the end of episode {episode.episode_id}"),
        "score": None
        if score is None
        else {
            "success": bool(score.success),
            "checks": [{"name": text_out(name), "value": bool(value)} for name, value in score.checks.items()],
            "collateral": [text_out(text) for text in score.collateral],
            "violations": [text_out(text) for text in score.violations],
        },
        "error": text_out(episode.error),
        "attempts": episode.attempts,
        "seconds": episode.seconds,
        "fingerprints": [
            {"name": text_out(name), "value": text_out(value)} for name, value in episode.fingerprints.items()
        ],
        "final_prompt_ids": episode.final_prompt_ids,
        "fork": None
        if episode.fork is None
        else {"parent": text_out(episode.fork.parent), "owners": [text_out(owner) for owner in episode.fork.owners]},
        "lookaheads": [_lookahead_row(each) for each in episode.lookaheads],
        "thoughts": [text_out(turn.thoughts) for turn in episode.turns]
        if any(t.thoughts for t in episode.turns)
        else None,
        "after_action": episode.after_action,
        "redrawn": episode.redrawn,
        "out_of_turns": episode.out_of_turns if episode.scored else None,
    }


def _lookahead_row(lookahead: Lookahead) -> dict[str, Any]:
    return {
        "turn": lookahead.turn,
        "rewards": [float(reward) for reward in lookahead.rewards],
        "outcome": str(lookahead.outcome),
        "sampled": lookahead.sampled,
        "prompted": lookahead.prompted,
        "reused": lookahead.reused,
        "tool_calls": lookahead.tool_calls,
    }


def _turn_row(turn: Turn, where: str) -> dict[str, Any]:
    return {
        "observation": _observation_row(turn.observation, where),
        "action": {
            "text": text_out(turn.action.text),
            "tool_calls": _calls_row(turn.action.tool_calls, where),
            "problem": text_out(turn.action.problem),
        },
        "reward": float(turn.reward),
        "terminated": bool(turn.terminated),
        "truncated": bool(turn.truncated),
        "prompt_ids": turn.prompt_ids,
        "action_ids": turn.action_ids,
        "logprobs": turn.logprobs,
        "versions": turn.versions,
        "finish": str(turn.finish),
        "seat": text_out(turn.seat),
        "seconds_policy": turn.seconds_policy,
        "seconds_env": turn.seconds_env,
        "obs_key": text_out(turn.obs_key),
        "info": _json(turn.info, f"info in {where}"),
    }


def _observation_row(observation: Observation, where: str) -> list[dict[str, Any]]:
    return [
        {
            "role": text_out(message.role),
            "parts": [
                {"text": text_out(part.text), "image": None, "mime": None}
                if isinstance(part, TextPart)
                else {"text": None, "image": part.data, "mime": text_out(part.mime)}
                for part in message.parts
            ],
            "tool_calls": _calls_row(message.tool_calls, where),
            "name": text_out(message.name),
            "tool_call_id": text_out(message.tool_call_id),
        }
        for message in observation.messages
    ]


def _calls_row(calls: Sequence[ToolCall], where: str) -> list[dict[str, Any]]:
    return [
        {
            "name": text_out(call.name),
            "arguments": _json(call.arguments, f"arguments of {call.name} in {where}"),
            "id": text_out(call.id),
        }
        for call in calls
    ]


def _episode(row: dict[str, Any]) -> Episode:
    score, final = row["score"], row["final_observation"]
    task = {name: text_in(value) if isinstance(value, str) else value for name, value in row["task"].items()}
    thoughts = [""] * len(row["turns"]) if row["thoughts"] is None else row["thoughts"]
    return Episode(
        episode_id=text_in(row["episode_id"]),
        env_id=text_in(row["env_id"]),
        task=TaskSpec(**task),
        group_id=text_in(row["group_id"]),
        turns=tuple(_turn(*pair) for pair in zip(row["turns"], thoughts, strict=True)),
        outcome=Outcome(row["outcome"]),
        final_observation=None if final is None else _observation(final),
        score=None
        if score is None
        else Score(
            success=score["success"],
            checks={text_in(pair["name"]): pair["value"] for pair in score["checks"]},
            collateral=tuple(text_in(text) for text in score["collateral"]),
            violations=tuple(text_in(text) for text in score["violations"]),
        ),
        error=text_in(row["error"]),
        attempts=row["attempts"],
        seconds=row["seconds"],
        fingerprints={text_in(pair["name"]): text_in(pair["value"]) for pair in row["fingerprints"]},
        final_prompt_ids=tuple(row["final_prompt_ids"]),
        fork=None if (fork := row["fork"]) is None else _fork(fork),
        lookaheads=tuple(_lookahead(each) for each in row["lookaheads"] or ()),
        after_action=row["after_action"] or 0,
        redrawn=row["redrawn"] or 0,
    )


def _fork(row: dict[str, Any]) -> Fork:
    return Fork(text_in(row["parent"]), tuple(text_in(owner) for owner in row["owners"]))


def _lookahead(row: dict[str, Any]) -> Lookahead:
    return Lookahead(**row | {"rewards": tuple(row["rewards"]), "outcome": Outcome(row["outcome"])})


def _turn(row: dict[str, Any], thoughts: str) -> Turn:
    action = row["action"]
    return Turn(
        observation=_observation(row["observation"]),
        action=Action(text_in(action["text"]), _calls(action["tool_calls"]), text_in(action["problem"])),
        reward=float(row["reward"]),
        terminated=row["terminated"],
        truncated=row["truncated"],
        prompt_ids=tuple(row["prompt_ids"]),
        action_ids=tuple(row["action_ids"]),
        logprobs=tuple(row["logprobs"]),
        versions=tuple(row["versions"]),
        finish=Finish(row["finish"]),
        seat=text_in(row["seat"]),
        seconds_policy=row["seconds_policy"],
        seconds_env=row["seconds_env"],
        obs_key=text_in(row["obs_key"]),
        info=json.loads(row["info"]),
        thoughts=text_in(thoughts),
    )


def _observation(rows: list[dict[str, Any]]) -> Observation:
    return Observation(
        tuple(
            Message(
                role=row["role"],
                parts=tuple(_part(part) for part in row["parts"]),
                tool_calls=_calls(row["tool_calls"]),
                name=text_in(row["name"]),
                tool_call_id=text_in(row["tool_call_id"]),
            )
            for row in rows
        )
    )


def _part(row: dict[str, Any]) -> Part:
    return TextPart(text_in(row["text"])) if row["image"] is None else ImagePart(row["image"], text_in(row["mime"]))


def _calls(rows: list[dict[str, Any]]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(text_in(row["name"]), json.loads(row["arguments"]), text_in(row["id"])) for row in rows)


def text_out(text: Any) -> Any:
    """Encode a text so that UTF-8 can represent it."""
    if text is None or (not text.startswith(MARK) and _utf8(text)):
        return text
    return MARK + json.dumps(text)


def _utf8(text: str) -> bool:
    """Whether UTF-8 can represent a text: any without a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def text_in(text: Any) -> Any:
    """Decode the text that is stored as ``text``."""
    return json.loads(text[len(MARK) :]) if text is not None and text.startswith(MARK) else text


def _json(value: Mapping[str, Any], where: str) -> str:
    try:
        return json.dumps(dict(value), default=plain)
    except (TypeError, ValueError) as error:
        raise ContractError(f"{where} is not JSON: {error}; record text, numbers, lists and dicts only") from None
