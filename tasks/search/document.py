"""``Document``: a page that can be found; ``Corpus``: the pages among which an agent searches."""

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
        id: unique in its corpus; what ``open`` and citations name.
        title: a line.
        text: without its title.
        origin: where it was read, such as ``wiki.jsonl:7``, for complaints; it makes no page another.
    """

    id: str
    title: str
    text: str
    origin: str = field(default="", compare=False, repr=False)

    @property
    def characters(self) -> int:
        """What it takes to remember it."""
        return len(self.id) + len(self.title) + len(self.text)

    def told(self, complaint: str) -> str:
        """A complaint about this page, with where it was read."""
        return f"{self.origin}: {complaint}" if self.origin else complaint


class Corpus:
    """Pages by their ids, in an order that never changes.

    Args:
        name: of the corpus, equal for equal pages: indices are remembered under it.
        documents: the pages.

    Raises:
        TaskError: two pages have one id.
    """

    def __init__(self, name: str, documents: Iterable[Document]) -> None:
        self.name = name
        self._by_id: dict[str, Document] = {}
        for one in documents:
            if one.id in self._by_id:
                raise TaskError(one.told(f"corpus {name!r} has two documents with the id {one.id!r}"))
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
        """The page with an id, if there is one."""
        return self._by_id.get(id)

    def at(self, place: int) -> Document:
        """The page at a place of the order, from 0."""
        return self._in_order[place]

    @cached_property
    def _in_order(self) -> tuple[Document, ...]:
        return tuple(self._by_id.values())


def phrase(text: str) -> re.Pattern[str]:
    """What finds the words of a text, whatever their case and the spaces between them."""
    return re.compile(r"\s+".join(re.escape(word) for word in text.split()), re.IGNORECASE)
