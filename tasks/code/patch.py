"""Changes to a text: a unified diff, or the replacement of one passage; refusals describe the mismatch."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...errors import ToolError

HEAD = re.compile(r"^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
LARGEST_DIFF = 256 * 1024
"""Most characters of a diff."""
LARGEST_FILE = 1024 * 1024
"""Most characters of a text to change by a diff."""
MOST_LINES = 50_000
"""Most lines of a text to change by a diff."""
MOST_PASSAGES = 100
"""Most passages of a diff. Each may require a search of the whole text, and a diff must not take long to apply."""
MOST_PLACES = 5
"""Most places that a refusal names."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """One passage of a diff.

    Args:
        start: line number at which the passage starts according to the diff, from 1.
        old: lines to replace.
        new: lines that replace them.
    """

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


def replaced(text: str, old: str, new: str) -> str:
    """Return the text with the single occurrence of ``old`` replaced by ``new``.

    Raises:
        ToolError: ``old`` does not occur, or occurs several times.
    """
    if not old:
        raise ToolError("the text to replace is empty; use write to write a whole file")
    found = text.count(old)
    if found == 1:
        return text.replace(old, new)
    if found:
        lines = [str(text.count("\n", 0, at) + 1) for at in _places(text, old)]
        raise ToolError(f"the text to replace appears {found} times (lines {', '.join(lines)}); include more context")
    raise ToolError(f"the text to replace was not found{_nearly(text, old)}")


def patched(text: str, diff: str) -> str:
    """Apply a unified diff of this one file; line numbers may be off, but the lines themselves must match.

    Raises:
        ToolError: it is not a unified diff, one of its passages does not occur or occurs several times, or the diff or
            the text is too large.
    """
    passages, lines = hunks(diff), text.splitlines() if len(text) <= LARGEST_FILE else []
    if len(text) > LARGEST_FILE or len(lines) > MOST_LINES:
        raise ToolError(f"the file has more than {LARGEST_FILE} characters or {MOST_LINES} lines, too large for a diff")
    shift = 0
    for number, hunk in enumerate(passages, 1):
        at = _place(lines, hunk, hunk.start - 1 + shift, number)
        lines[at : at + len(hunk.old)] = hunk.new
        shift += len(hunk.new) - len(hunk.old)
    return "\n".join(lines) + "\n" if lines else ""


def hunks(diff: str) -> tuple[Hunk, ...]:
    """Return the passages of a unified diff.

    Raises:
        ToolError: the diff has no passages, too many, or an invalid line.
    """
    if len(diff) > LARGEST_DIFF:
        raise ToolError(f"the diff has {len(diff)} characters; the limit is {LARGEST_DIFF}")
    found: list[tuple[int, list[str], list[str]]] = []
    for number, line in enumerate(diff.splitlines(), 1):
        if head := HEAD.match(line):
            if len(found) == MOST_PASSAGES:
                raise ToolError(f"the diff has more than {MOST_PASSAGES} hunks; split it")
            found.append((int(head[1]), [], []))
        elif not found:
            if line.startswith("@@"):
                raise ToolError(f"line {number} of the diff must look like '@@ -3,7 +3,8 @@'; it is {line[:60]!r}")
        elif line[:1] in ("-", "+", " ", ""):
            _, old, new = found[-1]
            old += [line[1:]] if line[:1] != "+" else []
            new += [line[1:]] if line[:1] != "-" else []
        elif not line.startswith("\\"):
            raise ToolError(f"line {number} of the diff must begin with ' ', '-' or '+'; it is {line[:60]!r}")
    if not found:
        raise ToolError("the diff has no hunk; a hunk begins with a line such as '@@ -3,7 +3,8 @@'")
    return tuple(Hunk(start, tuple(old), tuple(new)) for start, old, new in found)


def _place(lines: list[str], hunk: Hunk, guess: int, number: int) -> int:
    """Return the position of a passage: its line number if it matches there, or else its only occurrence."""
    size = len(hunk.old)
    if not size:
        return max(0, min(guess + 1, len(lines)))  # only additions: insert them after the line that it names
    if guess >= 0 and tuple(lines[guess : guess + size]) == hunk.old:
        return guess
    text = "\n".join(("", *lines, ""))
    places = [text.count("\n", 0, at) for at in _places(text, "\n".join(("", *hunk.old, "")), MOST_PLACES + 1)]
    if len(places) == 1:
        return places[0]
    if places:
        there = ", ".join(str(at + 1) for at in places[:MOST_PLACES])
        amount = f"more than {MOST_PLACES}" if len(places) > MOST_PLACES else str(len(places))
        raise ToolError(f"hunk {number} matches in {amount} places (lines {there}); its line number must say which one")
    raise ToolError(f"hunk {number} does not match: {_mismatch(lines, hunk, guess)}")


def _mismatch(lines: list[str], hunk: Hunk, guess: int) -> str:
    """Describe the first line of a passage that differs from the text at its line number."""
    for offset, line in enumerate(hunk.old):
        at = guess + offset
        stands = lines[at] if 0 <= at < len(lines) else None
        if stands != line:
            says = "the file ends before it" if stands is None else f"the file has {stands[:80]!r}"
            return f"line {at + 1} should be {line[:80]!r}, but {says}"
    return "its lines stand elsewhere"


def _places(text: str, old: str, most: int = MOST_PLACES) -> list[int]:
    """Return the positions of the first occurrences of a text, in time proportional to the length that is searched."""
    places: list[int] = []
    at = text.find(old)
    while at >= 0 and len(places) < most:
        places.append(at)
        at = text.find(old, at + 1)
    return places


def _nearly(text: str, old: str) -> str:
    """Describe a line that matches the first line of a text except for spacing, if there is one."""
    first = old.strip().splitlines()[0].split() if old.strip() else []
    for number, line in enumerate(text.splitlines(), 1):
        if first and line.split() == first:
            return f"; line {number} is similar, but differs in spacing or in the lines below: {line[:80]!r}"
    return ""
