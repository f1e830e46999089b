"""Laws of isolation: an episode depends on its task and its actions, and on nothing else in the process."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...tasks.spec import TaskSpec
from ...verdicts import NotApplicable
from .findings import Broken
from .harness import Harness
from .law import Law
from .trace import Script, Trace, difference, player, script
from .trap import CLOCK, NETWORK, OUTPUT, RANDOM, VARIABLES

OWN_RNG = "draw from the rng that start() receives; keep it, or make one from it: random.Random(rng.randrange(2**32))"


def instances_are_separate(harness: Harness) -> None:
    """A new instance plays as the first one did, regardless of the instances in between."""
    plays = [(spec, who, harness.first_play(spec, who)) for spec in harness.few for who in harness.players]
    for spec, who, first in plays:
        again = harness.play(who, spec)
        if (found := difference(first, again)) and (
            harness.changed() or difference(again, harness.play(who, spec)) is None
        ):
            raise Broken(f"after other instances have played, {found}{harness.changed()}", spec, policy=who)


def seeds_do_not_interfere(harness: Harness) -> None:
    """Episodes of different tasks, interleaved in two orders, in one event loop and in threads, as each alone."""
    wanted = [(spec, who) for who in harness.players for spec in harness.few]
    if len(harness.few) < 2:
        raise NotApplicable("its family has a single task")
    harness.need_places(2)
    wanted = wanted[: harness.places]  # on a server, which plays no more at a time
    alone = [harness.play(who, spec) for spec, who in wanted]
    for how, together in (
        ("interleaved turn by turn", _lockstep(harness, wanted)),
        ("interleaved turn by turn in the opposite order", _lockstep(harness, wanted[::-1])[::-1]),
        ("interleaved in one event loop", asyncio.run(_gathered(harness, wanted))),
        ("in four threads at once", _threaded(harness, wanted)),
    ):
        for (spec, who), one, other in zip(wanted, alone, together, strict=True):
            if found := difference(one, other):
                text = f"{len(wanted)} episodes {how} are not what each is alone: {found}"
                raise Broken(text, spec, policy=who)


def _episodes(harness: Harness, wanted: list[tuple[TaskSpec, str]]) -> list[tuple[Any, Script]]:
    envs = [harness.make() for _ in wanted]
    return [
        (env, script(player(who), env, turns=harness.effort.turns, options={"task": spec}))
        for env, (spec, who) in zip(envs, wanted, strict=True)
    ]


def _lockstep(harness: Harness, wanted: list[tuple[TaskSpec, str]]) -> list[Trace]:
    running = {i: (env, episode, next(episode)) for i, (env, episode) in enumerate(_episodes(harness, wanted))}
    done: dict[int, Trace] = {}
    while running:
        for i, (env, episode, request) in list(running.items()):
            try:
                running[i] = (env, episode, episode.send(harness.answer(env, request)))
            except StopIteration as stop:
                done[i] = stop.value
                del running[i]
    return [done[i] for i in range(len(wanted))]


async def _gathered(harness: Harness, wanted: list[tuple[TaskSpec, str]]) -> list[Trace]:
    return list(await asyncio.gather(*(harness.arun(env, episode) for env, episode in _episodes(harness, wanted))))


def _threaded(harness: Harness, wanted: list[tuple[TaskSpec, str]]) -> list[Trace]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda pair: harness.run(*pair), _episodes(harness, wanted)))


def no_global_rng(harness: Harness) -> None:
    """The process's generators are neither read nor moved."""
    _none_seen(harness, RANDOM, "an episode draws random numbers that are not its own", OWN_RNG)
    spec, who = harness.few[0], harness.players[0]
    before = _generator_states()
    harness.play(who, spec)
    after = _generator_states()
    if moved := " and ".join(name for name in before if before[name] != after[name]):
        raise Broken(f"an episode moves the global generator of {moved}; {OWN_RNG}", spec, policy=who)


def no_clock(harness: Harness) -> None:
    """No clock is read."""
    cure = "count turns, or take the time from the task, so that an episode can be replayed"
    _none_seen(harness, CLOCK, "an episode reads the clock", cure)


def no_environment_variables(harness: Harness) -> None:
    """No environment variable is read."""
    spec, who = harness.few[0], harness.players[0]
    _none_seen(harness, VARIABLES, "an episode reads environment variables", "make it an argument of the constructor")
    before = harness.play(who, spec)
    with _strange_variables():
        if found := difference(before, harness.play(who, spec)):
            raise Broken(f"an episode depends on environment variables: {found}", spec, policy=who)


def no_network(harness: Harness) -> None:
    """Episodes do not connect to other machines."""
    _none_seen(
        harness, NETWORK, "an episode asks the network", "load what it needs before, and ship it with the package"
    )


def prints_nothing(harness: Harness) -> None:
    """Standard output belongs to the commands."""
    cure = "remove it, or use logging: standard output carries the results of commands"
    _none_seen(harness, OUTPUT, "an episode prints", cure)


def _none_seen(harness: Harness, kind: str, what: str, cure: str) -> None:
    for sighting, spec, who in harness.sightings:
        if sighting.kind == kind:
            raise Broken(f"{what}: {sighting.what} at {sighting.where}; {cure}", spec, policy=who)


def _generator_states() -> dict[str, str]:
    name, keys, *rest = np.random.get_state(legacy=True)
    return {"random": repr(random.getstate()), "numpy.random": repr((name, bytes(np.asarray(keys)), rest))}


@contextmanager
def _strange_variables() -> Iterator[None]:
    """Other values in variables that programs like to ask, and afterwards as they were."""
    kept = dict(os.environ)
    os.environ.update({"SEED": "4711", "LANG": "xx_XX.UTF-8", "USER": "certify", "HOME": "/nonexistent", "DEBUG": "1"})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


CAUSE_LAWS = (
    Law("no_global_rng", "no random number comes from outside the episode's own generator", no_global_rng, gate=True),
    Law("no_clock", "no clock is read during reset or step", no_clock, gate=True),
    Law(
        "instances_are_separate",
        "what other instances did leaves no trace in a new one",
        instances_are_separate,
        gate=True,
    ),
)
"""Laws whose breach makes an environment play differently each time, which breaks most others as well."""
ISOLATION_LAWS = (
    Law("seeds_do_not_interfere", "interleaved and concurrent episodes are what each is alone", seeds_do_not_interfere),
    Law("no_environment_variables", "no environment variable is read during reset or step", no_environment_variables),
    Law("no_network", "no connection leaves this machine during reset or step", no_network),
    Law("prints_nothing", "nothing is printed during reset or step", prints_nothing),
)
"""Laws of isolation."""
