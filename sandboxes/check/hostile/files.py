"""Files made to be read wrongly by the host, and archives made to be unpacked wrongly."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import suppress

from ....errors import SandboxError, ToolError
from ....verdicts import expect
from ...sandbox import Sandbox
from ...snapshot import Snapshot
from ...spec import MIB
from ..case import hostile
from ..harness import SMALL, Harness, ended, program, python, refused, soon, works

SHADOW = "/etc/shadow"


async def huge_sparse_file(harness: Harness) -> str:
    """A file that says it holds a terabyte is refused by a read and by a snapshot, at once."""
    async with harness.sandbox() as sandbox:
        made = await sandbox.exec("truncate -s 1T huge || truncate -s 12M huge")
        expect(made.ok, f"no large file could be made: {ended(made)}")
        size = int((await sandbox.exec("stat -c %s huge")).stdout.text)
        _, first = await soon(refused(sandbox.read_file("huge"), "reading it"), "reading it")
        _, second = await soon(_safe(harness, sandbox), "a snapshot of it", 30.0)
        await works(sandbox)
    return f"{size / MIB:.0f} MiB: refused after {1000 * first:.0f} ms; the snapshot took {1000 * second:.0f} ms"


async def symbolic_links_out(harness: Harness) -> str:
    """Links to files of the host, and folders that turn into links while they are read, show nothing of the host."""
    secret, shadow = harness.host.file, _host_shadow()
    folder = str(secret.parent)
    async with harness.sandbox() as sandbox:
        links = f"ln -s {SHADOW} shadow; ln -s {secret} secret; ln -s {folder} folder; ln -s / root; ln -s loop loop"
        await sandbox.exec(links)
        paths = ["shadow", "secret", f"folder/{secret.name}", f"root{secret}", f"root{SHADOW}", "loop", str(secret)]
        for path in paths:
            content, _ = await soon(_read(sandbox, path), f"reading {path!r}")
            expect(not harness.host.knows(content), f"reading {path!r} gave the planted secret of the host")
            expect(not shadow or content != shadow, f"reading {path!r} gave {SHADOW} of the host")
        for path in ("folder/new", f"root{folder}/new", "shadow/new"):
            with suppress(ToolError):
                await sandbox.write_files({path: b"escaped"})
        expect(not (secret.parent / "new").exists(), "a file was written to the host through a link")
        with suppress(ToolError):
            await sandbox.remove([f"folder/{secret.name}"])
        await sandbox.remove(["folder"])
        expect(secret.exists(), "a file of the host was removed through a link")
        archive = (await sandbox.snapshot()).archive
        expect(not harness.host.knows(archive), "a snapshot holds the planted secret of the host")
        races = await _race(harness, sandbox, folder, secret.name)
        await works(sandbox)
    return f"{len(paths)} ways through links, and {races} reads and writes while a folder turned into a link and back"


async def _race(harness: Harness, sandbox: Sandbox, folder: str, name: str) -> int:
    shell = await sandbox.session()
    swap = f"(mkdir d; echo mine > d/{name}; while :; do mv d e; ln -s {folder} d; rm d; mv e d; done) & true"
    await shell.run(swap)
    rounds = 100
    for _ in range(rounds):
        expect(not harness.host.knows(await _read(sandbox, f"d/{name}")), "a race gave the planted secret of the host")
        with suppress(ToolError):
            await sandbox.write_files({"d/raced": b"escaped"})
    await shell.close()
    return 2 * rounds


async def odd_kinds_of_files(harness: Harness) -> str:
    """Pipes, sockets, devices and files of the kernel are refused at once where a file is read."""
    async with harness.sandbox() as sandbox:
        source = "import os,socket; os.mkfifo('pipe'); socket.socket(socket.AF_UNIX).bind('socket'); os.mkdir('dir')"
        made = await python(sandbox, source)
        expect(made.ok, f"they could not be made: {ended(made)}")
        await sandbox.exec("ln -s pipe link; ln -s /dev/zero zero; ln -s /proc/self/mem mem")
        paths = ["pipe", "socket", "dir", "link", "zero", "mem", "/dev/zero", "/dev/stdin", "/dev/ptmx", "/proc/kmsg"]
        for path in paths:
            await soon(refused(sandbox.read_file(path), f"reading {path!r}"), f"reading {path!r}")
        listed = {entry.path: entry.kind for entry in await sandbox.list_files()}
        expect(listed.get("pipe") == listed.get("socket") == "other", f"a pipe and a socket are listed as {listed}")
        await soon(_safe(harness, sandbox), "a snapshot with a pipe and a socket", 20.0)
        await works(sandbox)
    return f"{len(paths)} of them refused; a snapshot with them did not wait"


async def hostile_archives(harness: Harness) -> str:
    """A snapshot made to write elsewhere, to link, to burst or to make no sense is harmless and reported as bad."""
    harmless = 0
    for name, archive in _archives(str(harness.host.file)):
        try:
            sandbox, _ = await soon(harness.create(start=Snapshot(archive)), f"an archive with {name}", 30.0)
        except (ToolError, SandboxError):
            harmless += 1
            continue
        found = [entry.path for entry in await sandbox.list_files(limit=100_000)][:20]
        content = [await _read(sandbox, path) for path in ("evil", "link", "hard", "through/evil")]
        expect(not any(map(harness.host.knows, content)), f"an archive with {name} gave the planted secret of the host")
        for path in ("/evil", "/tmp/evil", "/etc/evil"):
            expect(not await _read(sandbox, path), f"an archive with {name} has written {path}")
        expect(name not in ("a bomb", "rubbish"), f"an archive with {name} was taken; it holds {found}")
        await works(sandbox)
        await sandbox.destroy()
    escaped = _existing("/evil", "/tmp/evil", "/etc/evil", str(harness.host.folder / "evil"))
    expect(not escaped, f"an archive has written {escaped} on the host")
    expect(harmless >= 2, "neither the bomb nor the rubbish was refused")
    return f"{harmless} of {len(list(_archives('')))} refused; the others wrote nothing outside the working directory"


async def awkward_trees(harness: Harness) -> str:
    """Directories 3,000 deep, names that are not text and modes that forbid everything can be listed and destroyed."""
    async with harness.sandbox() as sandbox:
        made = await python(sandbox, program("awkward"), timeout=30.0)
        expect(made.ok, f"they could not be made: {ended(made)}")
        for work, what in ((sandbox.list_files(), "listing"), (_safe(harness, sandbox), "a snapshot")):
            with suppress(ToolError):
                await soon(work, what, 30.0)
        names = await soon(sandbox.list_files("names"), "listing odd names")
        odd = {entry.path.encode("utf-8", "surrogateescape") for entry in names[0]}
        expect({b"line\nbreak", b"\xff\xfe", b"-rf"} <= odd, f"odd names are listed as {sorted(odd)}")
        with suppress(ToolError):
            await soon(sandbox.remove(["names", "deep"]), "removing 3,000 directories", 30.0)
        await works(sandbox)
        _, seconds = await soon(sandbox.destroy(), "destroying it")
    return f"3,000 deep, names with line breaks and no text, mode 000; destroyed in {1000 * seconds:.0f} ms"


async def _read(sandbox: Sandbox, path: str) -> bytes:
    try:
        return await sandbox.read_file(path)
    except ToolError:
        return b""


async def _safe(harness: Harness, sandbox: Sandbox) -> None:
    """A snapshot, or its refusal; larger than the disk limit it may not be."""
    try:
        archive = (await sandbox.snapshot()).archive
    except ToolError:
        return
    most = 2 * int(SMALL["disk"])
    expect(len(archive) <= most, f"the snapshot has {len(archive)} bytes, the disk {SMALL['disk']}")


def _existing(*paths: str) -> list[str]:
    return [path for path in paths if os.path.exists(path)]


def _host_shadow() -> bytes:
    try:
        with open(SHADOW, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _archives(secret: str) -> Iterator[tuple[str, bytes]]:
    def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.size, info.mode = kind, link, size, 0o755
        return info

    yield "a path upwards", _tar(entry("../evil"), entry("a/../../evil"))
    yield "an absolute path", _tar(entry("/etc/evil"), entry("//tmp/evil"))
    yield "a hard link to the host", _tar(entry("hard", tarfile.LNKTYPE, secret))
    yield "a hard link upwards", _tar(entry("hard", tarfile.LNKTYPE, "../../../../" + secret))
    yield "a link and a file through it", _tar(entry("through", tarfile.SYMTYPE, "/tmp"), entry("through/evil"))
    yield "a link to the host", _tar(entry("link", tarfile.SYMTYPE, secret))
    yield "a device", _tar(entry("zero", tarfile.CHRTYPE), entry("disk", tarfile.BLKTYPE))
    yield "a pipe", _tar(entry("evil", tarfile.FIFOTYPE))
    yield "a bomb", _tar(entry("bomb", size=100 * MIB))
    yield "many files", _tar(*(entry(f"f{i}") for i in range(3 * int(SMALL["inodes"]))))
    yield "rubbish", b"no archive at all" * 100
    yield "a cut archive", _tar(entry("evil", size=5000))[:1000]


def _tar(*entries: tarfile.TarInfo) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for entry in entries:
            tar.addfile(entry, io.BytesIO(bytes(entry.size)))
    return archive.getvalue()


HOSTILE_FILE_CASES = (
    hostile(7, huge_sparse_file),
    hostile(21, symbolic_links_out, seconds=120),
    hostile(22, odd_kinds_of_files),
    hostile(23, hostile_archives, seconds=120),
    hostile(24, awkward_trees, seconds=150),
)
"""Cases about files."""
