"""``HarborTask``: a folder in the task format of Harbor and Terminal-Bench, read without Harbor.

::

    FOLDER/task.toml               settings: see ``TaskConfig``
    FOLDER/instruction.md          the prompt
    FOLDER/environment/Dockerfile  the image, unless task.toml names a prebuilt one
    FOLDER/tests/test.sh           the verifier; it writes /logs/verifier/reward.txt or reward.json
    FOLDER/solution/solve.sh       the oracle; optional
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

import pydantic

from ...errors import TaskError
from ...tasks.rng import stable_hash
from .config import TaskConfig
from .submission import relative

SHOWN = 3
"""How many of several tasks that cannot be played a message names."""
RESERVED = ("/tests", "/logs", "/solution")
"""Folders right below ``/`` that cannot be a working directory."""
STAGE = re.compile(r"^[ \t]*FROM[ \t]", re.IGNORECASE | re.MULTILINE)
WORKDIR = re.compile(r"^[ \t]*WORKDIR[ \t]+(\S+)[ \t]*$", re.IGNORECASE | re.MULTILINE)
FROM_HOST = re.compile(r"\$\{?[A-Za-z_]\w*")
"""A reference to a variable of the host in a task's environment variables."""


@dataclass(frozen=True)
class HarborTask:
    """A task that can be played here.

    Args:
        folder: absolute path of the folder.
        config: its settings.
        instruction: the prompt.
        digest: digest of all its files.
    """

    folder: Path
    config: TaskConfig
    instruction: str
    digest: str

    @property
    def name(self) -> str:
        """Name in ``task.toml``, or that of the folder."""
        return self.config.task.name or self.folder.name

    @property
    def has_solution(self) -> bool:
        """Whether there is an oracle."""
        return (self.folder / "solution" / "solve.sh").is_file()

    @cached_property
    def solution(self) -> dict[str, bytes]:
        """Files of the solution, by path."""
        return files_below(self.folder / "solution")


def read_task(folder: Path | str) -> HarborTask:
    """Read a task.

    Args:
        folder: folder with a ``task.toml``.

    Raises:
        TaskError: a file is missing or malformed, or the task needs something that Turnwise does not have.
    """
    path = Path(folder).resolve()
    config = _config(path)
    instruction = _text(path / "instruction.md").strip()
    if not instruction:
        raise TaskError(f"{path}: instruction.md is empty")
    if reason := _unplayable(path, config):
        raise TaskError(f"{path}: {reason}")
    files = {name: hashlib.sha256(content).hexdigest() for name, content in files_below(path).items()}
    return HarborTask(
        path, config, instruction, stable_hash([[name, files[name]] for name in sorted(files)]).hex()[:32]
    )


def read_tasks(folder: Path | str, *, skip: bool = False) -> tuple[HarborTask, ...]:
    """Read one task, or all tasks right below a folder, sorted by folder.

    Args:
        folder: folder of a task, or of tasks.
        skip: leave out tasks that cannot be played; otherwise, one such task is an error.

    Raises:
        TaskError: there is no task, or some cannot be played; the message names the first ones.
    """
    path = Path(folder)
    if not path.is_dir():
        raise TaskError(f"there is no folder {path}; name the folder of a Harbor task, or of several")
    if (path / "task.toml").is_file():
        return (read_task(path),)
    found = sorted(toml.parent for toml in path.glob("*/task.toml"))
    if not found:
        raise TaskError(f"{path} has no task.toml, and neither has any folder in it")
    read, wrong = list[HarborTask](), list[str]()
    for one in found:
        try:
            read.append(read_task(one))
        except TaskError as error:
            wrong.append(str(error))
    if wrong and not (skip and read):
        more = "" if skip or not read else "; pass skip=True (env_kwargs.skip=true) to leave them out"
        rest = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise TaskError(
            f"{len(wrong)} of {len(found)} tasks in {path} cannot be played{more}: {'; '.join(wrong[:SHOWN])}{rest}"
        )
    return tuple(read)


def files_below(folder: Path) -> dict[str, bytes]:
    """Return every regular file below a folder, by its relative path."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _config(path: Path) -> TaskConfig:
    try:
        return TaskConfig.model_validate(tomllib.loads(_text(path / "task.toml")))
    except tomllib.TOMLDecodeError as error:
        raise TaskError(f"{path}: task.toml is not TOML: {error}") from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "task.toml"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise TaskError(f"{path}: {where}: {first['msg'].removeprefix('Value error, ')}{more}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TaskError(f"{path.parent}: there is no {path.name}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path.parent}: cannot read {path.name}: {error}") from None


def _unplayable(path: Path, config: TaskConfig) -> str:
    """Return why a task cannot be played here; empty if it can."""
    inside = config.verifier.environment or config.environment
    tables = {"environment": config.environment, "verifier.environment": inside}
    variables = [config.verifier.env, config.solution.env, *(table.env for table in tables.values())]
    borrowed = sorted(name for env in variables for name, value in env.items() if FROM_HOST.search(value))
    lacks = {
        "it has several steps, and Turnwise plays tasks of one": bool(config.steps),
        "it needs MCP servers beside its container": any(table.mcp_servers for table in tables.values()),
        "it needs a GPU": any(table.gpus for table in tables.values()),
        "it needs another system than Linux": any(table.os.lower() != "linux" for table in tables.values()),
        "it waits for services (healthcheck), which end with the command that starts them here": any(
            table.healthcheck is not None for table in tables.values()
        ),
        "it collects artifacts by commands (verifier.collect)": bool(config.verifier.collect),
        f"its variable {next(iter(borrowed), '')} takes a value from the host, which no sandbox sees": bool(borrowed),
        "it needs several containers (docker-compose.yaml)": any(
            (path / part / f"docker-compose.{end}").exists()
            for part in ("environment", "tests")
            for end in ("yaml", "yml")
        ),
        "it has neither environment/Dockerfile nor environment.docker_image": not (
            config.environment.docker_image or (path / "environment" / "Dockerfile").is_file()
        ),
        "there is no tests/test.sh": not (path / "tests" / "test.sh").is_file() and inside.docker_image is None,
        f"the artifact {(away := _outside(path, config))} is outside of the working directory": bool(away),
        "an artifact's path has '..'": any(".." in PurePosixPath(one.source).parts for one in config.artifacts),
    }
    return next((reason for reason, holds in lacks.items() if holds), "")


def _outside(path: Path, config: TaskConfig) -> str:
    """Return an artifact outside of the working directory, as far as that is known without the image; or empty."""
    workdir = config.environment.workdir or _workdir_of(path / "environment" / "Dockerfile", config)
    for artifact in config.artifacts if config.separate else ():
        reserved = any(PurePosixPath(artifact.source).is_relative_to(folder) for folder in RESERVED)
        if relative(artifact.source, workdir) is None if workdir else reserved:
            return artifact.source
    return ""


def _workdir_of(dockerfile: Path, config: TaskConfig) -> str:
    """Return the working directory that a Dockerfile sets in its last stage; empty if it does not, or by a variable."""
    if config.environment.docker_image or not dockerfile.is_file():
        return ""
    found = WORKDIR.findall(STAGE.split(dockerfile.read_text(encoding="utf-8", errors="replace"))[-1])
    return found[-1] if found and re.fullmatch(r"/[\w./-]+", found[-1]) and ".." not in found[-1] else ""
