"""Exercises: pure, solvable, and of names that training never shows where they are held out."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from turnwise.errors import TaskError
from turnwise.tasks.games.twenty_questions import LEVELLED, PUBLISHED, pool
from turnwise.tasks.games.wordle import LEVELS, consistent, feedback, secrets, vocabulary
from turnwise.tasks.rng import Rng
from turnwise.tasks.spec import Split
from turnwise.tasks.text.exercise import Exercise
from turnwise.tasks.text.held_out import hides_held_out_entity
from turnwise.tasks.text.names import Names, game_words, held_out
from turnwise.tasks.text.reading import WORDING
from turnwise.tasks.text.skills import SKILLS, exercise

MARKS = {name: mark for mark, name in WORDING.marks.items()}
COUNT = 200


def after(text: str, start: str) -> str:
    return text.partition(start)[2].rstrip("?.")


def copied(one: Exercise) -> str:
    return re.sub(r"^(Repeat: |Copy this: |Say )", "", one.question)


def spelled(one: Exercise) -> str:
    if one.question.startswith("Join"):
        return after(one.question, ": ").replace(" ", "")
    found = re.search(r"(?:Spell |in )(\w+)", one.question)
    assert found
    return " ".join(found[1])


def letter(one: Exercise) -> str:
    where, word = re.findall(r"the (\w+) letter of (\w+)", one.question)[0]
    places = ["first", "second", "third", "fourth", "fifth", "sixth"]
    return str(word[-1] if where == "last" else word[places.index(where)])


def counted(one: Exercise) -> str:
    if one.question.startswith("How many names"):
        return str(len(after(one.question, ": ").split(", ")))
    target, rest = re.findall(r"times is (\w) among: (.*)\?", one.question)[0]
    return str(rest.split().count(target))


def compared(one: Exercise) -> str:
    first, second = after(one.question, ", ").split(" or ")
    if "alphabet" in one.question:
        return sorted([first, second])[0]
    return str((max if "larger" in one.question else min)(int(first), int(second)))


def looked_up(one: Exercise) -> str:
    given_text, _, asked = one.question.rpartition("\n")
    pairs = re.findall(r"(?:of )?(\w+)(?:: | is )(\w+)", given_text)
    back = re.search(r"What has (\w+)\?", asked)
    if back:
        return str(next(key for key, value in pairs if value == back[1]))
    return str(dict(pairs)[asked.removeprefix("What does ").removesuffix(" have?")])


def marked(one: Exercise) -> str:
    secret, guess = re.findall(r"word is (\w+)\. Mark the guess (\w+)", one.question)[0]
    return WORDING.describe(guess, feedback(guess, secret))


def hinted(one: Exercise) -> str:
    given_text, _, asked = one.question.partition(" Which word fits: ")
    known = [
        (guess, "".join(MARKS[mark] for mark in re.findall(r"\w (\w+)", marks)))
        for guess, marks in re.findall(r"(\w+): ([^.]+)\.", given_text)
    ]
    (only,) = consistent(asked.rstrip("?").split(", "), known)
    return str(only)


def narrowed(one: Exercise) -> str:
    given_text, _, asked = one.question.partition("\n")
    has = {name: set(kinds.split(", ")) for name, kinds in re.findall(r"(\w+): ([^.]+)\.", given_text)}
    answers = re.findall(r"Is it (\w+)\? (Yes|No)\.", asked)
    fitting = [name for name, some in has.items() if all((kind in some) == (yes == "Yes") for kind, yes in answers)]
    (only,) = fitting
    return str(only)


PLAYERS: dict[str, Callable[[Exercise], str]] = {
    "copy": copied,
    "spell": spelled,
    "letter": letter,
    "count": counted,
    "compare": compared,
    "lookup": looked_up,
    "mark": marked,
    "hints": hinted,
    "narrow": narrowed,
}
"""A reader of each question, written apart from the generators."""


def test_every_skill_has_a_reader() -> None:
    assert set(PLAYERS) == set(SKILLS)


@pytest.mark.parametrize("skill", SKILLS)
@pytest.mark.parametrize("unseen", [False, True])
def test_the_question_alone_has_the_answer(skill: str, unseen: bool) -> None:
    for index in range(COUNT):
        one = exercise(skill, index, held_out=unseen)
        assert PLAYERS[skill](one) == one.answer, one.question
        assert not one.choices or one.choices.count(one.answer) == 1, "the answer is one of the choices"
        assert one.kind == skill


@pytest.mark.parametrize("skill", SKILLS)
def test_an_exercise_is_a_pure_function_of_its_seed_and_index(skill: str) -> None:
    some = [exercise(skill, index, seed=3) for index in range(20)]
    assert some == [exercise(skill, index, seed=3) for index in range(20)]
    assert some != [exercise(skill, index, seed=4) for index in range(20)]
    assert len(set(some)) > 10


@pytest.mark.parametrize("draw", ["names", "strings", "numbers", "words"])
def test_held_out_names_are_never_those_of_training(draw: str) -> None:
    seen, unseen = (
        {str(name) for seed in range(300) for name in getattr(Names(held), draw)(Rng(draw, seed), 4)}
        for held in (False, True)
    )
    assert not seen & unseen
    known = {word for level in LEVELS for word in secrets(level, Split.TRAIN)}
    assert not any(held_out(name) for name in seen - known)
    assert not (seen - known) & game_words(), "an invented name must not be a word of a game"


@pytest.mark.parametrize("skill", SKILLS)
def test_training_never_shows_a_secret_of_another_split(skill: str) -> None:
    other = {word for level in LEVELS for word in vocabulary(level)}
    other -= {word for level in LEVELS for word in secrets(level, Split.TRAIN)}
    english = set(re.findall(r"[a-z]+", " ".join(exercise(skill, i, held_out=True).question for i in range(3))))
    for index in range(COUNT):
        one = exercise(skill, index)
        words = set(re.findall(r"[a-z]{3,5}", f"{' '.join(one.choices)} {one.answer}"))
        shown = {word for word in words if re.search(rf"\b{word}\b", f"{' '.join(one.choices)} {one.answer}")}
        assert not shown & other - english - set(MARKS), one


def test_objects_that_levels_hold_out_are_no_secrets_of_published_games() -> None:
    unseen = set(pool(Split.TEST_ENTITY))
    tasks = [PUBLISHED.spec(seed) for seed in range(158)]
    kept = {PUBLISHED.generate(task).secret for task in tasks if not hides_held_out_entity(task)}
    assert not kept & unseen
    assert kept == set(pool(Split.TRAIN)), "nothing else is left out"
    assert not hides_held_out_entity(LEVELLED.spec(0, split="test_entity")), "a family with splits guards itself"


def test_follow_ups_are_about_the_same_text() -> None:
    for index in range(COUNT):
        for skill in ("lookup", "hints", "narrow", "letter"):
            one = exercise(skill, index)
            assert one.conversation[0] == (one.question, one.answer)
            assert one.follow_ups
        one = exercise("lookup", index)
        given_text = one.question.rpartition("\n")[0]
        for question, answer in one.follow_ups:
            assert looked_up(Exercise("lookup", f"{given_text}\n{question}", answer)) == answer


def test_an_unknown_skill_is_named() -> None:
    with pytest.raises(TaskError, match="there is no skill 'sing'; choose from copy, spell"):
        exercise("sing", 0)
