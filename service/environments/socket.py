"""The server's side of Turnwise's own protocol: many episodes on one WebSocket, answers out of order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ...envs.remote.frames import PROTOCOL, action_from_json, decode, of
from ...envs.remote.problems import problem_of
from ...errors import RequestError
from ...tasks.spec import TaskSpec
from .access import Client
from .catalog import Catalog
from .episodes import Episodes
from .settings import ServeConfig
from .wire import Budget, Share, Wire

MOST_ATTACHED = 4096
"""Number of episodes that one request may attach."""
LONGEST_WAIT = 600.0
"""Maximum seconds that a client may wait for a place."""


class EnvironmentSocket:
    """One connection.

    Args:
        wire: its WebSocket.
        client: client of the connection.
        catalog: environments of the server.
        episodes: episodes of the server.
        config: settings of the server.
    """

    def __init__(self, wire: Wire, client: Client, catalog: Catalog, episodes: Episodes, config: ServeConfig) -> None:
        self._wire, self._client, self._catalog, self._episodes = wire, client, catalog, episodes
        self._config = config
        self._answering: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Answer requests until the socket breaks; its episodes then wait for their client."""
        await self._wire.send({"event": "hello", "data": self._hello()})
        beating = asyncio.create_task(self._beat())
        budget = Budget(self._config)
        try:
            async for text in self._wire.frames():
                await budget.take(len(text))
                await self._read(text, Share(budget, len(text)))
        finally:
            if self._wire.gone:
                await self._episodes.end_of(self)
            self._episodes.detach(self)
            for task in (beating, *self._answering.values()):
                task.cancel()
            await asyncio.gather(beating, *self._answering.values(), return_exceptions=True)

    async def _read(self, text: str, share: Share) -> None:
        try:
            frame = decode(text)
            id = of(frame.get("id"), int, "id")
        except RequestError as error:
            await self._wire.send({"id": None, "ok": False, "error": problem_of(error, hidden=False)})
            share.give()
            return
        if id in self._answering:  # sent again; the first one will be answered
            share.give()
            return
        self._answering[id] = asyncio.create_task(self._answer(id, frame, share))

    async def _answer(self, id: int, frame: Mapping[str, Any], share: Share) -> None:
        hidden, verb = not self._client.operator, str(frame.get("verb"))
        try:
            answer: dict[str, Any] = {"id": id, "ok": True, "data": await self._done(frame, share)}
        except Exception as error:
            answer = {"id": id, "ok": False, "error": problem_of(error, hidden=hidden, verb=verb)}
        try:
            await self._wire.send(answer)
        except Exception as error:  # an answer that is not JSON
            await self._wire.send({"id": id, "ok": False, "error": problem_of(error, hidden=hidden, verb=verb)})
        finally:
            self._answering.pop(id, None)
            share.give()

    async def _done(self, frame: Mapping[str, Any], share: Share) -> dict[str, Any]:
        verb, data = of(frame.get("verb"), str, "verb"), of(frame.get("data", {}), dict, "data")
        client, id = self._client.name, frame.get("episode")
        if verb == "describe":
            return self._catalog.find(data.get("env")).description
        if verb == "instance":
            return {"key": await self._catalog.find(data.get("env")).key(_task(data))}
        if verb == "reset":
            served = self._catalog.find(data.get("env"), data.get("digest"))
            task, wait = _task(data), _wait(data)
            return await self._episodes.reset(client, id, served, task, wait, self, share.set_apart)
        if verb == "close":
            await self._episodes.close(client, id)
            return {}
        if verb == "attach":
            return self._attached(of(data.get("episodes"), list, "episodes"))
        episode = self._episodes.find(client, id, self)
        if verb == "step":
            turn = of(data.get("turn"), int, "turn")
            return await self._episodes.step(episode, turn, action_from_json(data.get("action")))
        if verb == "fork":
            return await self._episodes.fork(episode, data.get("as"), self)
        if verb == "random":
            return await self._episodes.choose(episode, "random", of(data.get("seed"), int, "seed"))
        if verb == "oracle":
            if not self._client.operator:
                raise RequestError("the oracle needs the operator's key", code="forbidden")
            return await self._episodes.choose(episode, "oracle")
        raise RequestError(f"there is no verb {verb[:40]!r}", code="bad_frame")

    def _attached(self, ids: list[Any]) -> dict[str, Any]:
        lost = []
        for id in ids[:MOST_ATTACHED]:
            try:
                self._episodes.find(self._client.name, id, self)
            except RequestError:
                lost.append(id)
        return {"lost": lost}

    def _hello(self) -> dict[str, Any]:
        return {
            "protocol": PROTOCOL,
            "capacity": self._config.capacity,
            "load": self._episodes.places.load,
            "heartbeat": self._config.heartbeat,
            "reattach": self._config.reattach,
            "frame": self._config.frame,
            "environments": self._catalog.digests,
            "operator": self._client.operator,
        }

    async def _beat(self) -> None:
        while not self._wire.broken:
            await asyncio.sleep(self._config.heartbeat)
            places = self._episodes.places
            load = {"capacity": places.capacity, "load": places.load, "draining": places.draining}
            await self._wire.send({"event": "heartbeat", "data": load})


def _task(data: Mapping[str, Any]) -> TaskSpec:
    return TaskSpec.from_json(of(data.get("task"), dict, "task"))


def _wait(data: Mapping[str, Any]) -> float:
    wait = data.get("wait", 0)
    if not isinstance(wait, int | float):
        raise RequestError(f"wait must be a number of seconds; got {wait!r:.60}", code="bad_frame")
    return min(LONGEST_WAIT, float(wait))
