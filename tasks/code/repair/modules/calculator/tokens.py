"""Splitting arithmetic into tokens."""

from __future__ import annotations

from dataclasses import dataclass

SYMBOLS = "+-*/%^(),="


@dataclass(frozen=True)
class Token:
    """One token.

    Args:
        kind: ``number``, ``name``, ``symbol`` or ``end``.
        text: as it was written.
        place: where it begins, from 0.
    """

    kind: str
    text: str
    place: int


class CalculatorError(ValueError):
    """What was written cannot be read or computed."""


def tokenize(text: str) -> list[Token]:
    """All tokens, closed by one of kind ``end``.

    Raises:
        CalculatorError: a character has no meaning.
    """
    tokens: list[Token] = []
    place = 0
    while place < len(text):
        character = text[place]
        if character.isspace():
            place += 1
            continue
        start = place
        if character.isdigit() or character == ".":
            place = _end_of_number(text, place)
            tokens.append(Token("number", text[start:place], start))
        elif character.isalpha() or character == "_":
            while place < len(text) and (text[place].isalnum() or text[place] == "_"):
                place += 1
            tokens.append(Token("name", text[start:place], start))
        elif character in SYMBOLS:
            place += 1
            tokens.append(Token("symbol", character, start))
        else:
            raise CalculatorError(f"{character!r} at {place} has no meaning")
    tokens.append(Token("end", "", len(text)))
    return tokens


def _end_of_number(text: str, place: int) -> int:
    start = place
    points = 0
    while place < len(text) and (text[place].isdigit() or text[place] == "."):
        points += text[place] == "."
        place += 1
    if points > 1 or text[start:place] == ".":
        raise CalculatorError(f"{text[start:place]!r} at {start} is no number")
    return place
