"""``http_url``: parse the URL of a server as a user typed it."""

from __future__ import annotations

import httpx

from ..errors import UsageError


def http_url(address: str, *, what: str, example: str) -> httpx.URL:
    """Parse the URL of a server.

    Args:
        address: text of the URL.
        what: name of the URL in errors, e.g. ``server 'localhost'``.
        example: example of a valid URL, for errors.

    Raises:
        UsageError: it is not a URL, its scheme is not HTTP, or it has no host or no possible port.
    """
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL as error:
        raise UsageError(f"{what} must look like {example} ({error})") from None
    if url.scheme not in ("http", "https") or not url.host or not 0 < (url.port or 80) < 65536:
        raise UsageError(f"{what} must look like {example}")
    return url
