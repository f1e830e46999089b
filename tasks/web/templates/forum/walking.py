"""Parts of solutions in the forum that several tasks share."""

from __future__ import annotations

from ..walk import Walk


def open_thread(walk: Walk, title: str) -> None:
    """Find a thread by its title."""
    walk.goto("forum")
    walk.fill(walk.word("words"), title)
    walk.click(walk.word("search"))
    walk.click(title, within=walk.entry(title))


def open_post(walk: Walk, title: str, author: str) -> None:
    """Find the post of an author in a thread."""
    open_thread(walk, title)
    entry = walk.seek(lambda one: one[walk.word("author")] == author)
    walk.click(entry.name, within=entry)
