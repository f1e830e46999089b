"""An image of this machine's own Python and tools, made without a registry.

``python -m turnwise.sandboxes.docker.image`` makes it and prints its id; the first sandbox makes it by itself. It has a
copy of the interpreter with its standard library, a shell, the tools of any Unix, and the shared libraries that they
load. It has nothing else of the machine: no user, no settings, no third-party package.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ...errors import SandboxError, SandboxUnavailableError

if TYPE_CHECKING:
    from docker import APIClient

LABEL = "turnwise.host"
"""Label of such an image: the digest of its content."""
REPOSITORY = "turnwise-host"
PATH = "/usr/local/bin:/usr/bin:/bin"
RECIPE = 1
"""Version of this module's images; raise it to make other images of the same files."""
TOOLS = """
    sh bash [ arch awk b2sum base32 base64 basename basenc bunzip2 bzip2 cat chgrp chmod chown cksum cmp comm cp
    csplit cut date dd df diff diff3 dir dirname du echo egrep env expand expr factor false fgrep find fmt fold grep
    gunzip gzip head hostname id install join kill link ln logname ls md5sum mkdir mkfifo mknod mktemp more mv nice
    nl nohup nproc numfmt od paste patch pathchk pgrep pidof pkill pr printenv printf ps ptx pwd readlink realpath
    rm rmdir sed seq setsid sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf sleep sort split sqlite3 stat
    stdbuf stty sum sync tac tail tar tee test time timeout touch tr true truncate tsort tty uname unexpand uniq
    unlink uptime vdir watch wc which whoami xargs xz yes zcat
"""
"""The image has those of these tools that the machine has."""
LEFT_OUT = frozenset(
    ("site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "turtledemo")
)
FOLDERS = "dev etc proc run sys tmp usr usr/bin usr/lib usr/lib64 usr/local usr/local/bin usr/sbin var"
TEXTS = {
    "etc/passwd": b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
}


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python to copy.

    Args:
        executable: path of the file itself, with all links resolved.
        library: folder of its standard library.
    """

    executable: Path
    library: Path


@dataclass(frozen=True, slots=True)
class Recipe:
    """The content of an image.

    Args:
        files: files on this machine, by their paths in the image.
        links: symbolic links, by their paths in the image.
        digest: digest of the names, sizes and times of all files, and of settings that decide on their libraries.
    """

    files: dict[str, Path]
    links: dict[str, str]
    digest: str


def host_image(api: APIClient) -> str:
    """Return the id of this machine's image, and make it if the engine does not have the present one.

    Raises:
        SandboxError: the engine did not accept it.
        SandboxUnavailableError: this machine has no Python that can be copied.
    """
    recipe = read_recipe()
    found = api.images(name=REPOSITORY, filters={"label": f"{LABEL}={recipe.digest}"})
    if found:
        return str(found[0]["Id"])
    with tempfile.TemporaryFile() as archive:
        write_archive(recipe, archive)
        archive.seek(0)
        labels = [f"LABEL {LABEL}={recipe.digest}", f"ENV PATH={PATH}"]
        said = api.import_image(src=archive, repository=REPOSITORY, tag="latest", changes=labels)
    words = [json.loads(line) for line in said.splitlines() if line.strip()]
    made = str(words[-1].get("status", "")) if words else ""
    if not made.startswith("sha256:"):
        raise SandboxError(f"the docker engine did not accept the image of this machine: {said.strip()!r}")
    return made


def read_recipe() -> Recipe:
    """Return the content of a present image of this machine.

    Raises:
        SandboxUnavailableError: this machine has no Python that can be copied.
    """
    python = find_python()
    files, links = dict[str, Path](), dict[str, str]()
    for name in TOOLS.split():
        where = shutil.which(name, path=PATH)
        if where is not None:
            place(f"/usr/bin/{name}", Path(where).resolve(), files, links)
    place("/usr/bin/python3", python.executable, files, links)
    for path in library_files(python.library):
        files[inside(path)] = path
    digest = hashlib.sha256(f"{RECIPE} {platform.machine()} {TEXTS} {sorted(links.items())}".encode())
    for name, path in sorted([*files.items(), ("", Path("/etc/ld.so.cache"))]):
        found = path.stat() if path.exists() else os.stat_result([0] * 10)
        digest.update(f"{name}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    return Recipe(files, links, digest.hexdigest())


def place(name: str, file: Path, files: dict[str, Path], links: dict[str, str]) -> None:
    """Add a file under its path on this machine, and a link to it at ``name``."""
    files[inside(file)] = file
    if inside(file) != name.lstrip("/"):
        links[name.lstrip("/")] = f"/{inside(file)}"


def inside(path: Path) -> str:
    """Return the path of a file of this machine in the image, where ``/bin`` and the like are links into ``/usr``."""
    head, *rest = path.parts[1:]
    return "/".join(["usr", head, *rest] if head in ("bin", "sbin", "lib", "lib64") else [head, *rest])


def library_files(library: Path) -> Iterator[Path]:
    """Yield the standard library without tests, graphical tools, and installed packages."""
    version = f"cpython-{sys.version_info.major}"
    for folder, folders, names in os.walk(library):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and not name.startswith("config-"))
        compiled = Path(folder).name == "__pycache__"
        for name in sorted(names):
            if not compiled or (version in name and ".opt-" not in name):
                yield Path(folder, name)


@lru_cache(maxsize=1)
def find_python() -> Interpreter:
    """Return the machine's own Python 3.8 or newer, else the one that runs this.

    Raises:
        SandboxUnavailableError: neither can be copied.
    """
    ask = "import json, sqlite3, ssl, sys, sysconfig, _ctypes; print(sys.version_info >= (3, 8), sys.executable)"
    ask += "; print(sysconfig.get_path('stdlib'))"
    for candidate in (shutil.which("python3", path=PATH), getattr(sys, "_base_executable", sys.executable)):
        if candidate:
            asked = subprocess.run([candidate, "-I", "-c", ask], capture_output=True, text=True, check=False)
            fits, _, rest = asked.stdout.partition(" ")
            if fits == "True":
                executable, library = rest.splitlines()
                return Interpreter(Path(executable).resolve(), Path(library).resolve())
    raise SandboxUnavailableError(
        "no Python on this machine fits into an image: neither python3 nor the one that runs "
        "Turnwise is 3.8 or newer with json, sqlite3, ssl and ctypes; name an image that has one: "
        "SandboxSpec(image=...)"
    )


def loaded(files: Iterable[Path]) -> set[Path]:
    """Return the shared libraries that programs and libraries load, as the machine's ``ldd`` reports."""
    programs = [str(file) for file in files if starts_with(file, b"\x7fELF")]
    listing = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    words = {word for line in listing.splitlines() if line[:1].isspace() for word in line.split() if word[0] == "/"}
    # No file links to this one: glibc loads it when a thread is canceled.
    last = next(iter(Path("/").glob("usr/lib/*/libgcc_s.so.1")), None) or Path("/usr/lib64/libgcc_s.so.1")
    return {Path(word) for word in words} | ({last} if last.exists() else set())


def starts_with(file: Path, start: bytes) -> bool:
    """Whether a file begins with these bytes."""
    with file.open("rb") as opened:
        return opened.read(len(start)) == start


def write_archive(recipe: Recipe, out: IO[bytes]) -> None:
    """Write the file system of the image as an uncompressed tar."""
    files = recipe.files | {inside(path): path for path in loaded(recipe.files.values())}
    above = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in sorted({*FOLDERS.split(" "), *above}, key=lambda name: (name.count("/"), name)):
            archive.addfile(entry(name, tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755))
        for name in ("bin", "sbin", "lib", "lib64"):
            archive.addfile(entry(name, tarfile.SYMTYPE, 0o777, link=f"usr/{name}"))
        for name, target in sorted(recipe.links.items()):
            archive.addfile(entry(name, tarfile.SYMTYPE, 0o777, link=target))
        for name, text in TEXTS.items():
            archive.addfile(entry(name, tarfile.REGTYPE, 0o644, size=len(text)), BytesIO(text))
        for name, path in sorted(files.items()):
            with path.open("rb") as file:
                stat = os.fstat(file.fileno())  # no file in it is setuid
                member = entry(name, tarfile.REGTYPE, stat.st_mode & 0o755, size=stat.st_size)
                member.mtime = int(stat.st_mtime)  # compiled modules have the time of their source
                archive.addfile(member, file)


def entry(name: str, kind: bytes, mode: int, *, size: int = 0, link: str = "") -> tarfile.TarInfo:
    """Return a member of the archive that belongs to root and has no time."""
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.size, member.linkname = kind, mode, size, link
    return member


if __name__ == "__main__":
    from .engine import connect

    print(host_image(connect()))
