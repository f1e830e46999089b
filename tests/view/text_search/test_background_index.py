"""A large store is indexed before the first search, and whatever happens to that work, searches find the same."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from random import Random

import pytest

from turnwise.errors import StoreError
from turnwise.rollouts.store import TEXT_INDEX, parts
from turnwise.view.episode_index import EpisodeIndex
from turnwise.view.queries import Query, page
from turnwise.view.text_search import background_index, text_worker
from turnwise.view.text_search.background_index import BackgroundIndexer
from turnwise.view.text_search.part_texts import PartTexts, read_texts
from turnwise.view.text_search.searcher import Searcher

from ..fakes import episode, store

PATIENCE = 120


def made(path: Path, count: int = 6) -> Path:
    return store(path, [episode(f"e{n}", ("wait",) if n % 2 else ("open door",)) for n in range(count)], per_part=1)


def indexed(indexer: BackgroundIndexer, path: Path, searcher: Searcher) -> list[float]:
    """Ask until nothing is left to wait for; the shares that were answered."""
    index, shares, end = EpisodeIndex(path), list[float](), time.monotonic() + PATIENCE
    while (share := indexer.offer(searcher, index.snapshot())) is not None:
        assert time.monotonic() < end, "the work ends"
        shares.append(share)
        time.sleep(0.02)
    return shares


def found(path: Path, searcher: Searcher) -> set[str]:
    """Search over as many requests as it takes."""
    while True:
        shown = page(EpisodeIndex(path).snapshot(), Query.read({"text": "open"}), searcher)
        if not shown.unsearched:
            return {row["episode_id"] for row in shown.rows}


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_index, "WORTH", 3)
    monkeypatch.setattr(background_index, "NICENESS", os.getpriority(os.PRIO_PROCESS, 0))


def test_no_damage_ends_the_process_of_the_index(tmp_path: Path) -> None:
    rng = Random(3)
    whole = parts(made(tmp_path / "s", 1))[0]
    good = whole.read_bytes()
    for number in range(40):
        data = bytearray(good)
        for _ in range(rng.choice((1, 3, 20))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        (tmp_path / f"{number}.parquet").write_bytes(data)
    (tmp_path / "empty.parquet").touch()
    for number, name in enumerate((b"thoughts", b"final_observation", b"turns")):
        (tmp_path / f"name-{number}.parquet").write_bytes(good.replace(name, b"\xff" + name[1:]))
    files = [*sorted(tmp_path.glob("*.parquet")), whole]
    for file in files[:-1]:
        with suppress(StoreError):
            read_texts(file)
    asked, answers = BytesIO(b"".join(os.fsencode(file).hex().encode() + b"\n" for file in files)), BytesIO()
    text_worker._answer(asked, answers)
    assert answers.getvalue().count(b'{"ends":') == len(files), "each part has an answer"


@pytest.mark.slow
def test_the_first_search_reads_no_part_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, searcher, indexer = made(tmp_path / "s"), Searcher(), BackgroundIndexer()
    damaged = parts(path)[1]
    damaged.write_bytes(damaged.read_bytes()[:-30])
    before = sorted(path.iterdir())
    shares = indexed(indexer, path, searcher)
    assert shares == sorted(shares)
    assert 0.0 in shares, "it says how far it is"
    assert sorted(path.iterdir()) == before, "nothing is written beside the store"

    def refused(file: Path) -> None:
        raise AssertionError(f"{file.name} is indexed")

    monkeypatch.setattr("turnwise.view.text_search.searcher.read_texts", refused)
    assert found(path, searcher) == {"e0", "e2", "e4"}, "the table has no row of the damaged part"
    assert indexer.offer(searcher, EpisodeIndex(path).snapshot()) is None, "what is indexed is not read again"


def test_a_small_store_and_few_new_parts_start_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("the first search takes no time")

    monkeypatch.setattr(background_index, "Job", refused)
    path, searcher = made(tmp_path / "s", 2), Searcher()
    assert BackgroundIndexer().offer(searcher, EpisodeIndex(path).snapshot()) is None
    assert found(path, searcher) == {"e0"}


@pytest.mark.slow
def test_work_that_is_stopped_leaves_the_search_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_index, "NICENESS", 19)
    path, kept = made(tmp_path / "s"), tmp_path / "s" / TEXT_INDEX
    one, other, indexer = Searcher(kept), Searcher(), BackgroundIndexer()
    assert indexer.offer(one, EpisodeIndex(path).snapshot()) == 0.0
    assert indexer._job is not None
    assert os.getpriority(os.PRIO_PROCESS, indexer._job._child.pid) == 19
    assert indexer.offer(other, EpisodeIndex(path).snapshot()) == 0.0, "one store after another"
    indexer.close()
    assert found(path, one) == {"e0", "e2", "e4"}
    assert kept.exists()


def test_a_process_that_ends_at_once_leaves_the_search_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_index, "child_command", lambda _: [sys.executable, "-c", "raise SystemExit"])
    path, searcher = made(tmp_path / "s"), Searcher()
    assert indexed(BackgroundIndexer(), path, searcher)
    assert found(path, searcher) == {"e0", "e2", "e4"}


def test_what_is_large_is_left_to_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, asked = made(tmp_path / "s"), list[Path]()

    def ask(file: Path, *_: object) -> PartTexts:
        asked.append(file)
        return read_texts(file)

    monkeypatch.setattr(background_index, "_ask", ask)
    monkeypatch.setattr(background_index, "child_command", lambda _: [sys.executable, "-c", "input()"])
    for name, searches in (("LARGEST_PART", 0), ("MOST", 1)):
        with monkeypatch.context() as patched:
            patched.setattr(background_index, name, 1)
            indexed(BackgroundIndexer(), path, Searcher())
        assert len(asked) == searches, name
