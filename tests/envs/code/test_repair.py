"""Playing repair: the oracle restores the original, other changes earn nothing, and the index is right."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnwise as tw
from turnwise.envs.code.answers import SUBMIT
from turnwise.envs.code.backends import spec_for
from turnwise.envs.code.build_repair import Builder, Progress
from turnwise.envs.code.build_sources import opened
from turnwise.envs.code.env import CodeEnv
from turnwise.envs.code.repair import CodeRepairEnv
from turnwise.errors import TaskError, UsageError
from turnwise.sandboxes.backend import Backend
from turnwise.sandboxes.loop import LOOP
from turnwise.tasks.code.repair.family import LEVELS, REPAIR
from turnwise.tasks.code.repair.packages import HEADER, SOURCES, TASKS, PackageRepairFamily, TaskSet

from ...shifts import sampled


def played(env: CodeEnv, spec: tw.TaskSpec, actions: list[object] | None = None) -> bool:
    """Whether an episode succeeds: the oracle's, or that of some actions."""
    env.reset(options={"task": spec})
    for turn in range(env.max_turns):
        action = env.oracle() if actions is None else actions[turn]
        _, reward, terminated, truncated, info = env.step(action)  # type: ignore[arg-type]
        if terminated or truncated:
            assert reward == float(info["success"])
            return bool(info["success"])
    raise AssertionError("the episode did not end")


@pytest.mark.parametrize("level", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_the_oracle_repairs_and_nothing_else_does(level: int, backend: Backend) -> None:
    env, spec = CodeRepairEnv(), REPAIR.spec(4, level=level)
    assert played(env, spec)
    for name, play in env.near_misses().items():
        if isinstance(play, list) and len(play) > 1:
            assert not played(env, spec, play), name
    assert not played(env, spec, [SUBMIT])


def test_visible_tests_show_the_fault_only_where_the_level_says_so(backend: Backend) -> None:
    env = CodeRepairEnv()
    for level, shown in ((1, True), (2, False)):
        env.reset(options={"task": REPAIR.spec(1, level=level)})
        observation, *_ = env.step(tw.ToolCall("test"))
        assert (" failed (" in observation.text) is shown, observation.text


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, pytest.param(None, id="all", marks=pytest.mark.shift)])
def test_the_index_holds_in_sandboxes(count: int | None, backend: Backend) -> None:
    """A sample of all splits and levels: the fault fails, the original passes, in sandboxes that built no index."""
    env = CodeRepairEnv()
    found = [REPAIR.sample(2 * len(LEVELS), split=split, first_seed=100) for split in REPAIR.splits]
    specs = list(itertools.chain.from_iterable(found))
    for spec in sampled(specs, len(specs) if count is None else count, key="repair"):
        assert played(env, spec), spec
        assert not played(env, spec, [SUBMIT]), spec


PACKAGE = {
    "pyproject.toml": "",
    "PKG-INFO": "Name: tiny\nVersion: 1.2\nLicense-Expression: MIT\n",
    "LICENSE": "Do what you want.\n",
    "src/tiny/__init__.py": "",
    "src/tiny/sums.py": '''"""Sums."""


def total(numbers, start=0):
    """All of them together."""
    for number in numbers:
        start += number
    return start


def never(text):
    """Nothing tests this."""
    return text + 1
''',
    "src/tiny/broken.py": "def wrong():\n    return 1\n",
    "tests/test_sums.py": """import pytest
from tiny.sums import total


@pytest.mark.parametrize("numbers, expected", [([], 0), ([1, 2], 3)])
def test_total(numbers, expected):
    assert total(numbers) == expected


def test_start():
    assert total([1], 5) == 6


@pytest.mark.skip
def test_skipped():
    raise AssertionError
""",
    "tests/test_broken.py": "def test_that_never_passes():\n    assert False\n",
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder for a task set: pytest's own folders are closed to the user that a sandbox runs as."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name) / "set"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder of a package with tests, some of which fail."""
    for name, text in PACKAGE.items():
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "package"


def build(package: Path, folder: Path, backend: Backend, limit: int | None = None) -> list[Progress]:
    """Build a task set, and return its messages."""
    reports: list[Progress] = []
    builder = Builder(opened(str(package)), folder, backend, spec_for(None), None)
    wait_for = builder.build(limit, 2, reports.append)
    LOOP.wait(wait_for)
    return reports


@pytest.mark.slow
@pytest.mark.shift
def test_a_package_becomes_tasks_that_can_be_played(package: Path, folder: Path, backend: Backend) -> None:
    reports = build(package, folder, backend)
    assert reports[-1].tried == reports[-1].total
    found = TaskSet(folder)
    assert (found.header.package, found.header.version, found.header.licence) == ("tiny", "1.2", "MIT")
    assert [suite.module for suite in found.header.suites] == ["tiny/sums.py"], "no test of the other passes"
    assert found.header.suites[0].outcomes["tests/test_sums.py::test_skipped"] == "skipped"
    assert {fault.scope for fault in found.faults} == {"total"}, "a fault that no test catches is no task"
    assert len(found.faults) == reports[-1].kept > 2

    env = CodeRepairEnv(tasks=folder)
    spec = env.tasks().spec(0, level=1)
    assert "in total" in env.tasks().generate(spec).prompt
    assert played(env, spec)
    for name, play in env.near_misses().items():
        if isinstance(play, list) and len(play) > 1:
            assert not played(env, spec, play), name

    before = (folder / TASKS).read_text()
    assert build(package, folder, backend)[0].tried == reports[-1].total, "what was tried is not tried again"
    assert (folder / TASKS).read_text() == before

    (folder / SOURCES / "tiny/sums.py").write_text("")
    with pytest.raises(TaskError, match="not those from which the tasks were built"):
        PackageRepairFamily(folder)


def test_a_folder_of_another_package_is_left_alone(package: Path, folder: Path, backend: Backend) -> None:
    folder.mkdir()
    header = {"package": "x", "version": "", "licence": "", "digest": "0", "python": "", "suites": []}
    (folder / HEADER).write_text(json.dumps(header))
    with pytest.raises(UsageError, match="other sources"):
        build(package, folder, backend)


def test_what_is_no_package_with_tests_is_refused(tmp_path: Path) -> None:
    for what, match in ((tmp_path, "no package"), (tmp_path / "nothing", "no file or folder")):
        with pytest.raises(UsageError, match=match):
            opened(str(what))
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / "__init__.py").write_text("")
    with pytest.raises(UsageError, match="has no tests"):
        opened(str(tmp_path))
    (tmp_path / "thing.tar.gz").write_bytes(b"no archive")
    with pytest.raises(UsageError, match="not a readable sdist"):
        opened(str(tmp_path / "thing.tar.gz"))


def test_a_task_set_that_is_none_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="turnwise tasks build-repair"):
        CodeRepairEnv(tasks=tmp_path)
