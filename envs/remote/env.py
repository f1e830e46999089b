"""``RemoteEnv``: an environment of a server, as an environment of this process."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from ...errors import ContractError, InfrastructureError, UsageError
from ...loop_thread import LoopThread
from ...tasks.family import TaskFamily
from ...tasks.rng import Rng
from ...tasks.spec import TaskSpec
from ..base import Reset, Stepped, TurnEnv
from ..messages import Action, ActionLike
from ..tools import Tool
from .address import Address, remote_id, servers_of
from .connection import connection_to
from .description import Description
from .episode import RemoteEpisode, description_of, key_of
from .frames import Hello
from .wire import Wire

LOOP = LoopThread("turnwise-remote", "connections to environment servers")
"""The loop of all connections of environments that ``make`` creates; the runner's own are in its loop."""
WAIT = 30.0
"""Seconds that ``reset`` waits for a place on a server that is full."""


class Closable(Protocol):
    """A client of a server."""

    async def close(self) -> None:
        """End the session, or the connections."""


def close_later(client: Closable) -> None:
    """Close a client on the loop of connections without waiting, also while its environment is collected."""

    async def close() -> None:
        with contextlib.suppress(Exception):
            await client.close()

    LOOP.submit(close())


class RemoteEnv(TurnEnv):
    """An environment that a server runs; ``turnwise.make("turnwise://host:port/ID")`` creates it.

    Same task and same actions give the same observations, rewards and info as in process. What needs the environment's
    code (near misses, attacks, secrets, the best return) stays on the server. The oracle needs the operator's key.
    ``random_action`` draws a seed from ``rng``, and the server draws the action from that seed.

    Args:
        address: the server.
        env: the server's id of the environment.
        episode: an episode to continue, of a fork.
    """

    def __init__(self, address: Address, env: str, *, episode: RemoteEpisode | None = None) -> None:
        described = LOOP.wait(_described(address, env))
        vars(self).update(
            _address=address,
            _env=env,
            _described=described,
            _tools=described.tools,
            _key=None,
            _remote=episode or LOOP.wait(RemoteEpisode.at(address, env, described.digest)),
        )
        self.max_turns, self.max_turns_truncates = described.max_turns, described.max_turns_truncates
        self.contract = described.contract
        super().__init__()
        self._closing = weakref.finalize(self, close_later, self._remote)

    # -- what differs from an environment in process -------------------------------------------------------------

    def start(self, task: Any, rng: Rng) -> str:
        """Not called: the server starts episodes."""
        raise ContractError("a remote environment starts on its server; call reset()")

    def act(self, action: Action) -> str:
        """Not called: the server acts."""
        raise ContractError("a remote environment acts on its server; call step()")

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that the agent may call."""
        return self._tools

    @property
    def remote_digest(self) -> str:
        """The server's digest of environment and version."""
        return self._described.digest

    @property
    def wire(self) -> Wire:
        """The connection, as certification needs to know it."""
        hello = LOOP.wait(hello_of(self._address))
        why = "" if hello.operator else "the oracle needs the operator's key: set TURNWISE_TOKEN to it"
        return Wire("turnwise", hello.capacity, why)

    def tasks(self) -> TaskFamily[Any]:  # type: ignore[override]
        """Return the family of the server's tasks. It depends on the instance, unlike that of other environments."""
        address, env = self._address, self._env
        return self._described.family_of(lambda task: LOOP.wait(key_of(address, env, task)))

    def state_key(self) -> str | None:
        """Return the key of the current state that the server sent with its last answer."""
        return self._key

    @property
    def has_oracle(self) -> bool:
        """Whether the environment has an oracle, and the server lets this client ask it."""
        return self._described.has_oracle and LOOP.wait(hello_of(self._address)).operator

    def oracle(self) -> ActionLike:
        """Return the environment's own best next action, which needs the operator's key."""
        return LOOP.wait(self._remote.oracle())

    def random_action(self, rng: Rng) -> ActionLike:
        """Return the server's random action for a seed that ``rng`` draws."""
        return LOOP.wait(self._remote.random(rng.randrange(2**31)))

    # -- both API forms -------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode; see ``TurnEnv.reset``."""
        return self._started(LOOP.wait(self._remote.reset(self._prepared(seed, options), WAIT)))

    async def areset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode without blocking the event loop."""
        return self._started(await LOOP.run(self._remote.reset(self._prepared(seed, options), WAIT)))

    def step(self, action: ActionLike) -> Stepped:
        """Take one action; see ``TurnEnv.step``."""
        return self._taken(LOOP.wait(self._remote.step(self._sent(action))))

    async def astep(self, action: ActionLike) -> Stepped:
        """Take one action without blocking the event loop."""
        return self._taken(await LOOP.run(self._remote.step(self._sent(action))))

    def fork(self) -> Self:
        """Return an independent environment in the same state; the fork needs a place of its own on the server."""
        if self._task is None:
            raise ContractError("fork() needs an episode; call reset() first")
        clone = type(self)(self._address, self._env, episode=LOOP.wait(self._remote.fork()))
        same = ("_task", "_turn", "_over", "_actions", "_tools", "_key", "spec")
        vars(clone).update({name: getattr(self, name) for name in same})
        return clone

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(self._address, self._env) if self._task is None else self.fork()

    def close(self) -> None:
        """End the episode on the server."""
        self._closing()
        super().close()

    # -- the inside -----------------------------------------------------------------------------------------------

    _address: Address
    _env: str
    _described: Description
    _tools: Sequence[Tool]
    _key: str | None
    _remote: RemoteEpisode

    def _prepared(self, seed: int | None, options: Mapping[str, Any] | None) -> TaskSpec:
        spec = self._specified(seed, options)
        if not self._closing.alive:
            raise ContractError("this environment is closed; make another one")
        return spec

    def _started(self, answer: tuple[Reset, tuple[Tool, ...]]) -> Reset:
        (observation, info), tools = answer
        vars(self).update(_tools=tools, _key=info.get("obs_key"), _over=False)
        return observation, info

    def _sent(self, action: ActionLike) -> Action:
        self._enter(action)
        return self._actions[-1]

    def _taken(self, stepped: Stepped) -> Stepped:
        _, _, terminated, truncated, info = stepped
        vars(self).update(_over=terminated or truncated, _key=info.get("obs_key"))
        return stepped


def remote_env(id: str, **kwargs: Any) -> RemoteEnv:
    """Create the environment that ``turnwise://host:port/ID`` names; of several servers, on the first that answers.

    Raises:
        UsageError: the id is malformed, the server refuses the token or version, or there are arguments.
        UnknownEnvironmentError: the server has no such environment.
        InfrastructureError: the server cannot be reached.
    """
    *others, last = [remote_id(each) for each in servers_of(id)]
    if kwargs:
        raise UsageError(
            f"{id} does not take the argument {sorted(kwargs)[0]!r}: `turnwise serve` decides the arguments of its "
            "environments"
        )
    for address, env in others:
        with contextlib.suppress(InfrastructureError):
            return RemoteEnv(address, env)
    return RemoteEnv(*last)


async def hello_of(address: Address) -> Hello:
    """Return what a server announced last."""
    return await connection_to(address).hello()


async def _described(address: Address, env: str) -> Description:
    return await description_of(connection_to(address), env)
