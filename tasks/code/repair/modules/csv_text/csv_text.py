"""Reading and writing tables of comma-separated values, with quotes (after RFC 4180)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class TableError(ValueError):
    """A text that is no table; ``line`` is where, from 1."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line


def read_rows(text: str, separator: str = ",") -> list[list[str]]:
    """Rows of cells. Quoted cells may hold separators, line ends, and quotes written twice.

    Raises:
        TableError: a quote is not closed, or something follows a closed one.
    """
    rows: list[list[str]] = []
    row: list[str] = []
    cell, quoted, closed = "", False, False
    line, opened, place = 1, 0, 0
    while place < len(text):
        character = text[place]
        place += 1
        if character == "\n":
            line += 1
        if quoted:
            if character != '"':
                cell += character
            elif place < len(text) and text[place] == '"':
                cell += '"'
                place += 1
            else:
                quoted, closed = False, True
        elif character == separator or character == "\n":
            row.append(cell)
            cell, closed = "", False
            if character == "\n":
                rows.append(row)
                row = []
        elif character == '"' and not cell and not closed:
            quoted, opened = True, line
        elif closed and character != "\r":
            raise TableError(line, f"{character!r} follows a closed quote")
        elif character != "\r":
            cell += character
    if quoted:
        raise TableError(opened, "the quote is not closed")
    if cell or row or closed:
        rows.append([*row, cell])
    return rows


def read_records(text: str, separator: str = ",") -> list[dict[str, str]]:
    """Rows by the names of the first; missing cells are empty, blank lines are left out.

    Raises:
        TableError: a row has more cells than there are names, or a name stands twice.
    """
    rows = read_rows(text, separator)
    if not rows:
        return []
    names = [name.strip() for name in rows[0]]
    if len(set(names)) < len(names):
        raise TableError(1, "a name stands twice")
    records = []
    for number, row in enumerate(rows[1:], 2):
        if row == [""]:
            continue
        if len(row) > len(names):
            raise TableError(number, f"{len(row)} cells for {len(names)} names")
        cells = row + [""] * (len(names) - len(row))
        records.append(dict(zip(names, cells, strict=True)))
    return records


def write_cell(cell: str, separator: str = ",") -> str:
    """A cell as it is written: quoted only if it has to be."""
    if any(character in cell for character in (separator, '"', "\n", "\r")) or cell != cell.strip():
        doubled = cell.replace('"', '""')
        return f'"{doubled}"'
    return cell


def write_rows(rows: Sequence[Sequence[str]], separator: str = ",") -> str:
    """The text of rows, each ended by a line end."""
    return "".join(separator.join(write_cell(cell, separator) for cell in row) + "\n" for row in rows)


def write_records(records: Sequence[Mapping[str, str]]) -> str:
    """The text of records, under all names in the order in which they first appear."""
    names: list[str] = []
    for record in records:
        names += [name for name in record if name not in names]
    rows = [[record.get(name, "") for name in names] for record in records]
    return write_rows([names, *rows]) if names else ""


def column(records: Sequence[Mapping[str, str]], name: str) -> list[float]:
    """A column's numbers; cells that are empty are left out."""
    return [float(record[name]) for record in records if record.get(name, "").strip()]


def totals(records: Sequence[Mapping[str, str]], by: str, of: str) -> dict[str, float]:
    """Sums of one column for each value of another, in order of first appearance."""
    sums: dict[str, float] = {}
    for record in records:
        value = float(record.get(of) or 0)
        sums[record[by]] = sums.get(record[by], 0.0) + value
    return sums
