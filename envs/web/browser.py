"""``Browser``: what an episode browses with, whoever draws the pages; and where it may go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import urlsplit

from ...errors import ToolError
from .page import Page

Button = Literal["left", "middle", "right"]
MOST_TABS = 20
"""Of an episode."""
SCHEME = re.compile(r"([a-z][a-z0-9+-]*):")
"""How a whole address begins."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be seen of a page.

    Args:
        source: its HTML.
        picture: a screenshot.
        marks: numbers drawn into the screenshot (set-of-marks).
        every: ids for all elements.
    """

    source: bool = False
    picture: bool = False
    marks: bool = False
    every: bool = False


class Browser(Protocol):
    """One episode's browser, with tabs of which one is in front. ``ref`` is a ``Node``'s of the page last looked at.

    What cannot be done raises ``ToolError``, in words for an agent; nothing has happened then. Where a page goes on by
    itself after an act, the act ends when it has come to rest.
    """

    notices: list[str]
    """What happened that no page tells: a dialog that was closed, a window or a download that was refused. Whoever
    tells them takes them out."""
    violations: list[str]
    """Ways out of the episode's sites that were tried and refused."""

    async def goto(self, url: str) -> None:
        """Open an address in the tab in front."""

    async def go_back(self) -> None:
        """One page back."""

    async def go_forward(self) -> None:
        """One page forward again."""

    async def click(self, ref: str, button: Button = "left", *, double: bool = False) -> None:
        """Click an element."""

    async def hover(self, ref: str) -> None:
        """Move the mouse over an element."""

    async def focus(self, ref: str) -> None:
        """Put the cursor into an element."""

    async def fill(self, ref: str, value: str) -> None:
        """Replace what is in a field."""

    async def check(self, ref: str, on: bool) -> None:
        """Set or clear a box."""

    async def select_option(self, ref: str, options: Sequence[str]) -> None:
        """Choose options of a list by their labels or values."""

    async def press(self, ref: str, keys: str) -> None:
        """Press a key or a combination such as ``Control+a`` in an element; in whatever has the cursor, if ``ref`` is
        empty."""

    async def type(self, text: str) -> None:
        """Type into whatever has the cursor."""

    async def drag(self, source: str, target: str) -> None:
        """Drag one element onto another."""

    async def mouse(self, x: float, y: float, button: Button = "left", *, double: bool = False) -> None:
        """Click a point of the window, in pixels."""

    async def scroll(self, dx: float, dy: float) -> None:
        """Scroll the page by so many pixels."""

    async def new_tab(self) -> None:
        """Open an empty tab in front."""

    async def tab_focus(self, number: int) -> None:
        """Bring a tab to the front, counted from 0."""

    async def tab_close(self) -> None:
        """Close the tab in front; the last one cannot be closed."""

    async def rest(self, seconds: float) -> None:
        """Let the page go on for a while."""

    async def look(self, wanted: Wanted) -> Page:
        """What is seen now."""

    async def close(self) -> None:
        """The episode is over; may be called again."""


def way_out(url: str, hosts: frozenset[str]) -> str:
    """Why an address may not be opened; empty if it may.

    Args:
        url: as an agent gives it.
        hosts: those of the episode, such as ``shop.test``, or ``127.0.0.1:8000`` where the port matters.
    """
    if url == "about:blank":
        return ""
    if any(ord(letter) < 33 for letter in url):
        return f"{url[:80]!r} is not a URL"
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2].lower()
    except ValueError:
        return f"{url[:80]!r} is not a URL"
    if parts.scheme.lower() not in ("http", "https"):
        return f"URLs must begin with http://; got {url[:80]!r}"
    if host not in hosts or "@" in parts.netloc:
        return f"{parts.netloc[:80]!r} is not one of the sites of this task: {', '.join(sorted(hosts))}"
    return ""


def leads_out(url: str, hosts: frozenset[str]) -> bool:
    """Whether an address that is refused leads out of the episode; what is no whole address leads nowhere.

    Args:
        url: as an agent gives it.
        hosts: those of the episode.
    """
    text = url.strip().lower().replace("\\", "/")  # as browsers read it
    scheme = SCHEME.match(text)
    if text.startswith("about:blank") or (scheme is None and not text.startswith("//")):
        return False
    try:
        return (scheme is not None and scheme[1] not in ("http", "https")) or urlsplit(text).netloc not in hosts
    except ValueError:
        return True


def stay(what: str, url: str, hosts: frozenset[str], violations: list[str]) -> None:
    """Refuse an address that may not be opened, and note it if it leads out.

    Args:
        what: leads there, such as ``a link to``.
        url: as it would be opened.
        hosts: those of the episode.
        violations: where it is noted.

    Raises:
        ToolError: it may not be opened.
    """
    if why := way_out(url, hosts):
        if leads_out(url, hosts):
            violations.append(f"{what} {url[:100]!r}")
        raise ToolError(why)


def one_more(tabs: int) -> None:
    """Refuse another tab where there are many.

    Args:
        tabs: that are open.

    Raises:
        ToolError: there are ``MOST_TABS``.
    """
    if tabs >= MOST_TABS:
        raise ToolError(f"there are already {tabs} tabs")
