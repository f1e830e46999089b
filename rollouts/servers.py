"""``Servers``: the servers of a remote environment. A new host goes where the smallest share of places is taken."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..envs.remote.address import Address, is_remote, remote_id, servers_of
from ..envs.remote.connection import connection_to
from ..envs.remote.env import LOOP
from ..envs.remote.outages import forget, report_lost
from ..errors import InfrastructureError, UsageError
from .host_socket import SocketHost
from .hosts import Host

REST = 10.0
"""Seconds after which a server that did not answer is tried again."""
LOOK = 1.0
"""Seconds between two looks for a free place, while all are taken."""
Answer = int | InfrastructureError | UsageError
"""Places of a server, or the reason why it cannot be used."""


class Servers:
    """One or several servers of the same environment, for the hosts of a pool.

    Args:
        id: ``turnwise://host:port/ID``, or ``turnwise://host:port,host:port/ID`` for several.

    Raises:
        UsageError: the id is malformed, or a server refuses the token or the version.
        InfrastructureError: no server can be reached.
    """

    def __init__(self, id: str) -> None:
        ids = {remote_id(each)[0]: each for each in servers_of(id)}
        shuffled = random.Random().sample(list(ids), len(ids))
        self._ids = {each: ids[each] for each in shuffled}  # among equal ones, workers of a cluster choose different
        self._places: dict[Address, int] = {}
        self._tries: dict[Address, asyncio.Task[Answer]] = {}
        self._tried: dict[Address, float] = {}
        self._digest: str | None = None
        self._changed = asyncio.Event()
        self._held: set[SocketHost] = set()
        self.branching, self._sharers = False, 1
        self.line = asyncio.Lock()
        """Held by the pool from the choice of a server until the host counts as taken."""
        forget(ids)
        answers = LOOP.wait(_answers_of(ids))
        if not any(isinstance(answer, int) for answer in answers) or any(isinstance(a, UsageError) for a in answers):
            raise _problem_of(answers)
        for address, answer in zip(ids, answers, strict=True):
            self._note(address, answer)

    @property
    def places(self) -> int:
        """Number of episodes that all servers play at a time."""
        return sum(self._places.values())

    def keep_for_forks(self, sharers: int = 1) -> int:
        """Give new hosts only half of the places, so that forks find one; return how many forks fit at a time.

        Args:
            sharers: number of processes that share the places, this one included; each gets an equal part.

        Raises:
            UsageError: no server has two places.
        """
        if not (forks := sum(places // 2 for places in self._places.values())):
            raise UsageError(
                f"episodes of {next(iter(self._ids.values()))} are to be forked, but its server plays one at a time: "
                "start it with --capacity 2 or more"
            )
        self.branching, self._sharers = True, sharers
        return max(1, forks // sharers)

    async def open(self) -> SocketHost | None:
        """Return a host on a server that has room; ``None`` if an open host or a fork must end first.

        A server without a connection is tried beside that, and waited for only if no host is open.

        Raises:
            InfrastructureError: no host is open, and no server can be reached.
            UsageError: a server has another version of the environment than the first host.
        """
        taken = Counter(host.connection.address for host in self._held)
        tries = [self._try(each, 0.0 if not taken else REST) for each in self._ids if not self._ready(each)]
        if not (room := self._with_room(taken)) and not taken:
            await self._first(tries)
            room = self._with_room(taken)
        problem: InfrastructureError | None = None
        for address in room:
            try:
                host = await SocketHost.open(self._ids[address], self._held, self._digest)
            except InfrastructureError as error:
                problem = problem or error
            else:
                self._digest = host.digest
                return host
        if problem is not None and not taken:
            raise problem
        return None

    async def change(self) -> None:
        """Wait until a host came back, or for ``LOOK`` seconds."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK):
                await self._changed.wait()

    def returned(self) -> None:
        """Note that a host came back."""
        self._changed.set()

    def usable(self, free: list[Host]) -> list[Host]:
        """Remove the hosts of lost servers from the free ones, and return these."""
        for host in [each for each in free if isinstance(each, SocketHost) and not each.connection.connected]:
            free.remove(host)
            host.abandon()
        return free

    async def close(self) -> None:
        """Try no more servers."""
        tries = list(self._tries.values())
        for task in tries:
            task.cancel()
        await asyncio.gather(*tries, return_exceptions=True)

    async def _first(self, tries: Iterable[asyncio.Task[Answer]]) -> None:
        """Wait for the first server that answers.

        Raises:
            InfrastructureError: none does.
            UsageError: none does, and one refuses the token or the version.
        """
        waiting, answers = set(tries), list[Answer]()
        while waiting and not any(isinstance(answer, int) for answer in answers):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            answers += [task.result() for task in done]
        if not any(isinstance(answer, int) for answer in answers):
            raise _problem_of(answers)

    def _try(self, address: Address, rest: float) -> asyncio.Task[Answer]:
        """Return the task that connects to a server; another one if the last ended ``rest`` seconds ago."""
        task = self._tries.get(address)
        if task is None or (task.done() and time.monotonic() - self._tried[address] >= rest):
            task = self._tries[address] = asyncio.create_task(self._ask(address), name="turnwise-server")
        return task

    async def _ask(self, address: Address) -> Answer:
        """Connect to a server, and note its places."""
        try:
            answer = await _answer_of(address)
        finally:
            self._tried[address] = time.monotonic()
        self._note(address, answer)
        return answer

    def _note(self, address: Address, answer: Answer) -> None:
        if isinstance(answer, int):
            self._places[address] = answer
            self._changed.set()
        else:
            others = "; its tasks go to the others" if len(self._ids) > 1 else ""
            report_lost(address, f"lost a server{others}: {answer}")

    def _with_room(self, taken: Counter[Address]) -> list[Address]:
        """Return the connected servers with a free place, by the share of their places that is taken."""
        places = {each: most - self.branching * (most // 2) for each, most in self._places.items() if self._ready(each)}
        filled = sum(min(taken[each], most) for each, most in places.items())
        if filled >= max(1, sum(places.values()) // self._sharers):
            return []
        room = [each for each in self._ids if each in places and taken[each] < places[each]]
        used = {each: max(taken[each], connection_to(each).load) for each in room}  # others' episodes, too
        return sorted(room, key=lambda each: used[each] / self._places[each])

    def _ready(self, address: Address) -> bool:
        return address in self._places and connection_to(address).connected


def servers_for(env_id: str, env_kwargs: Mapping[str, Any]) -> Servers | None:
    """Return the servers that a pool uses for an environment; ``None`` if the environment is not remote.

    Args:
        env_id: id of the environment.
        env_kwargs: its arguments; a remote one takes none, and ``make`` refuses them.
    """
    return Servers(env_id) if is_remote(env_id) and not env_kwargs else None


async def _answer_of(address: Address) -> Answer:
    try:
        return (await connection_to(address).hello()).capacity
    except (InfrastructureError, UsageError) as error:
        return error


async def _answers_of(addresses: Iterable[Address]) -> list[Answer]:
    return await asyncio.gather(*map(_answer_of, addresses))


def _problem_of(answers: Iterable[Answer]) -> Exception:
    """Return the error of servers that cannot be used: what one refuses, or else why none can be reached."""
    problems = [answer for answer in answers if not isinstance(answer, int)]
    refused = next((problem for problem in problems if isinstance(problem, UsageError)), None)
    return refused or InfrastructureError(" and ".join(map(str, problems)))
