"""``Walk``: what a solution is written with. It knows the prompt, and what stands on the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Entry:
    """A row of a listing as somebody reads it, however the theme shows it.

    Args:
        name: its first cell.
        cells: the others by their heads.
        number: of it among the entries of its page, from 0.
    """

    name: str
    cells: Mapping[str, str] = field(default_factory=dict)
    number: int = 0

    def __getitem__(self, head: str) -> str:
        return self.cells[head]


class Walk(Protocol):
    """A way through pages. Everything that does not work raises: a solution that is stuck is a fault of its task.

    Labels are as the page has them: ``walk.word("search")`` gives the theme's. Where a page asks for a login, the walk
    logs in with the account that the prompt tells, and goes on.
    """

    def word(self, what: str) -> str:
        """A label of the site in front, in its theme."""

    def goto(self, site: str, path: str = "/", *, member: bool = True) -> None:
        """Open a site by its address, and log in there.

        Args:
            site: its name.
            path: only one that somebody can know: the front page, or what a page told.
            member: log in, where nobody is logged in.
        """

    def click(self, name: str, *, within: Entry | None = None, first: bool = False) -> None:
        """Click the only link or button with this name.

        Args:
            name: as it stands on the page.
            within: only there.
            first: the first of several.
        """

    def fill(self, label: str, text: str) -> None:
        """Write into a field."""

    def choose(self, label: str, option: str) -> None:
        """Choose an option of a list, or one of several radio buttons, by its label."""

    def check(self, label: str, on: bool = True) -> None:
        """Set or clear a box."""

    def back(self) -> None:
        """One page back."""

    def entries(self) -> list[Entry]:
        """The rows of the listing on this page."""

    def all_entries(self) -> list[Entry]:
        """The rows of the listing on this page and those that follow; ends on the last one."""

    def seek(self, wanted: Callable[[Entry], bool]) -> Entry:
        """The first row that is wanted; goes on to later pages until it is found."""

    def entry(self, name: str) -> Entry:
        """The row with this name; goes on to later pages until it is found."""

    def fact(self, label: str) -> str:
        """What stands beside a label among the facts of a page."""

    def sees(self, text: str) -> bool:
        """Whether the page says this, up to case."""

    def paragraphs(self) -> list[str]:
        """The texts of the page that are in no listing, in order."""

    def answer(self, value: str | int | float | list[str] = "") -> None:
        """Tell the user that it is done, and what was asked for."""

    def refuse(self, evidence: str) -> None:
        """Tell the user that it cannot be done, with the fact that shows it."""
