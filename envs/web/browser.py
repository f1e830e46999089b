"""``Browser``: the protocol of an episode's browser, whichever engine draws the pages, and the limits of navigation."""

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
"""Most open tabs of an episode."""
SCHEME = re.compile(r"([a-z][a-z0-9+-]*):")
"""Scheme at the start of an absolute URL."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Contents of an observation.

    Args:
        source: whether to include the HTML source.
        ``picture``: whether to include a screenshot.
        marks: whether to draw numbers into the screenshot (set-of-marks).
        every: whether to number all elements.
    """

    source: bool = False
    picture: bool = False
    marks: bool = False
    every: bool = False


class Browser(Protocol):
    """One episode's browser, with a current tab. ``ref`` is that of a ``Node`` of the last observed page.

    An impossible action raises ``ToolError`` with a message for the agent, and then nothing has happened. If a page
    changes by itself after an action, the action ends when the page has come to rest.
    """

    notices: list[str]
    """Events that no page shows, such as closed dialogs, and refused windows and downloads. The reader removes them."""
    violations: list[str]
    """Refused attempts to leave the episode's sites."""

    async def goto(self, url: str) -> None:
        """Open a URL in the current tab."""

    async def go_back(self) -> None:
        """Go back one page."""

    async def go_forward(self) -> None:
        """Go forward one page."""

    async def click(self, ref: str, button: Button = "left", *, double: bool = False) -> None:
        """Click an element."""

    async def hover(self, ref: str) -> None:
        """Move the mouse over an element."""

    async def focus(self, ref: str) -> None:
        """Focus an element."""

    async def fill(self, ref: str, value: str) -> None:
        """Replace the content of a field."""

    async def check(self, ref: str, on: bool) -> None:
        """Check or uncheck a checkbox."""

    async def select_option(self, ref: str, options: Sequence[str]) -> None:
        """Choose options of a list by their labels or values."""

    async def press(self, ref: str, keys: str) -> None:
        """Press a key or a combination like ``Control+a`` in an element, or where the focus is if ``ref`` is empty."""

    async def type(self, text: str) -> None:
        """Type into the focused element."""

    async def drag(self, source: str, target: str) -> None:
        """Drag one element onto another."""

    async def mouse(self, x: float, y: float, button: Button = "left", *, double: bool = False) -> None:
        """Click a point of the window, in pixels."""

    async def scroll(self, dx: float, dy: float) -> None:
        """Scroll the page by some pixels."""

    async def new_tab(self) -> None:
        """Open an empty tab and switch to it."""

    async def tab_focus(self, number: int) -> None:
        """Switch to a tab by its index, from 0."""

    async def tab_close(self) -> None:
        """Close the current tab; the last one cannot be closed."""

    async def rest(self, seconds: float) -> None:
        """Let the page continue for some seconds."""

    async def look(self, wanted: Wanted) -> Page:
        """Return the observation of the current tab."""

    async def close(self) -> None:
        """Close the browser at the end of its episode; may be called again."""


def way_out(url: str, hosts: frozenset[str]) -> str:
    """Return the reason why a URL may not be opened; empty if it may.

    Args:
        url: URL as the agent gives it.
        hosts: hosts of the episode, such as ``shop.test``, or ``127.0.0.1:8000`` if the port matters.
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
    """Return whether a refused URL leads out of the episode; a relative URL does not.

    Args:
        url: URL as the agent gives it.
        hosts: hosts of the episode.
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
    """Refuse a URL that may not be opened, and record it if it leads out.

    Args:
        what: description of the attempt, such as ``a link to``.
        url: absolute URL to be opened.
        hosts: hosts of the episode.
        violations: list that records the attempt.

    Raises:
        ToolError: the URL may not be opened.
    """
    if why := way_out(url, hosts):
        if leads_out(url, hosts):
            violations.append(f"{what} {url[:100]!r}")
        raise ToolError(why)


def one_more(tabs: int) -> None:
    """Refuse another tab if there are already many.

    Args:
        tabs: number of open tabs.

    Raises:
        ToolError: there are already ``MOST_TABS``.
    """
    if tabs >= MOST_TABS:
        raise ToolError(f"there are already {tabs} tabs")
