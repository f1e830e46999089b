"""The process of verifiers' tasksets when something in it is late, unreadable, large or no longer needed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.adapters import verifiers_child, verifiers_process
from turnwise.errors import ContractError, EnvironmentDiedError, EnvironmentFailedError, UsageError
from turnwise.rollouts.hosts import AwaitingHost
from turnwise.rollouts.pool import EnvPool

from .test_verifiers_text import ASKED, MORE, OVER, TOOL, fake, prepare

ANSWERED = {**MORE, "tools": [TOOL]}
CHILD = """
import asyncio, sys
import verifiers_child

class Odd:
    def __float__(self):
        return 0.5

class Player:
    def __init__(self):
        self.rollouts = {1: "one", 2: "another"}
        self.serving = self
        self.ending = set()
        self.all = asyncio.Event()

    async def number(self):
        return {"metric": Odd()}

    async def thing(self):
        return {"metric": object()}

    async def end(self, rollout):
        self.ending.add(rollout)
        if len(self.ending) == 2:
            self.all.set()
        await self.all.wait()

    async def aclose(self):
        print("cleaned up", flush=True)

verifiers_child.Player = Player
asyncio.run(verifiers_child._serve(1))
"""


def test_opening_and_forking_leave_the_runs_event_loop_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    monkeypatch.setitem(verifiers_process.LIMITS, "open", (20.0, ""))
    settings = prepare(tmp_path, monkeypatch, [ASKED, ANSWERED, ASKED, ANSWERED], opening=str(go))

    async def play() -> None:
        async with EnvPool.of("verifiers/fake-v0", env_kwargs=settings) as pool:
            opening = asyncio.create_task(pool.take())
            await asyncio.sleep(0.05)
            go.touch()  # before the process opens: this loop runs meanwhile
            host = await opening
            assert isinstance(host, AwaitingHost)
            await host.reset(tw.make("verifiers/fake-v0", **settings).tasks().spec(0))
            await host.step(tw.Action("x"))
            fork = await host.fork()
            assert isinstance(fork, AwaitingHost)
            await fork.close()
            await pool.discard(host)

    asyncio.run(play())


def test_a_class_or_a_factory_that_opens_slowly_gets_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = prepare(tmp_path, monkeypatch, [])

    async def isolation() -> str:
        async with EnvPool.of(lambda: tw.make("verifiers/fake-v0", **settings)) as pool:
            await pool.discard(await pool.take())
            return pool.isolation

    assert asyncio.run(isolation()) == "thread"


@pytest.mark.parametrize(("text", "reward"), [("A wall.", 0.5), ("A door.", 1.0)])
def test_a_fork_whose_replay_answers_otherwise_fails(
    text: str, reward: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {**ANSWERED, "messages": [{**MORE["messages"][0], "content": text}]}
    events = [ASKED, ANSWERED, ASKED, ANSWERED, OVER, ASKED, other, {**OVER, "reward": reward}]
    env = fake(tmp_path, monkeypatch, events)
    _, info = env.reset(seed=0)
    *_, later = env.step("x")
    assert info["obs_key"] != later["obs_key"]
    fork = env.fork()
    assert fork.state_key() == env.state_key() == later["obs_key"]
    env.step("y")
    with pytest.raises(ContractError, match="ended differently"):
        env.fork()


def test_an_interpreter_that_failed_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = prepare(tmp_path, monkeypatch, [ASKED, ASKED])
    del settings["python"]
    for wrong in ("nowhere/python", "/bin/false"):
        monkeypatch.setenv("VERIFIERS_PYTHON", wrong)
        with pytest.raises((UsageError, EnvironmentDiedError)):
            tw.make("verifiers/usual-v0", **settings)
    monkeypatch.setenv("VERIFIERS_PYTHON", sys.executable)
    env = tw.make("verifiers/usual-v0", **settings)
    env.reset(seed=0)
    monkeypatch.delenv("VERIFIERS_PYTHON")
    assert env.fork().state_key() == env.state_key(), "a fork reads no variable"


def test_an_answer_that_cannot_be_read_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = fake(tmp_path, monkeypatch, [ASKED, "no JSON"])
    env.reset(seed=0)
    with pytest.raises(EnvironmentDiedError, match=r"was killed, because its answer cannot be read .*exit code -9"):
        env.step("x")
    assert env.reset(seed=0)[0].text == "Play.\nGo."


def test_what_is_late_fails_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [seconds for seconds, _ in verifiers_process.LIMITS.values()] == [300.0, 120.0]
    advice = verifiers_process.LIMITS["begin"][1]
    env = fake(tmp_path, monkeypatch, ["nothing"])
    monkeypatch.setitem(verifiers_process.LIMITS, "begin", (0.2, advice))
    with pytest.raises(EnvironmentFailedError, match=r"'begin' in 0.2 s; the harness has not asked its model: run `vf"):
        env.reset(seed=0)
    monkeypatch.setitem(verifiers_process.LIMITS, "open", (0.2, "let it download"))
    go = tmp_path / "go"
    settings = prepare(tmp_path, monkeypatch, [], opening=str(go))
    with pytest.raises(EnvironmentFailedError, match=r"'open' in 0.2 s; let it download"):
        tw.make("verifiers/fake-v0", count=2, **settings)
    go.touch()  # lets the process end


def test_a_process_without_open_environments_ends_when_another_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = prepare(tmp_path, monkeypatch, [ASKED, ASKED])
    closed, kept = (tw.make("verifiers/fake-v0", count=count, **settings) for count in (1, 2))
    processes: list[Any] = [vars(each.unwrapped)["_process"] for each in (closed, kept)]
    closed.reset(seed=0)
    closed.close()
    assert [each.lives for each in processes] == [True, True]
    tw.make("verifiers/fake-v0", count=3, **settings)
    assert [each.lives for each in processes] == [False, True]
    assert closed.reset(seed=0)[0].text == "Play.\nGo.", "it starts a process again"


def test_the_file_of_standard_error_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifiers_process, "MOST_BYTES", 30_000)
    env = fake(tmp_path, monkeypatch, [ASKED] + [ANSWERED] * 2 + ["die"])
    process: Any = vars(env.unwrapped)["_process"]
    env.reset(seed=0)
    written = process._errors.fileno()
    os.write(written, b"a warning\n" * 4000)
    env.step("x")
    assert os.fstat(written).st_size == 0
    os.write(written, b"a warning\n")
    env.step("x")
    assert os.fstat(written).st_size == 10, "the position is at the beginning, too"
    with pytest.raises(EnvironmentDiedError, match="the last words"):
        env.step("x")


def test_the_child_answers_what_json_lacks_and_ends_all_rollouts_at_once() -> None:
    folder = Path(verifiers_child.__file__).parent
    asked = "".join(json.dumps([number, verb, {}]) + "\n" for number, verb in enumerate(("number", "thing")))
    ran = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=asked,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=20,
        start_new_session=True,  # it ends its own group
        check=False,
    )
    *answers, last = ran.stdout.splitlines()
    said = dict(json.loads(each) for each in answers)
    assert said[0] == {"value": {"metric": 0.5}}
    assert said[1]["failed"].startswith("TypeError: ")
    assert (last, ran.returncode) == ("cleaned up", -9)
