"""Laws of beginning: an episode is a pure function of its task, in every instance and in every process."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import warnings
from typing import Any

from gymnasium.utils.env_checker import check_env

from ...tasks.family import SeededFamily
from ...tasks.spec import Split, TaskSpec
from ...verdicts import NotApplicable
from ..base import TurnEnv
from ..messages import Observation
from .findings import Broken, blaming
from .harness import Harness
from .law import Law
from .trace import Trace, difference, plain

SET_ALL = (
    "start() must set the whole state from the task and rng; the order of sets, id() and repr() of objects, threads "
    "and files differ each time as well"
)
HARMLESS = ("not having a spec", "different from the unwrapped version")
"""Remarks of Gymnasium's checker that concern how we call it, not the environment."""


def begins(harness: Harness) -> None:
    """Reset every sampled task once."""
    if not harness.specs:
        raise Broken("its task family has no level or no split, so there is nothing to play")
    for spec in harness.specs:
        env = harness.make()
        with blaming("reset()", spec), harness.waiting_for("reset()"):
            observation, info = env.reset(options={"task": spec})
        if not isinstance(observation, Observation):
            raise Broken(f"reset() returned a {type(observation).__name__}, not an Observation", spec)
        if env.task != spec or info.get("task") != spec.to_json():
            raise Broken(f"reset() started task {env.task}, but its info has {info.get('task')}", spec)


def gymnasium_check(harness: Harness) -> None:
    """Gymnasium's own checker, whose warnings count."""
    env: Any = harness.make().unwrapped
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check_env(env)
        except Exception as error:
            raise Broken(f"check_env raised {type(error).__name__}: {error}") from error
    warned = [str(w.message) for w in caught if not any(text in str(w.message) for text in HARMLESS)]
    if warned:
        raise Broken(f"check_env warns: {warned[0]}")


def same_seed_same_episode(harness: Harness) -> None:
    """Two instances, and one that has played something else before, reset with one seed."""
    used = harness.make() if harness.places > 1 else None
    for seed in range(harness.seed, harness.seed + harness.effort.few):
        for who in harness.players:
            first = harness.play(who, seed=seed)
            others = [(harness.play(who, seed=seed), "another")]
            if used is not None:
                others.append((harness.play(who, seed=seed, env=used), "a used"))
            for second, which in others:
                if found := difference(first, second):
                    text = f"{which} instance plays seed {seed} differently: {found}; {SET_ALL}{harness.at('start')}"
                    raise Broken(text, seed=seed, policy=who)


def seeds_matter(harness: Harness) -> str | None:
    """Several seeds must not all give one episode."""
    if harness.family.seeds == 1:
        raise NotApplicable("its family declares a single instance (seeds = 1)")
    if not harness.has_oracle and harness.wire is None:
        raise NotApplicable("without an oracle, there is nothing to distinguish the seeds")
    seeds = range(harness.seed, harness.seed + 8)
    seen = set()
    for seed in seeds:
        env = harness.make()
        traces = [harness.play(who, seed=seed, env=env).to_json() for who in harness.players]
        for trace in traces:
            trace[0][1].pop("task", None)  # the spec names the seed
        seen.add(json.dumps([traces, list(env.secrets()), env.state_key()]))
    if len(seen) == 1 and not harness.has_oracle:
        return f"seeds {seeds[0]} to {seeds[-1]} look alike to random play; without an oracle, they may still differ"
    if len(seen) == 1:
        raise Broken(
            f"seeds {seeds[0]} to {seeds[-1]} all give the same episode: the seed is ignored "
            f"(a family with one instance declares seeds = 1); draw the task from rng{harness.at('start')}",
            seed=seeds[0],
        )
    return None


def group_identical_reset(harness: Harness) -> None:
    """Every member of a group begins, and goes on, alike."""
    for spec in harness.few:
        harness.need_places(4)
        group: list[TurnEnv] = [harness.make() for _ in range(4)]
        group[1].reset(seed=harness.seed + 77)
        forms: list[Any] = [spec, spec, spec.to_json(), json.loads(json.dumps(spec.to_json()))]
        starts = [plain(env.reset(options={"task": form})) for env, form in zip(group, forms, strict=True)]
        secrets = [list(env.secrets()) for env in group]
        for i in (1, 2, 3):
            if starts[i] != starts[0] or secrets[i] != secrets[0]:
                raise Broken(
                    f"member {i} of a group of {len(group)} starts differently: {starts[0]} and {starts[i]}", spec
                )
        traces = [harness.play("random", spec, env=env) for env in group]
        for i in (1, 2, 3):
            if found := difference(traces[0], traces[i]):
                raise Broken(f"member {i} of a group continues differently: {found}", spec, policy="random")


def specs_travel(harness: Harness) -> None:
    """Specs and their family survive pickle; specs survive JSON."""
    for spec in harness.specs:
        try:
            copies = {"pickle": pickle.loads(pickle.dumps(spec))}
            copies["JSON"] = TaskSpec.from_json(json.loads(json.dumps(spec.to_json())))
        except Exception as error:
            raise Broken(f"cannot pickle or serialize task spec {spec}: {type(error).__name__}: {error}") from error
        for form, twin in copies.items():
            if twin != spec or twin.digest != spec.digest:
                raise Broken(f"task spec {spec} came back from {form} as {twin}", spec)
    try:
        family = pickle.loads(pickle.dumps(harness.family))
        for spec in harness.few:
            family.check(spec)
    except Exception as error:
        raise Broken(f"the task family cannot be pickled and used: {type(error).__name__}: {error}") from error


def two_processes_agree(harness: Harness) -> None:
    """Fresh processes with another hash seed, which play the tasks in the opposite order."""
    if harness.subject.address is None:
        raise NotApplicable(harness.subject.no_address)
    wanted = [(spec, who) for spec in harness.few for who in harness.players]
    here = [harness.play(who, spec) for spec, who in wanted]
    order = list(reversed(range(len(wanted))))
    occupied = [harness.make()] if harness.wire is not None and harness.places > 1 else []
    for env in occupied:  # so that the server plays the others in another process, if it has several
        env.reset(options={"task": harness.few[0]})
    work = {
        "address": harness.subject.address,
        "turns": harness.effort.turns,
        "episodes": [[wanted[i][0].to_json(), wanted[i][1]] for i in order],
    }
    for hash_seed in range(1, harness.effort.processes + 1):
        there = _elsewhere(work, hash_seed, harness)
        for i, trace in zip(order, there, strict=True):
            if found := difference(here[i], trace):
                spec, who = wanted[i]
                text = f"another process (PYTHONHASHSEED={hash_seed}, tasks in reverse order) plays it differently"
                raise Broken(f"{text}: {found}", spec, policy=who)


def splits_overlap(harness: Harness) -> str:
    """Compare the tasks of each test split with those of train; report, since a small world is allowed."""
    tests = [split for split in harness.family.splits if split.startswith("test_")]
    if Split.TRAIN not in harness.family.splits or not tests:
        raise NotApplicable("its family has no test split beside train")
    n = 5 * harness.effort.few
    train = {_named(harness, spec) for spec in harness.family.sample(4 * n, split=Split.TRAIN)}
    overlaps = []
    for split in tests:
        names = [_named(harness, spec) for spec in harness.family.sample(n, split=split)]
        if again := sum(name in train for name in names):
            overlaps.append(f"{again} of {n} tasks of {split} occur in train")
    cure = "they say nothing about unseen tasks; a TaskFamily can hold tasks out"
    return f"{', '.join(overlaps)}: {cure}" if overlaps else ""


def _named(harness: Harness, spec: TaskSpec) -> str:
    """Name the task of a spec: by what its family generates, or where there is no family by what an episode shows."""
    if not isinstance(harness.family, SeededFamily):
        return repr(harness.family.generate(spec))
    trace = harness.play("oracle" if harness.has_oracle else "null", spec).to_json()
    return json.dumps([trace[0][0], [beat[:3] for beat in trace[1]]])


def _elsewhere(work: dict[str, Any], hash_seed: int, harness: Harness) -> list[Trace]:
    surroundings = {
        **os.environ,
        **harness.subject.surroundings,
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    limit, left = 120 + harness.sample.contract.max_seconds * len(work["episodes"]), harness.until - harness.clock()
    try:
        done = subprocess.run(
            # -P keeps the working directory, where a module may bear the name of a package, off the path.
            [sys.executable, "-P", "-m", "turnwise.envs.certify.other_process"],
            input=json.dumps(work),
            env=surroundings,
            capture_output=True,
            text=True,
            timeout=min(limit, left),
            check=False,
        )
    except subprocess.TimeoutExpired:
        harness.in_time()
        raise Broken(f"another process did not play {len(work['episodes'])} episodes within {limit:.0f} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Broken(f"another process could not play an episode: {last}")
    return [Trace.from_json(trace) for trace in json.loads(done.stdout.splitlines()[-1])]


RESET_LAWS = (
    Law("begins", "reset() begins every task of every split and level, and says which", begins, gate=True),
    Law("gymnasium_check", "Gymnasium's check_env passes without a warning", gymnasium_check),
    Law(
        "same_seed_same_episode",
        "one seed gives one episode, also in an instance used before",
        same_seed_same_episode,
        gate=True,
    ),
    Law("splits_overlap", "certification says how many test tasks occur in train as well", splits_overlap),
    Law("seeds_matter", "different seeds give different episodes", seeds_matter),
    Law("group_identical_reset", "all members of a group begin and go on alike", group_identical_reset),
    Law("specs_travel", "task specs survive pickle and JSON, and their family survives pickle", specs_travel),
    Law("two_processes_agree", "another process, with another hash seed, plays the same episodes", two_processes_agree),
)
"""Laws of beginning."""
