"""ScienceWorld by id: gold paths that reach the full score, its own splits, and a Java that waits for the next game."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.errors import UnknownEnvironmentError, UsageError

from .oracle_episodes import played

missing = importlib.util.find_spec("scienceworld") is None or shutil.which("java") is None
SCIENCEWORLD = pytest.mark.skipif(missing, reason="NOT TESTED with scienceworld: pip install scienceworld, and Java")
pytestmark = pytest.mark.slow
PROGRAM = """
import time
import turnwise as tw
env = tw.make("scienceworld/find-plant-v0")
env.reset(seed=0)
print(env.unwrapped._game._child._process.pid, flush=True)
time.sleep(600)
"""
STRANGER = """
import os, socket
from turnwise.envs.adapters.scienceworld_child import _gateway
gateway = _gateway()
with socket.create_connection(("127.0.0.1", gateway.gateway_parameters.port)) as stranger:
    stranger.sendall(b"c\\nz:java.lang.Runtime\\ngetRuntime\\ne\\n")
    print(stranger.makefile("rb").readline().decode().strip())
print(gateway.jvm.java.lang.Math.abs(-3), flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def keeper() -> Iterator[Any]:
    """Keep Java for the tests of this module."""
    env = tw.make("scienceworld/find-plant-v0")
    env.reset(seed=0)
    yield env
    env.close()


@SCIENCEWORLD
@pytest.mark.parametrize("name", ["find-plant", "boil", "chemistry-mix", "power-component"])
def test_a_gold_path_reaches_the_full_score(keeper: Any, name: str) -> None:
    env = tw.make(f"scienceworld/{name}-v0")
    for seed, split in enumerate(("train", "dev", "test_iid")):
        turns, info = played(env, seed, split=split)
        assert info["success"], (name, split)
        assert sum(reward for *_, reward in turns) == pytest.approx(1.0)


@SCIENCEWORLD
def test_a_seed_is_one_episode_also_beside_others(keeper: Any) -> None:
    one, other, between = (tw.make("scienceworld/find-plant-v0") for _ in range(3))
    first = played(one, 3)
    between.reset(seed=4)
    text, info = other.reset(seed=3)[0].text, first[1]
    for seen, action, reward in first[0]:
        assert text == seen
        observation, paid, *_, info = other.step(action)
        between.step("wait")
        assert paid == reward
        text = observation.text
    assert info["success"]
    assert between.reset(seed=3)[0].text == first[0][0][0] != between.reset(seed=4)[0].text


@SCIENCEWORLD
def test_a_seed_is_one_game_of_random_play(keeper: Any) -> None:
    one, other = (tw.make("scienceworld/find-plant-v0") for _ in range(2))
    for seed in (1, 2, 4):
        # Three cups of paint and a cupboard full of others stand in the room of seed 1.
        assert one.reset(seed=seed)[0] == other.reset(seed=seed)[0], "things are listed in one order"
        luck, same_luck = tw.Rng(f"luck/{seed}"), tw.Rng(f"luck/{seed}")
        for _ in range(15):
            action = one.random_action(luck)
            assert action == other.random_action(same_luck)
            assert isinstance(action, str)
            assert action == action.strip()
            seen, again = one.step(action), other.step(action)
            assert (seen[0].text, *seen[1:4]) == (again[0].text, *again[1:4]), action
            if seen[2]:
                break


@SCIENCEWORLD
def test_a_fork_lists_things_in_the_same_order(keeper: Any) -> None:
    env = tw.make("scienceworld/find-plant-v0")
    env.reset(seed=1)
    env.step("open cupboard")
    branch = env.fork()
    assert branch.oracle() == env.oracle()
    for command in ("look around", "pick up wood cup", "0", "look around"):
        assert branch.step(command)[0] == env.step(command)[0], command


@SCIENCEWORLD
def test_random_play_answers_what_is_asked(keeper: Any) -> None:
    env: Any = tw.make("scienceworld/find-plant-v0")
    env.reset(seed=1)
    asked = env.step("pick up wood cup")[0].text
    assert "number" in asked
    choices = {env.random_action(tw.Rng(f"luck/{each}")) for each in range(20)}
    assert len(choices) > 1
    assert all(f"{each}:" in asked for each in choices)


@SCIENCEWORLD
def test_splits_are_those_of_scienceworld(keeper: Any) -> None:
    env: Any = tw.make("scienceworld/find-plant-v0")
    seen: dict[str, set[int]] = {}
    for split in ("train", "dev", "test_iid"):
        seen[split] = set()
        for seed in range(3):
            env.reset(seed=seed, options={"split": split})
            seen[split].add(env.unwrapped._variation)
    assert not (seen["train"] | seen["dev"]) & seen["test_iid"]
    assert not seen["train"] & seen["dev"]
    assert all(len(variations) == 3 for variations in seen.values())


@SCIENCEWORLD
def test_doing_nothing_earns_nothing_and_a_mistake_ends(keeper: Any) -> None:
    env = tw.make("scienceworld/find-plant-v0", max_turns=3)
    env.reset(seed=0)
    steps = [env.step(command) for command in ("look around", "", "inventory")]
    assert [step[1:4] for step in steps] == [(0.0, False, False)] * 2 + [(0.0, False, True)]
    long = tw.make("scienceworld/find-plant-v0")
    long.reset(seed=0)
    long.step("open door to kitchen")
    long.step("go to kitchen")
    _, reward, terminated, _, info = long.step("focus on table")
    assert (reward <= 0, terminated, info["success"]) == (True, True, False)


@SCIENCEWORLD
def test_java_ends_when_its_parent_is_killed() -> None:
    path = os.pathsep.join(filter(None, sys.path))
    parent = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    java = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    assert java
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    for _ in range(600):
        if not any(Path(f"/proc/{each}").exists() for each in (pid, *java)):
            return
        time.sleep(0.1)
    raise AssertionError(f"of the processes {pid} and {java}, some are left")


@SCIENCEWORLD
def test_java_runs_nothing_for_other_users_of_the_machine() -> None:
    path = os.pathsep.join(filter(None, sys.path))
    ran = subprocess.run(
        [sys.executable, "-c", STRANGER],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert ran.returncode == 0, ran.stderr
    stranger, owner = ran.stdout.splitlines()
    assert not stranger.startswith("!y"), "it answered a client that has no token"
    assert owner == "3"


@SCIENCEWORLD
def test_the_next_environment_finds_java_running(keeper: Any) -> None:
    keeper.close()
    processes = []
    for _ in range(2):
        env: Any = tw.make("scienceworld/find-plant-v0")
        env.reset(seed=0)
        processes.append(env.unwrapped._game._child._process.pid)
        env.close()
    assert processes[0] == processes[1]


@SCIENCEWORLD
def test_unknown_tasks_and_simplifications_are_refused() -> None:
    with pytest.raises(UnknownEnvironmentError, match="Did you mean scienceworld/find-plant-v0"):
        tw.make("scienceworld/find-plants-v0")
    env = tw.make("scienceworld/find-plant-v0", simplifications="esay")
    with pytest.raises(UsageError, match="no simplification 'esay'"):
        env.reset(seed=0)
    env.close()


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [each for each in sys.modules if each.startswith("scienceworld.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "scienceworld", None)
    with pytest.raises(UsageError, match=r"pip install 'turnwise\[scienceworld\]'") as refused:
        tw.make("scienceworld/boil-v0")
    assert "\n" not in str(refused.value)
