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
KEY = "x-turnwise-key"
"""Header of requests that write. A page of another origin can neither read the key nor send the header."""
LARGEST = 2 * 2**20
"""Most bytes of a request that writes."""
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
        rule = f"must be at least {SHORTEST_TOKEN} letters, digits, - and _"
        raise UsageError(f"the token (--token or TURNWISE_VIEW_TOKEN) {rule}; omit it for a random one")
    return given


def write_key(token: str) -> str:
    """Return the key that a request to write needs besides the token's cookie."""
    return hmac.new(token.encode(), b"write", hashlib.sha256).hexdigest()


class Guard:
    """Refuses requests that are not for reading, come from elsewhere, or do not have the token.

    A request to write is accepted at the addresses of ``writable`` only. It needs the origin of the viewer's own pages,
    a body of JSON, and the key that only these pages can read.

    The address with the token leads to a cookie and to the address without it, so that neither the history nor a
    screenshot holds the token.

    Args:
        app: application behind the guard.
        token: the token.
        writable: paths that accept POST; none by default.
    """

    def __init__(self, app: ASGIApp, token: str, *, writable: frozenset[str] = frozenset()) -> None:
        self._app, self._token, self._writable = app, token, writable
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
        writes = scope["method"] == "POST" and scope["path"] in self._writable
        if scope["method"] not in ("GET", "HEAD") and not writes:
            return PlainTextResponse("this viewer only reads\n", 405, headers={"Allow": "GET, HEAD"})
        if _hostname(headers.get("host", "")) not in HOSTS or len(headers.getlist("host")) != 1:
            return PlainTextResponse("wrong host: open the address that `turnwise view` printed\n", 421)
        elsewhere = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        origin = headers.get("origin")
        if elsewhere or (origin is not None and urlsplit(origin).netloc != headers.get("host")):
            return PlainTextResponse("other sites cannot read this viewer\n", 403)
        return self._unsafe(headers) if writes else None

    def _unsafe(self, headers: Headers) -> Response | None:
        """Refuse a request to write that a page of this viewer would not send."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if headers.get("origin") is None or kind != "application/json":
            return PlainTextResponse("only the viewer's own pages write, as JSON\n", 403)
        if not hmac.compare_digest(headers.get(KEY, "").encode(errors="replace"), write_key(self._token).encode()):
            return PlainTextResponse("the key is missing or wrong; load the page again\n", 403)
        length = headers.get("content-length", "")
        if not length.isdecimal() or len(length) > 9 or int(length) > LARGEST:
            return PlainTextResponse("the request is too large, or does not give its length\n", 413)
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
