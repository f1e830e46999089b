"""TextWorld by id: walkthroughs that reach the whole score, commands that stay in the game, and a process that ends."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.adapters import textworld_child
from turnwise.envs.adapters.peer_child import RefusedError
from turnwise.envs.adapters.peers import unknown
from turnwise.envs.adapters.textworld_text import GAMES
from turnwise.errors import EnvironmentDiedError, UnknownEnvironmentError, UsageError

from .oracle_episodes import played

missing = importlib.util.find_spec("textworld") is None
TEXTWORLD = pytest.mark.skipif(missing, reason="NOT TESTED with textworld: pip install textworld")
pytestmark = pytest.mark.slow
PROGRAM = """
import time
import turnwise as tw
env = tw.make("textworld/coin_collector-v0", level=2)
env.reset(seed=0)
child = env.unwrapped._game._child
print(child._process.pid, child._folder, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def keeper() -> Iterator[Any]:
    """Keep the process of TextWorld for the tests of this module."""
    env = tw.make("textworld/coin_collector-v0", level=2)
    env.reset(seed=0)
    yield env
    env.close()


@TEXTWORLD
@pytest.mark.parametrize("name", ["coin_collector", "cooking", "custom", "simple", "treasure_hunter"])
def test_a_walkthrough_reaches_the_whole_score(keeper: Any, name: str) -> None:
    env = tw.make(f"textworld/{name}-v0")
    starts = set()
    for seed, split in enumerate(("train", "dev", "test_iid")):
        turns, info = played(env, seed, split=split)
        assert info["success"], (name, seed)
        assert sum(reward for *_, reward in turns) == pytest.approx(1.0)
        starts.add(turns[0][0])
    assert len(starts) == 3


@TEXTWORLD
def test_a_seed_is_one_game(keeper: Any) -> None:
    one, other = tw.make("textworld/coin_collector-v0"), tw.make("textworld/coin_collector-v0")
    assert played(one, 3) == played(other, 3)


@TEXTWORLD
def test_doing_nothing_earns_nothing_and_losing_ends(keeper: Any) -> None:
    env = tw.make("textworld/coin_collector-v0", level=2, max_turns=3)
    env.reset(seed=0)
    steps = [env.step(command) for command in ("look", "", "inventory")]
    assert [step[1:4] for step in steps] == [(0.0, False, False)] * 2 + [(0.0, False, True)]
    assert not steps[-1][4]["success"]
    cook = tw.make("textworld/cooking-v0", cook=False, open=False, go=1, take=0)
    cook.reset(seed=0)
    food = next(c for c in cook.unwrapped._state["commands"] if c.startswith("eat "))  # type: ignore[attr-defined]
    *_, terminated, _, info = cook.step(food)
    assert (terminated, info["success"]) == (True, False), "the recipe lacks what was eaten"


@TEXTWORLD
def test_commands_of_the_interpreter_are_not_the_agents(keeper: Any) -> None:
    env = tw.make("textworld/coin_collector-v0", level=2, admissible=True)
    first = env.reset(seed=0)[0].text
    assert "\n\nCommands: " in first
    odd = [
        "save",
        "restore",
        "quit",
        "undo",
        "restart",
        "transcript",
        "tw-print version",
        "tw-trace-actions",
        "take coin. save",
    ]
    odd += ["look then save", "look, save", "look\nsave " + "x" * 200, "go éast", "then", "\x00", "look \x1b"]
    for command in odd:
        observation, reward, *_, info = env.step(command)
        assert info.get("unparsed") or "save" in command, command
        assert reward == 0
        assert "saved" not in observation.text.lower()
    assert env.step(env.oracle())[1:3] == (0.0, False), "none of them has done anything"
    assert env.step(env.oracle())[1:3] == (1.0, True)


@TEXTWORLD
def test_the_process_ends_with_its_last_game_and_with_its_parent() -> None:
    child = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=_path())
    assert child.stdout is not None
    pid, folder = child.stdout.readline().split()
    assert Path(folder).is_dir()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    _gone(int(pid), folder)


@TEXTWORLD
def test_a_process_that_died_is_an_infrastructure_failure_and_replaced() -> None:
    env: Any = tw.make("textworld/coin_collector-v0", level=2)
    first = env.reset(seed=0)[0].text
    hosted = env.unwrapped._game._child
    os.kill(hosted._process.pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(EnvironmentDiedError):
            env.step("look")
    assert not Path(hosted._folder).exists()
    again = tw.make("textworld/coin_collector-v0", level=2)
    assert again.reset(seed=0)[0].text == first
    process, folder = again.unwrapped._game._child._process, again.unwrapped._game._child._folder  # type: ignore[attr-defined]
    again.close()
    assert process.poll() is not None, "the last game is closed"
    assert not Path(folder).exists()
    assert env.reset(seed=0)[0].text == first, "a reset starts another one"
    env.close()


def _path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _gone(pid: int, folder: str) -> None:
    for _ in range(600):
        if not Path(folder).exists() and not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"process {pid} or its folder {folder} is left")


@TEXTWORLD
def test_unknown_games_and_settings_are_refused(keeper: Any) -> None:
    with pytest.raises(UnknownEnvironmentError, match="Did you mean textworld/coin_collector-v0"):
        tw.make("textworld/coin_collecter-v0")
    with pytest.raises(UsageError, match="has no setting 'levle'; it has level"):
        tw.make("textworld/coin_collector-v0", levle=1)
    with pytest.raises(UsageError, match=r"within \[1-300\]"):
        tw.make("textworld/coin_collector-v0", level=1000).reset(seed=0)


def test_an_unknown_game_that_is_close_to_none_is_answered_with_some() -> None:
    games = "textworld/coin_collector-v0, textworld/cooking-v0, textworld/custom-v0, textworld/simple-v0"
    assert f"It has {games}, textworld/treasure_hunter-v0." in str(unknown("textworld", "zzz", GAMES))
    assert str(unknown("textworld", "zzz", "abcdef")).endswith("textworld/e-v0 and others.")
    assert "It has" not in str(unknown("textworld", "cookin", GAMES))


def test_rooms_that_allow_no_quest_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    generator: Any = ModuleType("textworld.generator")
    generator.QuestGenerationError = LookupError
    monkeypatch.setitem(sys.modules, "textworld", ModuleType("textworld"))
    monkeypatch.setitem(sys.modules, "textworld.generator", generator)
    seeds: list[int] = []

    def attempt(kind: str, seed: int, *_: Any) -> None:
        seeds.append(seed)
        if len(seeds) < 3 or kind == "custom":
            raise LookupError("no quest")

    monkeypatch.setattr(textworld_child, "_attempt", attempt)
    textworld_child._make("treasure_hunter", 7, {}, Path())
    assert seeds[0] == 7
    assert len(set(seeds)) == 3
    first, seeds = seeds, []
    textworld_child._make("treasure_hunter", 7, {}, Path())
    assert seeds == first, "a task is one game"
    seeds.clear()
    with pytest.raises(RefusedError, match=r"no quest in 5 attempts with \{'quest_length': 99\}"):
        textworld_child._make("custom", 7, {"quest_length": 99}, Path())
    assert len(seeds) == textworld_child.ATTEMPTS


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textworld", None)
    with pytest.raises(UsageError, match=r"needs 'textworld': pip install 'turnwise\[textworld\]'") as refused:
        tw.make("textworld/simple-v0")
    assert "\n" not in str(refused.value)
