"""``reset_for``: start an episode for a request over HTTP, unless its client leaves before the answer."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from ...errors import RequestError
from ...tasks.spec import TaskSpec
from ..incoming import ClientGone, unless_gone
from .catalog import Served
from .episodes import Episodes


async def reset_for(
    request: Request,
    episodes: Episodes,
    client: str,
    id: str,
    served: Served,
    task: TaskSpec,
    *,
    wait: float = 0.0,
    connection: object,
) -> dict[str, Any]:
    """Start an episode whose id only the answer tells the client.

    Args:
        request: request of the client; its body has been read.
        episodes: episodes of the server.
        client: digest of the client's token.
        id: id of the episode.
        served: environment to play.
        task: task to reset to.
        wait: maximum seconds to wait for a place.
        connection: connection of the episode.

    Raises:
        RequestError: the client disconnected, so that the episode was closed.
    """
    try:
        return await unless_gone(request, episodes.reset(client, id, served, task, wait, connection))
    except ClientGone:
        await episodes.close(client, id)
        raise RequestError("the client closed the connection", code="lost") from None
