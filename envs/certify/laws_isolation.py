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
from .findings import Broken, NotApplicable
from .lab import Lab
from .law import Law
from .trace import Script, Trace, difference, player, script
from .trap import CLOCK, RANDOM, VARIABLES, Sighting, trapped

CONTAINERS = (list, dict, set, bytearray)


def instances_are_separate(lab: Lab) -> None:
    """Whatever other instances have done before, a new one plays as the first did."""
    for spec in lab.few:
        for who in lab.players:
            before = _shared_state(lab)
            first = lab.play(who, spec)
            for other in lab.few:
                lab.play("random", other)
            if found := difference(first, lab.play(who, spec)):
                after = _shared_state(lab)
                changed = sorted(name for name in after if after[name] != before.get(name))
                blame = f" (shared by all instances, and changed: {', '.join(changed)})" if changed else ""
                raise Broken(f"after other instances have played, {found}{blame}", spec, policy=who)


def _shared_state(lab: Lab) -> dict[str, str]:
    """Containers in class bodies and in default arguments, as text."""
    shared = {}
    for cls in type(lab.sample.unwrapped).__mro__[:-1]:
        for name, value in vars(cls).items():
            if isinstance(value, CONTAINERS) and not name.startswith("__"):
                shared[f"{cls.__name__}.{name}"] = repr(value)
            defaults = [
                *(getattr(value, "__defaults__", None) or ()),
                *(getattr(value, "__kwdefaults__", None) or {}).values(),
            ]
            for default in defaults:
                if isinstance(default, CONTAINERS):
                    shared[f"a default argument of {cls.__name__}.{name}"] = repr(default)
    return shared


def seeds_do_not_interfere(lab: Lab) -> None:
    """Episodes of different tasks, interleaved in two orders, in one event loop and in threads, as each alone."""
    wanted = [(spec, who) for who in lab.players for spec in lab.few]
    if len(lab.few) < 2:
        raise NotApplicable("its family has a single task")
    alone = [lab.play(who, spec) for spec, who in wanted]
    for how, together in (
        ("interleaved turn by turn", _lockstep(lab, wanted)),
        ("interleaved turn by turn in the opposite order", _lockstep(lab, wanted[::-1])[::-1]),
        ("interleaved in one event loop", asyncio.run(_gathered(lab, wanted))),
        ("in four threads at once", _threaded(lab, wanted)),
    ):
        for (spec, who), one, other in zip(wanted, alone, together, strict=True):
            if found := difference(one, other):
                text = f"{len(wanted)} episodes {how} are not what each is alone: {found}"
                raise Broken(text, spec, policy=who)


def _episodes(lab: Lab, wanted: list[tuple[TaskSpec, str]]) -> list[tuple[Any, Script]]:
    envs = [lab.subject.make() for _ in wanted]
    return [
        (env, script(player(who), env, turns=lab.effort.turns, options={"task": spec}))
        for env, (spec, who) in zip(envs, wanted, strict=True)
    ]


def _lockstep(lab: Lab, wanted: list[tuple[TaskSpec, str]]) -> list[Trace]:
    running = {i: (env, episode, next(episode)) for i, (env, episode) in enumerate(_episodes(lab, wanted))}
    done: dict[int, Trace] = {}
    while running:
        for i, (env, episode, request) in list(running.items()):
            try:
                running[i] = (env, episode, episode.send(lab.answer(env, request)))
            except StopIteration as stop:
                done[i] = stop.value
                del running[i]
    return [done[i] for i in range(len(wanted))]


async def _gathered(lab: Lab, wanted: list[tuple[TaskSpec, str]]) -> list[Trace]:
    return list(await asyncio.gather(*(lab.arun(env, episode) for env, episode in _episodes(lab, wanted))))


def _threaded(lab: Lab, wanted: list[tuple[TaskSpec, str]]) -> list[Trace]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda pair: lab.run(*pair), _episodes(lab, wanted)))


def no_global_rng(lab: Lab) -> None:
    """The process's generators are neither read nor moved."""
    spec, who = lab.few[0], lab.players[0]
    traces = []
    for seed in (1, 2):
        with _generators(seed):
            before = _generator_states()
            traces.append(lab.play(who, spec))
            after = _generator_states()
            moved = " and ".join(name for name in before if before[name] != after[name])
            if moved:
                where = _place(lab, RANDOM)
                raise Broken(f"an episode moves the global generator of {moved}{where}", spec, policy=who)
    if found := difference(*traces):
        raise Broken(f"an episode depends on the global generators: {found}", spec, policy=who)
    _none_seen(lab, RANDOM, "random numbers that are not its own")


def no_clock(lab: Lab) -> None:
    """No clock is read."""
    _none_seen(lab, CLOCK, "the clock")


def no_environment_variables(lab: Lab) -> None:
    """No environment variable is read."""
    spec, who = lab.few[0], lab.players[0]
    _none_seen(lab, VARIABLES, "environment variables")
    before = lab.play(who, spec)
    with _strange_variables():
        if found := difference(before, lab.play(who, spec)):
            raise Broken(f"an episode depends on environment variables: {found}", spec, policy=who)


def _sightings(lab: Lab) -> list[tuple[Sighting, TaskSpec, str]]:
    roots = {cls.__module__.partition(".")[0] for cls in type(lab.sample.unwrapped).__mro__}
    own = frozenset(roots - {"gymnasium", "builtins"})
    seen = []
    for spec in lab.few:
        for who in lab.players:
            env = lab.subject.make()
            episode = script(player(who), env, turns=lab.effort.turns, options={"task": spec})
            # One loop, in this thread: the profiler sees no other.
            with asyncio.Runner() as runner, trapped(own) as sightings:
                runner.run(lab.arun(env, episode))
            seen += [(sighting, spec, who) for sighting in sightings]
    return seen


def _none_seen(lab: Lab, kind: str, what: str) -> None:
    for sighting, spec, who in _sightings(lab):
        if sighting.kind == kind:
            raise Broken(f"an episode reads {what}: {sighting.what} at {sighting.where}", spec, policy=who)


def _place(lab: Lab, kind: str) -> str:
    return next((f", at {sighting.where}" for sighting, _, _ in _sightings(lab) if sighting.kind == kind), "")


def _generator_states() -> dict[str, str]:
    name, keys, *rest = np.random.get_state(legacy=True)
    return {"random": repr(random.getstate()), "numpy.random": repr((name, bytes(np.asarray(keys)), rest))}


@contextmanager
def _generators(seed: int) -> Iterator[None]:
    """The global generators seeded, and afterwards as they were."""
    ours, theirs = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(ours)
        np.random.set_state(theirs)


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


ISOLATION_LAWS = (
    Law("instances_are_separate", "what other instances did leaves no trace in a new one", instances_are_separate),
    Law("seeds_do_not_interfere", "interleaved and concurrent episodes are what each is alone", seeds_do_not_interfere),
    Law("no_global_rng", "no random number comes from outside the episode's own generator", no_global_rng),
    Law("no_clock", "no clock is read during reset or step", no_clock),
    Law("no_environment_variables", "no environment variable is read during reset or step", no_environment_variables),
)
"""Laws of isolation."""
