"""Read the events of Turnwise's log in tests."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any


def events(records: Iterable[logging.LogRecord]) -> list[tuple[str, dict[str, Any]]]:
    """Return the kind and fields of each event among log records."""
    return [(vars(record)["event"], vars(record)["fields"]) for record in records if "event" in vars(record)]
