"""Lay out plain text in lines and columns of a fixed width."""

from __future__ import annotations

from collections.abc import Sequence


def wrap(text: str, width: int) -> list[str]:
    """Return lines of at most ``width`` characters, broken at spaces; longer words are cut.

    Raises:
        ValueError: the width is not positive.
    """
    if width < 1:
        raise ValueError(f"a width of {width} leaves no room")
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) <= width:
            line += " " + word
            continue
        if line:
            lines.append(line)
        while len(word) > width:
            lines.append(word[:width])
            word = word[width:]
        line = word
    if line:
        lines.append(line)
    return lines


def justify(line: str, width: int) -> str:
    """Widen the gaps of a line to fill ``width``, from the left; a single word is not changed."""
    words = line.split()
    if len(words) < 2:
        return " ".join(words)
    spaces = width - sum(len(word) for word in words)
    gaps = len(words) - 1
    if spaces < gaps:
        return " ".join(words)
    narrow, wider = divmod(spaces, gaps)
    parts = [words[0]]
    for index, word in enumerate(words[1:]):
        parts.append(" " * (narrow + (1 if index < wider else 0)) + word)
    return "".join(parts)


def paragraph(text: str, width: int, first: int = 0) -> str:
    """Return justified text with its first line indented by ``first`` and its last line not justified."""
    lines = wrap("\0" * first + text.lstrip(), width)
    last = len(lines) - 1
    justified = [line if index == last else justify(line, width) for index, line in enumerate(lines)]
    return "\n".join(justified).replace("\0", " ")


def center(line: str, width: int, fill: str = " ") -> str:
    """Center a line; an odd fill character goes to the right."""
    spare = max(0, width - len(line))
    left = spare // 2
    return fill * left + line + fill * (spare - left)


def shorten(text: str, width: int, mark: str = "...") -> str:
    """Return the text on one line; if it is too long, cut it after a whole word and append ``mark``."""
    line = " ".join(text.split())
    if len(line) <= width:
        return line
    kept = ""
    for word in line.split(" "):
        grown = f"{kept} {word}" if kept else word
        if len(grown) + len(mark) > width:
            break
        kept = grown
    return kept + mark if len(mark) <= width else mark[:width]


def table(rows: Sequence[Sequence[str]], gap: int = 2) -> list[str]:
    """Return rows as lines whose columns are as wide as their longest cells, without trailing spaces."""
    columns = max((len(row) for row in rows), default=0)
    widths = [max((len(row[index]) for row in rows if index < len(row)), default=0) for index in range(columns)]
    lines = []
    for row in rows:
        cells = [cell.ljust(widths[index]) for index, cell in enumerate(row)]
        lines.append((" " * gap).join(cells).rstrip())
    return lines
