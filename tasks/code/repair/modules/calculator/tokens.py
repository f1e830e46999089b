"""Splitting arithmetic into tokens."""

from __future__ import annotations

from dataclasses import dataclass

SYMBOLS = "+-*/%^(),="


@dataclass(frozen=True)
class Token:
    """One token.

    Args:
        kind: ``number``, ``name``, ``symbol`` or ``end``.
        text: characters of the token; empty at the end.
        position: index of its first character, from 0.
    """

    kind: str
    text: str
    position: int


class CalculatorError(ValueError):
    """Raised when a line cannot be parsed or computed."""


def tokenize(text: str) -> list[Token]:
    """Return all tokens, followed by one of kind ``end``.

    Raises:
        CalculatorError: a character has no meaning.
    """
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character.isspace():
            position += 1
            continue
        start = position
        if character.isdigit() or character == ".":
            position = _end_of_number(text, position)
            tokens.append(Token("number", text[start:position], start))
        elif character.isalpha() or character == "_":
            while position < len(text) and (text[position].isalnum() or text[position] == "_"):
                position += 1
            tokens.append(Token("name", text[start:position], start))
        elif character in SYMBOLS:
            position += 1
            tokens.append(Token("symbol", character, start))
        else:
            raise CalculatorError(f"{character!r} at {position} has no meaning")
    tokens.append(Token("end", "", len(text)))
    return tokens


def _end_of_number(text: str, position: int) -> int:
    start = position
    points = 0
    while position < len(text) and (text[position].isdigit() or text[position] == "."):
        points += text[position] == "."
        position += 1
    if points > 1 or text[start:position] == ".":
        raise CalculatorError(f"{text[start:position]!r} at {start} is not a number")
    return position
