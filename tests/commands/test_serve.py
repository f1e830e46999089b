"""``turnwise serve`` and the commands that take what it serves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents.scripted import FunctionAgent
from turnwise.commands.serve import _waiting
from turnwise.envs.remote.address import served_token

from ..service.environment_servers import OPERATOR, TOKEN

Run = Callable[..., Any]
ID = "demo/GuessNumber-v0"


def started(folder: Path, port: str = "0") -> subprocess.Popen[str]:
    """``turnwise serve guess.py`` in a process of its own, which may not listen yet."""
    command = [sys.executable, "-m", "turnwise.cli", "serve", "guess.py", "--port", port, "--capacity", "2", "drain=5"]
    keys = {"TURNWISE_OPERATOR_KEY": OPERATOR}
    keys |= {"TURNWISE_TOKEN": TOKEN}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **keys})


@pytest.fixture
def served(run: Run, tmp_path: Path) -> Iterator[tuple[str, Any]]:
    """A server for ``guess.py``: the environment's id there, and the process."""
    process = started(tmp_path)
    assert process.stdout is not None
    watch = threading.Timer(60, process.kill)
    watch.start()
    line = process.stdout.readline().strip()
    assert line.startswith("turnwise://"), process.communicate()[1]
    yield line, process
    watch.cancel()
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_eval_plays_a_served_file_and_sigterm_drains(
    run: Run, served: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    id, process = served
    assert id.endswith(ID)
    monkeypatch.setenv("TURNWISE_TOKEN", OPERATOR)
    ran = run("eval", id, "--policy", "oracle", "-n", "6", "--out", "runs/there", "--no-report")
    assert ran.code == 0, ran.err
    assert run("eval", "guess.py", "--policy", "oracle", "-n", "6", "--out", "runs/here", "--no-report").code == 0
    one, other = (tw.load_episodes(f"runs/{place}/episodes") for place in ("there", "here"))
    assert {e.task: [(t.observation, t.action, t.reward) for t in e.turns] for e in one} == {
        e.task: [(t.observation, t.action, t.reward) for t in e.turns] for e in other
    }
    monkeypatch.setenv("TURNWISE_TOKEN", TOKEN)
    run("eval", id, "--policy", "oracle", "-n", "2", "--out", "runs/x", "--no-report").refused("operator's key")
    monkeypatch.setenv("TURNWISE_TOKEN", "wrong" * 4)
    run("eval", id, "--policy", "random", "-n", "2", "--out", "runs/x").refused("refused the token")
    monkeypatch.delenv("TURNWISE_TOKEN")
    run("eval", id, "--policy", "random", "-n", "2", "--out", "runs/x").refused("set TURNWISE_TOKEN")
    monkeypatch.setenv("TURNWISE_TOKEN", TOKEN)
    run("eval", id.replace("Guess", "Gess"), "--policy", "random", "-n", "2").refused("this server has " + ID)
    assert "2 laws hold" in run("certify", id, "--quick", "--law", "begins", "--law", "episodes_play").out

    env = tw.make(id)
    env.reset(seed=0)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    env.step("1")
    assert process.poll() is None, "a running episode is waited for"
    env.close()
    assert process.wait(30) == 0
    error = process.stderr.read()
    assert "Traceback" not in error
    assert "waiting up to 5 seconds for 1 episode; Ctrl-C again ends them" in error


@pytest.mark.slow
@pytest.mark.shift
def test_a_killed_server_leaves_no_process_and_its_successor_continues_the_run(
    served: tuple[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id, process = served
    monkeypatch.setenv("TURNWISE_TOKEN", TOKEN)
    successors, workers, acted = list[subprocess.Popen[str]](), list[int](), list[str]()

    def guess(observation: str) -> str:
        acted.append(observation)
        if len(acted) == 5:
            workers.extend(children(process.pid))
            process.kill()
            process.wait()
            successors.append(started(tmp_path, id.split("/")[2].partition(":")[2]))
        return "8"

    tasks = [tw.TaskSpec("GuessNumber", seed=seed) for seed in range(6)]
    try:
        episodes = tw.run(id, FunctionAgent(guess), tasks, retries=5, concurrency=2)
    finally:
        for each in successors:
            each.kill()
            each.communicate()
    assert [episode.task for episode in episodes] == tasks
    assert all(episode.scored for episode in episodes)
    assert max(episode.attempts for episode in episodes) == 2, "the kill met an episode"
    for episode in episodes:
        turns = [turn.info["turn"] for turn in episode.turns]
        assert turns == list(range(1, len(turns) + 1)), "no action acted twice"
    assert workers
    end = time.monotonic() + 30
    while any(map(lives, workers)):
        assert time.monotonic() < end, "the workers of a killed server end"
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """The processes that this one started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def lives(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_server_takes_the_token_that_names_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_TOKEN", f"gpu-7:8791={TOKEN},{OPERATOR}")
    assert served_token() == OPERATOR


@pytest.mark.parametrize(
    ("playing", "places", "said"),
    [
        (0, 0, "stopping"),
        (2, 2, "waiting up to 30 seconds for 2 episodes; Ctrl-C again ends them"),
        (
            1,
            3,
            "waiting up to 30 seconds for 1 episode; Ctrl-C again ends them (2 episodes without a client: not waited",
        ),
        (0, 1, "stopping (1 episode without a client: not waited for)"),
        (1, 0, "waiting up to 30 seconds for 1 episode; Ctrl-C again ends them"),
    ],
)
def test_a_server_that_stops_says_what_it_waits_for(playing: int, places: int, said: str) -> None:
    episodes = SimpleNamespace(places=SimpleNamespace(load=places))
    server: Any = SimpleNamespace(playing=playing, episodes=episodes, config=SimpleNamespace(drain=30.0))
    assert _waiting(server).startswith(said)


def test_bad_input_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNWISE_TOKEN", raising=False)
    run("serve").refused("name at least one environment")
    run("serve", "demo/GuesNumber-v0").refused("there is no environment")
    run("serve", "guess.py", "--token", "short").refused("can be guessed")
    run("serve", "guess.py", "--token", "t" * 20, "--no-token").refused("either --token or --no-token")
    run("serve", "guess.py", "--token", f"gpu-7:8791={'t' * 20}").refused("write --token without gpu-7:8791=")
    monkeypatch.setenv("TURNWISE_TOKEN", f"gpu-7:8791={'t' * 20},[::1]:8791={'u' * 20}")
    run("serve", "guess.py").refused("only has tokens for gpu-7:8791, [::1]:8791", "--token")
    monkeypatch.delenv("TURNWISE_TOKEN")
    run("serve", "guess.py", "capasity=3").refused("capacity")
    run("serve", "guess.py", "env_kwargs.no_such=3", "isolation=thread").refused("no_such")
    run("serve", "turnwise://127.0.0.1:1/x/Y-v0").refused("already on a server")
    ran = run("eval", "turnwise://127.0.0.1:1/x/Y-v0", "--policy", "random")
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert re.search("cannot reach ws://127.0.0.1:1: .*turnwise serve", ran.err)
