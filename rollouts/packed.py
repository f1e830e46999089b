"""Episodes as bytes for another process: ids in typed columns, prompts as differences, so that size is linear.

A turn's prompt usually begins with the prompt and the action before it. Only what follows is stored, with the length of
the common beginning; so a prompt that a context strategy rewrites costs what it has of its own. What is not an id or a
log-probability is pickled: both ends belong to one run, which exchanges code as well. Stores use ``columns``.

One process unpacks what many have packed, so unpacking must be cheap. A record is pickled as a call of its class with
plain values: a dataclass with slots would restore itself field by field, in Python.
"""

from __future__ import annotations

import copyreg
import io
import itertools
import pickle
import struct
from array import array
from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from ..envs.messages import Action, ImagePart, Message, Observation, TextPart, ToolCall
from ..errors import ContractError
from ..tasks.score import Score
from ..tasks.spec import TaskSpec
from .costs import common
from .episode import Episode, Turn

COLUMNS = ("prompt_ids", "action_ids", "logprobs", "versions")
"""Fields of a turn that are stored in columns; they follow each other."""


def pack(episodes: Sequence[Episode]) -> bytes:
    """Return episodes as bytes, exactly: ``unpack`` returns equal ones.

    Raises:
        ContractError: an episode holds something that cannot be pickled, or an id that is not an integer.
    """
    try:
        file = io.BytesIO()
        pickler = pickle.Pickler(file, protocol=5)
        pickler.dispatch_table = TABLE
        pickler.dump([_packed(episode) for episode in episodes])
        return file.getvalue()
    except Exception as error:
        names = ", ".join(episode.episode_id for episode in episodes)
        raise ContractError(f"episode {names} cannot be sent to the driver: {type(error).__name__}: {error}") from error


def unpack(data: bytes) -> list[Episode]:
    """Return the episodes of ``pack``."""
    return [_unpacked(*each) for each in pickle.loads(data)]


def _as_call(kind: type) -> Callable[[Any], tuple[type, tuple[Any, ...]]]:
    """Return what reduces a record of a class to a call; its constructor must leave legal values as they are."""
    names = [each.name for each in fields(kind)]
    values = attrgetter(*names) if len(names) > 1 else lambda record: (getattr(record, names[0]),)
    return lambda record: (kind, values(record))


TABLE = copyreg.dispatch_table | {
    kind: _as_call(kind) for kind in (Action, ImagePart, Message, Observation, Score, TaskSpec, TextPart, ToolCall)
}
_NAMES = [each.name for each in fields(Turn)]
_FIRST = _NAMES.index(COLUMNS[0])
_HEAD, _TAIL = attrgetter(*_NAMES[:_FIRST]), attrgetter(*_NAMES[_FIRST + len(COLUMNS) :])
_VALUES = [each.name for each in fields(Episode) if each.name not in ("turns", "final_prompt_ids")]
_OF_EPISODE = attrgetter(*_VALUES)


def _packed(episode: Episode) -> tuple[Any, ...]:
    turns = episode.turns
    shared: list[int] = []
    own: list[tuple[int, ...]] = []
    before: tuple[int, ...] = ()
    for prompt, action in itertools.zip_longest(
        (*(turn.prompt_ids for turn in turns), episode.final_prompt_ids), (turn.action_ids for turn in turns)
    ):
        shared.append(common(prompt, before))
        own.append(prompt[shared[-1] :])
        before = (*prompt, *(action or ()))
    columns = (
        _column(own, "i"),
        _column([turn.action_ids for turn in turns], "i"),
        _column([turn.logprobs for turn in turns], "d"),
        _column([turn.versions for turn in turns], "i"),
    )
    return _OF_EPISODE(episode), [_HEAD(turn) for turn in turns], [_TAIL(turn) for turn in turns], shared, columns


def _unpacked(values: Any, heads: Any, tails: Any, shared: list[int], columns: tuple[Any, ...]) -> Episode:
    own, actions, logprobs, versions = (_rows(*column) for column in columns)
    path: list[int] = []
    turns = []
    *parts, (length, last) = zip(shared, own, strict=True)
    for (kept, new), head, tail, action, *rest in zip(parts, heads, tails, actions, logprobs, versions, strict=True):
        del path[kept:]
        path += new
        record: tuple[Any, ...] = (*head, tuple(path), action, *rest, *tail)
        turns.append(Turn(*record))
        path += action
    del path[length:]
    return Episode(**dict(zip(_VALUES, values, strict=True)), turns=tuple(turns), final_prompt_ids=(*path, *last))


def _column(rows: Sequence[Sequence[Any]], kind: str) -> tuple[list[int], str, bytes]:
    """Return the ends of the rows, the type of their values, and the values."""
    flat = [value for row in rows for value in row]
    try:
        values = array(kind, flat)
    except OverflowError:
        kind, values = "q", array("q", flat)
    except TypeError:
        if kind == "d":
            raise
        raise TypeError("token ids and versions must be integers") from None
    return list(itertools.accumulate(map(len, rows))), kind, values.tobytes()


def _rows(ends: Sequence[int], kind: str, data: bytes) -> list[tuple[Any, ...]]:
    values = struct.unpack(f"{len(data) // struct.calcsize(kind)}{kind}", data)
    return [values[start:end] for start, end in itertools.pairwise((0, *ends))]
