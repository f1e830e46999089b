"""``SiteServer``: the sites of all episodes of this process over HTTP, for Chromium and for human viewers.

Every request of this process's Chromium comes here, because Chromium maps every host name and IP address to this server
(``launch.py``). A header that the browser sends with every request identifies the episode; its value cannot be guessed.
For a page of a host that the episode does not have, the answer is 204, and the browser stays where it is: no page can
leave the sites, and an attempt loses no page.
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
from fastapi import Request as HttpRequest
from fastapi import Response as Answer

from ....errors import InfrastructureError
from ....tasks.web.simulators.http import Request, Response, Values
from ....tasks.web.simulators.site import SESSION
from ..browser import way_out

HEADER = "x-turnwise-episode"
"""Header that identifies the episode."""
LARGEST = 2**20
"""Largest body of a request, in bytes."""
PEOPLE = re.compile(r"([a-z0-9-]+)\.([0-9a-f]{32})\.localhost(?::\d+)?")
"""Hosts for human viewers of an episode's sites: ``shop.<key>.localhost``."""
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
ADDRESS = "!#$%&'()*+,/:;=?@[]~"
"""Characters that stay as they are in a URL inside a header; all others are percent-encoded."""
UNKEPT = '<form autocomplete="off"'
"""Going back must show a form as the site sent it; by default, Chromium would restore the field values."""


class Served(Protocol):
    """A handler of an episode's requests: ``Sites``, or an object like it."""

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts that it answers for."""

    @property
    def cookies(self) -> dict[str, str]:
        """Initial session cookies, by host."""

    def handle(self, request: Request) -> Response:
        """Answer a request."""


@dataclass
class Episode:
    """The server's record of an episode.

    Args:
        sites: the sites that it can reach; ``None`` before it starts.
        refused: refused pages of other hosts that its browser requested.
        failed: exception of a site that failed to answer.
    """

    sites: Served | None = None
    refused: list[str] = field(default_factory=list)
    failed: Exception | None = None


class SiteServer:
    """Serves the sites of many episodes on one port of this machine.

    Args:
        port: port number; 0 for any free one.
    """

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.episodes: MutableMapping[str, Episode] = {}
        self._server: uvicorn.Server | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to listen.

        Raises:
            InfrastructureError: the server did not start.
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
        """Stop listening."""
        if self._server is not None and self._running is not None:
            self._server.should_exit = True
            await self._running

    def enter(self) -> tuple[str, Episode]:
        """Register an episode without sites, and return its key with its record."""
        key, episode = secrets.token_hex(16), Episode()
        self.episodes[key] = episode
        return key, episode

    def leave(self, key: str) -> None:
        """Forget an episode."""
        self.episodes.pop(key, None)

    def address(self, key: str, host: str) -> str:
        """Return the URL of an episode's site for human viewers.

        Args:
            key: secret key of the episode.
            host: host name of the site, such as ``shop.test``.
        """
        return f"http://{host.partition('.')[0]}.{key}.localhost:{self.port}/"

    # -- requests ---------------------------------------------------------------------------------------------------

    async def _asked(self, asked: HttpRequest) -> Answer:
        host, key = asked.headers.get("host", "").lower(), asked.headers.get(HEADER, "")
        person = PEOPLE.fullmatch(host) if not key else None
        if person is not None:
            host, key = f"{person[1]}.test", person[2]
        episode = self.episodes.get(key)
        if episode is None or episode.sites is None:
            return Answer(status_code=HTTPStatus.NOT_FOUND)
        if why := way_out(f"http://{host}/", episode.sites.hosts):
            return _turned_away(asked, episode, why)
        if asked.url.path == "/favicon.ico":  # browsers request it by themselves, and it must not change a page
            return Answer(status_code=HTTPStatus.NO_CONTENT, headers={"cache-control": "max-age=86400"})
        if (body := await _body(asked)) is None:
            return Answer("This is too much.", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        cookies = dict(asked.cookies)
        if person is not None and SESSION not in cookies and host in episode.sites.cookies:
            cookies[SESSION] = episode.sites.cookies[host]
        query, path = Values.of(asked.url.query), asked.scope["path"]
        try:
            return _answered(episode.sites.handle(Request(asked.method, host, path, query, Values.of(body), cookies)))
        except Exception as error:  # a site's fault ends the episode, as it does for pages without a server
            episode.failed = error
            return Answer("This site failed.", HTTPStatus.INTERNAL_SERVER_ERROR)


def _turned_away(asked: HttpRequest, episode: Episode, why: str) -> Answer:
    """Answer a request that leads out of the sites. Record only pages, since agents do not request their parts."""
    if "upgrade-insecure-requests" not in asked.headers:
        return Answer(status_code=HTTPStatus.FORBIDDEN)
    episode.refused.append(why)
    return Answer(status_code=HTTPStatus.NO_CONTENT)


async def _body(asked: HttpRequest) -> str | None:
    """Return the body of a request; ``None`` if it is too large."""
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
