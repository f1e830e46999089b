"""The contract of the file methods."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path, PurePosixPath

from ....verdicts import expect
from ...spec import Mount
from ..case import Case
from ..harness import Harness, ended, refused


async def files_come_back_as_they_went(harness: Harness) -> str:
    """Files are read as they were written, with any bytes, length and directory."""
    files = {
        "empty": b"",
        "a/b/c/deep.bin": bytes(range(256)) * 400,
        "name with spaces ünd ☃": b"text",
        "large": b"0123456789abcdef" * 32_768,
    }
    async with harness.sandbox(files={"given": b"at the beginning"}) as sandbox:
        await sandbox.write_files(files)
        for name, content in {**files, "given": b"at the beginning"}.items():
            got = await sandbox.read_file(name)
            expect(got == content, f"{name!r} of {len(content)} bytes came back as {len(got)} other bytes")
        await sandbox.write_files({"large": b"short"})
        expect(await sandbox.read_file("large") == b"short", "a file that is written again keeps some of its old bytes")
        made = await sandbox.exec("printf inside > made; pwd")
        expect(
            await sandbox.read_file(f"{made.stdout.text.strip()}/made") == b"inside", "an absolute path reads otherwise"
        )
    return "an empty file, all bytes, 512 KiB, odd names, directories made above; one written again is replaced"


async def files_can_be_run(harness: Harness) -> str:
    """A file written as executable can be run, another cannot."""
    async with harness.sandbox() as sandbox:
        await sandbox.write_files({"bin/tool": b"#!/bin/sh\necho ran $1\n"}, executable=True)
        await sandbox.write_files({"plain": b"#!/bin/sh\necho ran\n"})
        result = await sandbox.exec(["./bin/tool", "it"])
        expect(result.stdout.text == "ran it\n", f"an executable file ended with {ended(result)}")
        expect(not (await sandbox.exec("./plain")).ok, "a file that was not written as executable can be run")
    return "an executable script ran; a plain one did not"


async def paths_out_of_the_working_directory_are_refused(harness: Harness) -> str:
    """Nothing is written or removed out of the working directory, and what cannot be read is refused."""
    async with harness.sandbox(files={"kept": b"1"}) as sandbox:
        for path in ("../escape", "/tmp/../escape", "a/../../escape", "/escape", "", "."):
            await refused(sandbox.write_files({path: b"x"}), f"writing {path!r}")
        for path in ("..", "../..", "/", "/tmp", "a/../../x"):
            await refused(sandbox.remove([path]), f"removing {path!r}")
        await refused(sandbox.read_file("not/there"), "reading a file that is not there")
        await refused(sandbox.read_file("."), "reading a directory")
        await refused(sandbox.list_files("not-there"), "listing a directory that is not there")
        await refused(sandbox.write_files({"kept/below": b""}), "writing below a file")
        expect(await sandbox.read_file("kept") == b"1", "a refused path has changed another file")
    return "six paths for writing and five for removing were refused, and so was what is not there"


async def large_files_are_refused(harness: Harness) -> str:
    """A file larger than the reader's limit is refused, one of exactly the limit is read."""
    async with harness.sandbox(files={"file": b"x" * 1000}) as sandbox:
        expect(len(await sandbox.read_file("file", limit=1000)) == 1000, "a file of exactly the limit is not read")
        await refused(sandbox.read_file("file", limit=999), "a file of one byte more than the limit")
    return "1,000 bytes are read with a limit of 1,000 and refused with 999"


async def listings_are_sorted_and_complete(harness: Harness) -> str:
    """A listing names everything below a directory with kind, size and mode, sorted, and follows no link."""
    async with harness.sandbox(files={"b/file": b"12345", "a": b"", "c/d/e": b"1"}) as sandbox:
        await sandbox.exec("ln -s b link; ln -s /nowhere broken; mkfifo pipe; chmod 750 b; chmod 640 b/file")
        found = await sandbox.list_files()
        names = [entry.path for entry in found]
        wanted = ["a", "b", "b/file", "broken", "c", "c/d", "c/d/e", "link", "pipe"]
        expect(names == wanted, f"the listing is {names}, not {wanted}")
        kinds = {entry.path: (entry.kind, entry.size, entry.mode & 0o777) for entry in found}
        expect(kinds["b"][0] == "directory" and kinds["b"][2] == 0o750, f"a directory of mode 750 is {kinds['b']}")
        expect(kinds["b/file"] == ("file", 5, 0o640), f"a file of 5 bytes and mode 640 is {kinds['b/file']}")
        expect({kinds["link"][0], kinds["broken"][0]} == {"link"}, "symbolic links are not listed as such")
        expect(kinds["pipe"][0] == "other", f"a pipe is listed as {kinds['pipe'][0]}")
        below = [entry.path for entry in await sandbox.list_files("c")]
        expect(below == ["d", "d/e"], f"below c there is {below}: paths are relative to what is listed")
        await refused(sandbox.list_files(limit=8), "a listing of 9 entries with a limit of 8")
    return "9 entries of four kinds, sorted; 9 with a limit of 8 are refused"


async def whole_directories_are_removed(harness: Harness) -> str:
    """Removing takes whole directories, and what is not there is no error; a link goes, not what it points to."""
    async with harness.sandbox(files={"a/b/c": b"", "a/d": b"", "kept/file": b"1", "e": b""}) as sandbox:
        await sandbox.exec("ln -s kept a/link")
        await sandbox.exec("ln -s ../kept a/up; ln -s kept link")
        await sandbox.remove(["a", "e", "link", "never/there"])
        names = [entry.path for entry in await sandbox.list_files()]
        expect(names == ["kept", "kept/file"], f"after removing all else there is {names}")
    return "a directory with files, links in it, a link, a file and one that is not there"


async def mounts_can_be_read_and_not_written(harness: Harness) -> str:
    """A mount shows a folder of the host inside, and nothing can be written to it."""
    with tempfile.TemporaryDirectory(prefix="turnwise-check-mount-") as folder:
        _share(folder)
        mount = Mount(source=Path(folder), target=PurePosixPath("/opt/mounted"))
        async with harness.sandbox(mounts=(mount,)) as sandbox:
            got = await sandbox.exec(["cat", "/opt/mounted/file"])
            expect(got.stdout.text == "from the host", f"reading a mounted file ended with {ended(got)}")
            tried = await sandbox.exec("echo x > /opt/mounted/file; echo x > /opt/mounted/new; rm /opt/mounted/file")
            expect(not tried.ok, "writing to a mount succeeds inside")
        names = _contents(folder)
        expect(names == {"file": "from the host"}, f"a mount was written to: it holds {names}")
    return "a file of the host was read; writing, adding and removing failed"


def _share(folder: str) -> None:
    """Fill a folder that every user may write, so that only the mount itself can refuse to."""
    source = Path(folder) / "file"
    source.write_text("from the host")
    source.chmod(0o666)
    os.chmod(folder, 0o777)


def _contents(folder: str) -> dict[str, str]:
    return {path.name: path.read_text() for path in Path(folder).iterdir()}


FILE_CASES = (
    Case(131, files_come_back_as_they_went),
    Case(132, files_can_be_run),
    Case(133, paths_out_of_the_working_directory_are_refused),
    Case(134, large_files_are_refused),
    Case(135, listings_are_sorted_and_complete),
    Case(136, whole_directories_are_removed),
    Case(137, mounts_can_be_read_and_not_written, confines=True),
)
"""Cases about files."""
