"""Information about the host that could be found inside."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....verdicts import expect
from ...spec import MIB
from ..case import hostile
from ..harness import Harness, ended, program, python, run_program
from ..host import command

PACKAGE = str(Path(__file__).resolve().parents[3])


async def secrets_of_the_host(harness: Harness) -> str:
    """The host's environment, command lines and private files are nowhere to be read inside."""
    async with harness.sandbox(output=4 * MIB) as sandbox:
        result = await python(sandbox, program("read_everything"), harness.host.folder, timeout=40.0)
        expect(result.ok and not result.stdout.dropped, f"the search ended with {ended(result)}")
        dump = result.stdout.head
        expect(
            not harness.host.knows(dump),
            f"the planted secret of the host was found: {_where(dump, harness.host.secret)}",
        )
        ours = command(os.getpid())
        expect(len(ours) < 12 or ours.encode() not in dump.replace(b"\0", b" "), "the host's command line can be read")
        names = {name for name, value in os.environ.items() if len(value) >= 16 and value.encode() in dump}
        names -= {"PATH", "LD_LIBRARY_PATH"}
        expect(not names, f"values of the host's environment can be read: {', '.join(sorted(names))}")
    return f"{len(dump)} bytes of environments, command lines, open files and temporary folders: nothing of the host"


async def inherited_descriptors(harness: Harness) -> str:
    """A command has its three streams and no other file open."""
    seen = {}
    with _inheritable(harness.host.file):
        async with harness.sandbox() as sandbox:
            seen["command"] = await run_program(sandbox, "descriptors")
            shell = await sandbox.session()
            words = " ".join(["python3 -I -S -c", f"'{program('descriptors')}'"])
            await shell.run(f"{words} > found")
            seen["shell"] = json.loads(await sandbox.read_file("found"))
        for where, found in seen.items():
            more = {number: target for number, target in found.items() if int(number) > 2}
            if where == "shell":  # its command may be in memory that it reads
                more = {number: target for number, target in more.items() if not target.startswith("/memfd:")}
            expect(not more, f"a {where} has more files open: {more}")
            expect(str(harness.host.folder) not in str(found), f"a {where} has a file of the host open: {found}")
    return "of a command and of a command in a shell: 0, 1 and 2"


async def places_of_the_host(harness: Harness) -> str:
    """Mounts, groups and the machine's name say nothing of the host's user, folders and name."""
    async with harness.sandbox() as sandbox:
        names = "mountinfo mounts cgroup maps auxv cmdline environ limits status comm"
        files = " ".join(f"/proc/self/{name} /proc/1/{name}" for name in names.split(" "))
        found = (await sandbox.exec(f"cat {files} 2>/dev/null; hostname; id; pwd")).stdout
        text = found.head + found.tail
        for what, value in {
            "the folder of a private file": str(harness.host.folder),
            "the folder of this package": PACKAGE,
            "the home of the host's user": str(Path.home()) if len(str(Path.home())) > 6 else "",
            "the name of the host": socket.gethostname() if len(socket.gethostname()) > 3 else "",
        }.items():
            expect(not value or value.encode() not in text, f"{what} can be read inside: {_where(text, value)}")
        lines = (await sandbox.exec("cat /proc/self/mountinfo")).stdout.text.splitlines()
        sources = sorted({line.split(" ")[3] for line in lines if line.split(" ")[3] not in ("/", "")})
    return f"{len(lines)} mounts; folders of the host that they name: {', '.join(sources)[:120] or 'none'}"


@contextmanager
def _inheritable(path: Path) -> Iterator[None]:
    """A file that is open, and that children inherit."""
    with open(path, "rb") as file:
        os.set_inheritable(file.fileno(), True)
        yield


def _where(dump: bytes, text: str) -> str:
    at = dump.find(text.encode())
    return repr(dump[max(0, at - 60) : at + len(text)])


SECRET_CASES = (
    hostile(17, secrets_of_the_host),
    hostile(18, inherited_descriptors),
    hostile(19, places_of_the_host),
)
"""Cases about secrets."""
