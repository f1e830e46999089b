"""Play that overlaps with learning: who may begin, who is waited for, what survives an end; nothing is timed."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from turnwise import Action, Episode, TaskSpec, TurnEnv, success
from turnwise.agents.agent import Decision, EpisodeContext, Session
from turnwise.envs.messages import Observation
from turnwise.errors import ContractError, DivergedError, UsageError
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.tasks.family import SeededFamily
from turnwise.tasks.rng import Rng
from turnwise.trainers import loop, on_policy
from turnwise.trainers.collect.async_rollouts import AsyncRollouts, Source
from turnwise.trainers.collect.collect import Collected
from turnwise.trainers.collect.sampler import TaskSampler
from turnwise.trainers.learning.groups import Group
from turnwise.trainers.learning.uninterrupted import uninterrupted
from turnwise.trainers.run.metrics import Stopwatch, read_metrics
from turnwise.trainers.run.opening import open_run
from turnwise.trainers.run.run import Run
from turnwise.trainers.run.run_folder import RunFolder
from turnwise.trainers.run.state import RunState
from turnwise.trainers.run.training import train_steps

from .. import small


class OneTurn(TurnEnv):
    """Over after one action."""

    blocking = False

    def start(self, task: TaskSpec, rng: Rng) -> str:
        return f"task {task.seed}"

    def act(self, action: Action) -> Any:
        return success("done", 1.0)


class Held:
    """An agent that acts when it is let: ``let(seed)`` frees every episode of a task, ``let()`` all of them."""

    def __init__(self) -> None:
        self.version = 0
        self.started: list[int] = []
        self.error: Exception | None = None
        self._gates: dict[int, asyncio.Event] = {}
        self._free = False

    def let(self, *seeds: int) -> None:
        for seed in seeds:
            self._gates.setdefault(seed, asyncio.Event()).set()

    def let_all(self) -> None:
        self._free = True
        self.let(*self._gates)

    def start(self, context: EpisodeContext) -> Session:
        return _HeldSession(self, context.task.seed)


class _HeldSession:
    def __init__(self, agent: Held, seed: int) -> None:
        self.agent, self.seed = agent, seed

    async def act(self, observation: Observation) -> Decision:
        agent = self.agent
        agent.started.append(self.seed)
        first = agent.version
        if not agent._free:
            await agent._gates.setdefault(self.seed, asyncio.Event()).wait()
        if agent.error is not None:
            raise agent.error
        return Decision(Action("a"), (1,), (2, 3), (-1.0, -1.0), (first, agent.version))


@asynccontextmanager
async def overlapped(
    agent: Any, *, bound: int = 1, steps: int = 100, pending: list[Episode] | None = None, **restored: Any
) -> AsyncGenerator[AsyncRollouts, None]:
    sampler = TaskSampler(SeededFamily("OneTurn"))
    sampler.cursor = restored.pop("cursor", 0)
    async with EnvPool.of(OneTurn) as pool:
        source = Source(pool, agent, sampler, RunOptions(concurrency=64, backoff=0.0), steps)
        found = AsyncRollouts(source, max_staleness=bound, pending=[] if pending is None else pending, **restored)
        try:
            yield found
        finally:
            await found.close()


async def settled() -> None:
    """Let everything that can go on go on."""
    for _ in range(200):
        await asyncio.sleep(0)


def seeds(collected: Collected) -> list[int]:
    return [group.members[0].task.seed for group in collected.groups]


@pytest.mark.parametrize("bound", [0, 1, 2])
async def test_no_more_begins_than_the_bound_allows_and_a_new_version_makes_room(bound: int) -> None:
    agent = Held()
    async with overlapped(agent, bound=bound) as run:
        first = asyncio.create_task(run.collect(0, 2, 3))
        await settled()
        assert sorted(agent.started) == sorted([*range(2 * (bound + 1))] * 3)
        agent.let(0, 1)
        assert seeds(await first) == [0, 1]
        await settled()
        assert len(set(agent.started)) == 2 * (bound + 1), "what is over and not learnt still has its place"
        run.trained()
        agent.version = 1
        second = asyncio.create_task(run.collect(1, 2, 3))
        await settled()
        assert len(set(agent.started)) == 2 * (bound + 2), "a batch more per version"
        agent.let_all()
        await second


async def test_groups_come_in_the_order_in_which_they_are_over_and_those_due_are_waited_for() -> None:
    agent = Held()
    async with overlapped(agent) as run:
        first = asyncio.create_task(run.collect(0, 2, 1))
        await settled()
        agent.let(3)
        await settled()
        agent.let(1)
        collected = await first
        assert seeds(collected) == [3, 1], "0 and 2 are slow, and nothing waits for them"
        assert collected.metrics()["overlap/running"] == 2
        run.trained()
        agent.version = 1
        second = asyncio.create_task(run.collect(1, 2, 1))
        await settled()
        agent.let(4, 5)  # started at version 1, and finished
        await settled()
        assert not second.done(), "0 and 2 began at version 0: later than now they would be too old"
        agent.let(0, 2)
        collected = await second
        assert sorted(seeds(collected)) == [0, 2]
        numbers = collected.metrics()
        assert numbers["overlap/staleness_max"] == 1
        assert numbers["overlap/staleness_mean"] == 0.5
        assert numbers["overlap/spanning"] == 1, "they went on across the update"
        assert numbers["overlap/ready"] == 2


async def test_nothing_begins_that_no_step_will_train() -> None:
    agent = Held()
    async with overlapped(agent, bound=3, steps=2) as run:
        agent.let_all()
        await run.collect(0, 2, 1)
        await settled()
        assert set(agent.started) == {0, 1, 2, 3}
        run.trained()
        assert sorted(seeds(await run.collect(1, 2, 1))) == [2, 3]


async def test_a_step_may_ask_for_more() -> None:
    agent = Held()
    agent.let_all()
    async with overlapped(agent, bound=0) as run:
        first = seeds(await run.collect(0, 2, 2))
        more = seeds(await run.collect(0, 3, 2))
        assert sorted(first + more) == [0, 1, 2, 3, 4]
        run.trained()
        agent.version = 1
        assert sorted(seeds(await run.collect(1, 2, 2))) == [5, 6]


async def test_a_group_has_one_size() -> None:
    agent = Held()
    agent.let_all()
    async with overlapped(agent) as run:
        await run.collect(0, 1, 2)
        with pytest.raises(UsageError, match=r"a group of 3 episodes was requested, .* groups of 2"):
            await run.collect(0, 1, 3)


async def test_an_agent_that_fails_ends_the_wait() -> None:
    agent = Held()
    async with overlapped(agent) as run:
        waiting = asyncio.create_task(run.collect(0, 2, 1))
        await settled()
        agent.error = ZeroDivisionError("a bug")
        agent.let(0)
        with pytest.raises(ContractError, match="a bug"):
            await waiting
        with pytest.raises(ContractError, match="a bug"):
            await run.collect(0, 2, 1)


async def test_the_watch_knows_when_episodes_are_played() -> None:
    agent = Held()
    async with overlapped(agent) as run:
        assert run.generating == 0
        waiting = asyncio.create_task(run.collect(0, 1, 1))
        await settled()
        assert run.generating < run.generating, "it runs"
        agent.let_all()
        await waiting
        await settled()
        assert run.generating == run.generating, "it stands: all that may begin is over"


@pytest.mark.parametrize(("played", "idle"), [(0.0, 1.0), (1e9, 0.0)])
def test_the_policy_is_idle_only_while_nothing_is_played(played: float, idle: float) -> None:
    readings = iter([0.0, played])
    clock = Stopwatch(lambda: next(readings))
    with clock("collect"):
        pass
    assert clock.metrics(1.0)["idle/policy"] == idle


# -- after an end --------------------------------------------------------------------------------------------------


async def test_trap_24_every_task_is_trained_once_when_the_run_dies_at_random_moments() -> None:
    """Trap 24, overlapped: checkpoints at random moments, deaths at random moments, in the real event loop."""
    rng = random.Random(7)
    for _ in range(12):
        bound, tasks, k, steps = rng.randrange(3), rng.randint(1, 3), rng.randint(1, 2), 4
        saved: dict[str, Any] = {"cursor": 0, "version": 0, "drawn": [], "pending": [], "trained": []}
        for life in range(6):
            saved = await lived(saved, rng, bound=bound, tasks=tasks, k=k, steps=steps, last=life == 5)
        assert sorted(saved["trained"]) == list(range(tasks * steps)), (bound, tasks, k)
        assert saved["pending"] == []


async def lived(
    saved: dict[str, Any], rng: random.Random, *, bound: int, tasks: int, k: int, steps: int, last: bool
) -> dict[str, Any]:
    """Continue from a checkpoint, let episodes end in any order, and return the last checkpoint before the end."""
    agent, trained = Held(), list(saved["trained"])
    pending = list(saved["pending"])
    begin = {key: saved[key] for key in ("cursor", "version", "drawn")}
    async with overlapped(agent, bound=bound, steps=steps, pending=pending, **begin) as run:
        version = saved["version"]
        collecting: asyncio.Task[Collected] | None = None
        for _ in range(10_000 if last else rng.randrange(40)):
            if version == steps:
                break
            if collecting is None:
                agent.version = version
                collecting = asyncio.create_task(run.collect(version, tasks, k))
            for _ in range(rng.randrange(12)):
                await asyncio.sleep(0)
            if agent._gates:
                agent.let(rng.choice(list(agent._gates)))
            if collecting.done() and rng.random() < 0.5:
                trained += seeds(collecting.result())
                run.trained()
                version, collecting = version + 1, None
            if rng.random() < 0.3 or version == steps:
                cursor = run._source.sampler.cursor
                drawn = run.state_dict()["drawn"]
                saved = {"cursor": cursor, "version": version, "drawn": drawn, "pending": list(pending)}
                saved["trained"] = list(trained)
        if collecting is not None:
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)
    return saved


# -- learning in a thread ------------------------------------------------------------------------------------------


async def test_the_loop_goes_on_while_a_thread_learns() -> None:
    let_go = threading.Event()

    def learn() -> str:
        assert let_go.wait(60)
        return "learnt"

    learning = asyncio.create_task(uninterrupted(asyncio.to_thread(learn)))
    await settled()
    assert not learning.done()
    let_go.set()
    assert await learning == "learnt"


async def test_ctrl_c_while_learning_finishes_the_step_and_stops_at_the_next_wait() -> None:
    let_go, learning, noted = threading.Event(), threading.Event(), list[str]()

    def learn() -> str:
        learning.set()
        assert let_go.wait(60)
        return "learnt"

    async def step() -> None:
        noted.append(await uninterrupted(asyncio.to_thread(learn)))
        noted.append("counted")
        await asyncio.sleep(0)
        noted.append("never")

    task = asyncio.create_task(step())
    await asyncio.to_thread(learning.wait, 60)
    task.cancel()
    await settled()
    assert not task.done(), "the step is not whole yet"
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert noted == ["learnt", "counted"]
    assert task.cancelling() == 1, "asyncio.run makes KeyboardInterrupt of exactly one"


async def test_an_error_in_the_thread_is_the_caller_s() -> None:
    def learn() -> None:
        raise DivergedError("nan")

    with pytest.raises(DivergedError, match="nan"):
        await uninterrupted(asyncio.to_thread(learn))


# -- whole runs ----------------------------------------------------------------------------------------------------


def overlapping(out: Path, model: Path, **changes: Any) -> loop.LoopConfig:
    return small.looping(out, model, **{"overlap": {"enabled": True, "max_staleness": 1}, "is_mode": "tis", **changes})


class Watched(loop.LoopTrainer):
    """Notes which tasks were learned, step by step."""

    def __init__(self, config: loop.LoopConfig, run: Run) -> None:
        super().__init__(config, run)
        self.trained: list[tuple[int, str]] = []

    async def learn(self, groups: Sequence[Group], clock: Stopwatch) -> dict[str, float]:
        learned = await super().learn(groups, clock)
        self.trained += [(self.run.step + 1, group.group_id) for group in groups]
        return learned


def watched(
    config: loop.LoopConfig,
    monkeypatch: pytest.MonkeyPatch,
    stop_at: int | None = None,
    kill_at: int | None = None,
) -> list[tuple[int, str]]:
    """Run, or go on; stop as Ctrl-C does once this step is reached, or die without a word."""

    async def until() -> list[tuple[int, str]]:
        opened: list[Watched] = []

        async def life() -> None:
            async with open_run(config) as run:
                opened.append(Watched(config, run))
                await train_steps(opened[0])

        task = asyncio.create_task(life())
        end = stop_at or kill_at or 10**9
        while not task.done() and not (opened and opened[0].run.step >= end):  # noqa: ASYNC110 - nothing tells of a step
            await asyncio.sleep(0)
        with monkeypatch.context() as patch:
            if kill_at is not None:
                patch.setattr(RunState, "save", lambda state: None)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled():
            task.result()
        return opened[0].trained

    return asyncio.run(until())


@pytest.mark.slow
def test_a_run_overlaps_and_says_how_old_its_tokens_were(tmp_path: Path, cloned: Path) -> None:
    result = small.run(overlapping(tmp_path / "run", cloned / "model", steps=3))
    lines = [line for line in read_metrics(result.folder / "metrics.jsonl") if "loss" in line]
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert all(line["overlap/staleness_max"] <= 1 for line in lines)
    assert lines[0]["overlap/staleness_max"] == 0
    assert all(0 <= line["idle/policy"] <= 1 and line["seconds/playing"] >= 0 for line in lines)
    assert lines[0]["seconds/playing"] > 0
    assert result.metrics["mismatch_p99"] >= 0


@pytest.mark.slow
def test_trap_24_stopped_and_killed_an_overlapped_run_trains_every_task_once(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = overlapping(tmp_path / "run", cloned / "model", steps=5, checkpoint_every=2, eval={"episodes": 0})
    lives = [watched(config, monkeypatch, stop_at=1)]
    assert RunFolder(config.out, "loop").checkpoints.latest().progress["overlap"]["drawn"]
    config = config.model_copy(update={"resume": True})
    lives.append(watched(config, monkeypatch, kill_at=3))
    lives.append(watched(config, monkeypatch))
    trained: list[tuple[int, str]] = []
    for life in lives:
        first_step = min((step for step, _ in life), default=10**9)
        trained = [
            entry for entry in trained if entry[0] < first_step
        ] + life  # steps after the last checkpoint are lost
    assert [step for step, _ in trained] == [step for step in range(1, 6) for _ in range(2)]
    assert len({group for _, group in trained}) == 10, "no group twice"
    checkpoint = RunFolder(config.out, "loop").checkpoints.latest()
    assert checkpoint.progress["cursor"] == 10, "and ten were drawn"
    assert checkpoint.progress["overlap"]["drawn"] == []
    assert not checkpoint.pending.is_dir()


@pytest.mark.slow
def test_the_on_policy_script_overlaps_too(tmp_path: Path, cloned: Path) -> None:
    settings = overlapping(tmp_path / "r", cloned / "model", steps=2).model_dump()
    shared = {
        key: settings[key]
        for key in (*small.SHARED, "eval", "tasks_per_step", "group_size", "overlap", "model", "out", "steps")
    }
    config = on_policy.OnPolicyConfig.model_validate({**shared, "algorithm": {"name": "rloo"}})
    assert on_policy.train(config).metrics["overlap/staleness_max"] <= 1


@pytest.mark.slow
@pytest.mark.shift
def test_a_loss_that_is_no_number_ends_an_overlapped_run_and_keeps_the_checkpoint(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = overlapping(tmp_path / "run", cloned / "model", steps=9, eval={"episodes": 0})
    calls = iter(range(100))
    real = loop.iterate

    def diverging(*args: Any, **kwargs: Any) -> dict[str, float]:
        if next(calls) == 2:
            raise DivergedError("the loss is nan")
        return real(*args, **kwargs)

    monkeypatch.setattr(loop, "iterate", diverging)
    with pytest.raises(DivergedError):
        small.run(config)
    assert RunFolder(config.out, "loop").checkpoints.latest().step == 2
    monkeypatch.setattr(loop, "iterate", real)
    assert small.run(config.model_copy(update={"resume": True, "steps": 3})).steps == 3


@pytest.mark.shift
def test_ctrl_c_leaves_an_overlapped_run_that_continues(tmp_path: Path, cloned: Path) -> None:
    out = tmp_path / "run"
    steps = small.interrupted(out, cloned / "model", "overlap.enabled=true", "overlap.max_staleness=2")
    checkpoint = RunFolder(out, "loop").checkpoints.latest()
    assert checkpoint.step == steps, "the step that was being learnt was finished and saved"
    drawn = checkpoint.progress["overlap"]["drawn"]
    assert checkpoint.progress["cursor"] == 2 * steps + len(drawn), "what is drawn is trained, or named"
