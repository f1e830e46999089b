"""A search finds what a reader of the texts finds, whether a part is read or comes from an index, kept or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.errors import StoreError
from turnwise.rollouts.store import TEXT_INDEX, EpisodeStore, load_episodes, parts
from turnwise.view.episode_index import EpisodeIndex
from turnwise.view.queries import Query, page
from turnwise.view.text_search import text_index
from turnwise.view.text_search.part_texts import read_texts
from turnwise.view.text_search.searcher import Searcher
from turnwise.view.text_search.text_index import TextIndex, key_of

from ..conftest import client_of
from ..fakes import episode, family, said, store, turn

WORDS = st.text(st.sampled_from("aAbÄäß \n\x00🚪"), max_size=6)


def found(path: Path, searcher: Searcher, **given: str) -> set[str]:
    """Ids that a query finds, over as many requests as it takes."""
    while True:
        shown = page(EpisodeIndex(path).snapshot(), Query.read({**given, "limit": "500"}), searcher)
        if not shown.unsearched:
            return {row["episode_id"] for row in shown.rows}


def spoken(id: str, seen: Sequence[str], texts: Sequence[str], tools: Sequence[str], error: str) -> tw.Episode:
    """An episode with these messages, actions, calls of tools, and this error."""
    calls = tuple(tw.ToolCall(tool, {"x": 1}, "c") for tool in tools)
    observation = tw.Observation(tuple(said("user", text) for text in seen))
    turns = [replace(turn("go"), observation=observation, action=tw.Action(text, calls)) for text in texts]
    return episode(id, turns=turns, error=error)


EPISODES = st.lists(
    st.tuples(st.lists(WORDS, max_size=2), st.lists(WORDS, max_size=2), st.lists(WORDS, max_size=1), WORDS),
    min_size=1,
    max_size=5,
)


def test_both_forms_of_a_letter_are_one(tmp_path: Path) -> None:
    store(tmp_path, [spoken("greek", ["ΟΔΟΣ"], ["5 µm"], [], ""), spoken("other", ["οδ"], ["mm"], [], "")])
    for text in ("οδος", "ΟΔΟΣ", "οδοσ", "ΜM", "µm", "μm"):
        assert found(tmp_path, Searcher(), text=text) == {"greek"}, text


@pytest.mark.slow
@given(made=EPISODES, wanted=WORDS.filter(bool))
def test_any_text_is_found_where_it_is_and_nowhere_else(
    tmp_path_factory: pytest.TempPathFactory, made: Any, wanted: str
) -> None:
    path = tmp_path_factory.mktemp("any") / "store"
    store(path, [spoken(str(n), *each) for n, each in enumerate(made)])
    expected = {
        str(n)
        for n, (seen, texts, tools, error) in enumerate(made)
        if any(wanted.lower() in each.lower() for each in [*(seen if texts else []), *texts, error])
        or (texts and any(wanted.lower() in each.lower() for each in [*tools, *('{"x": 1}' for _ in tools)]))
    }
    searcher = Searcher(path / TEXT_INDEX)
    assert found(path, searcher, text=wanted) == expected
    assert (
        found(path, searcher, text=wanted.upper() if wanted.upper().lower() == wanted.lower() else wanted) == expected
    )
    named = {str(n) for n, (_, texts, tools, _) in enumerate(made) if texts and wanted in tools}
    assert found(path, searcher, tool=wanted) == named, "the name of a tool is whole, and as it is written"
    del searcher
    again = Searcher(path / TEXT_INDEX)
    assert found(path, again, text=wanted) == expected, "the index that was kept says the same"


def test_a_search_writes_nothing_beside_the_store_unless_asked(tmp_path: Path) -> None:
    path = store(tmp_path / "run" / "episodes", family())
    before = sorted(path.iterdir())
    client = client_of(tmp_path)
    (run,) = client.get("/api/runs").json()
    answer = client.get(f"/api/runs/{run['id']}/episodes", params={"store": "episodes", "text": "break"}).json()
    assert [row["episode_id"] for row in answer["rows"]] == ["e0-fork"]
    assert sorted(path.iterdir()) == before


def test_a_kept_index_is_used_instead_of_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store(tmp_path / "s", family())
    expected = found(path, Searcher(path / TEXT_INDEX), text="door")
    assert [each.episode_id for each in load_episodes(path)], "the store is read as before"

    def refused(file: Path) -> Any:
        raise AssertionError(f"{file.name} is indexed")

    monkeypatch.setattr("turnwise.view.text_search.searcher.read_texts", refused)
    searcher = Searcher(path / TEXT_INDEX)
    assert found(path, searcher, text="DOOR") == expected != set()
    assert found(path, searcher, tool="search") == {"e1"}


def test_parts_that_come_or_change_are_searched_as_they_are(tmp_path: Path) -> None:
    path, kept = store(tmp_path / "s", [episode("a"), episode("b", ("wait",))]), tmp_path / "s" / TEXT_INDEX
    searcher = Searcher(kept)
    assert found(path, searcher, text="door") == {"a"}
    store(path, [episode("c")])
    assert found(path, searcher, text="door") == {"a", "c"}
    with EpisodeStore(path, overwrite=True) as opened:
        assert not kept.exists(), "texts that are gone are nowhere"
        opened.append(episode("b"))
    assert found(path, searcher, text="door") == {"b"}


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_torn_index_loses_its_end_and_goes_on(tmp_path: Path, cut: int) -> None:
    path, kept = store(tmp_path / "s", family(), per_part=1), tmp_path / "s" / TEXT_INDEX
    expected = found(path, Searcher(kept), text="o")
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-cut])
    assert found(path, Searcher(kept), text="o") == expected
    assert kept.read_bytes() == whole, "what was lost is written again"


@pytest.mark.parametrize(
    "content",
    [
        b"something of the user's\n",
        b"turnwise.texts/1\n" + b"[" * 5000 + b"\n",
        b'turnwise.texts/1\n{"part":"part-000000.parquet","size":1,"changed":2,"ends":[5,-1]}\nabc',
        b'turnwise.texts/1\n{"part":1,"size":[],"changed":{},"ends":["x"]}\n',
    ],
)
def test_a_file_that_is_not_an_index_is_no_obstacle(tmp_path: Path, content: bytes) -> None:
    path, kept = store(tmp_path / "s", family()), tmp_path / "s" / TEXT_INDEX
    kept.write_bytes(content)
    assert found(path, Searcher(kept), text="break") == {"e0-fork"}
    if not content.startswith(text_index.MAGIC):
        assert kept.read_bytes() == content, "it is not touched"


def test_an_index_that_counts_wrong_is_not_believed(tmp_path: Path) -> None:
    path, kept = store(tmp_path / "s", [episode("a"), episode("b")]), tmp_path / "s" / TEXT_INDEX
    (part,) = parts(path)
    index = TextIndex(kept)
    texts = read_texts(part)
    index.add(key_of(part), replace(texts, ends=texts.ends[:1]))
    del index
    assert found(path, Searcher(kept), text="door") == {"a", "b"}


def test_links_and_a_second_viewer_get_a_temporary_index(tmp_path: Path) -> None:
    path = store(tmp_path / "s", family())
    (path / TEXT_INDEX).symlink_to(tmp_path / "elsewhere")
    assert found(path, Searcher(path / TEXT_INDEX), text="break") == {"e0-fork"}
    assert not (tmp_path / "elsewhere").exists()
    (path / TEXT_INDEX).unlink()
    first, second = TextIndex(path / TEXT_INDEX), TextIndex(path / TEXT_INDEX)
    assert (first.kept, second.kept) == (True, False)


def test_an_index_that_is_full_still_finds_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "LARGEST", 300)
    path = store(tmp_path / "s", [episode(f"e{n}") for n in range(20)], per_part=2)
    searcher = Searcher(path / TEXT_INDEX)
    for text in ("door", "north"):
        assert len(found(path, searcher, text=text)) == 20
    assert (path / TEXT_INDEX).stat().st_size <= 300


def test_a_part_whose_texts_are_damaged_is_named(tmp_path: Path) -> None:
    path = store(tmp_path / "s", [episode("a")])
    (part,) = parts(path)
    part.write_bytes(part.read_bytes()[:-30])
    with pytest.raises(StoreError, match=r"cannot search part-000000\.parquet"):
        read_texts(part)
