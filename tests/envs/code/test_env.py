"""Code environments: tools that answer in words, rewards that cannot be farmed, forks that share nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.code import backends, episode_sandbox, workbench
from turnwise.envs.code.env import CodeEnv
from turnwise.errors import SandboxError, SandboxUnavailableError, UsageError
from turnwise.sandboxes.backend import Backend
from turnwise.sandboxes.loop import LOOP

from .tasks_of_one import RIGHT, DoubleEnv

pytestmark = pytest.mark.usefixtures("backend")


def started(**settings: Any) -> DoubleEnv:
    env = DoubleEnv(**settings)
    env.reset(seed=0)
    return env


def said(env: CodeEnv, name: str, **arguments: Any) -> str:
    return env.step(tw.ToolCall(name, arguments))[0].text


def test_files_are_listed_read_searched_written_and_patched() -> None:
    env = started()
    assert said(env, "list") == "notes/\nnotes/a b.txt  10 bytes\nsolution.py  24 bytes"
    assert said(env, "read", path="notes/a b.txt") == "    1  keep\n    2  this"
    assert said(env, "read", path="notes/a b.txt", first_line=2, lines=1).endswith("[lines 2 to 2 of 2]")
    assert said(env, "search", text="this") == "notes/a b.txt:2: this"
    assert said(env, "write", path="new/deep.py", content="x = 1\n") == "Wrote 6 bytes to new/deep.py."
    assert said(env, "patch", path="new/deep.py", old="1", new="2") == "Changed new/deep.py. Lines: 1."
    assert said(env, "run", command="cat new/deep.py") == "x = 2\nExit code 0."


def test_a_search_looks_at_so_much_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    env = started()
    said(env, "write", path="many.txt", content="x\n" * 3000)
    found = said(env, "search", text="x").splitlines()
    assert (len(found), found[-1]) == (51, "[… more than 950 more …]")
    monkeypatch.setattr(workbench, "SEARCHED", 30)
    assert said(env, "search", text="keep").splitlines() == [
        "notes/a b.txt:1: keep",
        "[2 files were not searched: a search covers at most 30 bytes]",
    ]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("read", {"path": "nowhere"}), "nowhere"),
        (("read", {"path": "notes"}), "notes"),
        (("write", {"path": "../out", "content": ""}), "out"),
        (("search", {"text": ""}), "within a single line"),
        (("patch", {"path": "solution.py", "old": "", "new": ""}), "give either diff"),
        (("run", {"command": "a\0b"}), "NUL"),
        (("python", {"code": "1"}), "there is no tool 'python'"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(call: tuple[str, dict[str, str]], words: str) -> None:
    answer = said(started(), call[0], **call[1])
    assert answer.startswith("Error: ")
    assert words in answer


def test_output_is_clipped_in_the_middle_and_hides_addresses() -> None:
    env = started()
    answer = said(env, "run", command="yes | head -c 50000; echo end")
    assert len(answer) < 5000
    assert "characters omitted" in answer
    assert "end\nExit code 0." in answer
    assert said(env, "run", command="python3 -c 'print(object())'").startswith("<object object at 0x…>")


@pytest.mark.parametrize(
    ("command", "trouble"),
    [("python3 -c 'import nowhere'", "import error"), ("kill -11 $$", "crash"), ("false", "other error")],
)
def test_what_went_wrong_is_told_in_info(command: str, trouble: str) -> None:
    info = started().step(tw.ToolCall("run", {"command": command}))[4]
    assert info["troubles"] == [trouble]


def test_a_command_that_hangs_is_stopped() -> None:
    env = started(seconds=0.5)
    assert said(env, "run", command="sleep 60") == "Stopped: it did not finish within 0.5 seconds."
    assert said(env, "run", command="echo on").startswith("on")


def test_visible_tests_tell_what_was_expected() -> None:
    env = started()
    assert said(env, "test") == "0 of 1 tests passed.\nexample failed (wrong value). double(1): expected 2, got None"
    said(env, "write", path="solution.py", content=RIGHT)
    assert said(env, "test") == "1 of 1 tests passed."


def test_success_is_paid_and_collateral_spoils_it() -> None:
    env = started()
    said(env, "write", path="solution.py", content=RIGHT)
    assert env.step(tw.ToolCall("submit"))[1] == 1.0
    env.reset(seed=0)
    said(env, "write", path="solution.py", content=RIGHT)
    said(env, "write", path="more.txt", content="")
    _, reward, terminated, _, info = env.step(tw.ToolCall("submit"))
    assert (reward, terminated, info["score"].collateral) == (0.0, True, ("more.txt was added",))


@pytest.mark.parametrize("spoil", ["chmod 000 .", "rm -rf ..?* .[!.]* *", "kill -9 -1", "head -c 30m /dev/zero > big"])
def test_an_agent_that_spoils_its_workspace_is_scored_all_the_same(spoil: str) -> None:
    env = started()
    said(env, "run", command=spoil)
    said(env, "list")
    _, reward, terminated, _, info = env.step(tw.ToolCall("submit"))
    assert (reward, terminated, info["success"]) == (0.0, True, False)


def test_partial_credit_is_the_weight_of_what_holds() -> None:
    env = started(partial=True)
    said(env, "write", path="solution.py", content="def double(x):\n    return x * 2\n")
    _, reward, _, _, info = env.step(tw.ToolCall("submit"))
    assert info["score"].checks == {"values": False, "tests": True, "notes": True}
    assert reward == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("source", "by_check", "by_case"),
    [
        ("def double(x):\n    return x * 2\n", 0.25, 0.25 + 0.75 / 2),
        ("def double(x):\n    return {3: 6}.get(x, 0)\n", 0.0, 0.75 / 2),  # one of two values, and no unit test
        ("def double(x):\n    return 0\n", 0.0, 0.0),
        ("import os\nos._exit(0)\n", 0.0, 0.0),
        (RIGHT, 1.0, 1.0),
    ],
)
def test_credit_by_case_is_the_share_of_the_values_that_hold(source: str, by_check: float, by_case: float) -> None:
    said_to_the_agent = []
    for partial, earned in ((False, float(by_check == 1)), (True, by_check), ("cases", by_case)):
        env = started(partial=partial)
        said(env, "write", path="solution.py", content=source)
        observation, reward, _, _, _ = env.step(tw.ToolCall("submit"))
        assert reward == pytest.approx(earned), f"partial = {partial!r}"
        said_to_the_agent.append(observation.text)
    assert len(set(said_to_the_agent)) == 1, "credit is a number for the learner alone"


def test_shaping_leaves_what_a_group_compares_and_credit_does_not() -> None:
    def returned(source: str, **settings: Any) -> float:
        env = started(**settings)
        reward = env.step(tw.ToolCall("write", {"path": "solution.py", "content": source}))[1]
        return float(reward + env.step(tw.ToolCall("submit"))[1])

    half, right = "def double(x):\n    return x * 2\n", RIGHT
    plain = returned(right) - returned(half)
    assert returned(right, shaping=0.5) - returned(half, shaping=0.5) == pytest.approx(plain)
    assert returned(right, partial="cases") - returned(half, partial="cases") < plain


@pytest.mark.parametrize("limit", [2, 9], ids=["truncated", "submitted"])
def test_shaping_moves_rewards_and_leaves_the_return(limit: int) -> None:
    env, rewards, over = started(shaping=0.5, max_turns=limit), list[float](), False
    for call in (
        tw.ToolCall("write", {"path": "solution.py", "content": RIGHT}),
        tw.ToolCall("write", {"path": "solution.py", "content": "def double(x) nonsense"}),
        tw.ToolCall("submit"),
    ):
        if not over:
            _, reward, terminated, truncated, info = env.step(call)
            rewards.append(reward)
            over = terminated or truncated
    assert rewards[0] == pytest.approx(0.25), "half of the points were there already"
    # What was there when the episode began is the constant by which every return differs.
    assert sum(rewards) == pytest.approx(-0.25)
    assert info["progress"]["imports"] is False


def test_forks_are_independent_of_each_other() -> None:
    env = started()
    said(env, "write", path="a.txt", content="one")
    fork = env.fork()
    assert fork.state_key() == env.state_key()
    said(env, "write", path="a.txt", content="two")
    env.close()
    assert said(fork, "run", command="cat a.txt").startswith("one")


def test_a_fork_of_a_python_session_has_its_variables() -> None:
    env = started(actions="python")
    said(env, "python", code="x = 40\nopen('log', 'a').write('once')")
    fork = env.fork()
    assert fork.state_key() == env.state_key()
    said(env, "python", code="x = 0")
    assert said(fork, "python", code="x + 2").startswith("42")
    assert said(fork, "python", code="open('log').read()").startswith("'once'"), "nothing is done twice to the files"


def test_a_plain_answer_is_tried_and_may_be_given_again() -> None:
    env = started(actions="text")
    assert not env.tools
    observation, reward, over, _, _ = env.step("def double(x):\n    return x")
    assert (reward, over) == (0.0, False)
    assert "expected 2, got 1" in observation.text
    _, reward, over, _, info = env.step(f"Here it is:\n```python\n{RIGHT}```")
    assert (reward, over, info["success"]) == (1.0, True, True)


async def test_a_sandbox_that_dies_is_an_infrastructure_failure_and_the_next_episode_has_another() -> None:
    env = DoubleEnv()
    await env.areset(seed=0)
    await (await env.episode_sandbox.sandbox()).destroy()
    with pytest.raises(SandboxError):
        await env.astep(tw.ToolCall("list"))
    await env.areset(seed=0)
    observation, *_ = await env.astep(tw.ToolCall("list"))
    assert "solution.py" in observation.text


async def test_episodes_side_by_side_share_nothing() -> None:
    envs = [DoubleEnv() for _ in range(4)]
    await asyncio.gather(*(env.areset(seed=0) for env in envs))
    calls = [tw.ToolCall("write", {"path": "mine", "content": str(number)}) for number in range(4)]
    await asyncio.gather(*(env.astep(call) for env, call in zip(envs, calls, strict=True)))
    answers = await asyncio.gather(*(env.astep(tw.ToolCall("read", {"path": "mine"})) for env in envs))
    assert [answer[0].text.strip() for answer in answers] == [f"1  {number}" for number in range(4)]


def test_nothing_is_left_of_an_environment_that_nobody_holds(backend: Backend) -> None:
    env = started()
    sandbox = LOOP.wait(env.episode_sandbox.sandbox())
    del env
    for _ in range(200):
        if sandbox.alive:
            LOOP.wait(asyncio.sleep(0.05))
    assert not sandbox.alive, "the sandbox outlived its environment"


def test_without_a_sandbox_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing() -> Backend:
        raise SandboxUnavailableError("untrusted code cannot run here: bubblewrap: not installed")

    monkeypatch.setattr(backends, "default_backend", nothing)
    monkeypatch.setattr(episode_sandbox, "shared_backend", backends.shared_backend.__wrapped__)
    with pytest.raises(SandboxUnavailableError, match="cannot run here"):
        DoubleEnv().reset(seed=0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DoubleEnv(actions="words"), "unknown actions 'words'"),  # type: ignore[arg-type]
        (lambda: DoubleEnv(partial="case"), "partial is 'case'; write true, cases or false"),  # type: ignore[arg-type]
        (lambda: DoubleEnv(progress="cases"), "progress is 'cases'; write true or false"),  # type: ignore[arg-type]
        (lambda: DoubleEnv(relaxed=["money"]), "unknown limit in relaxed: 'money'"),
        (lambda: DoubleEnv(sandbox="nowhere").reset(seed=0), "no sandbox backend 'nowhere'"),
    ],
)
def test_settings_that_are_wrong_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make()
