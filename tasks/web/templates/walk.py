"""``Walk``: the interface in which solutions are written. A solution knows the prompt and the content of pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Entry:
    """A row of a listing as a reader sees it, in any theme.

    Args:
        name: first cell.
        cells: other cells by their headings.
        number: index among the entries of its page, from 0.
    """

    name: str
    cells: Mapping[str, str] = field(default_factory=dict)
    number: int = 0

    def __getitem__(self, head: str) -> str:
        return self.cells[head]


class Walk(Protocol):
    """A walk through pages. Every step that fails raises: a solution that is stuck is a fault of its task.

    Labels are those of the page: ``walk.word("search")`` returns the theme's. Where a page requires a login, the walk
    logs in with the account from the prompt and continues.
    """

    def word(self, what: str) -> str:
        """Return a label of the current site, in its theme."""

    def goto(self, site: str, path: str = "/", *, member: bool = True) -> None:
        """Open a site by its URL, and log in there.

        Args:
            site: name of the site.
            path: a path that an agent can know: the front page, or one that a page mentioned.
            member: whether to log in if the walk is not logged in yet.
        """

    def click(self, name: str, *, within: Entry | None = None, first: bool = False) -> None:
        """Click the only link or button with this name.

        Args:
            name: name on the page.
            within: row to search in; omitted, the whole page.
            first: whether to click the first one of several.
        """

    def fill(self, label: str, text: str) -> None:
        """Fill in a field."""

    def choose(self, label: str, option: str) -> None:
        """Choose an option of a list, or one of several radio buttons, by its label."""

    def check(self, label: str, on: bool = True) -> None:
        """Check or uncheck a checkbox."""

    def back(self) -> None:
        """Go back one page."""

    def entries(self) -> list[Entry]:
        """Return the rows of the listing on this page."""

    def all_entries(self) -> list[Entry]:
        """Return the rows of the listing on this page and all following ones; ends on the last one."""

    def seek(self, wanted: Callable[[Entry], bool]) -> Entry:
        """Return the first row that satisfies a condition; opens later pages until one does."""

    def entry(self, name: str) -> Entry:
        """Return the row with this name; opens later pages until it is found."""

    def fact(self, label: str) -> str:
        """Return the value next to a label among the facts of a page."""

    def sees(self, text: str) -> bool:
        """Return whether the page contains a text, ignoring case."""

    def paragraphs(self) -> list[str]:
        """Return the paragraphs of the page outside of listings, in order."""

    def answer(self, value: str | int | float | list[str] = "") -> None:
        """Tell the user that the task is done, with the answer if the task asked for one."""

    def refuse(self, evidence: str) -> None:
        """Tell the user that the task cannot be done, with the fact that shows it."""
