"""``Document``: one page; ``Corpus``: the pages that an agent can search."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ...errors import TaskError


@dataclass(frozen=True, slots=True)
class Document:
    """A page.

    Args:
        id: id, unique in its corpus; ``open`` and citations use it.
        title: title, one line.
        text: text without the title.
        origin: source position such as ``wiki.jsonl:7``, for error messages; pages that differ only in it are equal.
    """

    id: str
    title: str
    text: str
    origin: str = field(default="", compare=False, repr=False)

    @property
    def characters(self) -> int:
        """Number of characters, a measure of its memory."""
        return len(self.id) + len(self.title) + len(self.text)

    def error_message(self, complaint: str) -> str:
        """Return an error message about this page, with its origin if known."""
        return f"{self.origin}: {complaint}" if self.origin else complaint


class Corpus:
    """Pages by their ids, in a fixed order.

    Args:
        name: name of the corpus, equal for equal pages: indices are cached under it.
        documents: the pages.

    Raises:
        TaskError: two pages have the same id.
    """

    def __init__(self, name: str, documents: Iterable[Document]) -> None:
        self.name = name
        self._by_id: dict[str, Document] = {}
        for one in documents:
            if one.id in self._by_id:
                raise TaskError(one.error_message(f"corpus {name!r} has two documents with the id {one.id!r}"))
            self._by_id[one.id] = one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Corpus) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Document]:
        return iter(self._by_id.values())

    def get(self, id: str) -> Document | None:
        """Return the page with an id, or ``None``."""
        return self._by_id.get(id)

    def at(self, place: int) -> Document:
        """Return the page at an index of the order, from 0."""
        return self._in_order[place]

    @cached_property
    def _in_order(self) -> tuple[Document, ...]:
        return tuple(self._by_id.values())


def phrase(text: str) -> re.Pattern[str]:
    """Return a pattern that finds the words of a text, ignoring case and spacing."""
    return re.compile(r"\s+".join(re.escape(word) for word in text.split()), re.IGNORECASE)
