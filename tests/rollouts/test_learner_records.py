"""The learner's numbers beside a store: read as they were written, found by the step, invisible to other readers."""

from __future__ import annotations

import os
from pathlib import Path

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import StoreError
from turnwise.rollouts.episode import Episode, Outcome
from turnwise.rollouts.learner_records import LearnerRecord, LearnerTurn, read_record, record_files, write_records
from turnwise.rollouts.store import EpisodeStore, load_episodes
from turnwise.tasks.spec import TaskSpec

NUMBERS = st.lists(st.floats(width=32, allow_nan=False), max_size=4).map(tuple)
COUNTS = st.lists(st.integers(0, 2**15 - 1), max_size=4).map(tuple)
VALUES = st.none() | st.floats(width=32, allow_nan=False)
TURNS = st.builds(LearnerTurn, NUMBERS, NUMBERS, NUMBERS, VALUES, COUNTS, COUNTS)


def record(id: str, step: int, *values: float) -> LearnerRecord:
    return LearnerRecord(id, step, tuple(LearnerTurn((each,), (0.5,), (-1.0,), each) for each in values))


@given(
    turns=st.lists(TURNS, max_size=3).map(tuple),
    id=st.text(st.characters(exclude_categories=()), max_size=8),
    updates=st.none() | st.integers(0, 99),
)
def test_a_record_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, turns: tuple[LearnerTurn, ...], id: str, updates: int | None
) -> None:
    store = tmp_path_factory.mktemp("store")
    written = LearnerRecord(id, 7, turns, updates)
    write_records(store, [record("other", 7, 1.0), written] if id != "other" else [written])
    assert read_record(store, id, 7) == written


def test_records_are_found_by_step_and_a_resumed_run_extends_a_file(tmp_path: Path) -> None:
    write_records(tmp_path, [record("a", 1, 1.0), record("b", 2, 2.0)])
    write_records(tmp_path, [record("c", 3, 3.0)])
    write_records(tmp_path, [record("d", 3, 4.0)])  # killed after the step, resumed before it
    assert [file.name for file in record_files(tmp_path)] == [
        "_learner-00000001-00000002.parquet",
        "_learner-00000003-00000003.parquet",
    ]
    found = {id: read_record(tmp_path, id, step) for id, step in (("a", 1), ("b", 2), ("c", 3), ("d", 3))}
    assert {id: each.turns[0].value for id, each in found.items() if each} == {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    assert read_record(tmp_path, "a", 3) is None, "an id of another step is another episode"
    assert read_record(tmp_path / "none", "a", 1) is None, "a store without records is complete"


def test_records_from_before_clips_were_counted_are_read_and_extended(tmp_path: Path) -> None:
    turn = {"advantages": [0.5], "entropies": [], "logprobs": [-1.0], "value": None}
    file = tmp_path / "_learner-00000001-00000001.parquet"
    pq.write_table(pa.Table.from_pylist([{"episode_id": "old", "step": 1, "turns": [turn]}]), file)
    old = LearnerRecord("old", 1, (LearnerTurn((0.5,), (), (-1.0,)),))
    assert read_record(tmp_path, "old", 1) == old
    new = LearnerRecord("new", 1, (LearnerTurn((0.5,), (), (-1.0,), None, (0,), (2,)),), 2)
    write_records(tmp_path, [new])
    assert (read_record(tmp_path, "old", 1), read_record(tmp_path, "new", 1)) == (old, new)


def test_a_damaged_file_is_named_and_disturbs_no_other_step(tmp_path: Path) -> None:
    write_records(tmp_path, [record("a", 1, 1.0)])
    (tmp_path / "_learner-00000002-00000002.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(StoreError, match="_learner-00000002-00000002"):
        read_record(tmp_path, "b", 2)
    assert read_record(tmp_path, "a", 1) is not None
    write_records(tmp_path, [record("b", 2, 2.0)])
    assert read_record(tmp_path, "b", 2) is not None, "a run that is resumed goes on without what was torn"
    assert (tmp_path / "_learner-00000002-00000002.damaged").read_bytes() == b"PAR1 torn"


def test_what_is_no_record_is_an_error_and_neither_waits_nor_crashes(tmp_path: Path) -> None:
    write_records(tmp_path, [record("a", 1, 1.0)])
    (good,) = record_files(tmp_path)
    os.mkfifo(tmp_path / "_learner-00000002-00000002.parquet")
    table = pq.read_table(good)
    rows = table.to_pylist()
    rows[0] |= {"step": 3, "turns": [None]}
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), tmp_path / "_learner-00000003-00000003.parquet")
    for step in (2, 3):
        with pytest.raises(StoreError, match=f"cannot read _learner-0000000{step}"):
            read_record(tmp_path, "a", step)


def test_readers_of_the_store_do_not_see_them_and_overwriting_removes_them(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with EpisodeStore(store) as opened:
        opened.append(Episode("a", "e", TaskSpec("t"), "g", (), Outcome.COMPLETED))
    write_records(store, [record("a", 1, 1.0)])
    assert [each.episode_id for each in load_episodes(store)] == ["a"]
    assert list(pandas.read_parquet(store)["episode_id"]) == ["a"]
    with EpisodeStore(store, overwrite=True):
        assert not record_files(store), "numbers of episodes that are gone must not meet new ones of the same id"
