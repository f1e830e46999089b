"""Run-length coding of text, of bits and of rows of pixels."""

from __future__ import annotations

ESCAPE = "\\"
SHORTEST = 4
"""Runs that are shorter are cheaper as they are."""


class CodingError(ValueError):
    """What was to be decoded is no code."""


def runs(text: str) -> list[tuple[str, int]]:
    """Characters with how often each follows itself."""
    found: list[tuple[str, int]] = []
    for character in text:
        if found and found[-1][0] == character:
            found[-1] = (character, found[-1][1] + 1)
        else:
            found.append((character, 1))
    return found


def encode(text: str) -> str:
    """Long runs become ``\\count;character``; the escape itself is always written as a run."""
    parts = []
    for character, count in runs(text):
        if count >= SHORTEST or character == ESCAPE:
            parts.append(f"{ESCAPE}{count};{character}")
        else:
            parts.append(character * count)
    return "".join(parts)


def decode(code: str) -> str:
    """What ``encode`` made a code of.

    Raises:
        CodingError: a run is cut off, or its count is not a positive number.
    """
    text, place = "", 0
    while place < len(code):
        if code[place] != ESCAPE:
            text += code[place]
            place += 1
            continue
        end = code.find(";", place)
        if end < 0 or end + 1 >= len(code):
            raise CodingError(f"the run at {place} is cut off")
        count = code[place + 1 : end]
        if not count.isdigit() or int(count) == 0:
            raise CodingError(f"{count!r} is not how often a run can be")
        text += code[end + 1] * int(count)
        place = end + 2
    return text


def saved(text: str) -> int:
    """How many characters coding saves; negative if it costs some."""
    return len(text) - len(encode(text))


def bits_to_lengths(bits: str) -> list[int]:
    """Lengths of runs of zeros and ones in turn; the first counts zeros and may be 0."""
    lengths, expected = [0], "0"
    for bit in bits:
        if bit not in "01":
            raise CodingError(f"{bit!r} is no bit")
        if bit != expected:
            lengths.append(0)
            expected = bit
        lengths[-1] += 1
    return lengths if bits else []


def lengths_to_bits(lengths: list[int]) -> str:
    """What ``bits_to_lengths`` made lengths of."""
    return "".join(("0", "1")[index % 2] * length for index, length in enumerate(lengths))


def longest(text: str) -> tuple[str, int, int] | None:
    """Character, place and length of the longest run, the first of equal ones."""
    best: tuple[str, int, int] | None = None
    place = 0
    for character, count in runs(text):
        if best is None or count > best[2]:
            best = (character, place, count)
        place += count
    return best


def pack_row(row: list[int], limit: int = 127) -> list[int]:
    """A row of pixels as in PackBits: a count above 0 repeats the next value, one below 0 copies so many."""
    packed: list[int] = []
    single: list[int] = []

    def flush() -> None:
        while single:
            part = single[:limit]
            packed.extend([-len(part), *part])
            del single[:limit]

    place = 0
    while place < len(row):
        end = place
        while end < len(row) and row[end] == row[place] and end - place < limit:
            end += 1
        if end - place > 1:
            flush()
            packed.extend([end - place, row[place]])
        else:
            single.append(row[place])
        place = end
    flush()
    return packed


def unpack_row(packed: list[int]) -> list[int]:
    """What ``pack_row`` made of a row."""
    row: list[int] = []
    place = 0
    while place < len(packed):
        count = packed[place]
        if count > 0:
            row.extend([packed[place + 1]] * count)
            place += 2
        else:
            row.extend(packed[place + 1 : place + 1 - count])
            place += 1 - count
    return row
