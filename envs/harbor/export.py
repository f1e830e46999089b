"""Write code tasks in Harbor's task format.

The agent's image has the task's files and nothing else. Grading is that of the environment: only the files that
``CodeTask.taken`` names are used, in a separate verifier whose image has the checks and their expected values
(``inside/grade.py``). Submitted code cannot read the expected values; files that the task's unit tests and hidden
modules need lie beside it while it is graded, as in the environment.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from ...errors import TaskError, UsageError
from ...tasks.code import canonical
from ...tasks.code.databases import database
from ...tasks.code.task import Attempt, Check, CodeTask, FileCheck, TestCheck, ValueCheck
from ...tasks.spec import TaskSpec
from ..base import TurnEnv
from ..code.env import CodeEnv
from ..code.grading import Bounds

BASE = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
"""Base image unless another is named: it has this Python, which computed the expected values."""
COPY = """\
COPY files {workdir}
RUN find {workdir} -type f -exec chmod {mode:o} {{}} +
"""
"""Copy the task's files; their modes on the host depend on its umask, and the grading compares modes."""
WORKDIR, LOGS = "/app", "/logs/verifier"
INSIDE = Path(__file__).parent / "inside"
DRIVER = Path(__file__).parents[1] / "code" / "inside" / "driver.py"
TEST = "#!/bin/bash\nexec python3 -BEsS /tests/grade.py\n"
PLAIN, PROGRAM = 0o644, 0o755
TOML = """\
schema_version = "1.4"
artifacts = ["{workdir}"]

[task]
name = {name}
description = {description}
keywords = ["turnwise", "code"]

[metadata]
environment = {environment}
arguments = {arguments}
task = {spec}

[agent]
timeout_sec = 1800.0

[verifier]
timeout_sec = {seconds:.1f}
environment_mode = "separate"

[environment]
network_mode = "no-network"
cpus = 1
memory_mb = 1024
storage_mb = 10240
workdir = "{workdir}"
"""
RULES = """\

Work in {workdir}. You are judged by the state of the files there when you finish.
"""
SLACK = 60.0
"""Seconds that the verifier has beyond its checks."""


def code_env(env: TurnEnv, id: str) -> CodeEnv:
    """Return the code environment whose tasks can be exported.

    Raises:
        UsageError: it is another kind of environment, or has settings that Harbor's format has no counterpart for.
    """
    inner = env.unwrapped
    if not isinstance(inner, CodeEnv):
        raise UsageError(f"{id} cannot be exported to Harbor: only code environments have tasks of files and checks")
    if inner.how != "tools":
        raise UsageError(f"{id} cannot be exported to Harbor with actions={inner.how!r}: its agents use a shell")
    if inner.shaping:
        raise UsageError(f"{id} cannot be exported to Harbor with shaping: its tasks have one reward, at the end")
    if inner.partial == "cases":
        raise UsageError(f"{id} cannot be exported to Harbor with partial=cases: use partial=true, credit by check")
    return inner


def unexportable(task: CodeTask) -> str:
    """Return why a task cannot be exported; empty if it can."""
    paths = [*task.files, *task.databases, *task.originals, *task.hidden, *task.solution.files, *task.taken]
    if outside := [path for path in paths if path.startswith("/") or ".." in PurePosixPath(path).parts]:
        return f"{outside[0]!r} leads out of the working directory"
    if task.libraries is not None:
        return "its tests need libraries from this machine"
    if task.languages:
        return "its files are limited to a language that only Turnwise can check"
    kinds = {type(check).__name__ for check in task.checks if not isinstance(check, ValueCheck | TestCheck | FileCheck)}
    return f"only Turnwise can make its checks ({', '.join(sorted(kinds))})" if kinds else ""


def write_task(
    folder: Path, task: CodeTask, spec: TaskSpec, env: CodeEnv, *, environment: str, arguments: str, base: str = BASE
) -> None:
    """Write one task.

    Args:
        folder: folder to create.
        task: the task.
        spec: its specification.
        env: its environment, whose settings decide the reward.
        environment: id of the environment.
        arguments: arguments of the environment, as JSON.
        base: image with ``python3`` and ``bash`` that both images build on.

    Raises:
        TaskError: the task cannot be exported.
    """
    if reason := unexportable(task):
        raise TaskError(f"{spec} of {environment} cannot be exported to Harbor: {reason}")
    files = {**task.files, **{path: database(script) for path, script in task.databases.items()}}
    seconds = min(env.grading_seconds, sum(check.seconds for check in task.checks if not isinstance(check, FileCheck)))
    toml = TOML.format(
        name=json.dumps(f"turnwise/{slug(environment)}-{spec.digest}"),
        description=json.dumps(f"{environment}, {spec.split}, level {spec.level}, {spec.template}, seed {spec.seed}"),
        environment=json.dumps(environment),
        arguments=json.dumps(arguments),
        spec=json.dumps(json.dumps(spec.to_json())),
        seconds=seconds + SLACK,
        workdir=WORKDIR,
    )
    image = f"ARG BASE={base}\nFROM ${{BASE}}\nWORKDIR {WORKDIR}\n"
    written = {
        "task.toml": toml.encode(),
        "instruction.md": (task.prompt + "\n" + RULES.format(workdir=WORKDIR)).encode(),
        "environment/Dockerfile": (image + COPY.format(workdir=WORKDIR, mode=PLAIN) * bool(files)).encode(),
        **{f"environment/files/{path}": content for path, content in files.items()},
        "tests/Dockerfile": f"{image}COPY . /tests\n".encode(),
        "tests/test.sh": TEST.encode(),
        "tests/task.json": json.dumps(grading(task, env, files), indent=1).encode(),
        **{f"tests/{path.name}": path.read_bytes() for path in (INSIDE / "grade.py", INSIDE / "confine.py", DRIVER)},
        "tests/canonical.py": Path(canonical.__file__).read_bytes(),
        **{f"tests/files/{path}": content for path, content in {**task.originals, **task.hidden}.items()},
        "solution/solve.sh": solve(task.solution).encode(),
        **{f"solution/files/{path}": content for path, content in task.solution.files.items()},
    }
    for name, content in written.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(PROGRAM if path.suffix == ".sh" and "files" not in path.parts else PLAIN)


def grading(task: CodeTask, env: CodeEnv, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return everything that ``inside/grade.py`` needs to know.

    Args:
        task: the task.
        env: its environment.
        files: contents of the working directory at the start, by path.
    """
    return {
        "workdir": WORKDIR,
        "logs": LOGS,
        "taken": list(task.taken),
        "most": Bounds().taken,
        "seconds": env.grading_seconds,
        "checks": [_check(check) for check in task.checks],
        "partial": env.partial,
        "credit": dict(task.credit),
        "start": {path: _file(content, PLAIN) for path, content in files.items()} if task.strict else None,
    }


def solve(solution: Attempt) -> str:
    """Return the script of the oracle: it writes the files of the solution, and runs its commands."""
    lines = ["#!/bin/bash", f"cd {WORKDIR}"]
    for path in solution.files:
        target = shlex.quote(path)
        lines += [f"mkdir -p $(dirname {target})"] if "/" in path else []
        lines += [f"cat {shlex.quote(f'/solution/files/{path}')} > {target}"]
    return "\n".join([*lines, *(f"sh -c {shlex.quote(command)}" for command in solution.commands)]) + "\n"


def slug(text: str) -> str:
    """Return a text as part of a name in Harbor's format, without the namespace of an id."""
    return re.sub(r"[^a-z0-9]+", "-", text.rpartition("/")[2].lower()).strip("-") or "task"


def _check(check: Check) -> dict[str, Any]:
    if isinstance(check, FileCheck):
        file = None if check.content is None else _file(check.content, check.mode)
        return {"name": check.name, "kind": "file", "path": check.path, "expected": file}
    if isinstance(check, TestCheck):
        job = {"kind": "tests", "tests": list(check.tests), "seconds": check.seconds}
        return {"name": check.name, "kind": "tests", "reports": "passed", "expected": list(check.tests), "job": job}
    if not isinstance(check, ValueCheck):
        raise TaskError(f"the check {check.name!r} cannot be exported to Harbor")
    sources = [case.source for case in check.cases]
    job = {"kind": "values", "module": check.module, "sources": sources, "seconds": check.seconds}
    expected = [canonical.shortened(case.expected) for case in check.cases]
    return {"name": check.name, "kind": "values", "reports": "values", "expected": expected, "job": job}


def _file(content: bytes, mode: int | None) -> dict[str, Any]:
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "mode": mode}
