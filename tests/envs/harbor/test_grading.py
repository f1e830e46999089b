"""Reward files are read as data, and what an agent submits has no way to the tests; no engine is needed."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.envs.code.workspace import Entry, workspace_of
from turnwise.envs.harbor.config import Artifact
from turnwise.envs.harbor.grading import LATE, NoReward, Verdict, rewards_in, verdict
from turnwise.envs.harbor.images import led_astray, needed
from turnwise.envs.harbor.submission import collected, is_safe, packed, relative, submitted
from turnwise.envs.harbor.task import HarborTask, read_task
from turnwise.errors import EnvironmentFailedError
from turnwise.sandboxes.result import ExecResult, Output, Status

from .worlds import task_folder

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["reward", "a", "b"]), inner),
    max_leaves=4,
)


def ended(report: object, status: Status = Status.EXITED, code: int = 0) -> ExecResult:
    """Return the result of a witness."""
    text = report if isinstance(report, str) else json.dumps(report)
    return ExecResult(status, code, None, Output(text.encode()), Output(), 1.0, 1.0, 0)


def reported(reward: str = "1", *, changed: int = 5, orphan: int = 0, code: int = 0) -> dict[str, Any]:
    """Return a report of a witness."""
    files = {"reward.json": None, "reward.txt": {"text": reward, "changed": changed}}
    return {"code": code, "files": files, "orphan": orphan, "log": ""}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> HarborTask:
    return read_task(task_folder(tmp_path_factory.mktemp("tasks") / "evens"))


@given(ANY, st.sampled_from(["reward.json", "reward.txt"]))
def test_a_reward_is_a_number_from_0_to_1_or_none(content: object, name: str) -> None:
    try:
        reward, rewards = rewards_in(name, {"text": json.dumps(content), "changed": 1})
    except NoReward:
        return
    assert 0 <= reward <= 1
    assert all(math.isfinite(value) for value in rewards.values())
    assert reward in rewards.values()


@given(st.text())
def test_any_text_is_a_reward_or_refused(text: str) -> None:
    for name in ("reward.json", "reward.txt"):
        with contextlib.suppress(NoReward):
            assert 0 <= rewards_in(name, {"text": text})[0] <= 1


@pytest.mark.parametrize("text", ["", "nan", "inf", "1_0", "0x1", "true", "1 1", "-0.5", "2", "1e400", "١"])
def test_other_texts_are_no_reward(text: str) -> None:
    with pytest.raises(NoReward):
        rewards_in("reward.txt", {"text": text})


def test_an_orphan_counts_only_if_it_lived_when_the_reward_was_written(task: HarborTask) -> None:
    assert verdict(task, ended(reported(changed=5, orphan=4))) == Verdict(1.0, {"reward": 1.0})
    assert verdict(task, ended(reported(changed=5, orphan=5))).violation == LATE
    assert verdict(task, ended(reported("nothing", changed=5, orphan=6))).reward == 0


@pytest.mark.parametrize(
    ("done", "says"),
    [
        (ended("", Status.TIMEOUT, 137), "verifier.timeout_sec"),
        (ended("", Status.SIGNALED, 137), "killed"),
        (ended("", Status.OOM, 137), "oom"),
        (ended("no report"), "something else"),
        (ended("[]"), "something else"),
        (ended({"code": 0}), "something else"),
        (ended(reported(code=-9)), "signal 9"),
        (ended(reported(code=2)), "exit code 2"),
        (ended({**reported(), "files": {}}), "no reward file"),
    ],
)
def test_what_is_no_report_is_no_score(task: HarborTask, done: ExecResult, says: str) -> None:
    with pytest.raises(EnvironmentFailedError, match=says):
        verdict(task, done)


@pytest.mark.parametrize(
    ("path", "target", "safe"),
    [
        ("a", "b", True),
        ("d/a", "../b", True),
        ("a", "/app/b", True),
        ("venv/python", "/usr/bin/python3", True),
        ("a", "../tests/x", False),
        ("d/a", "../../logs", False),
        ("a", "/tests/x", False),
        ("a", "/logs/verifier/reward.txt", False),
        ("a", "/proc/self/root/tests", False),
        ("a", "/dev/fd/1", False),
        ("a", "/usr/../tests", False),
        ("a", "d/../../tests", False),
        ("a", "/../tests", False),
        ("a", "/", False),
    ],
)
def test_links_stay_among_the_agents_files_or_lead_to_programs(path: str, target: str, safe: bool) -> None:
    assert is_safe(path, Entry("link", 0o777, target=target), "/app") is safe


def test_a_submission_keeps_files_and_modes(tmp_path: Path) -> None:
    entries = {"d": Entry("directory", 0o755), "d/x": Entry("file", 0o755, b"1"), "l": Entry("link", 0o777, target="d")}
    bad = {"t": Entry("link", 0o777, target="/tests")}
    assert workspace_of(submitted(packed({**entries, **bad}), "/app")).entries == entries


def test_artifacts_replace_what_the_verifier_has() -> None:
    pristine = packed({"keep": Entry("file", 0o644, b"k"), "out/old": Entry("file", 0o644, b"o")})
    work = packed({"keep": Entry("file", 0o644, b"changed"), "out/new": Entry("file", 0o644, b"n")})
    found = workspace_of(collected(work, "/app", (Artifact(source="/app/out"),), pristine))
    assert found.content("keep") == b"k"
    assert {path for path, one in found.entries.items() if one.kind == "file"} == {"keep", "out/new"}
    everything = workspace_of(collected(work, "/app", (Artifact(source="."),), pristine))
    assert everything.content("keep") == b"changed"
    assert relative("/logs/x", "/app") is None


@pytest.mark.parametrize(
    ("dockerfile", "images"),
    [
        ("FROM a:1\n", ("a:1",)),
        ("ARG V=2\nFROM --platform=linux/amd64 a:${V} AS build\nFROM build\nCOPY --from=b:3 /x /x\n", ("a:2", "b:3")),
        ("FROM scratch\nCOPY --from=0 /x /x\n", ()),
        ("from A as B\nFROM b\n", ("A",)),
    ],
)
def test_the_images_that_a_dockerfile_builds_on_are_known(dockerfile: str, images: tuple[str, ...]) -> None:
    assert needed(dockerfile) == images


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({"PATH": "/usr/local/bin:/usr/bin"}, ""),
        ({"PATH": "/app/.venv/bin:/usr/bin"}, "PATH=/app/.venv/bin:/usr/bin"),
        ({"PATH": "/usr/bin:/opt/../app/bin"}, "PATH=/usr/bin:/opt/../app/bin"),
        ({"PATH": "/usr/bin::/bin"}, "PATH=/usr/bin::/bin"),
        ({"PATH": "/usr/bin", "LD_PRELOAD": "/lib/a.so /app/b.so"}, "LD_PRELOAD=/lib/a.so /app/b.so"),
        ({"BASH_ENV": "/tmp/rc"}, "BASH_ENV=/tmp/rc"),
        ({"PYTHONPATH": "/app"}, "PYTHONPATH=/app"),
        ({"PYTHONPATH": "/application", "HOME": "/app"}, ""),
    ],
)
def test_no_variable_takes_programs_of_the_tests_from_the_agents_files(env: dict[str, str], found: str) -> None:
    assert led_astray(env, "/app") == found


def test_a_reward_with_too_many_digits_is_no_score(task: HarborTask) -> None:
    report = {"code": 0, "files": {"reward.json": {"text": "1" + "0" * 400, "changed": 1}}, "orphan": 0, "log": ""}
    with pytest.raises(EnvironmentFailedError, match="no score"):
        verdict(task, ended(report))
