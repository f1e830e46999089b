"""OpenEnv's routes: ``/ws`` for sessions, and HTTP for single requests and descriptions.

The first environment is at the root, and each at ``/openenv/ID``, so that an OpenEnv client takes
``http://host:port/openenv/turnwise/Maze-v0`` as its base URL.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import JSONResponse, Response

from ...envs.remote.frames import decode, of
from ...errors import RequestError, TurnwiseError
from ..incoming import read_json
from . import openenv
from .access import Access, Client
from .catalog import Catalog, Served
from .episodes import Episodes
from .http_reset import reset_for
from .mcp_route import SESSION, McpRoute, McpSession
from .openenv import OpenEnvSession
from .settings import ServeConfig
from .wire import Budget

UNKNOWN = "unknown_environment"
"""Code of a request that names an environment which the server lacks."""
LOST = "lost"
"""Code of a request that names an episode which the server does not have any more."""
STATUS = {"CAPACITY_REACHED": 503, "VALIDATION_ERROR": 422, "SESSION_ERROR": 409}
"""HTTP status by OpenEnv's code; any other is 500."""


class OpenEnvRoutes:
    """The routes of one server.

    Args:
        catalog: environments.
        episodes: episodes.
        access: tokens that open the routes.
        config: settings.
        release: release of Turnwise.
        admit: function that accepts a WebSocket of a known client, or refuses it and returns ``None``.
    """

    def __init__(
        self, catalog: Catalog, episodes: Episodes, access: Access, config: ServeConfig, release: str, admit: Any
    ) -> None:
        self._catalog, self._episodes, self._access, self._config = catalog, episodes, access, config
        self._release, self._admit = release, admit

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to an application."""
        for before in ("", "/openenv/{env:path}"):
            app.add_api_route(f"{before}/health", self.health, methods=["GET"])
            app.add_api_route(f"{before}/metadata", self.metadata, methods=["GET"])
            app.add_api_route(f"{before}/schema", self.schema, methods=["GET"])
            app.add_api_route(f"{before}/reset", self.reset, methods=["POST"])
            app.add_api_route(f"{before}/step", self.step, methods=["POST"])
            app.add_api_route(f"{before}/state", self.state, methods=["GET"])
            app.add_api_route(f"{before}/openapi.json", self.openapi, methods=["GET"])
            app.add_api_route(f"{before}/mcp", self.mcp, methods=["POST"])
            app.add_api_route(f"{before}/mcp", self.end_mcp, methods=["DELETE"])
            app.add_api_websocket_route(f"{before}/ws", self.socket)

    async def health(self, request: Request) -> Response:
        """``GET /health``, without a token."""
        return JSONResponse({"status": "healthy"})

    async def metadata(self, request: Request) -> Response:
        """``GET /metadata``."""
        return await self._answered(request, lambda _, served: openenv.metadata(served, self._release))

    async def schema(self, request: Request) -> Response:
        """``GET /schema``."""
        return await self._answered(request, lambda _, served: openenv.schema(served))

    async def openapi(self, request: Request) -> Response:
        """``GET /openapi.json``: the routes, of which OpenEnv's validation reads the version and the paths."""
        return await self._answered(request, lambda *_: request.app.openapi())

    async def reset(self, request: Request) -> Response:
        """``POST /reset``: starts an episode, whose id stands in ``metadata``; ``/step`` needs it."""

        async def reset(client: Client, served: Served) -> dict[str, Any]:
            task, id = openenv.task_of(served, await self._body(request)), secrets.token_hex(16)
            answer = await reset_for(request, self._episodes, client.name, id, served, task, connection=self)
            return openenv.observed(answer, id)

        return await self._answered(request, reset, verb="reset")

    async def step(self, request: Request) -> Response:
        """``POST /step``, once for each ``request_id``."""

        async def step(client: Client, served: Served) -> dict[str, Any]:
            body = await self._body(request)
            if body.get("episode_id") is None:
                raise RequestError(
                    "name the episode: repeat the episode_id of metadata that /reset returned, or use the session of "
                    "/ws, as OpenEnv's own clients do",
                    code="conflict",
                )
            episode = self._episodes.find(client.name, body["episode_id"], self)
            key = of(body.get("request_id") or "", str, "request_id") or None
            action = of(body.get("action"), dict, "action")
            answer = await openenv.stepped(self._episodes, episode, action, "", key)
            if answer["done"] and key is None:  # with a key, the client may ask again
                await self._episodes.close(client.name, episode.id)
            return answer

        return await self._answered(request, step)

    async def state(self, request: Request) -> Response:
        """``GET /state?episode_id=…``."""

        def state(client: Client, served: Served) -> dict[str, Any]:
            id = request.query_params.get("episode_id")
            if id is None:
                return {"episode_id": None, "step_count": 0}
            return openenv.state_of(self._episodes.find(client.name, id, self))

        return await self._answered(request, state)

    async def mcp(self, request: Request) -> Response:
        """``POST /mcp``: JSON-RPC; see ``mcp_route``."""
        client = self._access.client(request.headers)
        if client is None:
            return self._unknown()
        visit = McpSession(request.headers.get(SESSION), request)
        try:
            body, served = await read_json(request, self._config.frame), self._catalog.find(self._env(request))
            if visit.id is not None:
                self._episodes.find(client.name, visit.id, self)
        except TurnwiseError as error:
            return JSONResponse({"detail": str(error)}, 404 if getattr(error, "code", "") in (UNKNOWN, LOST) else 400)
        answer = await McpRoute(client, served, self._episodes, self._release, visit=visit).answer(body)
        if answer is None:
            return Response(status_code=202)
        headers = {SESSION: visit.id} if visit.id is not None else {}
        return Response(json.dumps(answer), media_type="application/json", headers=headers)

    async def end_mcp(self, request: Request) -> Response:
        """``DELETE /mcp``: ends the session of an MCP client."""
        client = self._access.client(request.headers)
        if client is None:
            return self._unknown()
        await self._episodes.close(client.name, request.headers.get(SESSION))
        return Response(status_code=204)

    async def socket(self, websocket: WebSocket) -> None:
        """``/ws``: one session."""
        admitted = await self._admit(websocket)
        if admitted is None:
            return
        client, wire = admitted
        try:
            session = OpenEnvSession(client, self._catalog.find(self._env(websocket)), self._episodes)
        except RequestError as error:
            await wire.send({"type": "error", "data": {"message": str(error), "code": "FACTORY_ERROR"}})
            await wire.close()
            return
        budget = Budget(self._config)
        try:
            async for text in wire.frames():
                await budget.take(len(text))
                answer = await self._message(client, session, text)
                budget.give(len(text))
                if answer is None:
                    break
                await wire.send(answer)
                if answer["data"].get("code") == "CAPACITY_REACHED":
                    break
        finally:
            await self._episodes.end_of(session)
            await wire.close()

    async def _message(self, client: Client, session: OpenEnvSession, text: str) -> dict[str, Any] | None:
        """Return the answer to a message; ``None`` for ``close``."""
        try:
            message = decode(text)
        except RequestError as error:
            return {"type": "error", "data": {"message": str(error), "code": "INVALID_JSON"}}
        kind = message.get("type")
        try:
            data = of(message.get("data", {}), dict, "data")
            if kind == "reset":
                return {"type": "observation", "data": await session.reset(data)}
            if kind == "step":
                return {"type": "observation", "data": await session.step(data)}
            if kind == "state":
                return {"type": "state", "data": session.state()}
            if kind == "mcp":
                served, episode = session.served, session.open_episode
                route = McpRoute(client, served, self._episodes, self._release, episode, connection=session)
                return {"type": "mcp", "data": await route.answer(data) or {}}
        except Exception as error:
            return {"type": "error", "data": openenv.error_of(error, client, self._episodes, str(kind))}
        if kind == "close":
            return None
        known = "reset, step, state, mcp and close"
        return {"type": "error", "data": {"message": f"this server knows {known}", "code": "UNKNOWN_TYPE"}}

    async def _answered(self, request: Request, work: Callable[[Client, Served], Any], *, verb: str = "") -> Response:
        client = self._access.client(request.headers)
        if client is None:
            return self._unknown()
        try:
            answer = work(client, self._catalog.find(self._env(request)))
            answer = await answer if hasattr(answer, "__await__") else answer
        except TurnwiseError as error:
            if getattr(error, "code", "") == UNKNOWN:
                return JSONResponse({"detail": str(error)}, 404)
            data = openenv.error_of(error, client, self._episodes, verb)
            return JSONResponse({"detail": data["message"], **data}, STATUS.get(data["code"], 500))
        return Response(json.dumps(answer), media_type="application/json")

    def _unknown(self) -> Response:
        return JSONResponse({"detail": "send a token of this server: Authorization: Bearer …"}, 401)

    async def _body(self, request: Request) -> Mapping[str, Any]:
        body: Mapping[str, Any] = of(await read_json(request, self._config.frame), dict, "the body")
        return body

    def _env(self, connection: Request | WebSocket) -> str:
        return str(connection.path_params.get("env") or self._catalog.first.id)
