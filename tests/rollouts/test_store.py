"""The store: what was recorded comes back bit by bit, whole parts or none, one writer, one line about any trouble."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.errors import ContractError, StoreError
from turnwise.rollouts.columns import from_table, to_table
from turnwise.rollouts.episode import Fork, Lookahead
from turnwise.rollouts.runner import run
from turnwise.rollouts.schema import ADDED, SCHEMA
from turnwise.rollouts.store import EpisodeStore, contradicted, load_episodes

from .fakes import Count, answering, tasks

TEXT = st.text(st.characters())  # lone surrogates included: a model can write them into JSON
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(width=64) | st.sampled_from([-0.0, 5e-324, -math.inf])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOAT.filter(lambda x: x == x) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
CALL = st.builds(tw.ToolCall, TEXT, OBJECT, TEXT)
PART = st.builds(tw.TextPart, TEXT) | st.builds(tw.ImagePart, st.binary(), TEXT)
MESSAGE = st.builds(
    tw.Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(PART, max_size=2).map(tuple),
    st.lists(CALL, max_size=2).map(tuple),
    st.none() | TEXT,
    st.none() | TEXT,
)
OBSERVATION = st.lists(MESSAGE, max_size=2).map(lambda messages: tw.Observation(tuple(messages)))
IDS = st.lists(INT64, max_size=4).map(tuple)
TURN = st.builds(
    tw.Turn,
    observation=OBSERVATION,
    action=st.builds(tw.Action, TEXT, st.lists(CALL, max_size=2).map(tuple), st.none() | TEXT),
    reward=FLOAT,
    terminated=st.booleans(),
    truncated=st.booleans(),
    prompt_ids=IDS,
    action_ids=IDS,
    logprobs=st.lists(FLOAT, max_size=4).map(tuple),
    versions=IDS,
    finish=st.sampled_from(tw.Finish),
    seat=TEXT,
    seconds_policy=FLOAT,
    seconds_env=FLOAT,
    obs_key=st.none() | TEXT,
    info=OBJECT,
    thoughts=st.just("") | TEXT,
)
EPISODE = st.builds(
    tw.Episode,
    episode_id=TEXT,
    env_id=TEXT,
    task=st.builds(
        tw.TaskSpec, TEXT, TEXT, st.integers(1, 2**63 - 1), st.integers(0, 2**63 - 1), st.sampled_from(tw.Split)
    ),
    group_id=TEXT,
    turns=st.lists(TURN, max_size=3).map(tuple),
    outcome=st.sampled_from(tw.Outcome),
    final_observation=st.none() | OBSERVATION,
    score=st.none()
    | st.builds(
        tw.Score,
        st.booleans(),
        st.dictionaries(TEXT, st.booleans(), max_size=3),
        st.lists(TEXT, max_size=2).map(tuple),
        st.lists(TEXT, max_size=2).map(tuple),
    ),
    error=st.none() | TEXT,
    attempts=st.integers(1, 9),
    seconds=FLOAT,
    fingerprints=st.dictionaries(TEXT, TEXT, max_size=3),
    final_prompt_ids=IDS,
    fork=st.none() | st.builds(Fork, TEXT, st.lists(TEXT, max_size=3).map(tuple)),
    lookaheads=st.lists(
        st.builds(
            Lookahead,
            st.integers(0, 9),
            st.lists(FLOAT, max_size=3).map(tuple),
            st.sampled_from(tw.Outcome),
            *(st.integers(0, 2**40) for _ in range(4)),
        ),
        max_size=3,
    ).map(tuple),
)


def bits(value: Any) -> Any:
    """A value in which two floats are equal only if their bits are, and classes only if they are the same."""
    if isinstance(value, float):
        return ("float", struct.pack("<d", value).hex())
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, [(field.name, bits(getattr(value, field.name))) for field in fields(value)])
    if isinstance(value, dict):
        return [(key, bits(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [bits(item) for item in value])
    return (type(value).__name__, value)


@given(st.lists(EPISODE, max_size=3))
@pytest.mark.slow
def test_any_episode_comes_back_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, episodes: list[tw.Episode]
) -> None:
    path = tmp_path_factory.mktemp("store") / "round"
    named = [replace(episode, episode_id=f"{i} {episode.episode_id}") for i, episode in enumerate(episodes)]
    with EpisodeStore(path, flush_every=2) as store:
        for episode in named:
            store.append(episode)
    loaded = load_episodes(path)
    assert [bits(episode) for episode in loaded] == [bits(episode) for episode in named]
    with EpisodeStore(path) as store:
        assert store.ids() == {episode.episode_id for episode in named}
    shutil.rmtree(path)


def test_minus_zero_and_subnormals_survive_side_by_side() -> None:
    logprobs = (0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, -math.inf, math.nan, 0.0)
    turn = tw.Turn(tw.Observation(), tw.Action(), 0.0, logprobs=logprobs)
    (episode,) = from_table(to_table(replace(sample(1)[0], turns=(turn,))))
    assert bits(episode.turns[0].logprobs) == bits(logprobs)


def sample(n: int, **options: Any) -> list[tw.Episode]:
    return run(Count, answering(), tasks(n), **options)


def write(path: Path, episodes: list[tw.Episode], **kwargs: Any) -> None:
    with EpisodeStore(path, **kwargs) as store:
        for episode in episodes:
            store.append(episode)


# -- other tools ---------------------------------------------------------------------------------------------------


def mixed(path: Path) -> list[tw.Episode]:
    """A store of eight scored episodes and one that is not."""
    episodes = sample(9)
    episodes[4] = replace(episodes[4], outcome=tw.Outcome.INFRA_FAILED, score=None, error="it died")
    picture = tw.Observation((tw.Message("user", (tw.ImagePart(b"\x89PNG\x00"), tw.TextPart("look"))),))
    first = replace(episodes[0].turns[0], observation=picture)
    episodes[0] = replace(episodes[0], turns=(first, *episodes[0].turns[1:]))
    write(path, episodes, flush_every=4)
    return episodes


def test_pandas_reads_the_folder(tmp_path: Path) -> None:
    mixed(tmp_path / "s")
    frame = pandas.read_parquet(tmp_path / "s")
    assert len(frame) == 9
    assert frame["success"].sum() == 8
    assert frame["success"].isna().sum() == 1, "an episode that was not judged has no success"
    assert frame["total_reward"].mean() == pytest.approx(1.25), "nor has it a return, and means leave it out"
    turns = pandas.json_normalize(list(frame.explode("turns")["turns"]))
    assert len(turns) == 27
    assert list(turns["logprobs"][0]) == [-0.5, -0.25]
    assert turns["action.text"][1] == "answer 2"
    assert turns["observation"][0][0]["parts"][0]["image"] == b"\x89PNG\x00", "images are kept as bytes"


def query(sql: str) -> list[tuple[Any, ...]]:
    relation = duckdb.sql(sql)
    assert relation is not None
    return list(relation.fetchall())


def test_duckdb_reads_the_parts(tmp_path: Path) -> None:
    mixed(tmp_path / "s")
    source = f"'{tmp_path / 's'}/part-*.parquet'"
    totals = query(f"SELECT count(*), avg(success::int), avg(total_reward) FROM {source}")
    assert totals == [(9, 1, 1.25)]
    by_turn = query(
        f"""
        SELECT turn.action.text, count(*), avg(list_sum(turn.logprobs)), max(turn.info->>'heard')
        FROM (SELECT unnest(turns) AS turn FROM {source} WHERE outcome = 'completed') GROUP BY 1 ORDER BY 1
        """
    )
    assert by_turn[0] == ("answer 1", 8, -0.75, "answer 1")
    assert query(f"SELECT sum(task.seed) FROM {source} WHERE task.split = 'train'") == [(36,)]
    assert query(f"SELECT map_from_entries(fingerprints)['run_seed'] FROM {source} LIMIT 1") == [("0",)]


# -- writing -------------------------------------------------------------------------------------------------------


def test_parts_appear_whole_and_in_order(tmp_path: Path) -> None:
    episodes = sample(7)
    with EpisodeStore(tmp_path / "s", flush_every=3) as store:
        for n, episode in enumerate(episodes, 1):
            store.append(episode)
            assert len(load_episodes(tmp_path / "s")) == n // 3 * 3, "a reader sees whole parts only"
            assert len(store) == n
        assert list(store) == episodes, "the writer sees everything"
    assert load_episodes(tmp_path / "s") == episodes
    write(tmp_path / "s", more := sample(2, seed=1))
    assert load_episodes(tmp_path / "s") == episodes + more, "appending later adds parts"


def test_slow_episodes_do_not_wait_for_a_full_part(tmp_path: Path) -> None:
    one, two, three = sample(3)
    with EpisodeStore(tmp_path / "s", flush_every=100, flush_seconds=0.02) as store:
        store.append(one)
        assert len(load_episodes(tmp_path / "s")) == 0, "one that has just come waits for others"
        time.sleep(0.03)
        store.append(two)
        assert len(load_episodes(tmp_path / "s")) == 2, "one that has waited long enough is taken along"
        store.append(three)
        assert len(load_episodes(tmp_path / "s")) == 2, "the wait begins anew"


def test_a_folder_around_a_store_says_where_it_is(tmp_path: Path) -> None:
    write(tmp_path / "run" / "episodes", sample(1))
    with pytest.raises(StoreError, match=r"there is one in .*run/episodes"):
        load_episodes(tmp_path / "run")


def test_interruption_writes_what_is_pending(tmp_path: Path) -> None:
    episodes = sample(3)

    def interrupted() -> None:
        with EpisodeStore(tmp_path / "s", flush_every=100) as store:
            for episode in episodes:
                store.append(episode)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert load_episodes(tmp_path / "s") == episodes


def test_an_episode_is_stored_once(tmp_path: Path) -> None:
    episodes = sample(2)
    write(tmp_path / "s", episodes)
    with EpisodeStore(tmp_path / "s") as store, pytest.raises(StoreError, match=r"is already in .*; pass skip="):
        store.append(episodes[0])


@pytest.mark.parametrize("bad", [{"x": object()}, {"x": {1, 2}}, {("a", "b"): 1}])
def test_what_cannot_be_recorded_is_refused_and_costs_nothing_else(tmp_path: Path, bad: Any) -> None:
    good, other = sample(2)
    broken = replace(other, turns=(replace(other.turns[0], info=bad),))
    with EpisodeStore(tmp_path / "s") as store:
        store.append(good)
        with pytest.raises(ContractError, match=f"info in turn 0 of episode {other.episode_id} is not JSON"):
            store.append(broken)
        with pytest.raises(ContractError, match=f"episode {other.episode_id} cannot be recorded"):
            store.append(replace(other, task=tw.TaskSpec("Count", seed=2**63)))
        store.append(other)
    assert load_episodes(tmp_path / "s") == [good, other]


def test_numpy_in_info_is_recorded_as_numbers(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    episode = sample(1)[0]
    info = {"a": numpy.float64(0.5), "b": numpy.array([1, 2]), "c": numpy.bool_(True)}
    write(tmp_path / "s", [replace(episode, turns=(replace(episode.turns[0], info=info),))])
    assert load_episodes(tmp_path / "s")[0].turns[0].info == {"a": 0.5, "b": [1, 2], "c": True}


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = EpisodeStore(tmp_path / "s")
    store.close()
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.append(sample(1)[0])


def test_how_often_the_infrastructure_failed_is_stored(tmp_path: Path) -> None:
    with EpisodeStore(tmp_path / "s") as store:
        store.append(replace(sample(1)[0], after_action=2, redrawn=1))
    (episode,) = load_episodes(tmp_path / "s")
    assert (episode.after_action, episode.redrawn) == (2, 1)


def test_unscored_episodes_can_be_discarded(tmp_path: Path) -> None:
    episodes = mixed(tmp_path / "s")
    with EpisodeStore(tmp_path / "s") as store:
        assert store.discard_unscored() == 1
        assert store.discard_unscored() == 0
        assert episodes[4].episode_id not in store.ids()
        store.append(replace(episodes[4], outcome=tw.Outcome.COMPLETED, score=tw.Score(success=True)))
    assert {e.episode_id for e in load_episodes(tmp_path / "s")} == {e.episode_id for e in episodes}
    assert all(episode.scored for episode in load_episodes(tmp_path / "s"))


# -- trouble -------------------------------------------------------------------------------------------------------


def test_a_store_belongs_to_one_run(tmp_path: Path) -> None:
    write(tmp_path / "s", sample(1), run={"env": "Count", "seed": 0})
    with EpisodeStore(tmp_path / "s", run={"seed": 0, "env": "Count"}) as store:
        assert store.run == {"env": "Count", "seed": 0}
    with EpisodeStore(tmp_path / "s") as store:
        assert store.run["seed"] == 0, "whoever names no run takes the one that is there"
    with pytest.raises(StoreError, match="belongs to another run: seed is 0 in the store and 1 now"):
        EpisodeStore(tmp_path / "s", run={"env": "Count", "seed": 1})


def one_line(error: pytest.ExceptionInfo[StoreError]) -> None:
    assert "\n" not in str(error.value), "one line is enough for any trouble"


def test_a_missing_store_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no episode store at") as caught:
        load_episodes(tmp_path / "nowhere")
    one_line(caught)
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for use in (load_episodes, EpisodeStore):
        with pytest.raises(StoreError, match="is not an episode store") as caught:
            use(tmp_path)
        one_line(caught)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot make an episode store at"):
        EpisodeStore(tmp_path / "file")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is damaged: cannot read _manifest.json"),
        ("[]", "has another format"),
        ('{"kind": "pictures", "version": 1, "run": {}}', "has another format"),
        ('{"kind": "turnwise.episodes", "version": 99, "run": {}}', "has version 99; this version of Turnwise reads 2"),
    ],
)
def test_a_wrong_manifest_is_told(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path / "s", sample(1))
    (tmp_path / "s" / "_manifest.json").write_text(text)
    for use in (load_episodes, EpisodeStore):
        with pytest.raises(StoreError, match=message) as caught:
            use(tmp_path / "s")
        one_line(caught)


def test_parts_of_other_programs_are_neither_read_nor_removed(tmp_path: Path) -> None:
    write(tmp_path / "s", episodes := sample(1))
    spark = tmp_path / "s" / "part-00000-8f.c000.snappy.parquet"
    pq.write_table(pa.table({"price": [1]}), spark)
    assert load_episodes(tmp_path / "s") == episodes
    write(tmp_path / "s", episodes, overwrite=True)
    assert pq.read_table(spark).to_pydict() == {"price": [1]}, "--overwrite removes the store's own files"


def test_a_lock_that_cannot_be_written_is_one_line_and_leaves_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "_lock").symlink_to("/dev/full")
    before = os.listdir("/proc/self/fd")
    with pytest.raises(StoreError, match=f"cannot lock episode store {tmp_path}") as caught:
        EpisodeStore(tmp_path)
    one_line(caught)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "middle", "foreign"])
def test_a_damaged_part_is_named(tmp_path: Path, damage: str) -> None:
    write(tmp_path / "s", sample(4), flush_every=2)
    part = tmp_path / "s" / "part-000001.parquet"
    whole = part.read_bytes()
    if damage == "foreign":
        pq.write_table(pa.table({"x": [1]}), part)
    else:
        middle = len(whole) // 2
        part.write_bytes(
            {
                "cut": whole[:middle],
                "garbage": b"garbage" * 100,
                "empty": b"",
                "middle": whole[: middle - 400] + b"\xff" * 800 + whole[middle + 400 :],
            }[damage]
        )
    with pytest.raises(StoreError, match=r"part-000001\.parquet") as caught:
        load_episodes(tmp_path / "s")
    one_line(caught)
    part.unlink()
    assert len(load_episodes(tmp_path / "s")) == 2, "moving the file away loses its episodes only"


@pytest.mark.parametrize(("name", "value"), [("outcome", "won"), ("turns", None), ("task", None)])
def test_a_row_that_is_no_episode_is_named(tmp_path: Path, name: str, value: Any) -> None:
    episodes = sample(2)
    write(tmp_path / "s", episodes)
    part = next((tmp_path / "s").glob("part-*.parquet"))
    rows = pq.read_table(part).to_pylist()
    rows[1][name] = value
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), part)
    with pytest.raises(StoreError, match=f"record of episode {rows[1]['episode_id']} is damaged"):
        load_episodes(tmp_path / "s")


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    with EpisodeStore(tmp_path / "s") as store:
        store.append(sample(1)[0])
        store.flush()
        with pytest.raises(StoreError, match=f"process {os.getpid()} on .* is writing to") as caught:
            EpisodeStore(tmp_path / "s")
        one_line(caught)
        assert len(load_episodes(tmp_path / "s")) == 1
    EpisodeStore(tmp_path / "s").close()


@pytest.mark.slow
def test_a_writer_that_was_killed_leaves_whole_parts_and_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "s"
    write(path, sample(3))
    code = f"""
import time
from turnwise.rollouts.store import EpisodeStore
store = EpisodeStore({str(path)!r})
print("writing", flush=True)
time.sleep(60)
"""
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "writing\n"
    with pytest.raises(StoreError, match=f"process {writer.pid} on .* is writing to"):
        EpisodeStore(path)
    (path / "_writing.parquet").write_bytes(b"half a part")
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    assert len(load_episodes(path)) == 3, "what was half written is not read"
    with EpisodeStore(path) as store:
        assert len(store) == 3
        assert not (path / "_writing.parquet").exists()


def test_a_store_whose_making_was_interrupted_can_be_made_again(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "_lock").touch()
    (tmp_path / "s" / "_manifest.json.new").write_text("{")
    write(tmp_path / "s", sample(1))
    assert json.loads((tmp_path / "s" / "_manifest.json").read_text())["version"] == 4


def with_maps(table: pa.Table) -> pa.Table:
    """A table as version 2 of the store had it."""
    checks, texts = pa.map_(pa.string(), pa.bool_()), pa.map_(pa.string(), pa.string())
    old = {"fingerprints": texts, "score": pa.struct(list(SCHEMA.field("score").type))}
    old["score"] = pa.struct([field.with_type(checks) if field.name == "checks" else field for field in old["score"]])
    rows = table.to_pylist()
    for row in rows:
        row["fingerprints"] = [(pair["name"], pair["value"]) for pair in row["fingerprints"]]
        if row["score"] is not None:
            row["score"]["checks"] = [(pair["name"], pair["value"]) for pair in row["score"]["checks"]]
    fields = [field.with_type(old.get(field.name, field.type)) for field in SCHEMA]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def test_a_store_with_maps_is_read_and_converted_when_it_grows(tmp_path: Path) -> None:
    checked = replace(sample(1)[0], score=tw.Score(True, {"found": True, "\ud800": False}))
    episodes = [checked, *sample(3, seed=1)]
    write(tmp_path / "s", episodes)
    part, manifest = tmp_path / "s" / "part-000000.parquet", tmp_path / "s" / "_manifest.json"
    pq.write_table(with_maps(pq.ParquetFile(part).read()), part)
    manifest.write_text(manifest.read_text().replace('"version": 4', '"version": 2'))
    assert load_episodes(tmp_path / "s") == episodes, "a reader takes it as it is"
    assert json.loads(manifest.read_text())["version"] == 2
    write(tmp_path / "s", more := sample(1, seed=2))
    assert load_episodes(tmp_path / "s") == episodes + more
    assert json.loads(manifest.read_text())["version"] == 4
    assert pq.read_table(tmp_path / "s").num_rows == 5, "pandas and datasets read all parts alike"


def test_in_a_store_from_before_version_4_the_task_s_own_limit_ends_it(tmp_path: Path) -> None:
    """Such stores recorded each turn limit as a truncation, which a critic would bootstrap from."""
    played, empty, *others = sample(6)
    cut = replace(played.turns[-1], terminated=False, truncated=True)
    played = replace(played, outcome=tw.Outcome.TRUNCATED, turns=(*played.turns[:-1], cut))
    episodes = [played, replace(empty, outcome=tw.Outcome.TRUNCATED, turns=()), *others]
    write(tmp_path / "s", episodes)
    part, manifest = tmp_path / "s" / "part-000000.parquet", tmp_path / "s" / "_manifest.json"
    pq.write_table(pq.ParquetFile(part).read().drop_columns(["out_of_turns"]), part)
    manifest.write_text(manifest.read_text().replace('"version": 4', '"version": 3'))
    old = load_episodes(tmp_path / "s")
    assert old[1:] == episodes[1:]
    assert (old[0].outcome, old[0].out_of_turns) == (tw.Outcome.COMPLETED, True)
    assert (old[0].turns[-1].terminated, old[0].turns[-1].truncated) == (True, False)
    assert not list(contradicted(tmp_path / "s")), "the column agrees with the converted episodes"
    write(tmp_path / "s", sample(1, seed=9))
    assert load_episodes(tmp_path / "s")[:-1] == old, "converting it changes nothing more"
    assert not list(contradicted(tmp_path / "s"))


def test_no_column_is_a_map() -> None:
    def kinds(kind: pa.DataType) -> list[pa.DataType]:
        inner = [kind.field(number).type for number in range(kind.num_fields)]
        return [kind, *(each for one in inner for each in kinds(one))]

    found = [kind for field in SCHEMA for kind in kinds(field.type)]
    assert not any(map(pa.types.is_map, found)), "Hugging Face datasets has no such type"
    assert len(found) > 80, "and all of them were looked at"


def test_a_store_made_before_there_were_forks_is_read_as_it_was(tmp_path: Path) -> None:
    episodes = sample(3)
    write(tmp_path / "s", episodes)
    for part in (tmp_path / "s").glob("part-*.parquet"):
        pq.write_table(pq.read_table(part).drop_columns(list(ADDED)), part)
    assert bits(load_episodes(tmp_path / "s")) == bits(episodes)
    with EpisodeStore(tmp_path / "s") as store:
        store.append(replace(episodes[0], episode_id="new", fork=Fork("e0", ("e0",))))
    assert [episode.fork for episode in load_episodes(tmp_path / "s")] == [None, None, None, Fork("e0", ("e0",))]
