"""Access control: only a browser on this machine reads, with the token, from the viewer's own pages."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import UsageError

HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names by which a browser reaches this machine. Another name that leads here is DNS rebinding."""
SHORTEST_TOKEN = 16
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


def new_token(given: str | None = None) -> str:
    """Return the token of a viewer: the given one, or a random one.

    Raises:
        UsageError: The given one can be guessed, or does not fit in a URL.
    """
    if given is None:
        return secrets.token_urlsafe(24)
    if len(given) < SHORTEST_TOKEN or not given.isascii() or not given.replace("-", "").replace("_", "").isalnum():
        raise UsageError(f"a token needs at least {SHORTEST_TOKEN} letters, digits, - and _; omit it for a random one")
    return given


class Guard:
    """Refuses requests that are not for reading, come from elsewhere, or do not have the token.

    The address with the token leads to a cookie and to the address without it, so that neither the history nor a
    screenshot holds the token.

    Args:
        app: application behind the guard.
        token: the token.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token
        # A cookie belongs to a host, not to a port: viewers beside each other need different names.
        self._cookie = f"turnwise_view_{hashlib.sha256(token.encode()).hexdigest()[:10]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = self._refusal(scope) or self._entrance(scope) or self._app
        await answer(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("this viewer only reads\n", 405, headers={"Allow": "GET, HEAD"})
        if _hostname(headers.get("host", "")) not in HOSTS or len(headers.getlist("host")) != 1:
            return PlainTextResponse("wrong host: open the address that `turnwise view` printed\n", 421)
        elsewhere = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        origin = headers.get("origin")
        if elsewhere or (origin is not None and urlsplit(origin).netloc != headers.get("host")):
            return PlainTextResponse("other sites cannot read this viewer\n", 403)
        return None

    def _entrance(self, scope: Scope) -> Response | None:
        """Exchange a token for a cookie, and refuse requests that have neither."""
        if scope["path"] == "/":
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if self._fits(given):
                entered = RedirectResponse("/", 303)
                entered.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
                return entered
        try:
            cookies = SimpleCookie(Headers(scope=scope).get("cookie", ""))
        except CookieError:
            cookies = SimpleCookie()
        if self._cookie in cookies and self._fits(cookies[self._cookie].value):
            return None
        return PlainTextResponse("no access: open the address that `turnwise view` printed, with its token\n", 403)

    def _fits(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="replace"), self._token.encode())


def _hostname(host: str) -> str | None:
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname if parts.username is None and not parts.path else None
    except ValueError:
        return None
