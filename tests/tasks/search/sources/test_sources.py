"""Pages from folders, lines and the system's packages; what cannot be read is named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import TaskError, UsageError
from turnwise.tasks.search.document import Document
from turnwise.tasks.search.sources.lines import from_contents, read_lines, to_contents
from turnwise.tasks.search.sources.named import pages_of
from turnwise.tasks.search.sources.passages import passages
from turnwise.tasks.search.sources.python_docs import USUAL as DOCS
from turnwise.tasks.search.sources.python_docs import read_python_docs
from turnwise.tasks.search.sources.wordnet import USUAL as WORDNET
from turnwise.tasks.search.sources.wordnet import read_wordnet

LINES = """\
  1 the licence
00001740 03 n 02 entity 0 physical_thing 0 001 ~ 00001930 n 0000 | that which exists
00001930 03 n 01 lighthouse(p) 0 003 @ 00001740 n 0000 #p 00001740 n 0000 ~ 00001740 n 0000 | a tower; "with a light"
"""
PAGE = """\
****************
What is it about
****************

.. _label:

See :func:`~json.dumps` and :ref:`this <that>`; ``x``.

Second part
===========

Text of it.

.. versionadded:: 3.9

Empty
-----
"""


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_folder_is_its_texts(tmp_path: Path) -> None:
    written(tmp_path / "notes/b/deep.md", "# A title #\n\nText.\n\n# Not a title\n")
    written(tmp_path / "notes/a_plain-name.txt", "Only text.\nMore.")
    written(tmp_path / "notes/c.rst", "Under\n=====\nline")
    written(tmp_path / "notes/.hidden.md", "no")
    written(tmp_path / "notes/.git/x.md", "no")
    written(tmp_path / "notes/image.png", "no")
    name, pages = pages_of(str(tmp_path / "notes"))
    assert name == "notes"
    assert list(pages) == [
        Document("a_plain-name.txt", "a plain name", "Only text.\nMore."),
        Document("c.rst", "Under", "line"),
        Document("b/deep.md", "A title", "Text.\n\n# Not a title"),
    ]


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no file that ends in \.txt"):
        list(pages_of(str(tmp_path))[1])


def test_lines_are_ours_or_search_r1s(tmp_path: Path) -> None:
    rows = [
        {"id": 7, "title": "T", "text": "x"},
        {"id": "a", "text": "no title"},
        {"id": "r1", "contents": '"Evan Morris"\nEvan Morris was a lawyer.\nHe lived.'},
        {"id": "odd", "contents": "without marks"},
    ]
    path = written(tmp_path / "wiki.jsonl", "\n".join(map(json.dumps, rows)) + "\n\n")
    wanted = [
        Document("7", "T", "x"),
        Document("a", "", "no title"),
        Document("r1", "Evan Morris", "Evan Morris was a lawyer.\nHe lived."),
        Document("odd", "without marks", ""),
    ]
    assert list(read_lines(path)) == wanted
    packed = tmp_path / "wiki.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert pages_of(str(packed))[0] == "wiki"
    assert list(read_lines(packed)) == wanted


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[1]", "an object, not list"),
        ('{"text": "x"}', "needs an 'id'"),
        ('{"id": true, "text": "x"}', "needs an 'id'"),
        ('{"id": "x"}', "needs 'text'"),
        ('{"id": "x", "text": 3}', "'text' must be a string, not 3"),
        ('{"id": "x", "contents": null}', "'contents' must be a string"),
    ],
    ids=range(8),
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = written(tmp_path / "a.jsonl", '{"id": 1, "text": "x"}\n' + line + '\n{"id": 3, "text": "z"}')
    with pytest.raises(TaskError, match=f"a.jsonl:2: .*{message}"):
        list(read_lines(path))
    bad: list[str] = []
    assert [page.id for page in read_lines(path, bad.append)] == ["1", "3"]
    assert len(bad) == 1
    assert message in bad[0]


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"id": 1, "text": "x"}\n' * 1000)[:-20])
    with pytest.raises(UsageError, match=r"cannot read .*a\.jsonl\.gz"):
        list(read_lines(packed))


@given(st.text(max_size=30).filter(lambda title: len(title.splitlines()) < 2), st.text(max_size=80))
def test_contents_are_read_back(title: str, text: str) -> None:
    title = title.strip()
    assert from_contents(to_contents(Document("x", title, text))) == (title, text)


@given(st.lists(st.sampled_from(["a b c", "One. Two three.", "w " * 9, ""]), max_size=8), st.integers(1, 7))
def test_passages_lose_no_word_and_keep_their_length(paragraphs: list[str], words: int) -> None:
    page = Document("p", "T", "\n\n".join(paragraphs))
    found = list(passages([page], words))
    assert " ".join(one.text for one in found).split() == page.text.split()
    assert all(len(one.text.split()) <= words and one.title == "T" for one in found)
    assert len({one.id for one in found}) == len(found)


def test_wordnet_is_read(tmp_path: Path) -> None:
    written(tmp_path / "data.noun", LINES)
    for kind in ("verb", "adj", "adv"):
        written(tmp_path / f"data.{kind}", "  1 the licence\n")
    assert list(read_wordnet(tmp_path)) == [
        Document("n00001740", "entity, physical thing", "noun: that which exists"),
        Document(
            "n00001930",
            "lighthouse",
            'noun: a tower; "with a light"\nKind of: entity, physical thing\nPart of: entity, physical thing',
        ),
    ]
    written(tmp_path / "data.adv", "something else\n")
    with pytest.raises(TaskError, match=r"data\.adv:1 is not a line of WordNet"):
        list(read_wordnet(tmp_path))


def test_pythons_documentation_is_read(tmp_path: Path) -> None:
    written(tmp_path / "html/_sources/library/json.rst.txt", PAGE)
    assert list(read_python_docs(tmp_path)) == [
        Document("library/json#1", "What is it about", "See json.dumps and this; x."),
        Document("library/json#2", "What is it about: Second part", "Text of it.\n\n.. versionadded:: 3.9"),
    ]


def test_what_is_not_installed_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("turnwise.tasks.search.sources.wordnet.USUAL", (tmp_path,))
    monkeypatch.setattr("turnwise.tasks.search.sources.python_docs.USUAL", tmp_path)
    for source, package in (("wordnet", "wordnet-base"), ("python-docs", "python3-doc")):
        with pytest.raises(UsageError, match=f"apt-get install {package}"):
            list(pages_of(source)[1])
        with pytest.raises(UsageError, match="--from names"):
            list(pages_of(source, tmp_path)[1])


def test_no_source_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="wordnet or python-docs"):
        pages_of("nowhere")
    with pytest.raises(UsageError, match=r"ends in \.jsonl"):
        pages_of(str(written(tmp_path / "a.csv", "id,text")))
    with pytest.raises(UsageError, match="is already a path"):
        pages_of(str(tmp_path), tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(
    not any((place / "data.noun").is_file() for place in WORDNET), reason="NOT TESTED: apt-get install wordnet-base"
)
def test_the_systems_wordnet() -> None:
    assert sum(1 for _ in read_wordnet()) == 117_659, "WordNet 3.0 has so many synsets"


@pytest.mark.slow
@pytest.mark.skipif(not any(DOCS.glob("python3*/html/_sources")), reason="NOT TESTED: apt-get install python3-doc")
def test_the_systems_documentation() -> None:
    assert sum(1 for _ in read_python_docs()) > 4000


def test_links_out_of_a_folder_are_left_out(tmp_path: Path) -> None:
    secret = written(tmp_path / "secret.txt", "root:x:0:0")
    written(tmp_path / "notes/sub/a.txt", "Text.")
    written(tmp_path / "elsewhere/b.txt", "no")
    (tmp_path / "notes/passwd.txt").symlink_to(secret)
    (tmp_path / "notes/up.txt").symlink_to("../secret.txt")
    (tmp_path / "notes/folder").symlink_to("../elsewhere")
    (tmp_path / "notes/loop.txt").symlink_to("loop.txt")
    (tmp_path / "notes/inside.txt").symlink_to("sub/a.txt")
    (tmp_path / "way").symlink_to("notes")
    for name in ("notes", "way"):
        assert [page.id for page in pages_of(str(tmp_path / name))[1]] == ["inside.txt", "sub/a.txt"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a\x00b", "not a text file: it has NUL bytes"), (b"caf\xe9 au lait", "not UTF-8 text: byte 3 is 0xe9")],
    ids=["NUL", "Latin-1"],
)
def test_a_file_that_is_no_text_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    written(tmp_path / "a.txt", "\ufeffText.")
    (tmp_path / "b.txt").write_bytes(content)
    with pytest.raises(TaskError, match=f"b.txt is {message}"):
        list(pages_of(str(tmp_path))[1])
    bad: list[str] = []
    assert list(pages_of(str(tmp_path), bad=bad.append)[1]) == [Document("a.txt", "a", "Text.")]
    assert len(bad) == 1
    assert message in bad[0]


def test_an_archive_with_a_wrong_bit_is_named(tmp_path: Path) -> None:
    packed = tmp_path / "a.jsonl.gz"
    whole = gzip.compress(b"".join(b'{"id": %d, "text": "x"}\n' % n for n in range(200)), mtime=0)
    for place in range(10, len(whole), 7):
        packed.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        with pytest.raises((UsageError, TaskError), match=r"a\.jsonl\.gz"):
            list(read_lines(packed))
