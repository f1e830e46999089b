"""Recorded episodes are the episodes that they would be; what is recorded is there however they end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

import turnwise as tw
from turnwise.agents.scripted import OracleAgent
from turnwise.envs.messages import ActionLike, ToolCall
from turnwise.envs.web.chromium.browser import ChromiumBrowser
from turnwise.envs.web.chromium.pool import Pool
from turnwise.envs.web.env import WebEnv
from turnwise.errors import EnvironmentDiedError, EnvironmentTimeoutError, UsageError
from turnwise.rollouts.replay import replay
from turnwise.tasks.web.family import WEB_FAMILY

pytestmark = pytest.mark.slow
WEB = "turnwise/Web-v1"
WRONG: tuple[ActionLike, ...] = (
    "click('999')",
    "fly",
    "goto('http://elsewhere.test/')",
    "go_back()",
    ToolCall("noop", {"wait_ms": 1}),
)
"""An agent's first, wrong acts."""
UNCLOSED = """
import sys
import turnwise as tw
env = tw.make("turnwise/Web-v1", record=sys.argv[1], trace=True)
env.reset(seed=3)
env.step(env.unwrapped.oracle())
"""


def made(**kwargs: Any) -> WebEnv:
    return cast(WebEnv, tw.make(WEB, **kwargs).unwrapped)


def played(**kwargs: Any) -> list[Any]:
    """Return all observations of an episode with some wrong acts before the right ones."""
    env = made(**kwargs)
    observation, info = env.reset(seed=2, options={"level": 3})
    results: list[Any] = [observation, info]
    wrong, over = list(WRONG), False
    while not over:
        stepped = env.step(wrong.pop() if wrong else env.oracle())
        results.append(stepped)
        over = stepped[2] or stepped[3]
    env.close()
    return results


def turns(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "turns.jsonl").read_text().splitlines()]


def traced(folder: Path) -> str:
    """All the words of a trace."""
    with zipfile.ZipFile(folder / "trace.zip") as trace:
        assert trace.testzip() is None
        assert any(name.endswith((".jpeg", ".jpg")) for name in trace.namelist()), "it has pictures"
        return trace.read("trace.trace").decode()


def one_in(into: Path) -> Path:
    (folder,) = [one for one in into.iterdir() if one.is_dir()]
    return folder


@pytest.mark.slow
@pytest.mark.shift
def test_an_episode_is_the_same_recorded_or_not(tmp_path: Path) -> None:
    plain = played()
    assert played(record=tmp_path / "pictures") == plain
    assert played(record=str(tmp_path / "traces"), trace=True) == plain
    for into in (tmp_path / "pictures", tmp_path / "traces"):
        folder = one_in(into)
        *shots, end = turns(folder)
        assert [one["told"] for one in shots] == [plain[0].text, *(one[0].text for one in plain[2:])]
        assert [one["reward"] for one in shots] == [0, *(one[1] for one in plain[2:])]
        assert all((folder / one["picture"]).read_bytes().startswith(b"\x89PNG") for one in shots)
        assert end["note"].startswith("not solved"), "an attempt to go elsewhere is no success"
        assert (folder / "trace.zip").exists() == (into.name == "traces")


def test_what_is_recorded_is_what_was_said_told_and_paid(tmp_path: Path) -> None:
    """Nothing that only the judge knows: the checks, the solution, the rows."""
    env = made(record=tmp_path, templates=["shop_order"])
    env.reset(seed=3)
    over = False
    while not over:
        _, _, over, _, info = env.step(env.oracle())
    assert info["success"]
    *shots, end = turns(one_in(tmp_path))
    assert {key for one in shots for key in one} == {"number", "said", "told", "reward", "picture", "lacks", "given"}
    assert end == {"note": "solved"}
    env.close()


@pytest.mark.slow
@pytest.mark.shift
async def test_traces_of_episodes_side_by_side_are_apart(tmp_path: Path) -> None:
    envs = [made(record=tmp_path, trace=True, templates=[name]) for name in ("forum_edit", "shop_order")]
    await asyncio.gather(*(env.areset(seed=1, options={"level": 1}) for env in envs))
    recordings = [env.recording for env in envs]
    over = [False, False]
    while not all(over):
        for number, env in enumerate(envs):  # in turns
            if not over[number]:
                _, _, terminated, truncated, _ = await env.astep(env.oracle())
                over[number] = terminated or truncated
    words = [traced(one.folder) for one in recordings if one is not None]
    for mine, other, text in (("forum.test", "shop.test", words[0]), ("shop.test", "forum.test", words[1])):
        assert mine in text
        assert other not in text
        for chapter in ("turn 1: ", "send_msg_to_user("):
            assert chapter in text
    for env in envs:
        env.close()


def test_a_fork_is_recorded_apart_and_whole(tmp_path: Path) -> None:
    env = made(record=tmp_path)
    env.reset(seed=4)
    env.step("noop(1)")
    fork = env.fork()
    fork.step("noop(2)")
    assert env.recording is not None
    assert fork.recording is not None
    assert len(turns(env.recording.folder)) == 2
    assert [one["said"] for one in turns(fork.recording.folder)] == ["", "noop(1)", "noop(2)"]
    for one in (env, fork):
        one.close()


@pytest.mark.parametrize("again", [False, True], ids=["closed", "reset"])
def test_an_episode_that_is_broken_off_is_written(tmp_path: Path, again: bool) -> None:
    env = made(record=tmp_path, trace=True)
    env.reset(seed=4)
    env.step("noop(1)")
    assert env.recording is not None
    folder = env.recording.folder
    if again:
        env.reset(seed=5)
    else:
        env.close()
    assert turns(folder)[-1] == {"note": "broken off in turn 2"}
    assert "turn 1: " in traced(folder)
    assert folder.name in (tmp_path / "index.html").read_text()
    env.close()
    env.close()


def test_a_process_that_ends_without_closing_leaves_its_trace(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", UNCLOSED, str(tmp_path)], check=True, timeout=120)
    assert "turn 1: " in traced(one_in(tmp_path))
    assert len(turns(one_in(tmp_path))) == 2


async def test_what_was_recorded_before_the_browser_died_can_be_read(
    tmp_path: Path, pools: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = pools(ready=0)  # others go on in the process's own
    monkeypatch.setattr("turnwise.envs.web.chromium.browser.pool", lambda: mine)
    env = made(record=tmp_path, trace=True)
    await env.areset(seed=4)
    assert isinstance(env.browser, ChromiumBrowser)
    assert env.recording is not None
    folder = env.recording.folder
    os.kill(env.browser.slot.chromium.pid, signal.SIGKILL)
    with pytest.raises(EnvironmentDiedError):
        await env.astep("go_back()")
    await env.leave()
    first, *notes = [one.get("note", "a turn") for one in turns(folder)]
    assert first == "a turn"
    assert [one.split(":")[0] for one in notes] == ["failed", "there is no trace", "broken off in turn 1"]


def test_a_picture_that_fails_ends_no_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = made(record=tmp_path)
    env.reset(seed=4)
    assert isinstance(env.browser, ChromiumBrowser)
    assert env.recording is not None

    async def late() -> bytes:
        raise EnvironmentTimeoutError("the page is busy")

    monkeypatch.setattr(env.browser.recorder, "picture", late)
    _, _, terminated, truncated, _ = env.step("noop(1)")
    assert not terminated
    assert not truncated
    assert turns(env.recording.folder)[-1]["lacks"] == "the page is busy"
    env.close()


def test_a_recording_that_cannot_go_on_stops_a_run_and_says_so(tmp_path: Path) -> None:
    env = made(record=tmp_path / "there")
    env.reset(seed=4)
    shutil.rmtree(tmp_path / "there")
    with pytest.raises(UsageError, match=r"cannot be recorded in .*there: No such file"):
        env.step("noop(1)")


def test_a_trace_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    env = made(record=tmp_path, trace=True)
    env.reset(seed=4)
    assert isinstance(env.browser, ChromiumBrowser)
    assert env.browser.slot.trace is not None
    (tmp_path / "file").write_text("")
    env.browser.slot.trace.path = tmp_path / "file" / "trace.zip"
    with pytest.raises(UsageError, match=r"file/trace\.zip cannot be written: .*make room, or leave trace out"):
        env.step(ToolCall("send_msg_to_user", {"text": "done"}))
    env.close()


async def test_what_was_played_without_a_browser_can_be_looked_at_in_one(tmp_path: Path) -> None:
    tasks = [WEB_FAMILY.spec(11, level=2)]
    (episode,) = [one async for one in tw.run_episodes("turnwise/WebHTML-v1", OracleAgent(), tasks)]
    seen = await asyncio.to_thread(replay, episode, partial(tw.make, WEB, record=tmp_path))
    assert seen.ok, str(seen.difference)
    assert len(turns(one_in(tmp_path))) == len(episode.turns) + 2
