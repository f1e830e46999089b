"""Episodes as bytes for another process: ids in typed columns, prompts as differences, so that size is linear.

A turn's prompt usually begins with the prompt and the action before it. Only what follows is stored, with the length of
the common beginning; so a prompt that a context strategy rewrites costs what it has of its own. What is not an id or a
log-probability is pickled: both ends belong to one run, which exchanges code as well. Stores use ``columns``.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import ContractError
from .costs import common
from .episode import Episode, Turn

Column = tuple[str, bytes]
SMALL = 1 << 31


def pack(episodes: Sequence[Episode]) -> bytes:
    """Return episodes as bytes, exactly: ``unpack`` returns equal ones.

    Raises:
        ContractError: an episode holds something that cannot be pickled, or an id that is not an integer.
    """
    try:
        return pickle.dumps([_packed(episode) for episode in episodes], protocol=5)
    except Exception as error:
        names = ", ".join(episode.episode_id for episode in episodes)
        raise ContractError(f"episode {names} cannot be sent to the driver: {type(error).__name__}: {error}") from error


def unpack(data: bytes) -> list[Episode]:
    """Return the episodes of ``pack``."""
    return [_unpacked(*each) for each in pickle.loads(data)]


def _packed(episode: Episode) -> tuple[Episode, tuple[Any, ...]]:
    turns = episode.turns
    bare = tuple(replace(turn, prompt_ids=(), action_ids=(), logprobs=(), versions=()) for turn in turns)
    shared: list[int] = []
    own: list[tuple[int, ...]] = []
    before: tuple[int, ...] = ()
    for prompt in (*(turn.prompt_ids for turn in turns), episode.final_prompt_ids):
        shared.append(common(prompt, before))
        own.append(prompt[shared[-1] :])
        index = len(own) - 1
        before = (*prompt, *turns[index].action_ids) if index < len(turns) else ()
    columns = (
        shared,
        _column(own, "q"),
        _column([turn.action_ids for turn in turns], "q"),
        _column([turn.logprobs for turn in turns], "d"),
        _column([turn.versions for turn in turns], "q"),
    )
    return replace(episode, turns=bare, final_prompt_ids=()), columns


def _unpacked(episode: Episode, columns: tuple[Any, ...]) -> Episode:
    shared, *packed = columns
    own, actions, logprobs, versions = (_rows(*column) for column in packed)
    turns: list[Turn] = []
    prompt: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    for index, length in enumerate(shared):
        prompt = before[:length] + own[index]
        if index == len(episode.turns):
            break
        before = prompt + actions[index]
        turns.append(
            replace(
                episode.turns[index],
                prompt_ids=prompt,
                action_ids=actions[index],
                logprobs=logprobs[index],
                versions=versions[index],
            )
        )
    return replace(episode, turns=tuple(turns), final_prompt_ids=prompt)


def _column(rows: Sequence[Sequence[Any]], kind: str) -> tuple[list[int], str, bytes]:
    """Return the lengths of the rows, the type of their values, and the values."""
    flat = [value for row in rows for value in row]
    if kind == "q" and all(-SMALL <= value < SMALL for value in flat):
        kind = "i"
    array = np.array(flat, dtype=kind)
    if kind != "d" and flat and array.tolist() != flat:
        raise TypeError("token ids and versions must be integers")
    return [len(row) for row in rows], kind, array.tobytes()


def _rows(lengths: Iterable[int], kind: str, data: bytes) -> list[tuple[Any, ...]]:
    values, start, rows = np.frombuffer(data, dtype=kind).tolist(), 0, []
    for length in lengths:
        rows.append(tuple(values[start : start + length]))
        start += length
    return rows
