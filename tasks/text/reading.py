"""Exercises on earlier text: look up a value, and follow the feedback of word and guessing games."""

from __future__ import annotations

from ..games.wordle import WORDINGS, WORDLES, consistent, feedback
from ..rng import Rng
from ..spec import Split
from .exercise import Exercise
from .names import Names

PROPERTIES = ("red", "round", "heavy", "wooden", "old", "sharp", "soft", "hollow", "striped", "wet")
WORDING = WORDINGS[WORDLES.templates(Split.TRAIN)[0]]
"""Wording of Wordle's training tasks; other wordings are held out."""
CANDIDATES = 4
"""Words to choose from in an exercise on hints."""


def lookup(rng: Rng, names: Names) -> Exercise:
    """Return the value that a list or a text gives to a name, or the name that has a value."""
    count = rng.randint(2, 8)
    keys = names.names(rng, count)
    numbers = rng.random() < 0.5
    values = [str(n) for n in names.numbers(rng, count)] if numbers else names.names(rng, count)
    if set(keys) & set(values):  # a name must not answer for itself
        return lookup(rng, names)
    pairs = list(zip(keys, values, strict=True))
    key, value = rng.pick(pairs)
    if rng.random() < 0.5:
        facts = "\n".join(f"{one}: {other}" for one, other in pairs)
    else:
        relation = "The number of {} is {}." if numbers else "The owner of {} is {}."
        facts = " ".join(relation.format(one, other) for one, other in pairs)
    more = tuple((f"What does {one} have?", other) for one, other in rng.sample(pairs, min(3, count)))
    if rng.random() < 0.25:
        return Exercise("lookup", f"{facts}\nWhat has {value}?", key, tuple(keys), more)
    return Exercise("lookup", f"{facts}\nWhat does {key} have?", value, tuple(values), more)


def marking(rng: Rng, names: Names) -> Exercise:
    """Mark a guess as Wordle does, when the secret word is known."""
    secret, guess = names.words(rng, 2)
    if rng.random() < 0.5:  # a guess that shares more characters
        guess = "".join(rng.pick((mine, rng.pick(secret))) for mine in guess)
    question = f"The secret word is {secret}. Mark the guess {guess}."
    return Exercise("mark", question, WORDING.describe(guess, feedback(guess, secret)))


def hints(rng: Rng, names: Names) -> Exercise:
    """Choose the only word that fits the answers to earlier guesses, as in Wordle."""
    while True:
        words = names.words(rng, CANDIDATES + 8)
        secret, *others = words
        known = [(guess, feedback(guess, secret)) for guess in others[: rng.randint(1, 3)]]
        wrong = [word for word in others[3:] if word not in consistent(others[3:], known)]
        if len(wrong) >= CANDIDATES - 1:
            break
    choices = [secret, *wrong[: CANDIDATES - 1]]
    rng.shuffle(choices)
    facts = " ".join(f"{guess}: {WORDING.describe(guess, marks)}." for guess, marks in known)
    more = tuple((f"Does {word} fit?", "Yes" if word == secret else "No") for word in rng.sample(choices, 2))
    return Exercise("hints", f"{facts} Which word fits: {', '.join(choices)}?", secret, tuple(choices), more)


def narrowing(rng: Rng, names: Names) -> Exercise:
    """Choose the only object that fits the answers to yes-or-no questions, as in Twenty Questions."""
    count = rng.randint(2, 6)
    objects = names.names(rng, count)
    kinds = rng.sample(PROPERTIES, 4)
    while True:
        has = {one: [kind for kind in kinds if rng.random() < 0.5] for one in objects}
        if len({tuple(some) for some in has.values()}) == count:
            break
    secret = rng.pick(objects)
    asked: list[str] = []
    while len(left := [one for one in objects if all((k in has[one]) == (k in has[secret]) for k in asked)]) > 1:
        asked.append(rng.pick([k for k in kinds if len({k in has[one] for one in left}) == 2]))
    facts = " ".join(f"{one}: {', '.join(has[one]) or 'nothing'}." for one in objects)
    answers = " ".join(f"Is it {kind}? {'Yes' if kind in has[secret] else 'No'}." for kind in asked)
    some = ((rng.pick(objects), rng.pick(kinds)) for _ in range(2))
    more = tuple((f"Is {one} {kind}?", "Yes" if kind in has[one] else "No") for one, kind in some)
    return Exercise("narrow", f"{facts}\n{answers} What is it?", secret, tuple(objects), more)
