"""Forks: an independent environment in the same state, by each of the three means."""

from __future__ import annotations

import copy
import types
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.envs.certify.trace import plain
from turnwise.errors import ContractError


class Cell:
    """A mutable thing that several places of a world refer to."""

    def __init__(self) -> None:
        self.items: list[int] = []


class World(tw.TurnEnv):
    """A world of shared, nested and self-referring objects, bound methods and a generator."""

    max_turns = 20

    def __init__(self, size: int = 3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = size

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.rng = rng
        self.cell = Cell()
        self.rooms: dict[str, Any] = {"left": self.cell, "right": Cell(), "again": [self.cell]}
        self.seen: set[int] = set()
        self.verbs = {"put": self.put, "draw": self.draw}
        self.me = self
        return f"size {self.size}"

    def put(self, number: int) -> str:
        self.cell.items.append(number)
        return f"{self.rooms['again'][0].items}"

    def draw(self, number: int) -> str:
        drawn = self.rng.randrange(1000)
        self.seen.add(drawn)
        return f"{number} {drawn} {sorted(self.seen)}"

    def act(self, action: tw.Action) -> Any:
        verb, _, number = action.text.partition(" ")
        return self.verbs[verb](int(number))

    def state_key(self) -> str | None:
        return f"{self.cell.items} {sorted(self.seen)}"


class BySnapshot(World):
    forks = tw.Forks.SNAPSHOT

    def snapshot(self) -> Any:
        return copy.deepcopy((self.rng, list(self.cell.items), self.seen))

    def restore(self, snapshot: Any) -> None:
        rng, items, seen = snapshot
        self.start(self.task, rng)
        self.cell.items, self.seen = items, seen


class ByReplay(World):
    forks = tw.Forks.REPLAY


WORLDS = [World, BySnapshot, ByReplay]
said = st.lists(st.builds("{} {}".format, st.sampled_from(["put", "draw"]), st.integers(0, 9)), max_size=6)


def started(cls: type[World], actions: list[str] = []) -> World:  # noqa: B006 - only read
    env = cls(size=5, max_turns=15)
    env.reset(seed=4)
    for action in actions:
        env.step(action)
    return env


@pytest.mark.slow
@pytest.mark.parametrize("cls", WORLDS)
@given(before=said, other=said, after=said)
def test_a_fork_goes_on_as_the_original_would_and_neither_feels_the_other(
    cls: type[World], before: list[str], other: list[str], after: list[str]
) -> None:
    expected = [plain(started(cls, before + after[:i]).step(action)) for i, action in enumerate(after)]
    env = started(cls, before)
    fork = env.fork()
    assert (fork.turn, fork.task, fork.state_key()) == (env.turn, env.task, env.state_key())
    assert (fork.size, fork.max_turns) == (5, 15), "constructor arguments come along"
    stray = env.fork()
    for action in other:
        stray.step(action)
    assert [plain(fork.step(action)) for action in after] == expected
    assert [plain(env.step(action)) for action in after] == expected


@pytest.mark.parametrize("cls", WORLDS)
def test_a_fork_survives_the_reset_of_its_original(cls: type[World]) -> None:
    env = started(cls, ["put 1"])
    fork = env.fork()
    env.reset(seed=99)
    assert fork.step("put 2")[0].text == "[1, 2]"


@pytest.mark.parametrize("cls", WORLDS)
def test_a_fork_of_an_ended_episode_has_ended(cls: type[World]) -> None:
    env = cls(max_turns=1)
    env.reset(seed=0)
    env.step("put 1")
    with pytest.raises(ContractError, match="call reset"):
        env.fork().step("put 1")


@pytest.mark.parametrize("cls", WORLDS)
def test_there_is_nothing_to_fork_before_reset(cls: type[World]) -> None:
    with pytest.raises(ContractError, match="needs an episode"):
        cls().fork()


@pytest.mark.parametrize("cls", WORLDS)
def test_forks_of_forks_and_copies_of_copies(cls: type[World]) -> None:
    env = started(cls, ["put 1", "draw 2"])
    deep = copy.deepcopy(env.fork().fork())
    assert plain(deep.step("draw 3")) == plain(env.step("draw 3"))


def mutable_parts(root: Any) -> Iterator[Any]:
    """Everything that can change and that an object reaches."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        value = stack.pop()
        if id(value) in seen or isinstance(value, (type, types.ModuleType, types.FunctionType, str, bytes, int, float)):
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            stack += [*value, *value.values()]
        elif isinstance(value, (list, tuple, set, frozenset)):
            stack += list(value)
        elif isinstance(value, types.MethodType):
            stack.append(value.__self__)
        if isinstance(value, (list, dict, set, bytearray, Cell, tw.TurnEnv, tw.Rng)):
            yield value
        stack += list(getattr(value, "__dict__", {}).values())


def test_a_copy_shares_nothing_that_can_change() -> None:
    env = started(World, ["put 1", "draw 2"])
    fork = env.fork()
    constant = {
        id(part)
        for name in ("spec", "observation_space", "action_space", "_init")
        for part in mutable_parts(getattr(env, name))
    }
    ours = {id(part) for part in mutable_parts(env)} - constant
    common = [part for part in mutable_parts(fork) if id(part) in ours]
    assert len(ours) >= 10, "the walk must reach the world"
    assert not common, f"shared by a fork and its original: {common}"
    assert fork.me is fork, "a world that refers to itself refers to itself in the fork"
    verb: Any = fork.verbs["put"]
    assert verb.__self__ is fork
    assert fork.rooms["left"] is fork.rooms["again"][0], "what was one thing stays one thing"


def test_what_never_changes_is_shared() -> None:
    env = started(World)
    fork = env.fork()
    assert fork.task is env.task
    assert fork.observation_space is env.observation_space


def test_a_replay_that_comes_out_differently_is_reported() -> None:
    class Restless(ByReplay):
        plays = 0

        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
            type(self).plays += 1
            observation = super().start(task, rng)
            self.cell.items.append(self.plays)
            return observation

    env = started(Restless, ["put 1"])
    with pytest.raises(ContractError, match="a replay of its actions"):
        env.fork()


def test_snapshots_must_be_written_where_they_are_declared() -> None:
    class Empty(World):
        forks = tw.Forks.SNAPSHOT

    with pytest.raises(ContractError, match=r"Empty declares Forks.SNAPSHOT, so it must define snapshot\(\)"):
        started(Empty).fork()


def test_coroutines_are_forked_by_replay_too() -> None:
    class Slow(ByReplay):
        async def act(self, action: tw.Action) -> Any:
            return super().act(action)

    env = started(Slow, ["put 1", "draw 2"])
    assert plain(env.fork().step("draw 1")) == plain(env.step("draw 1"))
