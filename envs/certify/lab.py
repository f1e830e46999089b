"""Where laws are tried: makes environments, samples tasks, plays episodes, and knows what is being waited for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...tasks.family import TaskFamily
from ...tasks.spec import TaskSpec
from ..base import TurnEnv
from .findings import NotApplicable
from .trace import Play, Script, Trace, player, script


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is tried.

    Args:
        samples: tasks per split and level.
        few: tasks on which the laws are tried that play many episodes each.
        turns: how far such episodes are played.
        random_episodes: how many episodes the random player gets.
        leak_episodes: how many episodes the leak law plays.
        processes: how many other processes repeat the episodes.
    """

    samples: int = 3
    few: int = 6
    turns: int = 40
    random_episodes: int = 60
    leak_episodes: int = 1000
    processes: int = 2


QUICK = Effort(samples=1, few=2, turns=10, random_episodes=20, leak_episodes=100, processes=1)
"""Enough to notice what is plainly broken."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is being certified.

    Args:
        name: its id, or the name of its class.
        make: makes a new environment.
        address: how another process finds it (see ``other_process``), or ``None``.
        no_address: why there is no address.
    """

    name: str
    make: Callable[[], TurnEnv]
    address: dict[str, Any] | None = None
    no_address: str = ""


@dataclass
class Lab:
    """One certification in progress.

    Args:
        subject: what is being certified.
        effort: how much is tried.
        seed: where the sampled seeds begin.
    """

    subject: Subject
    effort: Effort = field(default_factory=Effort)
    seed: int = 0
    doing: str = ""
    since: float = 0.0

    @cached_property
    def sample(self) -> TurnEnv:
        """An environment to ask for what its class declares; never played."""
        return self.subject.make()

    @cached_property
    def family(self) -> TaskFamily[Any]:
        """Where its tasks come from."""
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
        """Whether the author wrote an oracle."""
        return type(self.sample.unwrapped).oracle is not TurnEnv.oracle  # type: ignore[attr-defined]

    @contextmanager
    def waiting_for(self, doing: str) -> Iterator[None]:
        """Mark a call that must answer in time."""
        self.since, self.doing = time.monotonic(), doing
        try:
            yield
        finally:
            self.doing = ""

    @property
    def waited(self) -> float:
        """Seconds that the present call has taken; 0 when there is none."""
        return time.monotonic() - self.since if self.doing else 0.0

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
            self.since, self.doing = time.monotonic(), f"a{name}()"
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
        env = self.subject.make() if env is None else env
        act = player(who) if isinstance(who, str) else who
        reset: dict[str, Any] = {"seed": seed} if spec is None else {"options": {"task": spec}}
        limit = self.effort.turns if turns == 0 else turns
        return self.run(env, script(act, env, turns=limit, before=before, **reset))

    def whole(self, who: str | Play, spec: TaskSpec, *, env: TurnEnv | None = None) -> Trace:
        """Play one episode to its end, or to one turn beyond the limit that it declares."""
        return self.play(who, spec, env=env, turns=None)

    def need_oracle(self) -> None:
        """Raise ``NotApplicable`` where there is no oracle."""
        if not self.has_oracle:
            raise NotApplicable("there is no oracle; oracle_solves says so")
