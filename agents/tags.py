"""Text between ``<tag>`` and ``</tag>``, in a time that grows with the text alone, whatever a policy has written."""

from __future__ import annotations

import re


def apart(text: str, tag: str) -> list[str]:
    """What is outside and what is inside of each ``<tag>…</tag>``, in turn; what is never closed is outside."""
    # In the part up to the last end each opening has its end: none is looked for in vain, to the end of the text.
    head, end, tail = text.rpartition(f"</{tag}>")
    pieces = re.split(f"<{tag}>(.*?)</{tag}>", head + end, flags=re.DOTALL)
    return [*pieces[:-1], pieces[-1] + tail]


def inside(text: str, tag: str) -> list[str]:
    """What stands in each ``<tag>…</tag>``, in order."""
    return apart(text, tag)[1::2]


def without(text: str, tag: str) -> str:
    """The text without each ``<tag>…</tag>``."""
    return "".join(apart(text, tag)[::2])
