"""``RemoteEpisode``: an episode on a server, as coroutines in the loop of its connection."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Any, Self

from ...errors import RequestError, UsageError
from ...tasks.spec import TaskSpec
from ..base import Reset, Stepped
from ..messages import Action
from ..tools import Tool
from .address import Address
from .connection import Connection, connection_to
from .description import Description
from .frames import action_from_json, action_to_json, reset_from_json, sendable, stepped_from_json


class RemoteEpisode:
    """One environment of a server, and its current episode there.

    Each ``reset`` starts an episode with an id of its own and closes the one before. Requests repeat the id and the
    number of the turn, so that one which arrives twice acts once.

    Args:
        connection: connection to the server, in the running event loop.
        env: the server's id of the environment.
        digest: digest that the server must still have.
    """

    def __init__(self, connection: Connection, env: str, digest: str) -> None:
        self.connection, self.env, self.digest = connection, env, digest
        self._episode: str | None = None
        self._turn = 0

    @classmethod
    async def at(cls, address: Address, env: str, digest: str | None = None) -> Self:
        """Connect to a server, and check that it has the environment.

        Args:
            address: server.
            env: the server's id of the environment.
            digest: digest that it must have (default: any).

        Raises:
            UnknownEnvironmentError: it has no such environment.
            UsageError: its environment has another digest.
        """
        connection = connection_to(address)
        if digest is None:
            digest = (await description_of(connection, env)).digest
        elif (theirs := (await connection.hello()).environments.get(env)) != digest:
            raise UsageError(
                f"{address}: {env} has the digest {theirs} now, and this run started with {digest}: environment or "
                "release have changed; start another run"
            )
        return cls(connection, env, digest)

    async def reset(self, task: TaskSpec, wait: float) -> tuple[Reset, tuple[Tool, ...]]:
        """Start an episode, and wait up to ``wait`` seconds for a place on the server."""
        await self.close()
        episode = self._begin(secrets.token_hex(16), 0)
        data = {"env": self.env, "digest": self.digest, "task": task.to_json(), "wait": wait}
        return reset_from_json(await self.connection.ask("reset", data, episode))

    async def step(self, action: Action) -> Stepped:
        """Take one action. One that is larger than a frame, or no JSON, counts as one that cannot be read."""
        turn, self._turn = self._turn, self._turn + 1
        try:
            answer = await self.connection.ask("step", _step(turn, sendable(action)), self._episode)
        except RequestError as error:
            unread = Action(problem=f"Your action is too long: {error}.")
            answer = await self.connection.ask("step", _step(turn, unread), self._episode)
        return stepped_from_json(answer)

    async def oracle(self) -> Action:
        """Return the environment's own best next action, which needs the operator's key."""
        return action_from_json((await self.connection.ask("oracle", {}, self._episode))["action"])

    async def random(self, seed: int) -> Action:
        """Return an action of an agent that knows only the rules."""
        return action_from_json((await self.connection.ask("random", {"seed": seed}, self._episode))["action"])

    async def fork(self) -> RemoteEpisode:
        """Return an independent episode in the same state; it needs a place of its own."""
        made = RemoteEpisode(self.connection, self.env, self.digest)
        episode = made._begin(secrets.token_hex(16), self._turn)
        try:
            await self.connection.ask("fork", {"as": episode}, self._episode)
        except asyncio.CancelledError:  # the server makes the fork, or has made it, and it would keep its place
            closing = asyncio.ensure_future(_closed(made))
            _closing.add(closing)
            closing.add_done_callback(_closing.discard)
            raise
        except BaseException:
            made._leave()
            raise
        return made

    async def close(self) -> None:
        """End the episode, if there is one."""
        if (episode := self._leave()) is not None:
            await self.connection.ask("close", {}, episode)

    def _begin(self, episode: str, turn: int) -> str:
        self._episode, self._turn = episode, turn
        self.connection.keep(episode)
        return episode

    def _leave(self) -> str | None:
        episode, self._episode = self._episode, None
        if episode is not None:
            self.connection.forget(episode)
        return episode


async def description_of(connection: Connection, env: str) -> Description:
    """Return a server's description of one of its environments.

    Raises:
        UnknownEnvironmentError: it has no such environment.
    """
    return Description.from_json(await connection.ask("describe", {"env": env}))


async def key_of(address: Address, env: str, task: TaskSpec) -> str:
    """Return a server's key of a task."""
    answer = await connection_to(address).ask("instance", {"env": env, "task": task.to_json()})
    return str(answer["key"])


async def _closed(episode: RemoteEpisode) -> None:
    with contextlib.suppress(Exception):
        await episode.close()


_closing: set[asyncio.Future[None]] = set()
"""Requests to close that nothing waits for; the loop itself refers to them only weakly."""


def _step(turn: int, action: Action) -> dict[str, Any]:
    return {"turn": turn, "action": action_to_json(action)}
