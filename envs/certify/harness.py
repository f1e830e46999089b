"""The harness of certification: it makes environments, samples tasks, plays episodes, and watches the time of calls."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...tasks.family import TaskFamily
from ...tasks.spec import TaskSpec
from ...verdicts import NotApplicable
from ..asked import has_oracle
from ..author_line import method_at
from ..base import TurnEnv
from ..remote.wire import Wire, wire_of
from .effort import Effort
from .findings import Broken, OutOfTime
from .shared_state import shared_state
from .trace import Play, Script, Trace, player, script
from .trap import Sighting, trapped

START_SECONDS = 30.0
"""Seconds that a server may take for a reset beyond the environment's own limit."""
BUSY = 1.5
"""Load per processor from which a machine is too busy to call a slow answer the environment's fault."""


def machine_load() -> float:
    """Return how many processes want to run per processor of this machine, over a minute; 0 where that is unknown."""
    return os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 0.0


@dataclass(frozen=True, slots=True)
class Subject:
    """The environment under certification.

    Args:
        name: its id, or the name of its class.
        make: makes a new environment.
        address: how another process finds it (see ``other_process``), or ``None``.
        no_address: why there is no address.
        surroundings: environment variables that another process needs to find it.
    """

    name: str
    make: Callable[[], TurnEnv]
    address: dict[str, Any] | None = None
    no_address: str = ""
    surroundings: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Harness:
    """One certification in progress.

    Args:
        subject: the environment under certification.
        effort: how much is tried.
        seed: the first of the sampled seeds.
        clock: the time in seconds; only differences count.
        until: when the present law must end, on that clock.
        first: the first episodes played, before anything could leave traces.
        untouched: the values that all instances share, as they were before ``first``.
        raised: the law that reported an error first, by the error's type and the author's line.
        made: environments on a server that the present law has made.
        left: laws that ended before their call did, each with the thread of the call.
    """

    subject: Subject
    effort: Effort = field(default_factory=Effort)
    seed: int = 0
    clock: Callable[[], float] = time.monotonic
    until: float = math.inf
    doing: str = ""
    since: float = 0.0
    first: dict[tuple[TaskSpec, str], Trace] = field(default_factory=dict)
    untouched: dict[str, str] | None = None
    raised: dict[str, str] = field(default_factory=dict)
    made: list[weakref.ref[TurnEnv]] = field(default_factory=list)
    left: list[tuple[str, threading.Thread]] = field(default_factory=list)

    @cached_property
    def sample(self) -> TurnEnv:
        """An environment to ask for what its class declares; never played."""
        return self.subject.make()

    def make(self) -> TurnEnv:
        """Return a new environment."""
        env = self.subject.make()
        if self.wire is not None:
            self.made.append(weakref.ref(env))
        return env

    @cached_property
    def family(self) -> TaskFamily[Any]:
        """The family of its tasks."""
        return self.sample.tasks()

    @cached_property
    def specs(self) -> tuple[TaskSpec, ...]:
        """A sample of every split and level."""
        return tuple(
            spec
            for split in self.family.splits
            for level in self.family.levels
            for spec in self.family.sample(self.effort.samples, split=split, level=level, first_seed=self.seed)
        )

    @cached_property
    def few(self) -> tuple[TaskSpec, ...]:
        """Some of ``specs``, spread over splits and levels; all different."""
        more = self.family.sample(self.effort.few, split=self.specs[0].split, first_seed=self.seed)
        distinct = tuple(dict.fromkeys((*self.specs, *(more if len(set(self.specs)) < self.effort.few else ()))))
        n = min(self.effort.few, len(distinct))
        return tuple(distinct[i * len(distinct) // n] for i in range(n))

    @cached_property
    def players(self) -> tuple[str, ...]:
        """The standing players; the oracle only where one is written."""
        return ("oracle", "random", "null") if self.has_oracle else ("random", "null")

    @property
    def has_oracle(self) -> bool:
        """Whether the author wrote an oracle, and a server lets this client ask it."""
        return has_oracle(self.sample)

    def release(self) -> None:
        """Close the environments that a law has left open, so that a server has its places again."""
        for env in [env for made in self.made if (env := made()) is not None]:
            env.close()
        self.made.clear()

    def left_behind(self, only: str = "") -> str:
        """Return the names of the laws whose calls still run, or the name of one if its call does."""
        self.left = [(law, thread) for law, thread in self.left if thread.is_alive()]
        return ", ".join(dict.fromkeys(law for law, _ in self.left if only in ("", law)))

    @cached_property
    def wire(self) -> Wire | None:
        """The connection to an environment on a server; ``None`` for one of this process."""
        return wire_of(self.sample)

    @property
    def places(self) -> int:
        """Number of episodes that may be open at a time."""
        return (self.wire.places if self.wire is not None else 0) or sys.maxsize

    def at(self, method: str) -> str:
        """Return the place where the author defines a method, as the end of a message; ``""`` if a server has it."""
        if self.wire is not None:
            return ""
        return method_at(self.sample.unwrapped, method)

    def first_play(self, spec: TaskSpec, who: str) -> Trace:
        """The first episode of a task and a player; later ones are compared with it."""
        if self.untouched is None:
            self.untouched = self.shared()
        if (spec, who) not in self.first:
            self.first[spec, who] = self.play(who, spec)
        return self.first[spec, who]

    def shared(self) -> dict[str, str]:
        """Return the values that all instances share, by name."""
        return shared_state(type(self.sample.unwrapped))

    def changed(self) -> str:
        """Return what all instances share and what has changed since the beginning, as a remark with the cure."""
        before, after = self.untouched or {}, self.shared()
        names = sorted(name for name in after if after[name] != before.get(name))
        return f" (shared by all instances, and changed: {', '.join(names)}; set it in start())" if names else ""

    @cached_property
    def sightings(self) -> list[tuple[Sighting, TaskSpec, str]]:
        """Everything that episodes read or wrote outside of themselves."""
        roots = {cls.__module__.partition(".")[0] for cls in type(self.sample.unwrapped).__mro__}
        own = frozenset(roots - {"gymnasium", "builtins"})
        seen = []
        for spec in self.few:
            for who in self.players:
                # One loop, in this thread: the profiler sees no other.
                with asyncio.Runner() as runner, trapped(own) as found:
                    env = self.make()
                    episode = script(player(who), env, turns=self.effort.turns, options={"task": spec})
                    runner.run(self.arun(env, episode))
                seen += [(sighting, spec, who) for sighting in found]
        return seen

    @contextmanager
    def waiting_for(self, doing: str) -> Iterator[None]:
        """Mark a call that must answer in time.

        Raises:
            OutOfTime: the time of the present law ran out.
            Broken: the call took too long.
            OutOfTime: it did, but the machine is too busy to blame the environment.
        """
        if self.abandoned:
            raise OutOfTime("its law has ended")
        self.in_time()
        began = self.clock()
        self.since, self.doing = began, doing
        try:
            yield
            if (took := self.clock() - began) > self.limit:
                late = f"{doing} took {took:.1f} s"
                raise self.too_busy(late) or Broken(f"{late}; {self.too_slow(doing)}")
        finally:
            if not self.abandoned:  # otherwise this is another law's call
                self.doing = ""

    @property
    def abandoned(self) -> bool:
        """Whether the present thread is that of a law that ended before its call did."""
        return any(thread is threading.current_thread() for _, thread in self.left)

    @property
    def limit(self) -> float:
        """Seconds that the present call may take; on a server, a reset may also start a process or wait for a place."""
        more = START_SECONDS if self.wire is not None and "reset" in self.doing else 0.0
        return self.sample.contract.max_seconds + more

    def too_slow(self, doing: str, place: str = "") -> str:
        """Return what to do about a call that is too slow, with its line."""
        method = "act" if "step" in doing else "start"
        limit = self.sample.contract.max_seconds
        cure = f"make {method}() faster, or declare a larger max_seconds than {limit:g} in its contract"
        return f"{cure}{place or self.at(method)}"

    def too_busy(self, late: str) -> OutOfTime | None:
        """Return the outcome of a call that is late on a busy machine; ``None`` if the environment is to blame."""
        if (load := machine_load()) < BUSY:
            return None
        limit = self.sample.contract.max_seconds
        return OutOfTime(
            f"{late}, and max_seconds is {limit:g}, while {load:.1f} processes shared each processor of this machine; "
            "try again when it is less busy"
        )

    def in_time(self) -> None:
        """Raise ``OutOfTime`` when the time of the present law has run out."""
        if self.clock() > self.until:
            raise OutOfTime("its share of the time ran out before the end; allow more --minutes")

    @property
    def waited(self) -> float:
        """Seconds that the present call has taken; 0 when there is none."""
        return self.clock() - self.since if self.doing else 0.0

    def answer(self, env: TurnEnv, request: Any) -> Any:
        """Do what a script wants done."""
        name, arguments = request
        with self.waiting_for(f"{name}()"):
            return getattr(env, name)(**arguments)

    def run(self, env: TurnEnv, episode: Script) -> Trace:
        """Play a script to its end."""
        request = next(episode)
        while True:
            try:
                request = episode.send(self.answer(env, request))
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]

    async def arun(self, env: TurnEnv, episode: Script) -> Trace:
        """Play a script to its end through the async form."""
        request = next(episode)
        while True:
            name, arguments = request
            self.in_time()
            self.since, self.doing = self.clock(), f"a{name}()"
            answer = await getattr(env, f"a{name}")(**arguments)
            self.doing = ""
            await asyncio.sleep(0)  # lets the others in, also where the environment awaits nothing
            try:
                request = episode.send(answer)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]

    def play(
        self,
        who: str | Play,
        spec: TaskSpec | None = None,
        *,
        env: TurnEnv | None = None,
        seed: int | None = None,
        turns: int | None = 0,
        before: Play | None = None,
    ) -> Trace:
        """Play one episode from its reset, on a new environment unless one is given.

        ``turns`` says how far: 0 as far as the effort says, ``None`` to the end.
        """
        env = self.make() if env is None else env
        act = player(who) if isinstance(who, str) else who
        reset: dict[str, Any] = {"seed": seed} if spec is None else {"options": {"task": spec}}
        limit = self.effort.turns if turns == 0 else turns
        return self.run(env, script(act, env, turns=limit, before=before, **reset))

    def whole(self, who: str | Play, spec: TaskSpec, *, env: TurnEnv | None = None) -> Trace:
        """Play one episode to its end, or to one turn beyond the limit that it declares."""
        return self.play(who, spec, env=env, turns=None)

    def need_oracle(self) -> None:
        """Raise ``NotApplicable`` where there is no oracle, or none for this client."""
        if self.wire is not None and self.wire.no_oracle:
            raise NotApplicable(self.wire.no_oracle)
        if not self.has_oracle:
            raise NotApplicable("there is no oracle; oracle_solves says so")

    def need_places(self, n: int) -> None:
        """Raise ``NotApplicable`` if a server does not play ``n`` episodes at a time."""
        if self.places < n:
            raise NotApplicable(f"it needs {n} episodes at a time, and the server has {self.places} places")
