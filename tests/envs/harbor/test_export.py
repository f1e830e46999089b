"""Exported code tasks are graded as in their environment, and submitted code sees neither checks nor rewards."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import turnwise as tw
from turnwise.cli import build_app
from turnwise.envs.code.answers import SUBMIT, actions_of
from turnwise.envs.code.env import CodeEnv
from turnwise.envs.harbor.export import WORKDIR, code_env, unexportable, write_task
from turnwise.envs.harbor.task import read_task
from turnwise.errors import UsageError
from turnwise.tasks.code.task import Attempt, CodeTask, FileCheck, TestCheck, ValueCheck, case

REPAIR, SYNTHESIS = "turnwise/CodeRepair-v3", "turnwise/CodeSynthesis-v1"
SHELL, SQL = "turnwise/CodeShell-v2", "turnwise/CodeSQL-v2"
PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or "python3"
"""A Python that other users can run, as in an image."""
IDS = (REPAIR, SYNTHESIS, SHELL, SQL)


def exported(folder: Path, id: str, level: int = 1, seed: int = 0) -> tuple[Path, CodeTask]:
    """Write a task of an environment."""
    env = code_env(tw.make(id), id)
    spec = env.tasks().spec(seed, split=env.tasks().splits[-1], level=level)
    task = env.tasks().generate(spec)
    write_task(folder, task, spec, env, environment=id, arguments="{}", base="turnwise-host:latest")
    return folder, task


def graded(folder: Path, attempt: Attempt) -> float | None:
    """Let an attempt work on the files of an exported task, and grade them outside of a container."""
    work, logs = folder / "work", folder / "logs"
    for made in (work, logs):
        subprocess.run(["rm", "-rf", made], check=True)
    subprocess.run(["cp", "-r", folder / "environment" / "files", work], check=True)
    logs.mkdir()
    logs.chmod(0o777)
    temporary = Path(tempfile.gettempdir())
    for parent in (each for each in (folder, *folder.parents) if temporary in each.parents):
        parent.chmod(0o755)  # what keeps others out is the grader's, and not that of pytest's folders
    for path, content in attempt.files.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_bytes(content)
    for command in attempt.commands:
        subprocess.run(["sh", "-c", command], cwd=work, capture_output=True, check=False)
    told = folder / "tests" / "task.json"
    told.write_text(json.dumps({**json.loads(told.read_text()), "workdir": str(work), "logs": str(logs)}))
    subprocess.run([PYTHON, "-BEsS", folder / "tests" / "grade.py"], check=True, stdout=subprocess.DEVNULL, timeout=90)
    return float(json.loads((logs / "reward.json").read_text())["reward"])


@pytest.mark.parametrize("id", [REPAIR, SHELL])
def test_the_solution_gets_1_and_a_cheat_0(id: str, tmp_path: Path) -> None:
    folder, task = exported(tmp_path / "task", id)
    assert graded(folder, task.solution) == 1
    name, cheat = next(iter(task.cheats.items()))
    assert graded(folder, cheat) == 0, name


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize("id", IDS)
def test_no_cheat_and_no_unchanged_file_gets_anything(id: str, tmp_path: Path) -> None:
    folder, task = exported(tmp_path / "task", id, level=4, seed=3)
    assert graded(folder, task.solution) == 1
    for name, cheat in {"does nothing": Attempt(), **task.cheats}.items():
        assert graded(folder, cheat) == 0, name


SECRETS = """\
import os, signal
def tries(what):
    try:
        return str(what())
    except OSError as error:
        return type(error).__name__
def look():
    parent = os.getppid()
    found = [tries(lambda: open('{tests}/task.json').read()), tries(lambda: os.listdir('{tests}'))]
    for number in range(2, parent):
        found.append(tries(lambda: open(f'/proc/{{number}}/mem', 'r+b').close()))
    return [each for each in found if each not in ('PermissionError', 'FileNotFoundError', 'ProcessLookupError')]
"""


class World:
    """A task with one file, made for a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, *checks: ValueCheck | TestCheck | FileCheck, **fields: object) -> Path:
        """Write a task with these checks."""
        env = code_env(tw.make(SYNTHESIS, partial=True), SYNTHESIS)
        spec = env.tasks().spec(0)
        taken = {"files": {"solution.py": b"x = 0\n"}, "taken": ("solution.py",), **fields}
        task = CodeTask("Write x.", checks=checks, solution=Attempt(), **taken)  # type: ignore[arg-type]
        write_task(self.folder, task, spec, env, environment="demo/X", arguments="{}")
        return self.folder


def test_modes_in_the_image_do_not_depend_on_the_checkout(tmp_path: Path) -> None:
    folder, _ = exported(tmp_path / "task", SHELL)
    told = json.loads((folder / "tests" / "task.json").read_text())
    assert {each["mode"] for each in told["start"].values()} == {0o644}
    *_, last = (folder / "environment" / "Dockerfile").read_text().splitlines()
    words = last.removeprefix("RUN ").replace(WORKDIR, str(folder / "environment" / "files"))
    for file in (folder / "environment" / "files").rglob("*"):
        file.chmod(0o775 if file.is_dir() else 0o664)
    subprocess.run(["sh", "-c", words], check=True)
    modes = {file.stat().st_mode & 0o777 for file in (folder / "environment" / "files").rglob("*") if file.is_file()}
    assert modes == {0o644}


@pytest.mark.parametrize("path", ["../../../escaped.txt", "/etc/escaped.txt", "a/../../b"])
@pytest.mark.parametrize("field", ["files", "originals", "hidden", "solution", "databases"])
def test_a_path_that_leads_out_of_the_task_is_refused(field: str, path: str) -> None:
    value: Any = Attempt(files={path: b""}) if field == "solution" else {path: "" if field == "databases" else b""}
    fields: dict[str, Any] = {"files": {}, "solution": Attempt(), field: value}
    task = CodeTask("Write x.", checks=(ValueCheck("value", (case("x", 1),)),), **fields)
    assert unexportable(task) == f"{path!r} leads out of its folder"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A folder for a task."""
    return World(tmp_path / "task")


def test_partial_credit_is_that_of_the_checks(world: World) -> None:
    tests = TestCheck("tests", ("test_x.py::test_x",))
    file = FileCheck("file", "note.txt", b"1\n")
    folder = world.write(
        ValueCheck("value", (case("x", 1),)),
        tests,
        file,
        weights={"value": 2.0},
        originals={"test_x.py": b"from solution import x\ndef test_x():\n    assert x in (1, 2)\n"},
    )
    assert graded(folder, Attempt({"solution.py": b"x = 2\n"})) == 0.25
    assert graded(folder, Attempt({"solution.py": b"x = 2\n", "note.txt": b"1\n"})) == 0.5
    assert graded(folder, Attempt({"solution.py": b"x = 1\n", "note.txt": b"1\n"})) == 1


def test_submitted_code_reads_no_check_and_no_other_process(world: World) -> None:
    folder = world.write(ValueCheck("value", (case("x", 1), case("look()", []))))
    source = SECRETS.format(tests=folder / "tests")
    assert graded(folder, Attempt({"solution.py": f"x = 1\n{source}".encode()})) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "import os\nopen('{logs}/reward.json', 'w').write('1')\nx = 0\n",
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(99)\nx = 0\n",
        "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nx = 1\n",
        "import os, signal\nos.kill(-1, signal.SIGKILL)\nx = 1\n",
        "import os, signal\nfor n in range(2, os.getppid()):\n    try: os.kill(n, signal.SIGSTOP)\n"
        "    except OSError: pass\nos._exit(0)\n",
        "import os\nfor n in range(3, 64):\n    try: os.write(n, b'[{{}}]' * 99999)\n    except OSError: pass\n",
        "class X(int):\n    __eq__ = lambda self, other: True\nx = X(1)\n",
    ],
)
def test_what_attacks_the_grading_gets_0(world: World, source: str) -> None:
    folder = world.write(ValueCheck("value", (case("x", 1),)))
    assert graded(folder, Attempt({"solution.py": source.format(logs=folder / "logs").encode()})) == 0


def test_the_agent_sees_its_files_and_no_expected_value(tmp_path: Path) -> None:
    folder, task = exported(tmp_path / "task", REPAIR, level=2)
    seen = {path.relative_to(folder / "environment/files").as_posix() for path in files(folder / "environment/files")}
    assert seen == set(task.files)
    assert not any("task.json" in path.read_text() for path in files(folder / "environment"))
    read = read_task(folder)
    assert read.config.separate
    assert read.config.networks == ()
    assert read.config.environment.workdir == WORKDIR
    assert task.prompt in read.instruction
    told = tomllib.loads((folder / "task.toml").read_text())
    assert json.loads(told["metadata"]["task"])["level"] == 2


def files(folder: Path) -> Iterator[Path]:
    """All files below a folder."""
    return (path for path in folder.rglob("*") if path.is_file())


def test_what_cannot_be_exported_is_one_line(tmp_path: Path) -> None:
    for id, settings, says in (
        ("turnwise/Maze-v0", {}, "only code environments"),
        (REPAIR, {"actions": "python"}, "actions='python'"),
        (REPAIR, {"shaping": 1.0}, "one reward"),
    ):
        with pytest.raises(UsageError, match=says):
            code_env(tw.make(id, **settings), id)
    env = tw.make("turnwise/CodeEfficiency-v3")
    assert isinstance(env.unwrapped, CodeEnv)
    assert "language" in unexportable(env.unwrapped.tasks().generate(env.unwrapped.tasks().spec(0)))


def test_the_command_writes_tasks_and_overwrites_nothing(tmp_path: Path) -> None:
    words = ["export-harbor", SYNTHESIS, "--out", str(tmp_path / "out"), "-n", "2", "--level", "1"]
    assert CliRunner().invoke(build_app("export-harbor"), words).exit_code == 0
    found = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert [name[:5] for name in found] == ["00000", "00001"]
    assert all(read_task(tmp_path / "out" / name).has_solution for name in found)
    with pytest.raises(UsageError, match="already exists"):
        build_app("export-harbor")(words, standalone_mode=False)


@pytest.mark.slow
@pytest.mark.shift
def test_the_adapter_plays_what_was_exported_as_the_environment_does(engine: None, tmp_path: Path) -> None:
    folder, task = exported(tmp_path / "task", REPAIR, level=3)
    attempts = {"nothing": Attempt(), **{name: task.cheats[name] for name in ("repairs all faults but one",)}}
    here, there = tw.make(REPAIR), tw.make(f"harbor:{folder}")
    spec = here.tasks().spec(0, split=here.tasks().splits[-1], level=3)
    episodes: list[tuple[tw.TurnEnv, dict[str, Any]]] = [(here, {"task": spec}), (there, {})]
    for name, attempt in attempts.items():
        rewards = []
        for env, options in episodes:
            env.reset(seed=0, options=options)
            for action in [*actions_of(task, attempt, "tools")[:-1], tw.Action.of(SUBMIT)]:
                _, reward, terminated, _, info = env.step(action)
            rewards.append((reward, terminated, info["success"]))
        assert rewards == [(0, True, False)] * 2, name
    for env, options in episodes:
        env.reset(seed=0, options=options)
        terminated = False
        while not terminated:
            _, reward, terminated, _, info = env.step(env.oracle())
        assert (reward, info["success"]) == (1, True)
        env.close()
