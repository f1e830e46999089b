"""Text between ``<tag>`` and ``</tag>``, found in linear time in any text of a policy."""

from __future__ import annotations

import re


def apart(text: str, tag: str) -> list[str]:
    """Split a text at each ``<tag>…</tag>`` into outside and inside, in turn; an unclosed tag is outside."""
    return between(text, f"<{tag}>", f"</{tag}>")


def between(text: str, opening: str, closing: str) -> list[str]:
    """Like ``apart``, for any pair of delimiters."""
    # Before the last closing delimiter, each opening one has a partner, so no search runs in vain to the end.
    head, end, tail = text.rpartition(closing)
    pieces = re.split(f"{re.escape(opening)}(.*?){re.escape(closing)}", head + end, flags=re.DOTALL)
    return [*pieces[:-1], pieces[-1] + tail]


def inside(text: str, tag: str) -> list[str]:
    """Return the text in each ``<tag>…</tag>``, in order."""
    return apart(text, tag)[1::2]


def without(text: str, tag: str) -> str:
    """Return the text without each ``<tag>…</tag>``."""
    return "".join(apart(text, tag)[::2])
