"""``SiteServer``: the sites of all episodes of this process over HTTP, for Chromium, and for people who look around.

Every request of this process's Chromium comes here, whatever host it names: Chromium is told that every name and every
number is this server (``launch.py``). Which episode asks is told by a header that the episode's browser sends with
everything; its value cannot be guessed. A page of a host that the episode does not have is answered with 204, upon
which a browser stays where it is: so nobody gets out, and nobody loses a page by trying.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI
from fastapi import Request as Asked
from fastapi import Response as Answer

from ....errors import InfrastructureError
from ....tasks.web.site.http import Request, Response, Values
from ....tasks.web.site.site import SESSION
from ..browser import way_out

HEADER = "x-turnwise-episode"
"""Tells which episode asks."""
LARGEST = 2**20
"""Bytes of a body; what is larger is refused."""
PEOPLE = re.compile(r"([a-z0-9-]+)\.([0-9a-f]{32})\.localhost(?::\d+)?")
"""The hosts by which a person looks at an episode's sites: ``shop.<key>.localhost``."""
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
ADDRESS = "!#$%&'()*+,/:;=?@[]~"
"""What stands for itself in an address; everything else goes into a header as numbers."""
UNKEPT = '<form autocomplete="off"'
"""Going back must show a form as the site gives it: Chromium would fill in again what had been written."""


class Served(Protocol):
    """What answers an episode's requests: ``Sites``, or anything like them."""

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts that answer."""

    @property
    def cookies(self) -> dict[str, str]:
        """Sessions that are there from the beginning, by host."""

    def handle(self, request: Request) -> Response:
        """Answer a request."""


@dataclass
class Episode:
    """One episode as the server knows it.

    Args:
        sites: what it can reach; nothing, while it has not begun.
        refused: pages of other hosts that its browser asked for.
        failed: what a site raised instead of answering.
    """

    sites: Served | None = None
    refused: list[str] = field(default_factory=list)
    failed: Exception | None = None


class SiteServer:
    """Serves the sites of many episodes on one port of this machine.

    Args:
        port: which; any free one if 0.
    """

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.episodes: MutableMapping[str, Episode] = {}
        self._server: uvicorn.Server | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            InfrastructureError: that did not work.
        """
        app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
        app.add_api_route("/{path:path}", self._asked, methods=METHODS, response_model=None)
        listening = socket.create_server(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, lifespan="off", ws="none", timeout_keep_alive=75,
            server_header=False, date_header=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._running = asyncio.create_task(self._server.serve(sockets=[listening]))
        while not self._server.started:
            if self._running.done():
                raise InfrastructureError("the server of the web sites did not start")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None and self._running is not None:
            self._server.should_exit = True
            await self._running

    def enter(self) -> tuple[str, Episode]:
        """A new episode without sites, and the key by which it is known until it is left."""
        key, episode = secrets.token_hex(16), Episode()
        self.episodes[key] = episode
        return key, episode

    def leave(self, key: str) -> None:
        """Know an episode no more."""
        self.episodes.pop(key, None)

    def address(self, key: str, host: str) -> str:
        """Where a person sees an episode's site in a browser of their own.

        Args:
            key: of the episode.
            host: of the site, such as ``shop.test``.
        """
        return f"http://{host.partition('.')[0]}.{key}.localhost:{self.port}/"

    # -- requests ---------------------------------------------------------------------------------------------------

    async def _asked(self, asked: Asked) -> Answer:
        host, key = asked.headers.get("host", "").lower(), asked.headers.get(HEADER, "")
        person = PEOPLE.fullmatch(host) if not key else None
        if person is not None:
            host, key = f"{person[1]}.test", person[2]
        episode = self.episodes.get(key)
        if episode is None or episode.sites is None:
            return Answer(status_code=HTTPStatus.NOT_FOUND)
        if why := way_out(f"http://{host}/", episode.sites.hosts):
            return _turned_away(asked, episode, why)
        if asked.url.path == "/favicon.ico":  # browsers ask for it by themselves: no page may change by that
            return Answer(status_code=HTTPStatus.NO_CONTENT, headers={"cache-control": "max-age=86400"})
        if (body := await _body(asked)) is None:
            return Answer("This is too much.", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        cookies = dict(asked.cookies)
        if person is not None and SESSION not in cookies and host in episode.sites.cookies:
            cookies[SESSION] = episode.sites.cookies[host]
        query, path = Values.of(asked.url.query), asked.scope["path"]
        try:
            return _answered(episode.sites.handle(Request(asked.method, host, path, query, Values.of(body), cookies)))
        except Exception as error:  # a site's fault: the episode ends by it, as it does where pages need no server
            episode.failed = error
            return Answer("This site failed.", HTTPStatus.INTERNAL_SERVER_ERROR)


def _turned_away(asked: Asked, episode: Episode, why: str) -> Answer:
    """What leads out of the sites; only pages are noted, as what they hold is asked for by nobody."""
    if "upgrade-insecure-requests" not in asked.headers:
        return Answer(status_code=HTTPStatus.FORBIDDEN)
    episode.refused.append(why)
    return Answer(status_code=HTTPStatus.NO_CONTENT)


async def _body(asked: Asked) -> str | None:
    """What was sent; nothing if it is too large."""
    parts, size = [], 0
    async for part in asked.stream():
        size += len(part)
        if size > LARGEST:
            return None
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def _answered(response: Response) -> Answer:
    body = re.sub(r"<form\b", UNKEPT, response.body)
    headers = {"cache-control": "no-store", "referrer-policy": "same-origin"}
    if response.location:
        headers["location"] = quote(response.location, safe=ADDRESS)
    answer = Answer(body, response.status, headers, media_type="text/html")
    for name, value in response.cookies.items():
        if value:
            answer.set_cookie(name, value, httponly=True, samesite="lax")
        else:
            answer.delete_cookie(name)
    return answer
