"""``ChromiumBrowser``: a real browser (being written)."""

from __future__ import annotations

from ....tasks.web.site.sites import Sites
from ..browser import Browser


async def open_browser(sites: Sites, url: str) -> Browser:
    """A browser in front of a page.

    Args:
        sites: all that can be reached.
        url: of the first page.
    """
    raise NotImplementedError
