"""A user's own questions: reading a file, storing its questions, and errors about wrong lines."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from turnwise.errors import UsageError
from turnwise.evals.sampling import sample_tasks
from turnwise.tasks.search.build import build
from turnwise.tasks.search.custom_questions import CustomQuestions, questions_of
from turnwise.tasks.search.document import Document
from turnwise.tasks.search.task import Lookup
from turnwise.tasks.spec import Split
from turnwise.trainers.collect.sampler import TaskSampler

PAGE = {"id": "a", "title": "A", "text": "A is first."}
GOOD = {"question": "What is first?", "answers": ["Alpha"]}


def family(folder: Path, questions: list[Any], pages: list[Any] | None = None) -> CustomQuestions:
    for name, lines in (("q", questions), ("c", [PAGE] if pages is None else pages)):
        text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return CustomQuestions(folder / "q.jsonl", folder / "c.jsonl")


def test_a_line_says_what_may_be_said(tmp_path: Path) -> None:
    line = {
        **GOOD,
        "evidence": ["a", ["b", "c"]],
        "passages": {"a": "is first"},
        "lookups": [["first", "a"]],
        "split": "dev",
    }
    made = family(tmp_path, [line], [{**PAGE, "id": id} for id in "abc"])
    task = made.generate(made.spec(5, split="dev"))
    assert (task.question, task.answers) == ("What is first?", ("Alpha",))
    assert task.evidence == (("a",), ("b", "c"))
    assert task.passages == (("a", "is first"),)
    assert task.lookups == (Lookup("first", "a"),)
    assert made.splits == (Split.DEV,)


@pytest.mark.parametrize("key", ["answers", "answer", "golden_answers"])
def test_answers_have_three_names(tmp_path: Path, key: str) -> None:
    made = family(tmp_path, [{"question": "Q?", key: "Z" if key == "answer" else ["Z", "a Z"], "split": "train"}])
    assert made.generate(made.spec(0)).answers[0] == "Z"


def test_questions_without_a_split_are_parted_by_their_text(tmp_path: Path) -> None:
    made = family(tmp_path, [{"question": f"Q{n}?", "answers": ["Z"]} for n in range(500)])
    asked = {
        split: {made.generate(spec).question for spec in made.sample(600, split=split, level=1)}
        for split in made.splits
    }
    assert [len(asked[split]) for split in (Split.TRAIN, Split.DEV, Split.TEST_IID)] == pytest.approx(
        [400, 50, 50], abs=25
    )
    assert sum(map(len, asked.values())) == 500, "every question is in one split"
    again = family(tmp_path, [{"question": f"Q{n}?", "answers": ["Z"]} for n in reversed(range(500))])
    assert {again.generate(s).question for s in again.sample(600, split="dev", level=1)} == asked[Split.DEV]


def test_it_travels_and_is_one_object(tmp_path: Path) -> None:
    made = family(tmp_path, [{**GOOD, "split": "train"}])
    twin = pickle.loads(pickle.dumps(made))
    assert twin.generate(made.spec(3)).question == "What is first?"
    paths = str(tmp_path / "q.jsonl"), str(tmp_path / "c.jsonl")
    assert questions_of(*paths) is questions_of(*paths)
    assert len(made) == 1


def test_a_corpus_elsewhere_has_no_pages_here(tmp_path: Path) -> None:
    family(tmp_path, [{**GOOD, "split": "train"}])
    made = CustomQuestions(tmp_path / "q.jsonl", "http://127.0.0.1:1")
    assert len(made.generate(made.spec(0)).corpus) == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "q.jsonl:2 is not JSON"),
        ("[" * 100_000, "q.jsonl:2 is not JSON"),
        ("[]", "q.jsonl:2 has no question"),
        ({"answers": ["A"]}, "q.jsonl:2 has no question"),
        ({"question": " ", "answers": ["A"]}, "has no question"),
        ({"question": "Q?"}, "no answers"),
        ({"question": "Q?", "answers": []}, "no answers"),
        ({"question": "Q?", "answers": [1]}, "no answers"),
        ({**GOOD, "evidence": "a"}, "evidence must be a list"),
        ({**GOOD, "evidence": [[]]}, "evidence must be a list"),
        ({**GOOD, "evidence": [[1]]}, "evidence must be a list"),
        ({**GOOD, "passages": ["a"]}, "passages must be an object"),
        ({**GOOD, "lookups": [["a"]]}, "lookups must be a list of pairs"),
        ({**GOOD, "lookups": 3}, "lookups must be a list of pairs"),
        ({**GOOD, "split": "holdout"}, "names the split 'holdout'"),
        ({**GOOD, "answers": ["The", "..."]}, "q.jsonl:2: nothing is left of the answers"),
        ({**GOOD, "evidnce": ["a"]}, "q.jsonl:2 has the unknown field 'evidnce'.*nearest is 'evidence'"),
        ('{"question": "half \\ud800", "answers": ["Z"]}', "q.jsonl:2 has a lone surrogate"),
        ('{"question": "Q?", "answers": ["Z"], "evidence": ["\\udc00"]}', "q.jsonl:2 has a lone surrogate"),
        ({**GOOD, "evidence": ["b"]}, r"q.jsonl:2 names the page 'b', which the corpus lacks \(it has 'a'\)"),
        ({**GOOD, "evidence": [["a", "b"]]}, "q.jsonl:2 names the page 'b'"),
        ({**GOOD, "lookups": [["first", "b"]]}, "q.jsonl:2 names the page 'b'"),
        ({**GOOD, "evidence": ["a"], "passages": {"a": "is second"}}, "q.jsonl:2: the passage 'is second' does not"),
        ({**GOOD, "passages": {"a": "is first"}}, "q.jsonl:2 has a passage of page 'a', which is not in its evidence"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, line: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        family(tmp_path, [GOOD, line])


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ([], "empty"),
        (["{"], "c.jsonl:1 is not a page"),
        ([{"id": "a", "title": "A"}], "c.jsonl:1 is not a page .KeyError"),
        ([{"id": 1, "title": "A", "text": "A"}], "c.jsonl:1 is not a page"),
        (['{"id": "a", "title": "A", "text": "\\ud83d"}'], "c.jsonl:1 is not a page"),
        ([PAGE, PAGE], "two documents with the id 'a'"),
    ],
)
def test_a_corpus_that_is_wrong_is_named(tmp_path: Path, pages: list[Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        family(tmp_path, [GOOD], pages)


def test_evidence_without_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"q\.jsonl:1 names the page 'e', which has no text"):
        family(tmp_path, [{**GOOD, "evidence": ["e"]}], [PAGE, {"id": "e", "title": "E", "text": " \n"}])


def test_what_a_corpus_elsewhere_has_is_not_asked_of_it(tmp_path: Path) -> None:
    family(tmp_path, [GOOD])
    (tmp_path / "q.jsonl").write_text(json.dumps({**GOOD, "evidence": ["there"], "split": "train"}))
    assert len(CustomQuestions(tmp_path / "q.jsonl", "http://127.0.0.1:1")) == 1


def test_a_stored_corpus_is_held_against_the_questions_too(tmp_path: Path) -> None:
    family(tmp_path, [GOOD])
    build(tmp_path / "c.corpus", "c", [Document("a", "A", "A is first.")])
    (tmp_path / "q.jsonl").write_text(json.dumps({**GOOD, "evidence": ["b"]}))
    with pytest.raises(UsageError, match=r"'b', which the corpus lacks \(it has 'a'\)"):
        CustomQuestions(tmp_path / "q.jsonl", tmp_path / "c.corpus")


def test_passages_are_found_whatever_their_spaces_and_lines_of_published_files_are_read(tmp_path: Path) -> None:
    line = {**GOOD, "id": "q-1", "metadata": {}, "evidence": ["a"], "passages": {"a": "IS \n first"}}
    assert len(family(tmp_path, [line])) == 1


def test_a_mark_of_the_encoding_is_no_letter(tmp_path: Path) -> None:
    family(tmp_path, [{**GOOD, "split": "train"}])
    for name in ("q", "c"):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    made = CustomQuestions(tmp_path / "q.jsonl", tmp_path / "c.jsonl")
    assert made.generate(made.spec(0)).question == "What is first?"


def test_its_name_tells_all_that_is_asked_and_of_which_pages(tmp_path: Path) -> None:
    pages = [PAGE, {**PAGE, "id": "b"}]
    lines = [
        GOOD,
        {**GOOD, "answers": ["Beta"]},
        {**GOOD, "evidence": ["a"]},
        {**GOOD, "evidence": ["a", "b"]},
        {**GOOD, "evidence": [["a", "b"]]},
        {**GOOD, "evidence": ["a"], "passages": {"a": "first"}},
    ]
    names = [family(tmp_path, [line], pages).name for line in lines]
    names.append(family(tmp_path, [GOOD], [PAGE]).name)
    assert len(set(names)) == len(names)
    assert family(tmp_path, [GOOD], pages).name == names[0]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    family(tmp_path, [GOOD])
    paths = str(tmp_path / "q.jsonl"), str(tmp_path / "c.jsonl")
    before = questions_of(*paths)
    family(tmp_path, [GOOD, {**GOOD, "question": "And what is last?"}])
    assert len(questions_of(*paths)) == 2
    family(tmp_path, [GOOD], [PAGE, {**PAGE, "id": "b"}])
    after = questions_of(*paths)
    assert (len(after.corpus), len(before.corpus)) == (2, 1)
    assert after is questions_of(*paths)


def test_a_question_is_played_once_unless_levels_are_named(tmp_path: Path) -> None:
    made = family(tmp_path, [{**GOOD, "split": "test_iid"}])
    sample = sample_tasks(made, 100)
    assert [task.level for task in sample.tasks] == [3]
    assert "there are only 1" in sample.notes[0]
    assert [task.level for task in sample_tasks(made, 100, levels=[1, 5]).tasks] == [1, 5]
    assert TaskSampler(made, split="test_iid").levels == (3,)
    assert made.spec(0, split="test_iid").level == 3


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the .*nowhere\.jsonl"):
        CustomQuestions(tmp_path / "nowhere.jsonl", "http://127.0.0.1:1")
    (tmp_path / "q.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot read"):
        CustomQuestions(tmp_path / "q.jsonl", "http://127.0.0.1:1")
