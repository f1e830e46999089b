"""Run-length coding of text, of bits and of rows of pixels."""

from __future__ import annotations

ESCAPE = "\\"
SHORTEST = 4
"""Length of the shortest run that is encoded; a code for a shorter run would not save anything."""


class CodingError(ValueError):
    """Raised when a text cannot be encoded or decoded."""


def runs(text: str) -> list[tuple[str, int]]:
    """Return the runs of equal characters, as pairs of character and length."""
    found: list[tuple[str, int]] = []
    for character in text:
        if found and found[-1][0] == character:
            found[-1] = (character, found[-1][1] + 1)
        else:
            found.append((character, 1))
    return found


def encode(text: str) -> str:
    """Replace long runs by ``\\count;character``; the escape character is always encoded as a run."""
    parts = []
    for character, count in runs(text):
        if count >= SHORTEST or character == ESCAPE:
            parts.append(f"{ESCAPE}{count};{character}")
        else:
            parts.append(character * count)
    return "".join(parts)


def decode(code: str) -> str:
    """Return the text that ``encode`` has encoded.

    Raises:
        CodingError: a run is incomplete, or its count is not a positive number.
    """
    text, position = "", 0
    while position < len(code):
        if code[position] != ESCAPE:
            text += code[position]
            position += 1
            continue
        end = code.find(";", position)
        if end < 0 or end + 1 >= len(code):
            raise CodingError(f"the run at {position} is incomplete")
        count = code[position + 1 : end]
        if not count.isdigit() or int(count) == 0:
            raise CodingError(f"{count!r} is not a valid count")
        text += code[end + 1] * int(count)
        position = end + 2
    return text


def saved(text: str) -> int:
    """Return how many characters encoding saves; negative if the code is longer."""
    return len(text) - len(encode(text))


def bits_to_lengths(bits: str) -> list[int]:
    """Return the lengths of alternating runs of zeros and ones; the first counts zeros and may be 0.

    Raises:
        CodingError: a character is not a bit.
    """
    lengths, expected = [0], "0"
    for bit in bits:
        if bit not in "01":
            raise CodingError(f"{bit!r} is not a bit")
        if bit != expected:
            lengths.append(0)
            expected = bit
        lengths[-1] += 1
    return lengths if bits else []


def lengths_to_bits(lengths: list[int]) -> str:
    """Return the bits of alternating runs of zeros and ones, the inverse of ``bits_to_lengths``."""
    return "".join(("0", "1")[index % 2] * length for index, length in enumerate(lengths))


def longest(text: str) -> tuple[str, int, int] | None:
    """Return the character, position and length of the longest run; of equal runs, the first."""
    best: tuple[str, int, int] | None = None
    position = 0
    for character, count in runs(text):
        if best is None or count > best[2]:
            best = (character, position, count)
        position += count
    return best


def pack_row(row: list[int], limit: int = 127) -> list[int]:
    """Pack a row of pixels as in PackBits.

    A positive count repeats the next value; a negative one is followed by that many single values. No count exceeds
    ``limit``.
    """
    packed: list[int] = []
    single: list[int] = []

    def flush() -> None:
        while single:
            part = single[:limit]
            packed.extend([-len(part), *part])
            del single[:limit]

    position = 0
    while position < len(row):
        end = position
        while end < len(row) and row[end] == row[position] and end - position < limit:
            end += 1
        if end - position > 1:
            flush()
            packed.extend([end - position, row[position]])
        else:
            single.append(row[position])
        position = end
    flush()
    return packed


def unpack_row(packed: list[int]) -> list[int]:
    """Return the row that ``pack_row`` has packed."""
    row: list[int] = []
    position = 0
    while position < len(packed):
        count = packed[position]
        if count > 0:
            row.extend([packed[position + 1]] * count)
            position += 2
        else:
            row.extend(packed[position + 1 : position + 1 - count])
            position += 1 - count
    return row
