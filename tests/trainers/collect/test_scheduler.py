"""The accounts of an overlapped run, by simulation: every drawn task is trained exactly once, and none too late."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Episode
from turnwise.errors import ContractError, UsageError
from turnwise.trainers.collect.scheduler import PendingGroup, StalenessScheduler

from ..fakes import episode, turn


def over(group: str, member: int, version: int = 0) -> Episode:
    return episode([turn((1,), (2,), version=version)], group=group, name=f"{group}-{member}")


def name(position: int) -> str:
    return f"g{position}"


@dataclass(frozen=True)
class Saved:
    """The content of a checkpoint, and the groups trained before it."""

    version: int = 0
    cursor: int = 0
    drawn: tuple[tuple[int, int], ...] = ()
    pending: tuple[Episode, ...] = ()
    trained: tuple[int, ...] = ()


@dataclass
class ProcessGroup:
    """A run in miniature, driven by drawn numbers; ``kill`` loses all but the last checkpoint."""

    batch: int
    group_size: int
    bound: int
    steps: int
    saved: Saved = field(default_factory=Saved)

    def __post_init__(self) -> None:
        self.kill()

    def kill(self) -> None:
        saved = self.saved
        self.version, self.cursor, self.trained = saved.version, saved.cursor, list(saved.trained)
        self.scheduler = StalenessScheduler(
            batch=self.batch, group_size=self.group_size, max_staleness=self.bound, steps=self.steps
        )
        drawn = [(name(position), PendingGroup(position, born)) for position, born in saved.drawn]
        self.scheduler.restore(self.version, drawn, saved.pending)
        self.got: list[tuple[Episode, ...]] = []

    def save(self) -> None:
        drawn = tuple((one.position, one.born) for one in self.scheduler.untrained.values())
        pending = tuple(self.scheduler.pending)
        self.saved = Saved(self.version, self.cursor, drawn, pending, tuple(self.trained))

    def begin(self) -> None:
        if self.scheduler.room:
            self.scheduler.begin(self.cursor, name(self.cursor))
            self.cursor += 1

    def finish(self, choice: int) -> None:
        """Finish one episode of some group, with a version not older than its group's start."""
        playing = [one for one in self.scheduler.untrained.values() if len(one.episodes) < self.group_size]
        if playing:  # any of them, late ones before early ones too
            one = playing[choice % len(playing)]
            missing = set(range(self.group_size)) - {int(e.episode_id.split("-")[1]) for e in one.episodes}
            self.scheduler.finish(over(name(one.position), sorted(missing)[choice % len(missing)], version=one.born))

    def ask(self, count: int) -> bool:
        """Return ``count`` groups for the present step, if they have finished."""
        self.scheduler.expect(count, self.version)
        if not self.scheduler.ready(count):
            return False
        self.got += self.scheduler.take(count)
        return True

    def learn(self, extra: int = 0) -> bool:
        """Take a step, if enough groups have finished; one that sets groups aside asks for ``extra`` more."""
        if self.version == self.steps or (not self.got and not self.ask(self.batch)):
            return False
        missing = self.batch + extra - len(self.got)
        if extra and missing > 0 and not self.ask(missing):
            return False
        for group in self.got:
            assert [int(e.episode_id.split("-")[1]) for e in group] == list(range(self.group_size))
            ages = [self.version - v for e in group for t in e.turns for v in t.versions]
            assert max(ages) <= self.bound, "no token is older than the bound when it is trained"
            self.trained.append(int(group[0].group_id[1:]))
        self.scheduler.trained()
        self.version, self.got = self.version + 1, []
        return True

    def step(self, extra: int = 0) -> None:
        """Play fairly until one more step is learned."""
        for _ in range(200):
            self.begin()
            self.finish(7 * self.cursor + len(self.scheduler.pending))
            if self.version == self.steps or self.learn(extra):
                return
        raise AssertionError(f"the run is stuck at version {self.version}")

    def done(self, extra: int = 0) -> None:
        """Play to the end, fairly."""
        while self.version < self.steps:
            self.step(extra)


sizes = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 3), st.integers(1, 5))
moves = st.lists(st.tuples(st.sampled_from("bbbbfffffllLLskii"), st.integers(0, 100)), min_size=10, max_size=60)


def play(world: ProcessGroup, chosen: list[tuple[str, int]], extra: int = 0) -> None:
    for move, choice in chosen:
        if move == "b":
            world.begin()
        elif move == "f":
            world.finish(choice)
        elif move == "l":
            world.learn(extra)
        elif move == "L":
            world.step(extra)
        elif move == "s":
            world.save()
        elif move == "k":
            world.kill()
        elif move == "i":  # Ctrl-C: a checkpoint of this very moment, and on from it
            world.save()
            world.kill()


@given(sizes, moves)
def test_trap_20_every_drawn_task_is_trained_exactly_once_whenever_the_process_dies(
    size: tuple[int, int, int, int], chosen: list[tuple[str, int]]
) -> None:
    world = ProcessGroup(*size)
    play(world, chosen)
    world.done()
    assert sorted(world.trained) == list(range(world.batch * world.steps)), "none twice, none lost, none left over"
    assert world.scheduler.pending == []
    assert world.scheduler.untrained == {}
    assert world.cursor == world.batch * world.steps, "nothing is drawn that no step will train"


@given(sizes, moves, st.integers(1, 3))
def test_steps_that_set_groups_aside_keep_the_accounts_too(
    size: tuple[int, int, int, int], chosen: list[tuple[str, int]], extra: int
) -> None:
    world = ProcessGroup(*size)
    play(world, chosen, extra)
    world.done(extra)
    left = {one.position for one in world.scheduler.untrained.values()}
    assert sorted([*world.trained, *left]) == list(range(world.cursor)), "each drawn task is trained once, or waits"
    assert len(set(world.trained)) == len(world.trained)


@given(sizes, moves)
def test_no_more_begins_than_the_gate_allows(size: tuple[int, int, int, int], chosen: list[tuple[str, int]]) -> None:
    world = ProcessGroup(*size)
    for move in chosen:
        play(world, [move])
        ahead = len(world.scheduler.untrained)
        assert ahead <= (world.bound + 1) * world.batch, "at most η + 1 batches are drawn and untrained"


def test_who_is_over_first_is_taken_first_but_who_is_due_comes_before() -> None:
    scheduler = StalenessScheduler(batch=2, group_size=1, max_staleness=1, steps=9)
    for position in range(4):
        scheduler.begin(position, name(position))
    assert scheduler.room == 0, "two batches may be under way with a bound of one version"
    for position in (3, 2):
        scheduler.finish(over(name(position), 0))
    scheduler.expect(2, 0)
    assert scheduler.ready(2), "at version 0 nobody is due"
    assert [group[0].group_id for group in scheduler.take(2)] == ["g3", "g2"], "in the order in which they were over"
    scheduler.trained()
    scheduler.expect(2, 1)
    assert scheduler.room == 2
    for position in (4, 5):
        scheduler.begin(position, name(position))
        scheduler.finish(over(name(position), 0, version=1))
    assert not scheduler.ready(2), "g0 and g1 began at version 0: they are waited for, and not cancelled"
    scheduler.finish(over("g1", 0))
    assert not scheduler.ready(2)
    scheduler.finish(over("g0", 0, version=1))
    assert [group[0].group_id for group in scheduler.take(2)] == ["g1", "g0"]


def test_who_began_early_is_waited_for_before_it_is_too_late_for_all_of_them() -> None:
    """Three groups of version 0 are left at version 1, and step 2 has room for two: step 1 waits for one of them."""
    scheduler = StalenessScheduler(batch=2, group_size=1, max_staleness=2, steps=9)
    for position in range(6):
        scheduler.begin(position, name(position))
    for position in (0, 1):
        scheduler.finish(over(name(position), 0))
    scheduler.expect(2, 0)
    scheduler.take(2)
    scheduler.trained()
    scheduler.expect(2, 1)
    for position in (6, 7):
        scheduler.begin(position, name(position))
        scheduler.finish(over(name(position), 0, version=1))
    assert not scheduler.ready(2), "four began at version 0 and must be trained at step 2, with room for two"
    scheduler.finish(over("g5", 0))
    assert not scheduler.ready(2)
    scheduler.finish(over("g3", 0))
    assert [group[0].group_id for group in scheduler.take(2)] == ["g5", "g3"]


def test_trap_20_what_was_drawn_before_a_crash_keeps_its_deadline() -> None:
    """g1 has tokens of version 0 and must be trained at version 1, though g2 was over first."""
    scheduler = StalenessScheduler(batch=1, group_size=1, max_staleness=1, steps=9)
    drawn = [(name(1), PendingGroup(1, 0)), (name(2), PendingGroup(2, 1))]
    scheduler.restore(1, drawn, [over("g2", 0, version=1), over("g1", 0, version=0)])
    assert (scheduler.room, scheduler.over) == (0, 2)
    scheduler.expect(1, 1)
    assert [group[0].group_id for group in scheduler.take(1)] == ["g1"]


def test_a_step_that_trains_too_little_is_told_when_tokens_get_too_old() -> None:
    scheduler = StalenessScheduler(batch=2, group_size=1, max_staleness=0, steps=9)
    for position in range(2):
        scheduler.begin(position, name(position))
        scheduler.finish(over(name(position), 0))
    scheduler.expect(1, 0)
    scheduler.take(1)
    scheduler.trained()
    scheduler.expect(1, 1)
    with pytest.raises(ContractError, match=r"version 0, which version 1 may not train on \(max_staleness 0\)"):
        scheduler.take(1)


def test_what_cannot_be_is_said() -> None:
    scheduler = StalenessScheduler(batch=1, group_size=1, max_staleness=0, steps=1)
    with pytest.raises(ContractError, match="belongs to no group"):
        scheduler.finish(over("g7", 0))
    scheduler.begin(0, "g0")
    with pytest.raises(UsageError, match="1 groups were requested, and 0 are finished"):
        scheduler.take(1)
    with pytest.raises(UsageError, match="room for 0"):
        scheduler.begin(1, "g1")
    scheduler.finish(over("g0", 0))
    with pytest.raises(ContractError, match="belongs to no group"):
        scheduler.finish(replace(over("g0", 1)))
