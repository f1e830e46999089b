"""The file system of a sandbox: this machine's own programs, or an image's, read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ...errors import SandboxUnavailableError
from ..runner.launch import PROGRAM
from ..spec import SandboxSpec

RUNNER = "/run/turnwise"
"""Path of the runner inside."""
ETC = Path("/etc")
MADE_ANEW = ("dev", "proc", "sys", "tmp", "run")
"""Folders of an image that a sandbox replaces by its own."""
OF_THE_SYSTEM = ("ld.so.cache", "localtime")
"""Settings in ``/etc`` that this machine's programs need."""
OF_ROOT = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Visible part of this machine's root: programs and their libraries, mostly links into ``/usr``."""
SHARED = ("awk", "git-core", "perl", "perl5", "terminfo", "zoneinfo")
OF_USR = (*OF_ROOT, "include", "libexec", *(f"share/{name}" for name in SHARED))
"""Visible part of ``/usr``: packages of the system that programs need. Nothing of ``/usr/local`` or ``/usr/src``,
except for a Python there (``OF_LOCAL``)."""
OF_LOCAL = ("bin/python3*", "lib/python3*", "lib/libpython3*")
"""Visible part of ``/usr/local`` if this machine's Python for the runner is there; without its packages."""
PYTHONS = ("usr/bin/python3", "usr/local/bin/python3", "bin/python3")
USER = 1000
"""User id inside a sandbox."""
EMPTY = "empty"
"""An empty folder, which covers folders that must stay hidden."""
WRITABLE = ("work", "tmp", "shm")
"""Folders over which each sandbox mounts its writable ones, in a mount namespace of its own."""
ACCOUNTS = {
    "passwd": f"root:x:0:0:root:/:/bin/sh\nsandbox:x:{USER}:{USER}:sandbox:/:/bin/sh\n",
    "group": f"root:x:0:\nsandbox:x:{USER}:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
}


@dataclass(frozen=True, slots=True)
class Root:
    """The shared part of a sandbox's file system.

    Args:
        python: path of the runner's interpreter inside.
        arguments: arguments of bubblewrap.
    """

    python: str
    arguments: tuple[str, ...]


def prepare(folder: Path) -> None:
    """Fill a folder with files for every sandbox: the runner, compiled for this machine's Python, and some settings.

    They are few folders, since mounting each of them takes time.
    """
    runner, settings = folder / RUNNER.strip("/") / PROGRAM.name, folder / "etc"
    shutil.copytree(PROGRAM, runner, ignore=shutil.ignore_patterns("__pycache__"))
    settings.mkdir()
    for name in (EMPTY, *WRITABLE):
        (folder / name).mkdir()
    for name, text in ACCOUNTS.items():
        (settings / name).write_text(text)
    for name in OF_THE_SYSTEM:
        if (ETC / name).is_file():
            shutil.copyfile(ETC / name, settings / name)
    if (ETC / "alternatives").is_dir():
        shutil.copytree(ETC / "alternatives", settings / "alternatives", symlinks=True)
    compiling = [python_here()[0], "-I", "-S", "-m", "compileall", "-q", str(runner)]
    subprocess.run(compiling, check=False, capture_output=True)  # if it fails, runners only start later
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


def python_here() -> tuple[str, tuple[str, ...]]:
    """Return this machine's interpreter for the runner, and the paths that it needs beside ``OF_USR``."""
    found = next((f"/{path}" for path in PYTHONS if os.path.realpath(f"/{path}").startswith("/usr/")), None)
    if found is not None and os.path.realpath(found).startswith("/usr/local/"):
        return found, tuple(str(path) for pattern in OF_LOCAL for path in sorted(Path("/usr/local").glob(pattern)))
    if found is not None:
        return found, ()
    return os.path.realpath(sys.executable), (os.path.realpath(sys.base_prefix),)


def packages_in(*prefixes: Path) -> list[Path]:
    """Find the folders of installed packages below some prefixes. Sandboxes see the standard library only, and not,
    say, the package whose tests they have to repair.
    """
    found = [path for prefix in prefixes for path in sorted(prefix.glob("lib*/python3*/*-packages")) if path.is_dir()]
    return list({path.resolve(): path for path in reversed(found)}.values())[::-1]  # lib64 may be a link to lib


def root_of(spec: SandboxSpec, prepared: Path) -> Root:
    """Return the file system of a spec.

    Raises:
        SandboxUnavailableError: its image is not a folder with a Python in it, or one of its mounts is missing.
    """
    if spec.image is None:
        python, shown = python_here()
        arguments = _links_and_binds(Path("/"), (*(f"usr/{name}" for name in OF_USR), *OF_ROOT))
        arguments += _links_and_binds(Path("/"), tuple(path.lstrip("/") for path in shown))
        local = [Path("/usr/local")] if any(path.startswith("/usr/local/") for path in shown) else []
        for hidden in packages_in(Path("/usr"), *local, *map(Path, shown)):
            arguments += ["--ro-bind", str(prepared / EMPTY), str(hidden)]
        arguments += ["--ro-bind", str(prepared / "etc"), "/etc"]
    else:
        image = Path(spec.image)
        found = next((path for path in PYTHONS if os.path.lexists(image / path)), None)
        if not image.is_absolute() or found is None:
            raise SandboxUnavailableError(
                f"image {spec.image!r} must be the absolute path of a folder with the root of a file system "
                "and python3 in its /usr/bin, which the runner needs"
            )
        own = (*MADE_ANEW, spec.workdir.strip("/"))
        arguments = _links_and_binds(image, tuple(sorted(name for name in os.listdir(image) if name not in own)))
        python = f"/{found}"
    for mount in spec.mounts:
        if not mount.source.exists():
            raise SandboxUnavailableError(f"there is no {mount.source} to mount at {mount.target}")
        arguments += ["--ro-bind", str(mount.source), str(mount.target)]
    arguments += ["--ro-bind", str(prepared / "run"), "/run"]
    return Root(python, tuple(arguments))


def _links_and_binds(root: Path, names: tuple[str, ...]) -> list[str]:
    """Return arguments for entries of a root as they are: links as links, and all others read-only."""
    arguments = list[str]()
    for name in names:
        path = root / name
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), f"/{name}"]
        elif path.exists():
            arguments += ["--ro-bind", str(path), f"/{name}"]
    return arguments
