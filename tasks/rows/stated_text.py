"""``StatedText``: a message that states a text and does not retract it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .expected import plain, stands_in

MOST_AROUND = 60
"""Most words around the text: a greeting, a sentence, and a name."""
TAKES_BACK = frozenset((
    "bogus", "canceled", "cancelled", "disregard", "fake", "false", "forget", "hoax", "ignore", "incorrect", "joke",
    "joking", "kidding", "lie", "lies", "mistaken", "nonsense", "opposite", "prank", "retract", "spam", "untrue",
    "wrong",
))  # fmt: skip
"""Words by which the rest of a message would retract the text. Polite phrases contain none of them."""
WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class StatedText:
    """A message that contains a text, with few other words and no retraction.

    Args:
        text: text that the message must contain, up to case and spaces.
    """

    text: str

    def matches(self, value: Any) -> bool:
        """Return whether a message states the text and means it."""
        if not isinstance(value, str) or not stands_in(self.text, value):
            return False
        rest = plain(value).replace(plain(self.text), " ", 1)
        return len(WORD.findall(rest)) <= MOST_AROUND and not takes_back(rest)


def takes_back(rest: str) -> bool:
    """Return whether the rest of a message disowns what the message says.

    Args:
        rest: the message without the text that it must say.
    """
    return not TAKES_BACK.isdisjoint(WORD.findall(rest.casefold()))
