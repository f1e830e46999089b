"""One episode as plain data: its conversation, rewards, tokens, and what is not stored."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import compute

from ..envs.messages import Action, ImagePart, Message, Observation, Part, TextPart, ToolCall, call_text
from ..envs.step import CHANGES
from ..errors import ModelError, StoreError, TurnwiseError
from ..evals.sample_episodes import IMAGES
from ..inference.token_text import TokenTexts
from ..rollouts.columns import from_table
from ..rollouts.episode import Episode, Turn
from ..rollouts.rows import CONTEXT, merge
from ..rollouts.schema import up_to_date
from .episode_index import Snapshot, step_in
from .learned import Learned

NOTHING_LEARNED = Learned()
LONGEST_TEXT = 20_000
"""Most characters of one text that are sent with an episode; the rest is sent on request."""
LONGEST_CHANGE = 200


@dataclass(frozen=True, slots=True)
class Place:
    """Row of an episode in a store.

    Args:
        file: part of the store.
        row: row in the part.
        changed: time of the part's last change in nanoseconds; a part may be rewritten.
    """

    file: Path
    row: int
    changed: int


def place_of(snapshot: Snapshot, episode_id: str) -> Place | None:
    """Find an episode by its id; ``None`` if the store has none."""
    at = compute.index(snapshot.table["episode_id"], episode_id).as_py()
    if at < 0:
        return None
    file = snapshot.files[snapshot.table["part"][at].as_py()]
    return Place(file, snapshot.table["row"][at].as_py(), file.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def load(place: Place) -> Episode:
    """Read one episode; the last few are remembered.

    Raises:
        StoreError: Its part is damaged.
    """
    return load_all([place])[0]


def load_all(places: Sequence[Place]) -> list[Episode]:
    """Read several episodes, each part of the store once.

    Raises:
        StoreError: A part is damaged.
    """
    found: dict[Place, Episode] = {}
    for file in dict.fromkeys(place.file for place in places):
        here = [place for place in places if place.file == file]
        try:
            with pq.ParquetFile(file) as parquet:
                rows = parquet.read().take([place.row for place in here])
            found |= zip(here, from_table(up_to_date(rows)), strict=True)
        except (OSError, pa.ArrowException) as error:
            first = str(error).partition("\n")[0]
            raise StoreError(f"cannot read {file.name}: {first}; the file is damaged, or was rewritten") from None
    return [found[place] for place in places]


def to_json(
    episode: Episode,
    texts: TokenTexts | None = None,
    shots: Sequence[Path | None] = (),
    learner: Learned = NOTHING_LEARNED,
) -> dict[str, Any]:
    """Return what the page of an episode shows.

    Args:
        episode: the episode.
        texts: texts of token ids, if the tokenizer is known.
        shots: screenshots of a recording: one at the beginning, and one after each turn.
        learner: the learner's numbers, where the store has them.
    """
    begin, after = (shots[:1] or [None])[0], [*shots[1:], *([None] * len(episode.turns))]
    score, fork = episode.score, episode.fork
    step, rows = episode.fingerprints.get("step"), _rows(episode)
    return {
        "episode_id": episode.episode_id,
        "group_id": episode.group_id,
        "env_id": episode.env_id,
        "task": {name: getattr(episode.task, name) for name in ("family", "template", "level", "seed", "split")},
        "outcome": episode.outcome,
        "success": episode.success if episode.scored else None,
        "total_reward": episode.total_reward if episode.scored else None,
        "error": _text(episode.error or "", "error"),
        "attempts": episode.attempts,
        "seconds": episode.seconds,
        "step": step_in(step),
        "fingerprints": dict(episode.fingerprints),
        "checks": dict(score.checks) if score else None,
        "collateral": list(score.collateral) if score else [],
        "violations": list(score.violations) if score else [],
        "fork": {"parent": fork.parent, "turn": fork.turn} if fork else None,
        "turns": [
            _turn(turn, number, texts, learner)
            | {"shot": f"shot.{number + 1}" if after[number] else None, "row": rows.get(number)}
            for number, turn in enumerate(episode.turns)
        ],
        "shot": "shot.0" if begin else None,
        "final": _observation(episode.final_observation, "final") if episode.final_observation else [],
        "values": _values(episode),
        "token_texts": texts is not None,
        "learner_note": learner.note,
        "updates": learner.updates,
        "rows": len(set(rows.values())),
    }


def _rows(episode: Episode) -> dict[int, int]:
    """Return the index of the training row of each turn with sampled tokens; empty if there is nothing to train on."""
    try:
        rows = merge(episode)
    except TurnwiseError:
        return {}
    return {turn: number for number, row in enumerate(rows) for turn in set(row.turn_index) - {CONTEXT}}


def _turn(turn: Turn, number: int, texts: TokenTexts | None, learner: Learned) -> dict[str, Any]:
    at, tokens = f"turn.{number}", _tokens(turn, texts)
    return {
        "seat": turn.seat,
        "observation": _observation(turn.observation, f"{at}.observation"),
        "thoughts": _text(turn.thoughts, f"{at}.thoughts"),
        "text": _text(turn.action.text, f"{at}.text"),
        "calls": [_call(call, f"{at}.call.{n}") for n, call in enumerate(turn.action.tool_calls)],
        "problem": turn.action.problem,
        "sent": turn.sent,
        "reward": turn.reward,
        "terminated": turn.terminated,
        "truncated": turn.truncated,
        "finish": turn.finish,
        "seconds": [turn.seconds_policy, turn.seconds_env],
        "changes": _changes(turn.info.get(CHANGES)),
        "records": _text(json.dumps(dict(turn.info), indent=1), f"{at}.records") if turn.info else None,
        "prompt_tokens": len(turn.prompt_ids),
        "tokens": tokens | learner.tokens(number, turn) if tokens is not None else None,
        "value": learner.value(number),
    }


def _changes(recorded: Any) -> list[str]:
    """Return the rows of the world that a turn changed, one line each; an author's entry of another form is none."""
    return [str(line)[:LONGEST_CHANGE] for line in recorded] if isinstance(recorded, list | tuple) else []


def _tokens(turn: Turn, texts: TokenTexts | None) -> dict[str, Any] | None:
    if not turn.action_ids:
        return None
    return {
        "ids": turn.action_ids,
        "texts": [texts.text(id) for id in turn.action_ids] if texts is not None else None,
        "probabilities": [math.exp(min(0.0, each)) for each in turn.logprobs],
        "versions": turn.versions,
    }


def _values(episode: Episode) -> list[dict[str, Any]]:
    """Return the mean return of the rollouts that estimated a state's value, by turn."""
    returns: dict[int, list[float]] = {}
    for each in episode.lookaheads:
        if each.outcome.scored:
            returns.setdefault(each.turn, []).append(sum(each.rewards))
    return [{"turn": t, "value": (sum(r) / len(r)), "rollouts": len(r)} for t, r in sorted(returns.items())]


def _observation(observation: Observation, at: str) -> list[dict[str, Any]]:
    return [_message(message, f"{at}.{number}") for number, message in enumerate(observation.messages)]


def _message(message: Message, at: str) -> dict[str, Any]:
    return {
        "role": message.role,
        "name": message.name,
        "parts": [_part(part, f"{at}.part.{number}") for number, part in enumerate(message.parts)],
        "calls": [_call(call, f"{at}.call.{number}") for number, call in enumerate(message.tool_calls)],
    }


def _part(part: Part, at: str) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"text": _text(part.text, at)}
    if part.mime in IMAGES:
        return {"image": at}
    return {"text": _text(f"[{part.mime}, {len(part.data):,} bytes]", at)}


def _call(call: ToolCall, at: str) -> dict[str, Any]:
    return {"name": call.name, "text": _text(call_text(call), at)}


def _text(text: str, at: str) -> dict[str, Any]:
    """Return the beginning of a text, how much is missing, and the key by which the rest can be loaded."""
    return {"text": text[:LONGEST_TEXT], "more": max(0, len(text) - LONGEST_TEXT), "at": at}


def text_at(episode: Episode, at: str) -> str | None:
    """Return the whole text of a key that ``to_json`` gave; ``None`` if there is no such text."""
    found = _at(episode, at)
    if isinstance(found, TextPart):
        return found.text
    if isinstance(found, ToolCall):
        return call_text(found)
    return found if isinstance(found, str) else None


def image_at(episode: Episode, at: str) -> ImagePart | None:
    """Return the image of a key that ``to_json`` gave, if a browser can show it without running anything."""
    found = _at(episode, at)
    return found if isinstance(found, ImagePart) and found.mime in IMAGES else None


def _at(episode: Episode, at: str) -> Part | ToolCall | str | None:
    """Follow a key: ``turn.3.observation.0.part.1``, ``turn.3.call.0``, ``final.0.part.0``, ``error``."""
    words = at.split(".")
    try:
        if words == ["error"]:
            return episode.error
        if words[0] == "final" and episode.final_observation is not None:
            return _inside(episode.final_observation.messages[_index(words[1])], words[2:])
        if words[0] != "turn":
            return None
        turn, rest = episode.turns[_index(words[1])], words[2:]
        if rest[0] == "observation":
            return _inside(turn.observation.messages[_index(rest[1])], rest[2:])
        return _of_action(turn, rest)
    except (IndexError, ValueError):
        return None


def _of_action(turn: Turn, words: Sequence[str]) -> ToolCall | str | None:
    if words[0] == "call":
        return turn.action.tool_calls[_index(words[1])]
    records = json.dumps(dict(turn.info), indent=1) if words[0] == "records" else None
    return {"text": turn.action.text, "thoughts": turn.thoughts, "records": records}.get(words[0])


def _inside(message: Message, words: Sequence[str]) -> Part | ToolCall | None:
    if words[0] == "part":
        return message.parts[_index(words[1])]
    return message.tool_calls[_index(words[1])] if words[0] == "call" else None


def _index(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) < 10):
        raise ValueError(word)
    return int(word)


def said(action: Action) -> str:
    """Return an action as one text: what the agent wrote, then its tool calls."""
    return "\n".join(filter(None, [action.text, *(call_text(call) for call in action.tool_calls)]))


@lru_cache(maxsize=4)
def token_texts(folder: Path, changed: int) -> TokenTexts | None:
    """Return the texts of a tokenizer's ids, or ``None`` if the folder has none that can be read here.

    Args:
        folder: folder of a model.
        changed: time of its last change, so that a new one is read again.
    """
    try:
        return TokenTexts(folder)
    except ModelError:
        return None
