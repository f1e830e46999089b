"""Images with the runner in them: made once from each image, and found again by their origin.

So no folder of the host is mounted into a container or named in it.
"""

from __future__ import annotations

import hashlib
import io
import platform
import tarfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import SandboxError, SandboxUnavailableError
from ..bubblewrap.seccomp import DENIED, program
from ..runner.launch import PROGRAM, command
from ..spec import SandboxSpec
from .config import container_config
from .containers import exit_code, labels, make, remove
from .image import entry

if TYPE_CHECKING:
    from docker import APIClient

FOLDER = "/run/turnwise"
"""Path of the runner inside."""
OF, RUNNER = "turnwise.of", "turnwise.runner"
"""Labels of an image with a runner: the id of the original image, and the digest of the runner."""
REPOSITORY = "turnwise-prepared"
DENY = Path(__file__).parent / "inside" / "turnwise_deny.py"
"""A program that is installed beside the runner."""
FIT = f"""
import sys
if sys.version_info < (3, 8): sys.exit(8)
import ctypes, compileall
sys.exit(not compileall.compile_dir({FOLDER!r}, quiet=1))
"""
"""A program that checks whether an image's Python can run the runner, and compiles that for it."""
PREPARED_WITHIN = 60.0
"""Seconds after which a container for preparing an image may be reaped."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """An image with the runner in it.

    Args:
        id: id of the image.
        volumes: folders that it declares as volumes, which would be on the engine's disk.
    """

    id: str
    volumes: tuple[str, ...]


def prepare(api: APIClient, image: str, runtime: str | None) -> Prepared:
    """Add the runner to an image, unless an earlier image has it already.

    Args:
        api: client of the engine.
        image: id of the original image.
        runtime: container runtime.

    Raises:
        SandboxUnavailableError: the image's Python cannot run the runner.
        SandboxError: the engine did not accept it.
    """
    archive = runner_archive()
    digest = hashlib.sha256(archive + FIT.encode()).hexdigest()
    known = {OF: image, RUNNER: digest}
    found = api.images(name=REPOSITORY, filters={"label": [f"{name}={value}" for name, value in known.items()]})
    made = str(found[0]["Id"]) if found else laid(api, image, archive, known, runtime)
    return Prepared(made, tuple(inspected(api, made)["Config"].get("Volumes") or ()))


def laid(api: APIClient, image: str, archive: bytes, known: dict[str, str], runtime: str | None) -> str:
    """Make an image from another one and the runner, in a container that is confined like any other.

    Args:
        api: client of the engine.
        image: id of the original image.
        archive: the runner as a tar.
        known: labels of the new image.
        runtime: container runtime.
    """
    config = container_config(
        SandboxSpec(),
        image=image,
        command=["python3", "-I", "-S", "-c", FIT],
        user=0,
        labels=labels(PREPARED_WITHIN),
        runtime=runtime,
    )
    config["HostConfig"]["ReadonlyRootfs"] = False
    container = make(api, config)
    try:
        if not api.put_archive(container, "/", archive):
            raise SandboxError(f"the docker engine did not accept the runner into the image {image}")
        code = exit_code(api, container)
        if code is None:
            raise SandboxUnavailableError(f"the image {image} has no python3, which sandboxes need")
        if code:
            raise SandboxUnavailableError(
                f"the python3 in the image {image} cannot run a sandbox: it must be 3.8 or newer, with ctypes"
            )
        changes = [f"LABEL {name}={value}" for name, value in known.items()]
        tag = f"{image.removeprefix('sha256:')[:12]}-{known[RUNNER][:12]}"
        made: dict[str, Any] = api.commit(container, REPOSITORY, tag, changes=changes)
        return str(made["Id"])
    finally:
        remove(api, container)


@lru_cache(maxsize=1)
def runner_archive() -> bytes:
    """Return the runner's program as a tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for folder in (FOLDER, f"{FOLDER}/{PROGRAM.name}"):
            archive.addfile(entry(folder.lstrip("/"), tarfile.DIRTYPE, 0o755))
        for path in (DENY, *sorted(PROGRAM.glob("*.py"))):
            folder, text = FOLDER if path == DENY else f"{FOLDER}/{PROGRAM.name}", path.read_bytes()
            member = entry(f"{folder}/{path.name}".lstrip("/"), tarfile.REGTYPE, 0o644, size=len(text))
            archive.addfile(member, io.BytesIO(text))
    return out.getvalue()


def start_command() -> list[str]:
    """Return the first process of a container: it installs the filter of system calls, and becomes the runner."""
    *python, start = command("python3", FOLDER)
    if platform.machine() not in DENIED:
        return [*python, start]  # the engine's own filter remains
    first = f"import sys; sys.path.append({FOLDER!r}); from turnwise_deny import deny"
    return [*python, f"{first}; deny(bytes.fromhex({program().hex()!r})); {start}"]


def inspected(api: APIClient, image: str) -> dict[str, Any]:
    """Return an engine's record of an image."""
    untyped: Any = api
    found: dict[str, Any] = untyped.inspect_image(image)
    return found
