"""The two sides of search self-play as environments: given pages, and a given answer to make a question for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import turnwise as tw
from turnwise.envs.search.documents import SearchDocumentsEnv
from turnwise.envs.search.proposing import SearchProposeEnv, _is_sure, _library
from turnwise.errors import UsageError
from turnwise.tasks.search.matching import contained
from turnwise.tasks.search.provided_questions import ProvidedQuestions
from turnwise.tasks.search.verifier.questions import understood
from turnwise.tasks.search.wiki.relations import relations

PROPOSE, DOCUMENTS = "turnwise/SearchPropose-v1", "turnwise/SearchDocuments-v1"


def started(id: str, seed: int = 3, level: int = 1, **kwargs: Any) -> tuple[Any, str]:
    env = tw.make(id, **kwargs).unwrapped
    observation, _ = env.reset(seed=seed, options={"level": level})
    return env, observation.text


def finished(env: Any) -> tuple[float, dict[str, Any]]:
    for _ in range(200):
        _, reward, terminated, truncated, info = env.step(env.oracle())
        if terminated or truncated:
            return reward, info
    raise AssertionError("the episode does not end")


@pytest.mark.parametrize("id", [PROPOSE, DOCUMENTS])
@pytest.mark.parametrize("actions", ["tools", "tags"])
def test_the_oracle_succeeds_at_every_level(id: str, actions: str) -> None:
    for seed in range(10):
        env, _ = started(id, seed, 1 + seed % 5, actions=actions)
        assert finished(env)[0] == 1, f"seed {seed}: {env.work}"


def test_the_question_is_not_told_and_the_answer_is() -> None:
    env, text = started(PROPOSE)
    env = cast(SearchProposeEnv, env)
    assert env.work is not None
    assert env.work.answers[0] in text
    assert env.work.question not in text
    assert {one.name for one in env.tools} == {"search", "open", "find", "propose"}
    _, info = finished(env)
    assert info["question"] == env.work.question
    assert set(info["read"]) >= {fact[0] for fact in env.work.evidence if fact[0] in env.progress.pages}


def proposed(question: str | None = None, seed: int = 3, level: int = 1, **kwargs: Any) -> tuple[float, dict[str, Any]]:
    """Read like the oracle and propose a question, the oracle's own without one."""
    env, _ = started(PROPOSE, seed, level, **kwargs)
    while (act := env.oracle()).name != "propose":
        env.step(act)
    _, reward, _, _, info = env.step(act if question is None else tw.ToolCall("propose", {"question": question}))
    return reward, info


def test_with_the_grammar_a_question_has_one_answer() -> None:
    for seed in range(6):
        reward, info = proposed(None, seed, 1 + seed % 3, grammar=True)
        assert (reward, info["score"].checks["sure"]) == (1, True), "the family's own question"
    for vague in ("Which one is it?", "Who is it that the page is about?"):
        assert proposed(vague)[0] == 1, "the rules alone accept it"
        reward, info = proposed(vague, grammar=True)
        assert (reward, info["valid"], info["score"].checks) == (
            *(0, False),
            {"asks": True, "hides": True, "rests": True, "sure": False},
        )


def test_with_the_grammar_a_question_with_two_answers_is_refused() -> None:
    env, _ = started(PROPOSE, grammar=True)
    library = _library(env.work.corpus)
    counts = {True: 0, False: 0}
    questions = [
        (form.replace("{o}", title), sorted({subject for subject, _ in found}))
        for (relation, title), found in library._objects.items()
        for form in relations()[relation].which[:1]
    ]
    for question, subjects in questions[:60]:
        assert len(understood(question, library.known)) == 1, f"the grammar knows it: {question}"
        for subject in subjects[:2]:
            alone = len(subjects) == 1
            assert _is_sure(replace(env.work, answers=(subject,)), question) == alone, (question, subjects)
            counts[alone] += 1
    assert min(counts.values()) > 5, counts
    while (act := env.oracle()).name != "propose":
        env.step(act)
    question, (answer, *_) = next((question, subjects) for question, subjects in questions if len(subjects) > 1)
    env.work = replace(env.work, answers=(answer,))
    _, reward, _, _, info = env.step(tw.ToolCall("propose", {"question": question}))
    assert (reward, info["score"].checks["asks"], info["score"].checks["sure"]) == (0, True, False)


def test_with_the_grammar_a_question_must_have_the_given_answer() -> None:
    env, _ = started(PROPOSE, 3)
    family = env.tasks()
    other = next(
        task
        for task in (family.generate(family.spec(3 + 64 * n, level=1)) for n in range(1, 16))
        if task.corpus == env.work.corpus and not set(task.answers) & set(env.work.answers)
    )
    assert proposed(other.question)[1]["score"].checks.get("sure") is None
    reward, info = proposed(other.question, grammar=True)
    assert (reward, info["score"].checks["sure"]) == (0, False), "it is clear, and asks for something else"


def test_the_grammar_is_the_wikis(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="omit it with questions"):
        tw.make(PROPOSE, grammar=True, questions=str(tmp_path / "own.jsonl"))
    with pytest.raises(UsageError, match="write true or false"):
        tw.make(PROPOSE, grammar="yes")


@pytest.mark.parametrize("question", ["", "  ", "?!", "word " * 61])
def test_what_is_no_question_is_worth_nothing(question: str) -> None:
    env, _ = started(PROPOSE)
    while (act := env.oracle()).name != "propose":
        env.step(act)
    _, reward, terminated, _, info = env.step(tw.ToolCall("propose", {"question": question}))
    assert reward == 0
    assert not info.get("valid")
    assert terminated == (len(question.split()) <= 60), "too long a question can be written again"


def test_the_pages_hold_the_answer_among_others() -> None:
    env, text = started(DOCUMENTS, others=3)
    env = cast(SearchDocumentsEnv, env)
    assert env.work is not None
    assert contained(env.work.answers[0], text)
    assert len(env.progress.pages) == len({fact[0] for fact in env.work.evidence}) + 3
    assert [one.name for one in env.tools] == ["answer"]
    with pytest.raises(UsageError, match="others must be a number of pages"):
        tw.make(DOCUMENTS, others=-1)
    with pytest.raises(UsageError, match="others must be"):
        tw.make(DOCUMENTS, others=2.5)


def test_questions_can_be_given() -> None:
    env, _ = started(DOCUMENTS)
    assert env.work is not None
    given = ProvidedQuestions([env.work])
    env.ask(given)
    observation, _ = env.reset(options={"task": given.spec(0, level=2)})
    assert env.work.question in observation.text
    assert finished(env)[0] == 1
    with pytest.raises(UsageError, match="at least one question"):
        ProvidedQuestions([])


@pytest.mark.parametrize(
    "question",
    ["Is it {}?", "Is it {!r}?", "I-s i-t {spelt}?", "What is {backwards} backwards?", "Who is {hidden}?", "See {}s?"],
)
def test_an_answer_cannot_be_smuggled_into_its_question(question: str) -> None:
    env, _ = started(PROPOSE, seed=1, level=2)
    while (act := env.oracle()).name != "propose":
        env.step(act)
    right = env.work.answers[0]
    assert len(right) > 4
    hidden = "\u200b".join(right.upper())
    asked = question.format(right, spelt=" ".join(right), backwards=right[::-1], hidden=hidden)
    _, reward, _, _, info = env.step(tw.ToolCall("propose", {"question": asked}))
    assert (reward, info["score"].checks["hides"]) == (0, False), asked


def test_a_question_does_not_name_the_id_of_a_page() -> None:
    env, _ = started(PROPOSE, seed=1, level=2)
    while (act := env.oracle()).name != "propose":
        env.step(act)
    asked = f"What is told of the founder on page {next(iter(env.progress.pages))}?"
    assert env.step(tw.ToolCall("propose", {"question": asked}))[1] == 0


def test_pages_at_hand_have_a_bound(tmp_path: Path) -> None:
    pages = [{"id": str(n), "title": f"Page {n}", "text": f"fact {n} " + "word " * 3_000} for n in range(30)]
    asked = [{"question": "What is it?", "answers": ["nothing"], "evidence": [[str(n)] for n in range(30)]}]
    files: dict[str, Any] = {"corpus": pages, "questions": asked}
    for name, lines in files.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        files[name] = str(tmp_path / f"{name}.jsonl")
    env: Any = tw.make(DOCUMENTS, **files).unwrapped
    family = env.tasks()
    split = next(iter(family.splits))
    observation, _ = env.reset(options={"task": family.spec(0, split=split)})
    assert len(observation.text) < 40_000


def test_other_pages_take_no_room_from_the_evidence(tmp_path: Path) -> None:
    pages = [{"id": str(n), "title": f"Page {n}", "text": f"fact {n} " + "word " * 390} for n in range(60)]
    asked = [{"question": "fact word", "answers": ["nothing"], "evidence": [["3"], ["44"]]}]
    files: dict[str, Any] = {"corpus": pages, "questions": asked}
    for name, lines in files.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        files[name] = str(tmp_path / f"{name}.jsonl")
    env: Any = tw.make(DOCUMENTS, others=50, **files).unwrapped
    family = env.tasks()
    for seed in range(8):
        env.reset(seed=seed, options={"task": family.spec(0, split=next(iter(family.splits)))})
        assert {"3", "44"} <= set(env.progress.pages)
        assert len(env.progress.pages) < 52, "not all have room"


ODD: list[dict[str, Any]] = [
    *({"k": 2.5}, {"k": "3"}, {"words": "x"}, {"searches": 1.5}, {"pages": "100"}, {"pages": 0}, {"pages": True}),
    *({"templates": "fact-person"}, {"templates": []}, {"templates": ["nothing"]}),
]


@pytest.mark.parametrize("kwargs", ODD)
def test_settings_that_cannot_be_are_refused(kwargs: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        tw.make("turnwise/Search-v1", **kwargs)
