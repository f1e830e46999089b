"""``BrowserSlot``: one episode's place in a browser, used on Chromium's loop."""

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
class BrowserSlot:
    """One episode's place in a browser.

    Args:
        chromium: the browser.
        context: the episode's browser context, with its cookies and tabs.
        page: the first tab.
        control: DevTools session of the first tab, for functions that Playwright lacks.
        target: DevTools description of the first tab and its context.
        key: secret key of the episode on the server.
        episode: the server's record of the episode.
        trace: trace of the episode, if there is one.
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
        """Whether its browser and its first tab are alive."""
        return self.chromium.alive and not self.page.is_closed()


async def context_of(chromium: Chromium, key: str, width: int, height: int) -> BrowserContext:
    """Create a context without tabs, whose requests all carry the key of one episode.

    Args:
        chromium: the browser.
        key: secret key of the episode on the server.
        width: width of its windows, in pixels.
        height: height of its windows, in pixels.
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


async def open_slot(chromium: Chromium, context: BrowserContext, key: str, episode: Episode) -> BrowserSlot:
    """Open the first tab of an empty context, and return the slot.

    Args:
        chromium: the browser.
        context: the context of an episode.
        key: secret key of the episode on the server.
        episode: the server's record of the episode.
    """
    page = await context.new_page()
    control, target = await watched(page)
    await page.aria_snapshot(mode="ai")  # loads Playwright's script into Chromium before time matters
    return BrowserSlot(chromium, context, page, control, target, key, episode)


async def watched(page: Page) -> tuple[CDPSession, dict[str, Any]]:
    """Return a DevTools session that reports the windows that a page opens, and the description of the page."""
    control = await page.context.new_cdp_session(page)
    info: Any = await control.send("Target.getTargetInfo")
    await control.send("Page.enable")
    return control, info["targetInfo"]
