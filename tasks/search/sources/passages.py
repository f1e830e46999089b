"""Long pages as passages, cut at the end of a paragraph or a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..document import Document

PARAGRAPH = re.compile(r"\n\s*\n")
SENTENCE = re.compile(r"(?<=[.!?])\s+")


def passages(documents: Iterable[Document], words: int) -> Iterator[Document]:
    """Yield pages of at most some words; longer pages become ``id#1``, ``id#2`` and so on, in order.

    A passage ends where a paragraph does, if that makes it fit; else with a sentence; else after so many words.

    Args:
        documents: pages.
        words: the most that a passage has.
    """
    for one in documents:
        if len(one.text.split()) <= words:
            yield one
        else:
            for number, text in enumerate(_cut(one.text, words), 1):
                yield Document(f"{one.id}#{number}", one.title, text, one.origin)


def _cut(text: str, words: int) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for piece in _pieces(text, words):
        length = len(piece.split())
        if held and size + length > words:
            yield "\n\n".join(held)
            held, size = [], 0
        held.append(piece)
        size += length
    if held:
        yield "\n\n".join(held)


def _pieces(text: str, words: int) -> Iterator[str]:
    """Split into paragraphs; long paragraphs into sentences; long sentences after a number of words."""
    for paragraph in PARAGRAPH.split(text):
        if not paragraph.strip():
            continue
        if len(paragraph.split()) <= words:
            yield paragraph.strip()
            continue
        for sentence in SENTENCE.split(paragraph.strip()):
            said = sentence.split()
            for start in range(0, len(said), words):
                yield " ".join(said[start : start + words])
