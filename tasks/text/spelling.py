"""Exercises on strings and numbers: copy, spell, join, count, name a letter, compare."""

from __future__ import annotations

from ..rng import Rng
from .exercise import Exercise
from .names import LETTERS, Names

PLACES = ("first", "second", "third", "fourth", "fifth", "sixth")


def copying(rng: Rng, names: Names) -> Exercise:
    """Repeat one to four strings."""
    some = ", ".join(names.strings(rng, rng.randint(1, 4)))
    return Exercise("copy", rng.pick(("Repeat: {}", "Copy this: {}", "Say {}")).format(some), some)


def spelling(rng: Rng, names: Names) -> Exercise:
    """Spell a string character by character, or join characters to a string."""
    word = _word(rng, names)
    apart = " ".join(word)
    if rng.random() < 0.3:
        return Exercise("spell", f"Join the letters: {apart}", word)
    return Exercise("spell", rng.pick(("Spell {}.", "Which letters are in {}, in order?")).format(word), apart)


def place(rng: Rng, names: Names) -> Exercise:
    """Name the letter at a place of a word."""
    word = _word(rng, names)
    at = rng.randrange(min(len(word), len(PLACES)))
    where = "last" if rng.random() < 0.2 else PLACES[at]
    answer = word[-1] if where == "last" else word[at]
    more = tuple((f"And the {PLACES[i]} one?", word[i]) for i in rng.sample(range(min(len(word), len(PLACES))), 2))
    return Exercise("letter", f"What is the {where} letter of {word}?", answer, tuple(sorted(set(word))), more)


def counting(rng: Rng, names: Names) -> Exercise:
    """Count the items of a list, or how often a letter occurs."""
    if rng.random() < 0.5:
        some = names.names(rng, rng.randint(1, 9))
        question = f"How many names: {', '.join(some)}?"
        return Exercise("count", question, str(len(some)), tuple(map(str, range(1, 10))))
    letter, others = rng.pick(LETTERS), rng.sample(LETTERS, 3)
    some = [letter if rng.random() < 0.4 else rng.pick(others) for _ in range(rng.randint(3, 9))]
    question = f"How many times is {letter} among: {' '.join(some)}?"
    return Exercise("count", question, str(some.count(letter)), tuple(map(str, range(10))))


def comparing(rng: Rng, names: Names) -> Exercise:
    """Name the larger or smaller of two numbers, or the first of two names in the alphabet."""
    if rng.random() < 0.7:
        one, two = names.numbers(rng, 2)
        largest = rng.random() < 0.5
        question = f"Which is {'larger' if largest else 'smaller'}, {one} or {two}?"
        return Exercise("compare", question, str(max(one, two) if largest else min(one, two)), (str(one), str(two)))
    first, second = names.names(rng, 2)
    question = f"Which comes first in the alphabet, {first} or {second}?"
    return Exercise("compare", question, min(first, second), (first, second))


def _word(rng: Rng, names: Names) -> str:
    return (names.strings(rng, 1) if rng.random() < 0.6 else names.words(rng, 1))[0]
