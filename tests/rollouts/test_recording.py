"""Recording: a run that was interrupted, however rudely, goes on without repeating or losing an episode."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import aclosing
from pathlib import Path

import pytest

import turnwise as tw
from turnwise.agents.agent import Decision, EpisodeContext, Session
from turnwise.envs.messages import Observation
from turnwise.errors import InfrastructureError
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.recording import record_episodes
from turnwise.rollouts.runner import run_episodes
from turnwise.rollouts.stats import RunStats
from turnwise.rollouts.store import EpisodeStore, load_episodes

from .fakes import Count, answering, faulty, raises, tasks

OPTIONS = RunOptions(group_size=2, concurrency=4, seed=3, backoff=0.0, retries=0, isolation="inline")


async def record(path: Path, env: object = Count, stop_after: int | None = None) -> int:
    """How many episodes were played."""
    n = 0
    with EpisodeStore(path, flush_every=5) as store:
        async with aclosing(
            record_episodes(env, answering(), tasks(20), store, options=OPTIONS)  # type: ignore[arg-type]
        ) as episodes:
            async for _ in episodes:
                n += 1
                if n == stop_after:
                    break
    return n


@pytest.mark.slow
async def test_stopping_and_going_on_is_the_same_as_never_stopping(tmp_path: Path) -> None:
    played = [await record(tmp_path / "s", stop_after=n) for n in (7, 1, 20)]
    assert played == [7, 1, 20]
    assert await record(tmp_path / "s") == 40 - 28, "what is there is not played again"
    assert await record(tmp_path / "s") == 0
    loaded = load_episodes(tmp_path / "s")
    whole = [e async for e in run_episodes(Count, answering(), tasks(20), options=OPTIONS)]
    assert Counter(e.episode_id for e in loaded) == Counter(e.episode_id for e in whole), "each once, none lost"

    def content(episodes: list[tw.Episode]) -> dict[str, list[str]]:
        return {e.episode_id: [turn.observation.text + turn.action.text for turn in e.turns] for e in episodes}

    assert content(loaded) == content(whole)


@pytest.mark.slow
async def test_failed_episodes_are_played_again(tmp_path: Path) -> None:
    env = faulty({4: [(2, raises)] * 2})
    env.__qualname__ = "Count"
    assert await record(tmp_path / "s", env) == 40
    assert sum(not e.scored for e in load_episodes(tmp_path / "s")) == 2
    assert await record(tmp_path / "s", env) == 2, "only those that the machinery failed"
    loaded = load_episodes(tmp_path / "s")
    assert len({e.episode_id for e in loaded}) == len(loaded) == 40
    assert all(e.scored for e in loaded)


class Outage:
    """An agent whose server fails in the second turn, as long as ``down`` is set."""

    def __init__(self, word: str) -> None:
        self.word, self.down = word, True

    def start(self, context: EpisodeContext) -> Session:
        return self

    async def act(self, observation: Observation) -> Decision:
        if self.down and observation.text.startswith("turn"):
            raise InfrastructureError("the server does not answer")
        return Decision(tw.Action(self.word))


@pytest.mark.parametrize(("word", "redrawn"), [("the same", 0), ("another", 1)])
async def test_what_failed_before_a_resumption_stays_counted(tmp_path: Path, word: str, redrawn: int) -> None:
    """A server that fails after a bad answer does not hide the answer; a repeated answer costs nothing."""
    agent, path = Outage("the same"), tmp_path / "s"
    with EpisodeStore(path) as store:
        async for episode in record_episodes(Count, agent, tasks(1), store, options=OPTIONS):
            assert (episode.outcome, len(episode.turns)) == (tw.Outcome.INFRA_FAILED, 1)
    with EpisodeStore(path) as store:  # a resumed run that is killed before it plays anything
        assert store.discard_unscored() == 2
    agent.word, agent.down = word, False
    with EpisodeStore(path) as store:
        async for _ in record_episodes(Count, agent, tasks(1), store, options=OPTIONS):
            pass
    counts = {(e.scored, e.attempts, e.redrawn, e.after_action) for e in load_episodes(path)}
    assert counts == {(True, 2, redrawn, 0)}
    with EpisodeStore(path) as store:
        assert not store.discarded, "what was taken over is not counted twice"


@pytest.mark.slow
async def test_counts_of_several_resumptions_add_up(tmp_path: Path) -> None:
    env = faulty({0: [(2, raises)] * 4})
    env.__qualname__ = "Count"
    for played in (40, 2, 2):
        assert await record(tmp_path / "s", env) == played
    counts = sorted((e.attempts, e.after_action) for e in load_episodes(tmp_path / "s") if e.attempts > 1)
    assert counts == [(3, 2), (3, 2)]


async def test_stats_count_what_is_played_now(tmp_path: Path) -> None:
    await record(tmp_path / "s", stop_after=10)
    stats = RunStats()
    with EpisodeStore(tmp_path / "s") as store:
        async for _ in record_episodes(Count, answering(), tasks(20), store, options=OPTIONS, stats=stats):
            pass
    assert stats.outcomes[tw.Outcome.COMPLETED] == 30


SCRIPT = """
import asyncio, sys
import turnwise as tw
from turnwise.agents.scripted import FunctionAgent
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.recording import record_episodes
from turnwise.rollouts.store import EpisodeStore

class Echo(tw.TurnEnv):
    blocking = False
    async def start(self, task, rng):
        return f"begin {rng.random()}"
    async def act(self, action):
        await asyncio.sleep(0.002)
        return tw.success("end") if self.turn == 3 else f"turn {self.turn}"

async def main():
    tasks = [tw.TaskSpec("Echo", seed=seed) for seed in range(150)]
    with EpisodeStore(sys.argv[1], flush_every=4, run={"env": "Echo"}) as store:
        options = RunOptions(concurrency=4, group_size=2)
        async for episode in record_episodes(Echo, FunctionAgent(lambda text: "on"), tasks, store, options=options):
            print(".", end="", flush=True)

asyncio.run(main())
"""


@pytest.mark.slow
def test_killed_at_random_points_it_ends_with_every_episode_once(tmp_path: Path) -> None:
    path, dice, kills, before = tmp_path / "s", random.Random(), 0, 0
    command = [sys.executable, "-c", SCRIPT, str(path)]
    for _ in range(5):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.read(dice.randint(1, 40))
            time.sleep(dice.random() * 0.02)
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
        there = len(load_episodes(path))
        assert there >= before, "what was written stays written"
        before = there
    assert kills == 5, "it was killed while it worked"
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout) == 300 - before, "it played what was missing, and nothing else"
    episodes = load_episodes(path)
    ids = Counter(episode.episode_id for episode in episodes)
    assert len(episodes) == len(ids) == 300
    assert Counter(episode.task.seed for episode in episodes) == dict.fromkeys(range(150), 2)


@pytest.mark.slow
def test_ctrl_c_writes_what_there_is(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT.replace("flush_every=4", "flush_every=1000"), str(tmp_path / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        seen = len(process.stdout.read(20))
        process.send_signal(signal.SIGINT)
        seen += len(process.stdout.read())
        stderr = process.stderr.read().decode()
    assert "KeyboardInterrupt" in stderr
    assert "never awaited" not in stderr
    assert "was destroyed" not in stderr
    assert len(load_episodes(tmp_path / "s")) >= seen, "every episode that was handed out is on disk"
