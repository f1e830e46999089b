"""Docker images of a task: the one where the agent acts, and that of the verifier, into which only the tests go."""

from __future__ import annotations

import atexit
import hashlib
import io
import os
import re
import tarfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic

from ...errors import SandboxError, SandboxUnavailableError, TaskError
from ...sandboxes.docker.config import container_config
from ...sandboxes.docker.containers import labels, make, remove
from ...sandboxes.docker.engine import Engine
from ...sandboxes.docker.image import entry
from ...sandboxes.docker.prepare import inspected
from ...sandboxes.docker.resolve import id_of
from ...sandboxes.snapshot import Snapshot
from ...sandboxes.spec import SandboxSpec
from ..code.workspace import Entry
from .submission import packed, relative
from .task import RESERVED, HarborTask, files_below

if TYPE_CHECKING:
    from docker import APIClient

REPOSITORY = "turnwise-harbor"
"""Name of the images made here."""
OF = "turnwise.harbor"
"""Label: digest of what an image was made of."""
RECIPE = 1
"""Version of this module's images; raise it to make other images of the same tasks."""
FOLDERS = ("/logs/verifier", "/logs/agent", "/logs/artifacts", "/solution")
"""Folders that are writable, empty, and in memory in each sandbox."""
LEADING = re.compile(r"PATH|LD_.*|BASH_ENV|ENV|PYTHON.*|PERL5(LIB|OPT)|RUBY(LIB|OPT)|NODE_(PATH|OPTIONS)|CDPATH")
"""Variables that decide which programs and modules run."""
WITHIN = 120.0
"""Seconds after which a container for making an image may be reaped."""
FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?\s*$", re.IGNORECASE | re.MULTILINE)
COPIED = re.compile(r"^\s*COPY\s+(?:--\S+\s+)*--from=(\S+)", re.IGNORECASE | re.MULTILINE)
ARG = re.compile(r"^\s*ARG\s+(\w+)=[\"']?([^\"'\s]+)", re.IGNORECASE | re.MULTILINE)
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")

_building = threading.Lock()
_known: dict[str, Places] = {}
"""The images of tasks by their digests, for the life of the process."""


@dataclass(frozen=True, slots=True)
class Place:
    """An image, as a sandbox needs to know it.

    Args:
        image: id of the image.
        workdir: working directory.
        files: the image's content of the working directory, which a sandbox keeps in memory.
        env: environment variables of the image.
    """

    image: str
    workdir: str
    files: Snapshot
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Places:
    """The images of a task.

    Args:
        agent: image where the agent acts.
        verifier: image where ``test.sh`` runs.
    """

    agent: Place
    verifier: Place


@lru_cache(maxsize=1)
def engine() -> Engine:
    """Return this process's connection to the Docker engine."""
    made = Engine()
    atexit.register(made.close)
    return made


def places_of(api: APIClient, task: HarborTask) -> Places:
    """Return the images of a task. Those that the engine does not have are made, once per process.

    Args:
        api: client of the engine.
        task: the task.

    Raises:
        SandboxUnavailableError: the engine lacks an image that the task builds on; none is downloaded.
        TaskError: the working directory cannot be that of a sandbox, or an artifact lies outside of it.
        SandboxError: the engine could not build an image.
    """
    with _building:
        if task.digest not in _known:
            _known[task.digest] = _made(api, task)
        return _known[task.digest]


def _made(api: APIClient, task: HarborTask) -> Places:
    table = task.config.environment
    base = _base(api, task, task.folder / "environment", table.docker_image, table.build_timeout_sec)
    agent = _place(api, task, base, table.workdir, {})
    inside, own = task.config.verifier.environment or table, task.folder / "tests" / "Dockerfile"
    if task.config.separate and inside is not table and (inside.docker_image or own.is_file()):
        base = _base(api, task, own.parent, inside.docker_image, inside.build_timeout_sec)
        tests: dict[str, bytes] = {}  # the image has them already
    elif task.config.separate and own.is_file():
        base, tests = _base(api, task, own.parent, None, table.build_timeout_sec), {}
    else:
        tests = files_below(task.folder / "tests")
    verifier = _place(api, task, base, inside.workdir or agent.workdir, tests)
    for artifact in task.config.artifacts if task.config.separate else ():
        if relative(artifact.source, agent.workdir) is None:
            raise TaskError(f"{task.folder}: the artifact {artifact.source} is outside of {agent.workdir}")
    if verifier.workdir != agent.workdir:
        raise TaskError(f"{task.folder}: the verifier works in {verifier.workdir}, and the agent in {agent.workdir}")
    if found := led_astray({**verifier.env, **inside.env, **task.config.verifier.env}, verifier.workdir):
        raise TaskError(
            f"{task.folder}: {found} would run programs for the tests from {verifier.workdir} or /tmp, where the agent "
            "can replace them: install them elsewhere in the image"
        )
    return Places(agent, verifier)


def needed(dockerfile: str) -> tuple[str, ...]:
    """Return the images that a Dockerfile builds on.

    Raises:
        ValueError: a name contains a variable without a default.
    """
    values = dict(ARG.findall(dockerfile))
    stages, found = {"scratch"}, list[str]()
    for name, stage in FROM.findall(dockerfile):
        full = VARIABLE.sub(lambda one: values.get(one[1] or one[2], "$"), name)
        if "$" in full:
            raise ValueError(f"FROM {name} has a variable without a default")
        found += [full] if full.lower() not in stages else []
        stages.add((stage or full).lower())
    found += [name for name in COPIED.findall(dockerfile) if name.lower() not in stages and not name.isdigit()]
    return tuple(dict.fromkeys(found))


def _base(api: APIClient, task: HarborTask, folder: Path, prebuilt: str | None, seconds: float) -> str:
    """Return the id of a prebuilt image, or of one that is built from a folder with a Dockerfile."""
    if prebuilt is not None:
        return id_of(api, prebuilt)
    dockerfile = (folder / "Dockerfile").read_text(encoding="utf-8", errors="replace")
    try:
        for name in needed(dockerfile):
            id_of(api, name)  # the engine would download what it does not have
    except ValueError as error:
        if isinstance(error, SandboxUnavailableError):
            raise
        raise TaskError(f"{task.folder}: {folder.name}/Dockerfile: {error}") from None
    untyped: Any = api
    settings = {"custom_context": True, "decode": True, "rm": True, "forcerm": True, "timeout": int(seconds) + 1}
    lines = list(untyped.build(fileobj=io.BytesIO(_context(folder)), **settings))
    made = [str(line["aux"]["ID"]) for line in lines if "ID" in (line.get("aux") or {})]
    if any("error" in line for line in lines) or not made:
        said = " ".join(str(line.get("error") or line.get("stream") or "").strip() for line in lines[-4:])
        raise SandboxError(f"cannot build the image of {task.name}: {' '.join(said.split())[-400:]}")
    return made[-1]


def _context(folder: Path) -> bytes:
    """Return a folder as the context of a build."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(folder, arcname=".")
    return out.getvalue()


def _place(api: APIClient, task: HarborTask, base: str, workdir: str | None, tests: Mapping[str, bytes]) -> Place:
    """Return an image with the special folders and the tests, and what its sandboxes need to know."""
    config = inspected(api, base)["Config"]
    where = workdir or config.get("WorkingDir") or "/app"
    try:
        spec = SandboxSpec(workdir=where)
    except pydantic.ValidationError as error:
        raise TaskError(f"{task.folder}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
    if where in RESERVED:
        raise TaskError(f"{task.folder}: the working directory is {where}, which Harbor's files take: choose another")
    content = {name: hashlib.sha256(data).hexdigest() for name, data in tests.items()}
    digest = hashlib.sha256(f"{RECIPE} {base} {where} {sorted(content.items())}".encode()).hexdigest()
    container = make(api, _config(base, spec))
    try:
        found = api.images(name=REPOSITORY, filters={"label": [f"{OF}={digest}"]})
        image = str(found[0]["Id"]) if found else _laid(api, container, tests, digest)
        files = _files(api, container, where)
    finally:
        remove(api, container)
    pairs = (line.partition("=") for line in config.get("Env") or ())
    return Place(image, where, files, {name: value for name, _, value in pairs})


def led_astray(env: Mapping[str, str], workdir: str) -> str:
    """Return a variable with its value that makes programs of the tests come from files of the agent; or empty.

    Args:
        env: variables of the verifier's sandbox.
        workdir: working directory, which has the agent's files.
    """
    for name, value in sorted(env.items()):
        for part in re.split(r"[:\s=]", value) if LEADING.fullmatch(name) else ():
            path = os.path.normpath(part) if part.startswith("/") else ""
            inside = any(path == folder or path.startswith(f"{folder}/") for folder in (workdir.rstrip("/"), "/tmp"))
            if inside or (name == "PATH" and not path):
                return f"{name}={value}"
    return ""


def _config(base: str, spec: SandboxSpec) -> dict[str, Any]:
    """Return the settings of a container that never starts."""
    config = dict(container_config(spec, image=base, command=["true"], user=0, labels=labels(WITHIN)))
    config["HostConfig"] = {**config["HostConfig"], "ReadonlyRootfs": False}
    return config


def _laid(api: APIClient, container: str, tests: Mapping[str, bytes], digest: str) -> str:
    """Add the tests and the special folders to a container's image; return the id of the new image."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in _folders(("logs", *(folder.lstrip("/") for folder in FOLDERS), *(f"tests/{one}" for one in tests))):
            archive.addfile(entry(name, tarfile.DIRTYPE, 0o755))
        for name, data in sorted(tests.items()):
            archive.addfile(entry(f"tests/{name}", tarfile.REGTYPE, 0o755, size=len(data)), io.BytesIO(data))
    if not api.put_archive(container, "/", out.getvalue()):
        raise SandboxError("the docker engine did not accept the tests of a task")
    changes = [f"LABEL {OF}={digest}", *(f"VOLUME {folder}" for folder in FOLDERS)]
    made: dict[str, Any] = api.commit(container, REPOSITORY, digest[:24], changes=changes)
    return str(made["Id"])


def _folders(paths: Iterable[str]) -> list[str]:
    """Return the folders above all paths, and the special folders, each before those in it."""
    given = tuple(paths)
    special = {one for one in given if f"/{one}" in FOLDERS}
    above = {str(parent) for one in given for parent in Path(one).parents if str(parent) != "."}
    return sorted(special | above)


def _files(api: APIClient, container: str, workdir: str) -> Snapshot:
    """Return the content of a container's working directory."""
    import docker

    try:
        stream, _ = api.get_archive(container, workdir)
    except docker.errors.NotFound:
        return packed({})
    found, contents = dict[str, Entry](), dict[str, bytes]()
    with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
        for member in archive:
            path = member.name.strip("/").partition("/")[2]
            if member.isreg():
                reader = archive.extractfile(member)
                contents[member.name] = reader.read() if reader is not None else b""
            if path and (member.isreg() or member.islnk()):
                content = contents.get(member.name) if member.isreg() else contents.get(member.linkname)
                found[path] = Entry("file", member.mode, content or b"")
            elif path and (member.isdir() or member.issym()):
                found[path] = Entry("directory" if member.isdir() else "link", member.mode, target=member.linkname)
    return packed(found)
