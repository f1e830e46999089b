"""Routes of the Open Reward Standard, as the clients of the package ``openreward`` use them.

A session is an episode, and the header ``X-Session-ID`` names it. Its client pings it; ``reattach`` seconds after the
last request it ends. A call streams its result, so that a client whose connection breaks can ask for it again.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from ...envs.remote.frames import of
from ...errors import RequestError
from ...tasks.spec import TaskSpec
from ..incoming import read_json
from . import ors, task_lists
from .access import Access, Client
from .calls import shared
from .catalog import Catalog, Served
from .episodes import Episodes
from .served_episode import ServedEpisode
from .settings import ServeConfig
from .streams import Streams

WAIT = 20.0
"""Maximum seconds that ``create`` waits for a place; the client then repeats the request a few times."""
PING = 10.0
"""Seconds between two pings of a stream; the client gives a silent one up after 30."""


class OrsRoutes:
    """The routes of one server.

    Args:
        catalog: environments.
        episodes: episodes.
        access: tokens that open the routes.
        config: settings.
        release: release of Turnwise.
    """

    def __init__(self, catalog: Catalog, episodes: Episodes, access: Access, config: ServeConfig, release: str) -> None:
        self._catalog, self._episodes, self._access, self._config = catalog, episodes, access, config
        self._release = release
        self._lists = task_lists.TaskLists()
        self._streams = Streams(config.connections, config.pending, clients=access.clients)

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to an application."""
        answers: dict[str, Callable[[Client, Request], Awaitable[Any]]] = {
            "GET /list_environments": self._environments,
            "GET /version": self._version,
            "POST /create_session": self._create_session,
            "POST /create": self._create,
            "POST /ping": self._ping,
            "POST /delete": self._delete,
            "POST /delete_session": self._delete,
        }
        per_env: dict[str, Callable[[Client, Request], Awaitable[Any]]] = {
            "GET /tools": self._tools,
            "GET /splits": self._splits,
            "POST /tasks": self._tasks,
            "POST /num_tasks": self._num_tasks,
            "POST /task": self._task,
            "POST /task_range": self._tasks,
            "GET /task_tools": self._task_tools,
            "GET /prompt": self._prompt,
            "GET /messages": self._messages,
            "POST /call": self._call,
        }
        for before, routes in (("", answers | per_env), ("/{env:path}", per_env)):
            for route, work in routes.items():
                method, _, path = route.partition(" ")
                app.add_api_route(before + path, self._answering(work, path[1:]), methods=[method])

    def _answering(
        self, work: Callable[[Client, Request], Awaitable[Any]], verb: str
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            client = self._access.client(request.headers)
            if client is None:
                return JSONResponse({"detail": "send a token of this server: X-API-Key, or Authorization: Bearer"}, 401)
            try:
                answer = await work(client, request)
            except Exception as error:
                status, detail = ors.problem(error, client, "reset" if verb == "create" else verb)
                return JSONResponse({"detail": detail}, status)
            if isinstance(answer, Response):
                return answer
            return Response(json.dumps(answer), media_type="application/json")

        return answered

    async def _environments(self, client: Client, request: Request) -> list[str]:
        return list(self._catalog.digests)

    async def _version(self, client: Client, request: Request) -> dict[str, Any]:
        return {"version": self._release, "build_sha": None}

    async def _tools(self, client: Client, request: Request) -> dict[str, Any]:
        return ors.tools_of(self._served(request).description["tools"])

    async def _splits(self, client: Client, request: Request) -> list[dict[str, str]]:
        return task_lists.splits_of(self._served(request))

    async def _num_tasks(self, client: Client, request: Request) -> dict[str, Any]:
        served, body = self._served(request), await self._body(request)
        return {"num_tasks": task_lists.number_of(served, of(body.get("split"), str, "split"))}

    async def _task(self, client: Client, request: Request) -> dict[str, Any]:
        served, body = self._served(request), await self._body(request)
        return {"task": self._chosen(served, body).to_json(), "env_name": served.id}

    async def _tasks(self, client: Client, request: Request) -> Response:
        """``tasks``, and ``task_range`` with ``start`` and ``stop``."""
        served, body = self._served(request), await self._body(request)
        ends = [None if body.get(end) is None else of(body[end], int, end) for end in ("start", "stop")]
        split = of(body.get("split"), str, "split")
        tasks = b", ".join(await self._lists.between(served, split, *ends))
        listed = b'{"tasks": [' + tasks + b'], "env_name": ' + json.dumps(served.id).encode() + b"}"
        return Response(listed, media_type="application/json")

    async def _create_session(self, client: Client, request: Request) -> Response:
        """Return the id of a session; nothing exists until ``create`` uses it."""
        if (await self._body(request)).get("env"):
            raise RequestError("this server takes no env_overrides", code="usage")
        start = ors.event("task_id", secrets.token_hex(16)) + ors.event("end", "")
        return Response(start, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})

    async def _create(self, client: Client, request: Request) -> dict[str, Any]:
        """Start the episode of a session; the same request again does nothing."""
        sid, body = _sid(request), await self._body(request)
        name = body.get("env_name")
        served = self._served(request) if name is None else self._catalog.named(of(name, str, "env_name"))
        if body.get("toolset_name") is not None:
            raise RequestError("this server has no toolsets; omit toolset_name", code="usage")
        spec = body.get("task_spec")
        if (spec is None) == (body.get("index") is None):
            raise RequestError("name the task by task_spec, or by split and index", code="bad_frame")
        task = self._chosen(served, body) if spec is None else TaskSpec.from_json(of(spec, dict, "task_spec"))
        # Without a connection, the episode ends as one whose socket broke, unless its client pings it.
        await self._episodes.reset(client.name, sid, served, task, WAIT, None)
        return {"sid": sid}

    async def _ping(self, client: Client, request: Request) -> dict[str, Any]:
        self._session(client, request)
        return {"status": "ok"}

    async def _delete(self, client: Client, request: Request) -> dict[str, Any]:
        await self._episodes.close(client.name, _sid(request))
        return {"sid": _sid(request)}

    async def _task_tools(self, client: Client, request: Request) -> dict[str, Any]:
        return ors.tools_of((await self._start(client, request))["tools"])

    async def _prompt(self, client: Client, request: Request) -> list[dict[str, Any]]:
        return ors.blocks_of((await self._start(client, request))["observation"])

    async def _messages(self, client: Client, request: Request) -> list[dict[str, Any]]:
        return ors.messages_of((await self._start(client, request))["observation"])

    async def _call(self, client: Client, request: Request) -> Response:
        body = await self._body(request)
        name, given = of(body.get("name"), str, "name"), of(body.get("input"), dict, "input")
        tools = (await self._start(client, request))["tools"]
        episode = self._session(client, request)
        turn = episode.turn if body.get("task_id") is None else _turn(body["task_id"], episode)
        self._streams.check(client.name, episode.id)
        if turn == episode.turn and episode.over:
            return _Stream(ors.events_of(ors.finished()), self._streams.take(client.name, episode.id))
        step = self._episodes.start_step(episode, turn, ors.action_of(tools, name, given))
        return _Stream(_events(client, episode, turn, step), self._streams.take(client.name, episode.id))

    async def _start(self, client: Client, request: Request) -> dict[str, Any]:
        """Return the answer to the reset of a session."""
        opening = self._session(client, request).opening
        assert opening is not None
        answer = await shared(opening)
        if "observation" not in answer:
            raise RequestError("this session is a fork of Turnwise's own protocol; ORS has no forks", code="conflict")
        return answer

    def _session(self, client: Client, request: Request) -> ServedEpisode:
        episode = self._episodes.find(client.name, _sid(request), None)
        env = request.path_params.get("env")
        if env is not None and self._catalog.named(env) is not episode.served:
            raise RequestError(f"this session belongs to {episode.served.id}", code="conflict")
        return episode

    def _served(self, request: Request) -> Served:
        """Return the environment of the path, or of ``X-Deployment``; the first if neither names one.

        Clients send some name as ``X-Deployment`` also to a server of one environment. There, only a name like our
        ids is refused.
        """
        if (env := request.path_params.get("env")) is not None:
            return self._catalog.named(env)
        name = request.headers.get("x-deployment", "")
        if not name or ("/" not in name and len(self._catalog.digests) == 1):
            return self._catalog.first
        return self._catalog.named(name)

    def _chosen(self, served: Served, body: dict[str, Any]) -> TaskSpec:
        return task_lists.task_at(served, of(body.get("split"), str, "split"), of(body.get("index"), int, "index"))

    async def _body(self, request: Request) -> dict[str, Any]:
        return of(await read_json(request, self._config.frame), dict, "the body")


class _Stream(StreamingResponse):
    """Server-sent events, whose end is reported also if the client left before the first."""

    def __init__(self, events: Any, left: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._left = left

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._left()


async def _events(
    client: Client, episode: ServedEpisode, turn: int, step: asyncio.Task[dict[str, Any]]
) -> AsyncIterator[str]:
    """Yield the turn, by which the client asks for a lost result again, and the result."""
    yield ors.event("task_id", str(turn))
    while not step.done():
        await asyncio.wait([step], timeout=PING)
        if not step.done():
            yield ": ping\r\n\r\n"
    try:
        events = list(ors.events_of(ors.result_of(await shared(step), episode.id)))
    except Exception as error:
        if episode.over and getattr(error, "code", "") == "conflict":  # a call before this one ended the episode
            events = list(ors.events_of(ors.finished()))
        else:
            events = [ors.event("error", ors.problem(error, client, "step")[1])]
    for each in events:
        yield each


def _sid(request: Request) -> str:
    sid = request.headers.get("x-session-id", "").strip()
    if not sid:
        raise RequestError("the header X-Session-ID is missing; create_session returns its value", code="task")
    return sid


def _turn(task_id: Any, episode: ServedEpisode) -> int:
    """Return the turn whose result a client asks for again; only the last one is kept."""
    if episode.last is None or of(task_id, str, "task_id") != str(episode.last[0]):
        raise RequestError("there is no such task_id; only the last call of a session can be resumed", code="conflict")
    return episode.last[0]
