"""NeMo Gym's ``/mcp``: the tools of one session, for agents that act by MCP.

``seed_session`` returns a header that opens its session alone, so that an agent in a sandbox needs no token of the
server.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Any

from ...envs.remote.frames import of
from . import nemo, openenv, ors
from .calls import shared
from .episodes import Episodes
from .mcp_route import McpRoute, UnknownMethod
from .served_episode import ServedEpisode

HEADER = "X-NeMo-Gym-Session-Token"
"""Header that names the session."""
DIGITS = 32
"""Length of an episode's id, and of the digest that follows it in the header's value."""


class SessionTokens:
    """Tokens of sessions, which only this server can make."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def of(self, id: str) -> str:
        """Return the token of a session, by the id of its episode."""
        return id + hmac.digest(self._key, id.encode(), "sha256").hex()[:DIGITS]

    def id_in(self, token: str) -> str | None:
        """Return the id of the episode whose token this is, or ``None``."""
        id = token[:DIGITS]
        return id if hmac.compare_digest(token.encode(), self.of(id).encode()) else None


def access(token: str) -> dict[str, Any]:
    """Return how an agent reaches the tools of a session, as ``seed_session`` answers it."""
    return {"server_name": nemo.SERVER, "url_path": "/mcp", "transport": "http", "headers": {HEADER: token}}


class SessionTools(McpRoute):
    """The tools of a session by JSON-RPC: those of its environment, and the one that takes text.

    Args:
        client: client that began the session.
        episode: its episode.
        episodes: episodes of the server.
        release: release of Turnwise.
    """

    def __init__(self, client: Any, episode: ServedEpisode, episodes: Episodes, release: str) -> None:
        super().__init__(client, episode.served, episodes, release, episode)
        self._open_episode = episode

    async def _result(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if method.startswith("openenv/"):
            raise UnknownMethod
        if method == "tools/list":
            listed = ors.tools_of(await self._own_tools())["tools"]
            keys = {"name": "name", "description": "description", "inputSchema": "input_schema"}
            return {"tools": [{ours: tool[theirs] for ours, theirs in keys.items()} for tool in listed]}
        return await super()._result(method, params)

    async def _called(self, params: Mapping[str, Any]) -> dict[str, Any]:
        name, given = of(params.get("name"), str, "name"), of(params.get("arguments") or {}, dict, "arguments")
        action = ors.action_of(await self._own_tools(), name, given)
        if self._open_episode.over:
            return _content(nemo.FINISHED, went_wrong=True)
        answer = await self._episodes.step(self._open_episode, self._open_episode.turn, action)
        return _content(nemo.text_of(answer["observation"]), went_wrong=openenv.went_wrong(answer["info"]))

    async def _own_tools(self) -> Any:
        assert self._open_episode.opening is not None
        return (await shared(self._open_episode.opening))["tools"]


def _content(text: str, *, went_wrong: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": went_wrong}
