"""OpenEnv's ``/mcp``: the tools of an environment by JSON-RPC 2.0, as MCP names them.

A call acts in an episode. Over HTTP, ``initialize`` starts one for clients of MCP, and their header ``Mcp-Session-Id``
names it from then on. OpenEnv's clients start one by ``openenv/session/create``, which returns the ``session_id`` of
their calls. On ``/ws``, a message of type ``mcp`` acts in the episode of the session.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from ...envs.messages import Action, ToolCall
from ...envs.remote.frames import of
from ...envs.remote.problems import problem_of
from ...errors import RequestError
from . import openenv
from .access import Client
from .catalog import Served
from .episodes import Episodes
from .http_reset import reset_for
from .served_episode import ServedEpisode

SESSION = "mcp-session-id"
"""Header that names the session of an MCP client."""
PROTOCOLS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions of MCP whose sessions this route has."""
PROTOCOL = "2025-06-18"
"""Revision that the server states if a client names none of them."""
INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, SERVER_ERROR = -32600, -32601, -32602, -32000
"""Codes of JSON-RPC."""
STARTS = ("initialize", "openenv/session/create")
"""Methods that start an episode."""
CALLER = ("bad_frame", "invalid_request", "task", "usage", "conflict", "lost")
"""Kinds of errors that a caller's parameters cause."""


@dataclass(slots=True)
class McpSession:
    """The session of an MCP client over HTTP: one episode.

    Args:
        id: id of the session and its episode; ``None`` before ``initialize`` has started it.
        request: request to answer; the query of its URL has the parameters of the task.
    """

    id: str | None
    request: Request


class McpRoute:
    """The answers to one client about one environment.

    Args:
        client: client.
        served: environment.
        episodes: episodes of the server.
        release: release of Turnwise.
        session: episode of a WebSocket's session; ``None`` over HTTP, where each call names its own.
        visit: session of an MCP client over HTTP; ``initialize`` starts its episode.
        connection: connection whose end closes the episodes that a WebSocket's client starts; ``None`` over HTTP.
    """

    def __init__(
        self,
        client: Client,
        served: Served,
        episodes: Episodes,
        release: str,
        session: ServedEpisode | None = None,
        *,
        visit: McpSession | None = None,
        connection: object | None = None,
    ) -> None:
        self._client, self._served, self._episodes = client, served, episodes
        self._release, self._session, self._visit = release, session, visit
        self._connection = self if connection is None else connection

    async def answer(self, request: Any) -> dict[str, Any] | None:
        """Return the answer to a request; ``None`` for a notification, which has no answer."""
        if not isinstance(request, dict) or request.get("jsonrpc") != "2.0" or "method" not in request:
            return _error(None, INVALID_REQUEST, "a request has jsonrpc 2.0, a method, params and an id")
        id, method = request.get("id"), str(request["method"])
        if "id" not in request and method in STARTS:
            return None  # without an answer, no client could name the episode
        try:
            params = of(request.get("params") or {}, dict, "params")
            result = await self._result(method, params)
        except UnknownMethod:
            return _error(id, UNKNOWN_METHOD, f"there is no method {method[:60]!r}") if "id" in request else None
        except Exception as error:
            verb = "reset" if method in STARTS else method
            problem = problem_of(error, hidden=not self._client.operator, verb=verb)
            return _error(id, INVALID_PARAMS if problem["kind"] in CALLER else SERVER_ERROR, problem["message"])
        return {"jsonrpc": "2.0", "id": id, "result": result} if "id" in request else None

    async def _result(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            return await self._greeted(params)
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": self._tools(params)}
        if method == "tools/call":
            return await self._called(params)
        if method == "openenv/session/create":
            return await self._created(params)
        if method == "openenv/session/close":
            await self._episodes.close(self._client.name, of(params.get("session_id"), str, "session_id"))
            return {"session_id": params["session_id"], "closed": True}
        raise UnknownMethod

    async def _greeted(self, params: Mapping[str, Any]) -> dict[str, Any]:
        asked = params.get("protocolVersion")
        answer: dict[str, Any] = {
            "protocolVersion": asked if asked in PROTOCOLS else PROTOCOL,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self._served.id, "version": self._release},
        }
        if self._visit is None or self._visit.id is not None or not self._served.description["tools"]:
            return answer  # without tools, an episode could not be played
        query = self._visit.request.query_params
        chosen = {name: int(text) if text.isdecimal() else text for name, text in query.items()}
        begun = await self._created(chosen)
        self._visit.id = begun["session_id"]
        self._episodes.expect(self)  # MCP wants the client's next request at once
        return answer | {"instructions": begun["observation"]}

    def _tools(self, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        inside = self._session is not None or self._named(params) is not None
        tools = openenv.tools_of(self._episode(params) if inside else self._served)
        names = {"name": "name", "description": "description", "inputSchema": "input_schema"}
        return [{ours: tool[theirs] for ours, theirs in names.items()} for tool in tools]

    async def _created(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if self._session is not None:
            return {"session_id": self._session.id}
        task, id = openenv.task_of(self._served, params), secrets.token_hex(16)
        if self._visit is None:
            answer = await self._episodes.reset(self._client.name, id, self._served, task, 0.0, self._connection)
        else:
            answer = await reset_for(
                self._visit.request, self._episodes, self._client.name, id, self._served, task, connection=self
            )
        return {"session_id": id, "observation": openenv.observed(answer, id)["observation"]["text"]}

    async def _called(self, params: Mapping[str, Any]) -> dict[str, Any]:
        episode, name = self._episode(params), of(params.get("name"), str, "name")
        call = ToolCall(name, of(params.get("arguments") or {}, dict, "arguments"))
        answer = await self._episodes.step(episode, episode.turn, Action(tool_calls=(call,)))
        seen = openenv.observed(answer, episode.id)
        return {
            "content": [{"type": "text", "text": seen["observation"]["text"]}],
            "isError": openenv.went_wrong(answer["info"]),
            "_meta": {"reward": seen["reward"], "done": seen["done"], **seen["metadata"]},
        }

    def _episode(self, params: Mapping[str, Any]) -> ServedEpisode:
        if self._session is not None:
            return self._session
        id = self._named(params)
        if id is None:
            raise RequestError("a call acts in an episode: start one with openenv/session/create", code="conflict")
        episode = self._episodes.find(self._client.name, id, None if self._visit is None else self)
        if episode.served is not self._served:
            raise RequestError(f"this session belongs to {episode.served.id}", code="conflict")
        return episode

    def _named(self, params: Mapping[str, Any]) -> Any:
        """Return the id of the episode that a request over HTTP names, if any."""
        named = params.get("session_id")
        return self._visit.id if named is None and self._visit is not None else named


class UnknownMethod(Exception):
    """The server does not have the method."""


def _error(id: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}
