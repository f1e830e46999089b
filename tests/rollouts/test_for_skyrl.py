"""Environments for SkyRL-Gym: with a stand-in for its base class, and by its own ``make`` and metrics.

::

    python -m venv v && v/bin/pip install turnwise skyrl-gym==0.4.0
    SKYRL_PYTHON=v/bin/python pytest tests/rollouts/test_for_skyrl.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs import trl_rows
from turnwise.errors import UsageError
from turnwise.rollouts import skyrl_env

ROOT = Path(__file__).parents[2]
SAFE = "skyrl/Safe-v0"


class Safe(tw.ToolEnv):
    """Open a safe."""

    max_turns = 4

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        self.opened, self.number = False, task.seed
        said = f"Open it with the code {7 + task.seed}."
        return [tw.message("system", "You guard a safe."), tw.message("user", said)]

    @tw.tool
    def open(self, code: int) -> str:
        """Open the safe.

        Args:
            code: its code.
        """
        if self.number == 1:
            raise RuntimeError("the safe is broken")
        self.opened = code == 7 + self.number
        return "It is open." if self.opened else "It stays closed."

    @tw.tool(ends=True)
    def leave(self) -> str:
        """Go."""
        return "Goodbye."

    def judge(self) -> bool:
        return self.opened


def call(code: int) -> str:
    """Return the text of a call that opens the safe."""
    return f"<tool_call>{json.dumps({'name': 'open', 'arguments': {'code': code}})}</tool_call>"


class BaseTextEnv:
    """A stand-in for SkyRL-Gym's base class."""

    def __init__(self) -> None:
        self.turns, self.max_turns = 0, 1


@pytest.fixture
def Env(monkeypatch: pytest.MonkeyPatch) -> Any:
    tw.register(SAFE, Safe)
    for name in ("skyrl_gym", "skyrl_gym.envs", "skyrl_gym.envs.base_text_env"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["skyrl_gym.envs.base_text_env"], "BaseTextEnv", BaseTextEnv, raising=False)
    return skyrl_env(SAFE)


def made(Env: Any, seed: int = 0, **extras: Any) -> Any:
    """An environment for the task of a seed, as SkyRL's generator makes it."""
    row = trl_rows(SAFE, seed + 1)[seed]
    return Env(env_config={}, extras={"task": row["task"], **extras})


def test_a_reply_is_an_action_and_its_answer_a_user_message(Env: Any) -> None:
    env = made(Env)
    prompt, info = env.init([{"role": "user", "content": ""}])
    assert [message["role"] for message in prompt] == ["system", "user"]
    assert prompt[0]["content"].startswith("You guard a safe.")
    assert '"open"' in prompt[0]["content"]
    assert (prompt[1]["content"], info) == ("Open it with the code 7.", {})
    step = env.step("<think>9?</think>" + call(9))
    observation = [{"role": "user", "content": "It stays closed."}]
    assert step == {"observations": observation, "reward": 0.0, "done": False, "metadata": {"turn": 1}}
    env.step(call(7))
    last = env.step('<tool_call>{"name": "leave", "arguments": {}}</tool_call>')
    assert (last["observations"], last["reward"], last["done"]) == ([], 1.0, True)
    assert last["metadata"] == {"turn": 3, "terminated": True, "truncated": False, "success": True}
    assert (env.get_metrics(), env.turns) == ({"success": True, "turns": 3}, 3)
    with pytest.raises(UsageError, match="has ended"):
        env.step("And now?")
    env.close()
    env.close()


def test_skyrls_own_turn_limit_judges_the_world(Env: Any) -> None:
    env = made(Env, max_turns=2)
    assert env.max_turns == 2
    env.init([])
    assert env.step(call(8))["done"] is False
    last = env.step(call(7))
    assert (last["reward"], last["done"], last["observations"]) == (1.0, True, [])
    assert last["metadata"] == {"turn": 2, "terminated": False, "truncated": True, "success": True}
    env.close()


class Long(tw.TurnEnv):
    """Play as long as the task says."""

    max_turns = 2

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        self.max_turns = 12
        return "Go."

    def act(self, action: tw.Action) -> Any:
        return tw.running("On.", 0.1)


def test_the_limit_is_the_environments_own_of_this_task_and_rewards_are_exact(Env: Any) -> None:
    tw.register("skyrl/Long-v0", Long)
    row = trl_rows("skyrl/Long-v0", 1)[0]
    env = skyrl_env("skyrl/Long-v0")(env_config={}, extras={"task": row["task"], "max_turns": 30})
    env.init([])
    steps = [env.step("on") for _ in range(12)]
    assert [step["done"] for step in steps] == [False] * 11 + [True]
    assert {step["reward"] for step in steps} == {0.1}
    assert steps[-1]["metadata"]["terminated"], "it ended by itself"
    env.close()


def test_a_rows_own_messages_stay(Env: Any) -> None:
    env = made(Env)
    own = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "An exercise."}]
    prompt, _ = env.init(own)
    assert prompt[0]["content"].startswith("Be brief.\n\nYou guard a safe.")
    assert [message["content"] for message in prompt[1:]] == ["An exercise.", "Open it with the code 7."]
    env.close()


def test_a_failure_is_raised_and_a_row_without_task_refused(Env: Any) -> None:
    env = made(Env, 1)
    env.init([])
    with pytest.raises(RuntimeError, match="the safe is broken"):
        env.step(call(8))
    env.close()
    with pytest.raises(UsageError, match="needs a column 'task'"):
        Env(extras={"extra_info": {}})
    assert Env(extras={"extra_info": {"task": trl_rows(SAFE, 1)[0]["task"]}}).max_turns > 4


def test_without_skyrl_one_line_says_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"pip install skyrl-gym==0\.4\.0"):
        skyrl_env("turnwise/Maze-v0")


OWN = """
import skyrl_gym
import turnwise as tw
from skyrl_gym.metrics import aggregate_for_environment
from turnwise.envs import trl_rows
from turnwise.rollouts import skyrl_env

skyrl_gym.register(id="maze", entry_point=skyrl_env("turnwise/Maze-v0", max_turns=60))
metrics = []
for row in trl_rows("turnwise/Maze-v0", 4):
    local = tw.make("turnwise/Maze-v0", max_turns=60)
    observation, _ = local.reset(options={"task": row["task"]})
    with skyrl_gym.make("maze", env_config={}, extras={"task": row["task"], "max_turns": 60}) as env:
        prompt, _ = env.init(row["prompt"])
        assert prompt == [{"role": each.role, "content": each.text} for each in observation.messages], prompt
        done = False
        while not done:
            reply = local.oracle()
            observation, reward, terminated, truncated, _ = local.step(reply)
            step = env.step(getattr(reply, "text", reply))
            done = step["done"]
            assert (step["reward"], done) == (reward, terminated or truncated)
            assert step["observations"] == ([] if done else [{"role": "user", "content": observation.text}])
        metrics.append(env.get_metrics())
found = aggregate_for_environment("maze", metrics)
assert found["success"] == 1.0 and found["turns"] > 1, found
print("played")
"""


@pytest.mark.slow
@pytest.mark.skipif("SKYRL_PYTHON" not in os.environ, reason="NOT TESTED with SkyRL-Gym's own make; see above")
def test_skyrl_gyms_own_make_plays_as_in_process() -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [os.environ["SKYRL_PYTHON"], "-c", OWN]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environ)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "played"
