"""The learner's numbers for stored episodes: advantage, entropy and clipping per token, the critic's value per turn.

A training run writes these files beside the parts of its store, since the numbers exist only after the episodes::

    runs/loop-maze/training_episodes/
        part-000000.parquet                episodes
        _learner-00000001-00000032.parquet numbers of the episodes of steps 1 to 32, one row per episode

Readers of the store skip them, because their names begin with an underscore. A store without them is complete: the
numbers are then unknown.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import compute

from ..errors import StoreError
from .columns import text_in, text_out

PREFIX = "_learner-"
UNFINISHED = "_learner.writing"
_NUMBERS, _COUNTS = pa.list_(pa.float32()), pa.list_(pa.int16())
_LISTS = {
    "advantages": _NUMBERS,
    "entropies": _NUMBERS,
    "logprobs": _NUMBERS,
    "clipped_low": _COUNTS,
    "clipped_high": _COUNTS,
}
_TURN = pa.struct([*_LISTS.items(), ("value", pa.float32())])
SCHEMA = pa.schema(
    [
        ("episode_id", pa.string()),
        ("step", pa.int64()),
        ("turns", pa.list_(_TURN)),
        ("updates", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class LearnerTurn:
    """The learner's numbers for one turn: before the updates of the step, but for the counts.

    Args:
        advantages: advantage of each sampled token, as the loss used it; empty if none was computed.
        entropies: entropy in nats of the distribution of each sampled token under the trainer's policy; or empty.
        logprobs: log-probability of each sampled token under the trainer's policy, which differs from the sampler's
            by arithmetic and staleness; or empty.
        value: the critic's value of the state before the turn, in units of reward; ``None`` without a critic.
        clipped_low: number of updates in which the lower bound of the ratio decided the loss, for each token; or empty.
        clipped_high: the same for the upper bound of the ratio, or ``dual_clip``; or empty.
    """

    advantages: tuple[float, ...] = ()
    entropies: tuple[float, ...] = ()
    logprobs: tuple[float, ...] = ()
    value: float | None = None
    clipped_low: tuple[int, ...] = ()
    clipped_high: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LearnerRecord:
    """The learner's numbers for one episode.

    Args:
        episode_id: id of the episode in the store.
        step: training step that learned from it, counted from 1, as in the episode's fingerprint ``step``.
        turns: one entry per turn of the episode, in order.
        updates: number of updates of the step that the episode took part in; ``None`` if the policy learned from other
            actions (ArCHer), or the record is older than this number.
    """

    episode_id: str
    step: int
    turns: tuple[LearnerTurn, ...]
    updates: int | None = None


def write_records(store: Path, records: Sequence[LearnerRecord]) -> None:
    """Write records into one file that appears whole; a file of the same steps is extended.

    Args:
        store: folder of the episode store, whose writer calls this.
        records: records of one step or more.

    Raises:
        StoreError: The file cannot be written.
    """
    if not records:
        return
    rows = [asdict(each) | {"episode_id": text_out(each.episode_id)} for each in records]
    steps = [each.step for each in records]
    file = store / f"{PREFIX}{min(steps):08d}-{max(steps):08d}.parquet"
    try:
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        if file.exists():  # of the same run before it was killed and resumed
            try:
                before = pq.ParquetFile(file).read().to_pylist()
                table = pa.concat_tables([pa.Table.from_pylist(before, schema=SCHEMA), table])
            except (ValueError, pa.ArrowException):  # torn by what killed it: a run goes on without them
                os.replace(file, file.with_suffix(".damaged"))
        pq.write_table(table, store / UNFINISHED, compression="zstd")
        os.replace(store / UNFINISHED, file)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise StoreError(
            f"cannot write {file}: {str(error).partition(chr(10))[0]}; free some space, and resume"
        ) from None


def read_record(store: Path, episode_id: str, step: int) -> LearnerRecord | None:
    """Return the record of an episode; ``None`` if the store has none.

    Args:
        store: folder of the episode store.
        episode_id: id of the episode.
        step: the episode's step; only files with that step are read.

    Raises:
        StoreError: A file that may have it is damaged.
    """
    for file in reversed(record_files(store)):
        first, _, last = file.stem.removeprefix(PREFIX).partition("-")
        if not (first.isdecimal() and last.isdecimal() and int(first) <= step <= int(last)):
            continue
        try:
            if not file.is_file():
                raise ValueError("it is not a file")
            table = pq.ParquetFile(file).read()
            mine = compute.and_(
                compute.equal(table["episode_id"], text_out(episode_id)), compute.equal(table["step"], step)
            )
            found = [_record(row) for row in table.filter(mine).to_pylist()]
        except (OSError, pa.ArrowException, AttributeError, KeyError, TypeError, ValueError) as error:
            first_line = str(error).partition("\n")[0]
            raise StoreError(f"cannot read {file.name}: {first_line}") from None
        if found:
            return found[-1]
    return None


def record_files(store: Path) -> list[Path]:
    """Return the files of records of a store, in the order of their first steps."""
    return sorted(store.glob(f"{PREFIX}[0-9]*.parquet"))


def _record(row: dict[str, Any]) -> LearnerRecord:
    turns = pa.array(row["turns"] or (), _TURN).to_pylist()  # adds the fields that older files lack
    if any(None in (turn[name] or ()) for turn in turns for name in _LISTS):
        raise ValueError("a token has no number")
    read = (LearnerTurn(**{name: tuple(turn[name] or ()) for name in _LISTS}, value=turn["value"]) for turn in turns)
    return LearnerRecord(text_in(row["episode_id"]), row["step"], tuple(read), row.get("updates"))
