"""No way out of the count: whatever an agent does to its sandbox or to grading, the episode is scored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from turnwise.envs.code import driving, episode_sandbox, grading
from turnwise.envs.code.attacks import attacks_on
from turnwise.envs.messages import ActionLike, ToolCall
from turnwise.errors import ToolError

from ...shifts import sampled
from .tasks_of_one import DoubleEnv, task

ATTACKS = sorted(attacks_on(task(), "tools"))
SESSIONS = sorted(name for name in attacks_on(task(), "python") if "session" in name)
TEXTS = sorted(attacks_on(task(), "text"))
QUICK = [
    name for name in ATTACKS if not any(word in name for word in ("stop", "loop", "never", "hides", "floods", "closes"))
]


def played(env: DoubleEnv, actions: Sequence[ActionLike]) -> dict[str, Any]:
    """The info of the step that ended an episode, in which these actions were played and then nothing but handed in."""
    env.reset(options={"task": DoubleEnv.tasks().spec(0)})
    for action in (*actions, ToolCall("submit"), *["pass"] * 20):
        *_, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return info
    raise AssertionError("the episode does not end")


def scored(sandbox: str, how: Any, names: Sequence[str]) -> None:
    turns = 2 if how == "text" else None  # a wrong answer may be given again
    env = DoubleEnv(sandbox=sandbox, actions=how, trial_seconds=3.0, grading_seconds=3.0, seconds=3.0, max_turns=turns)
    ways = attacks_on(task(), how)
    for name in names:
        try:
            info = played(env, ways[name])
        except Exception as error:
            raise AssertionError(f"{name} was not scored: {type(error).__name__}: {error}") from error
        assert not info["success"], f"{name} solved the task"
    env.close()


@pytest.mark.slow
def test_some_attacks_are_scored(sandbox: str) -> None:
    scored(sandbox, "tools", sampled(QUICK, 8, key="attacks"))


@pytest.mark.shift
@pytest.mark.parametrize(("how", "names"), [("tools", ATTACKS), ("python", SESSIONS), ("text", TEXTS)])
def test_every_attack_is_scored(sandbox: str, how: str, names: list[str]) -> None:
    scored(sandbox, how, names)


class Never(Exception):
    """An error that is never raised: catching it catches nothing."""


FULL = "a command that fills the disk"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "attack"),
    [(driving, FULL), (episode_sandbox, "a command that leaves a sparse file of a terabyte")],
)
def test_an_attack_finds_a_limit_that_was_removed(
    sandbox: str, monkeypatch: pytest.MonkeyPatch, module: Any, attack: str
) -> None:
    """The player is worth something: without these limits the environment fails, and the episode is not scored."""
    monkeypatch.setattr(module, "ToolError", Never)
    if module is driving:
        monkeypatch.setattr(grading.Bounds, "__init__", _no_bounds)
    with pytest.raises((ToolError, AssertionError)):
        scored(sandbox, "tools", [attack])


def _no_bounds(self: grading.Bounds, *_: Any) -> None:
    for name, value in {"seconds": 3.0, "taken": 1 << 40, "source": 1 << 40}.items():
        object.__setattr__(self, name, value)
