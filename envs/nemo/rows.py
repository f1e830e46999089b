"""Rows of NeMo Gym's datasets: tasks, their first messages, and the tools that they offer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...tasks.family import TaskFamily
from ...tasks.rng import Rng
from ...tasks.spec import Split, TaskSpec
from ..messages import Message, Role, message
from ..openenv.forms import tools_of
from ..tools import Tool

ROLES: Mapping[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
Rows = str | Path | Sequence[Mapping[str, Any]]
"""A file of JSON lines, or the rows."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row, as JSON text, so that equal rows are equal."""

    text: str

    @property
    def fields(self) -> dict[str, Any]:
        """Its fields."""
        fields: dict[str, Any] = json.loads(self.text)
        return fields

    @property
    def params(self) -> dict[str, Any]:
        """The request to the model, without what it answers."""
        params: dict[str, Any] = self.fields["responses_create_params"]
        return params


class RowFamily(TaskFamily[Row]):
    """The rows of a dataset; the seed is the number of the row.

    Args:
        rows: the rows.
    """

    name = "NemoGym"
    splits = (Split.TRAIN,)  # a dataset is one split; all splits would be the same rows

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows, self.seeds = tuple(rows), len(rows)

    def build(self, spec: TaskSpec, rng: Rng) -> Row:
        """Return the row of a specification."""
        return self.rows[spec.seed]

    @property
    def digest(self) -> str:
        """Digest of all rows."""
        return hashlib.sha256("\n".join(row.text for row in self.rows).encode()).hexdigest()[:16]

    def __reduce__(self) -> Any:
        return (RowFamily, (self.rows,))


def read_rows(rows: Rows) -> list[Row]:
    """Return rows from a file of JSON lines, or from a list.

    Raises:
        UsageError: there is no such file, or a row has another form.
    """
    if isinstance(rows, str | Path):
        try:
            lines = Path(rows).read_text(encoding="utf-8").split("\n")  # JSON may contain U+2028 and U+0085
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the rows: {error}") from None
        found = [(f"{rows}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    else:
        found = [(f"row {number}", json.dumps(row)) for number, row in enumerate(rows)]
    if not found:
        raise UsageError(f"{rows!r:.200} has no rows")
    checked = []
    for place, text in found:
        try:
            row = Row(json.dumps(json.loads(text)))
            first_messages(row)
            row_tools(row)
        except (ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
            raise UsageError(f"{place} is not a row of NeMo Gym: {type(error).__name__}: {error}") from None
        checked.append(row)
    return checked


def first_messages(row: Row) -> tuple[Message, ...]:
    """Return the messages that the model reads first.

    Raises:
        UsageError: they contain images, or earlier tool calls.
    """
    given = row.params["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return tuple(message(ROLES[item["role"]], _text(item["content"])) for item in items)


def row_tools(row: Row) -> tuple[Tool, ...]:
    """Return the tools that a row offers; their functions exist only on the server."""
    listed = [tool for tool in row.params.get("tools") or () if tool["type"] == "function"]
    return tools_of([{**tool, "input_schema": tool.get("parameters")} for tool in listed])


def all_tools(rows: Sequence[Row]) -> tuple[Tool, ...]:
    """Return the tools of all rows.

    Raises:
        UsageError: two rows have different tools of one name.
    """
    tools: dict[str, Tool] = {}
    for row in rows:
        for tool in row_tools(row):
            if (known := tools.setdefault(tool.name, tool)) != tool:
                raise UsageError(f"two rows have different tools named {known.name}; give each a dataset of its own")
    return tuple(tools.values())


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if wrong := [part["type"] for part in content if "text" not in part]:
        raise UsageError(f"it has a part of type {wrong[0]}; only text can be shown here")
    return "".join(part["text"] for part in content)
