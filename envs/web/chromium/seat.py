"""``Seat``: one episode's place in a browser. Lives on Chromium's loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .server import HEADER

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page

    from .launch import Chromium
    from .server import Episode
    from .trace import Trace


@dataclass(eq=False)
class Seat:
    """One episode's place in a browser.

    Args:
        chromium: which.
        context: the episode's own cookies and tabs.
        page: its first tab.
        control: of the first tab, for what Playwright has no name for.
        target: the first tab and its context, as Chromium calls them.
        key: by which the server knows the episode.
        episode: as the server knows it.
        trace: of the episode, if one is made.
    """

    chromium: Chromium
    context: BrowserContext
    page: Page
    control: CDPSession
    target: dict[str, Any]
    key: str
    episode: Episode
    trace: Trace | None = None

    @property
    def alive(self) -> bool:
        """Whether its browser lives, and its first tab."""
        return self.chromium.alive and not self.page.is_closed()


async def context_of(chromium: Chromium, key: str, width: int, height: int) -> BrowserContext:
    """A context without tabs, in which everything asked for is asked for by one episode.

    Args:
        chromium: in which.
        key: by which the server knows the episode.
        width: of its windows, in pixels.
        height: of its windows, in pixels.
    """
    return await chromium.browser.new_context(
        accept_downloads=False,
        extra_http_headers={HEADER: key},
        locale="en-US",
        reduced_motion="reduce",
        service_workers="block",
        timezone_id="UTC",
        viewport={"width": width, "height": height},
    )


async def seated(chromium: Chromium, context: BrowserContext, key: str, episode: Episode) -> Seat:
    """A seat with its first tab, in a context that has none.

    Args:
        chromium: which.
        context: of an episode.
        key: by which the server knows the episode.
        episode: as the server knows it.
    """
    page = await context.new_page()
    control, target = await watched(page)
    await page.aria_snapshot(mode="ai")  # so that Chromium has read Playwright's script when it matters
    return Seat(chromium, context, page, control, target, key, episode)


async def watched(page: Page) -> tuple[CDPSession, dict[str, Any]]:
    """A session that is told of the windows that a page opens, and what Chromium calls the page and its context."""
    control = await page.context.new_cdp_session(page)
    info: Any = await control.send("Target.getTargetInfo")
    await control.send("Page.enable")
    return control, info["targetInfo"]
