"""A corpus in a file: what was put in comes out, whole or not at all."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.envs.search.retrieval.fts5 import Fts5
from turnwise.envs.search.retrieval.retriever_checks import PAGES
from turnwise.errors import InfrastructureError, TaskError, UsageError
from turnwise.tasks.search.build import AT_ONCE, build
from turnwise.tasks.search.document import Corpus, Document
from turnwise.tasks.search.stored import StoredCorpus


def test_what_was_put_in_comes_out(tmp_path: Path) -> None:
    made = build(tmp_path / "a.corpus", "a", PAGES)
    assert list(made) == list(PAGES)
    assert len(made) == len(PAGES)
    assert [made.at(place) for place in range(len(PAGES))] == list(PAGES)
    assert made.get("brandt") == PAGES[1]
    assert made.get("nobody") is None
    with pytest.raises(IndexError):
        made.at(len(PAGES))


texts = st.text(max_size=60)


@pytest.mark.slow
@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=12, unique_by=lambda one: one[0]))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]) -> None:
    pages = [Document(*row) for row in rows]
    assert list(build(tmp_path_factory.mktemp("any") / "x", "x", pages)) == pages


def test_a_file_finds_what_an_index_in_memory_finds(tmp_path: Path) -> None:
    build(tmp_path / "a.corpus", "a", PAGES)
    stored, made = Fts5.opened(tmp_path / "a.corpus"), Fts5(Corpus("a", PAGES))
    for query in ("tower", "Oda Brandt", "quartz", "Zoe cakes", "ister bridge chains", "nothing"):
        assert stored.search([query], 7) == made.search([query], 7)


def test_equal_pages_have_equal_names(tmp_path: Path) -> None:
    one, again = build(tmp_path / "a", "notes", PAGES), build(tmp_path / "b", "notes", PAGES)
    other = build(tmp_path / "c", "notes", PAGES[1:])
    assert one.name == again.name != other.name
    assert one.name.startswith("notes@")


@pytest.mark.parametrize("apart", [1, AT_ONCE + 1], ids=["near", "in another batch"])
def test_an_id_twice_is_refused_by_name(tmp_path: Path, apart: int) -> None:
    pages = [Document("twice", "", "")] + [Document(str(n), "", "") for n in range(apart)] + [Document("twice", "", "")]
    with pytest.raises(TaskError, match="the id 'twice'"):
        build(tmp_path / "a.corpus", "a", pages)
    assert not list(tmp_path.iterdir()), "nothing is left of what was not finished"


def test_what_was_there_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    build(tmp_path / "a.corpus", "a", PAGES)

    def interrupted() -> Iterator[Document]:
        yield PAGES[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "a.corpus", "a", interrupted())
    assert list(StoredCorpus(tmp_path / "a.corpus")) == list(PAGES)
    assert [path.name for path in tmp_path.iterdir()] == ["a.corpus"]


def test_no_pages_are_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no pages"):
        build(tmp_path / "a.corpus", "a", ())


def test_what_is_no_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no corpus"):
        StoredCorpus(tmp_path / "none")
    (tmp_path / "text").write_text("hello " * 200)
    with pytest.raises(UsageError, match="is not a corpus"):
        StoredCorpus(tmp_path / "text")
    with sqlite3.connect(tmp_path / "other") as connection:
        connection.execute("CREATE TABLE about (key TEXT, value TEXT)")
    connection.close()
    with pytest.raises(UsageError, match="format None"):
        StoredCorpus(tmp_path / "other")
    with pytest.raises(UsageError, match="is a folder"):
        build(tmp_path, "a", PAGES)


def test_progress_is_told(tmp_path: Path) -> None:
    counts: list[int] = []
    build(tmp_path / "a", "a", (Document(str(n), "", "x") for n in range(2 * AT_ONCE + 5)), counts.append)
    assert counts == [AT_ONCE, 2 * AT_ONCE, 2 * AT_ONCE + 5]


def test_a_corpus_cannot_be_written_to(tmp_path: Path) -> None:
    made = build(tmp_path / "a", "a", PAGES)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        made.connection.execute("DELETE FROM documents")


def test_a_path_with_signs_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "a?b#c%20 ü.corpus"
    assert len(build(path, "a", PAGES)) == len(PAGES)
    assert json.dumps(Fts5.opened(path).search(["brandt"], 1)[0][0].document.id) == '"brandt"'


@pytest.mark.parametrize("content", ["", "hello", "x" * 5000])
def test_what_is_there_and_no_corpus_is_not_replaced(tmp_path: Path, content: str) -> None:
    target = tmp_path / "thesis.txt"
    target.write_text(content)
    with pytest.raises(UsageError, match=r"thesis\.txt exists and is not a corpus"):
        build(target, "a", PAGES)
    assert target.read_text() == content
    link = tmp_path / "link"
    link.symlink_to("nowhere")
    with pytest.raises(UsageError, match="is not a corpus"):
        build(link, "a", PAGES)
    assert link.is_symlink()


def test_a_corpus_is_replaced(tmp_path: Path) -> None:
    build(tmp_path / "a.corpus", "a", PAGES)
    assert list(build(tmp_path / "a.corpus", "a", PAGES[1:])) == list(PAGES[1:])


def test_where_nothing_can_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "file/a.corpus", Path("/proc/nothing/a.corpus"), Path("/proc/a.corpus")):
        with pytest.raises(UsageError, match="cannot write"):
            build(target, "a", PAGES)


@pytest.mark.parametrize("apart", [1, AT_ONCE + 1], ids=["near", "in another batch"])
def test_pages_with_an_id_of_anothers_are_left_out_where_that_is_asked_for(tmp_path: Path, apart: int) -> None:
    once = [Document("twice", "", "first"), *(Document(str(n), "", "word") for n in range(apart))]
    again = [Document("twice", "", "second", "wiki.jsonl:9"), Document("last", "", "end"), Document("0", "", "other")]
    bad: list[str] = []
    made = build(tmp_path / "a", "a", [*once, *again, Document("more", "", "zebra")], bad=bad.append)
    wanted = [*once, again[1], Document("more", "", "zebra")]
    assert list(made) == wanted
    assert [made.at(place) for place in range(len(made))] == wanted
    assert [one.split(";")[0] for one in bad] == [
        "wiki.jsonl:9: another page before this one has the id 'twice'",
        "another page before this one has the id '0'",
    ]
    assert [hit.document.id for hit in Fts5.opened(tmp_path / "a").search(["zebra"], 3)[0]] == ["more"]
    assert made.name == build(tmp_path / "b", "a", wanted).name, "as if they had never been there"


@pytest.mark.parametrize("there", [True, False], ids=["replaced", "removed"])
def test_a_corpus_that_is_replaced_while_it_is_read_is_no_mixture(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "a.corpus"
    opened = build(path, "a", PAGES)
    if there:
        build(path, "a", PAGES[1:])
    else:
        path.unlink()
    assert list(opened) == list(PAGES), "who has it open reads on in the old one"
    with ThreadPoolExecutor(1) as another, pytest.raises(InfrastructureError, match="replaced or removed"):
        another.submit(opened.at, 0).result()
