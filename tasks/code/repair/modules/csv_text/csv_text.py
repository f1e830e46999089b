"""Read and write tables of comma-separated values with quotes (RFC 4180)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class TableError(ValueError):
    """Raised when a text is not a table; ``line`` is the number of the faulty line, from 1."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line


def read_rows(text: str, separator: str = ",") -> list[list[str]]:
    """Return rows of cells. Quoted cells may contain separators, line ends, and doubled quotes.

    Raises:
        TableError: a quote is not closed, or a character follows a closing quote.
    """
    rows: list[list[str]] = []
    row: list[str] = []
    cell, quoted, closed = "", False, False
    line, opened, position = 1, 0, 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\n":
            line += 1
        if quoted:
            if character != '"':
                cell += character
            elif position < len(text) and text[position] == '"':
                cell += '"'
                position += 1
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
            raise TableError(line, f"{character!r} follows a closing quote")
        elif character != "\r":
            cell += character
    if quoted:
        raise TableError(opened, "the quote is not closed")
    if cell or row or closed:
        rows.append([*row, cell])
    return rows


def read_records(text: str, separator: str = ",") -> list[dict[str, str]]:
    """Return the rows as records, keyed by the names in the first row.

    Missing cells are empty, and blank lines are skipped.

    Raises:
        TableError: a row has more cells than there are names, or a name occurs twice.
    """
    rows = read_rows(text, separator)
    if not rows:
        return []
    names = [name.strip() for name in rows[0]]
    if len(set(names)) < len(names):
        raise TableError(1, "a name occurs twice")
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
    """Return a cell as text, quoted only if necessary."""
    if any(character in cell for character in (separator, '"', "\n", "\r")) or cell != cell.strip():
        doubled = cell.replace('"', '""')
        return f'"{doubled}"'
    return cell


def write_rows(rows: Sequence[Sequence[str]], separator: str = ",") -> str:
    """Return rows as text, each followed by a line end."""
    return "".join(separator.join(write_cell(cell, separator) for cell in row) + "\n" for row in rows)


def write_records(records: Sequence[Mapping[str, str]]) -> str:
    """Return records as text, under all names in order of first appearance."""
    names: list[str] = []
    for record in records:
        names += [name for name in record if name not in names]
    rows = [[record.get(name, "") for name in names] for record in records]
    return write_rows([names, *rows]) if names else ""


def column(records: Sequence[Mapping[str, str]], name: str) -> list[float]:
    """Return the numbers of a column, without empty cells."""
    return [float(record[name]) for record in records if record.get(name, "").strip()]


def totals(records: Sequence[Mapping[str, str]], by: str, of: str) -> dict[str, float]:
    """Return the sums of column ``of`` for each value of column ``by``, in order of first appearance."""
    sums: dict[str, float] = {}
    for record in records:
        value = float(record.get(of) or 0)
        sums[record[by]] = sums.get(record[by], 0.0) + value
    return sums
