"""Exported code tasks are graded as in their environment, and submitted code sees neither checks nor rewards."""

from __future__ import annotations

import json
import os
import re
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
from turnwise.errors import TaskError, UsageError
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


def graded(folder: Path, attempt: Attempt, user: int | None = None) -> float | None:
    """Let an attempt work on the files of an exported task, and grade them outside of a container.

    The files have the modes of a clone with umask 002, and everything can be read, except for what grading protects.
    """
    work, logs = folder / "work", folder / "logs"
    for made in (work, logs):
        subprocess.run(["rm", "-rf", made], check=True)
    subprocess.run(["cp", "-r", folder / "environment" / "files", work], check=True)
    logs.mkdir()
    subprocess.run(["chmod", "-R", "a+rX,g+w", folder], check=True)
    logs.chmod(0o777)
    for line in (folder / "environment" / "Dockerfile").read_text().splitlines():
        if line.startswith("RUN "):
            subprocess.run(["sh", "-c", line[4:].replace(WORKDIR, str(work))], check=True)
    for path, content in attempt.files.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_bytes(content)
    for command in attempt.commands:
        subprocess.run(["sh", "-c", command], cwd=work, capture_output=True, check=False)
    told = folder / "tests" / "task.json"
    told.write_text(json.dumps({**json.loads(told.read_text()), "workdir": str(work), "logs": str(logs)}))
    grading = [PYTHON, "-BEsS", str(folder / "tests" / "grade.py")]
    subprocess.run(grading, check=True, stdout=subprocess.DEVNULL, timeout=90, user=user, cwd="/")
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
    found = [tries(lambda: open('{tests}/task.json').read()), tries(lambda: os.listdir('{tests}'))]
    number = os.getppid()  # the driver, which has this user; above it is the grader
    while (number := int(open(f'/proc/{{number}}/stat').read().rpartition(')')[2].split()[1])) > 1:
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


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A folder for a task that every user can reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory(dir=getattr(request, "param", "/tmp"), prefix="turnwise-export-") as folder:
        os.chmod(folder, 0o755)
        yield World(Path(folder) / "task")


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


LANDLOCK = "import confine, sys; sys.exit(not confine.version())"
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can run submitted code as another user")


@pytest.mark.parametrize(
    ("world", "user"), [pytest.param("/tmp", None, marks=needs_root), ("/var/tmp", 65534)], indirect=["world"]
)
def test_submitted_code_reads_no_check_and_no_other_process(world: World, user: int | None) -> None:
    # Landlock leaves /tmp open, so there only the other user protects the tests; with one user only Landlock does
    folder = world.write(ValueCheck("value", (case("x", 1), case("look()", []))))
    if user and subprocess.run([PYTHON, "-c", LANDLOCK], cwd=folder / "tests", check=False).returncode:
        pytest.skip("NOT TESTED: this kernel has no Landlock")
    source = SECRETS.format(tests=folder / "tests")
    attempt = Attempt({"solution.py": f"x = 1\n{source}".encode()})
    assert graded(folder, attempt, user=user if os.getuid() == 0 else None) == 1


@needs_root
def test_submitted_code_cannot_replace_the_tests(world: World) -> None:
    checks = [TestCheck(name, (f"test_{name}.py::test_x",)) for name in "ab"]
    test = b"def test_x():\n    from solution import x\n    assert x == 1\n"
    folder = world.write(*checks, originals={"test_a.py": test, "test_b.py": test})
    source = "import os\ntry: os.unlink('test_b.py')\nexcept OSError: pass\n"
    source += "try: open('test_b.py', 'w').write('def test_x(): pass')\nexcept OSError: pass\nx = 0\n"
    assert graded(folder, Attempt({"solution.py": source.encode()})) == 0


def test_submitted_code_gains_no_privileges_without_landlock(world: World) -> None:
    folder = world.write(ValueCheck("value", (case("x", 1),)))
    program = "import confine; confine.version = lambda: 0; confine.confine(frozenset())"
    program += "; print(open('/proc/self/status').read())"
    words = [PYTHON, "-c", program]
    run = subprocess.run(words, cwd=folder / "tests", capture_output=True, text=True, check=True)
    assert "NoNewPrivs:\t1" in run.stdout


@pytest.mark.parametrize("path", ["../escaped.txt", "/escaped.txt", "a/../../escaped.txt"])
@pytest.mark.parametrize("where", ["files", "originals", "hidden"])
def test_no_file_leads_out_of_its_folder(world: World, where: str, path: str) -> None:
    with pytest.raises(TaskError, match="leads out of"):
        world.write(ValueCheck("value", (case("x", 1),)), **{where: {path: b""}})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--base", ""], "--base '' is not the name of a Docker image"),
        (["--base", "ubuntu:24.04\nRUN x"], "is not the name of a Docker image"),
        (["--out", "/proc/x"], "cannot write to /proc/x"),
        (["env_kwargs.partial=maybe"], "partial is 'maybe'; write true, cases or false"),
        (["env_kwargs.partial=cases"], "with partial=cases: use partial=true, credit by check"),
    ],
)
def test_wrong_options_are_refused(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(build_app(), ["export-harbor", REPAIR, "-n", "1", "--out", "/proc/y", *words])
    assert isinstance(ran.exception, UsageError), ran.output
    assert says in str(ran.exception)


def test_the_examples_of_the_command_exist() -> None:
    text = CliRunner().invoke(build_app(), ["export-harbor", "--help"]).output
    ids = set(re.findall(r"turnwise/\w+-v\d+", text))
    assert len(ids) == 2
    assert all(tw.make(id) for id in ids)


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
