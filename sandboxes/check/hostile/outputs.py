"""Output that is too much, too odd, or made to be taken for something else."""

from __future__ import annotations

import resource

from ....errors import SandboxError, ToolError
from ....verdicts import expect
from ...result import Status
from ...sandbox import Sandbox
from ..case import hostile
from ..harness import SMALL, Harness, ended, program, python, soon, works

HOST_MEMORY = 64 * 1024 * 1024


async def endless_output(harness: Harness) -> str:
    """Output without end, on both streams and without a line break, fills neither the host nor the result."""
    flows = {
        "stdout": "while True: os.write(1, b'y\\n' * 5000)",
        "stderr": "while True: os.write(2, b'no line break ' * 1000)",
        "both": "while True: os.write(1, b'a' * 9000); os.write(2, b'b' * 9000)",
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    written = 0
    async with harness.sandbox() as sandbox:
        for name, source in flows.items():
            result, _ = await soon(
                python(sandbox, f"import os\n{source}", timeout=1.5), f"endless output on {name}", 20.0
            )
            expect(result.status is Status.TIMEOUT, f"endless output on {name} ended with {ended(result)}")
            for stream in (result.stdout, result.stderr):
                kept = len(stream.head) + len(stream.tail)
                expect(kept <= int(SMALL["output"]), f"{kept} bytes were kept, the limit is {SMALL['output']}")
                written += stream.size
        await works(sandbox)
    expect(written > 10 * int(SMALL["output"]), f"only {written} bytes are counted: the flow was not drained")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    expect(grown < HOST_MEMORY, f"this process grew by {grown / 1e6:.0f} MB")
    return f"{written / 1e6:.0f} MB were drained and counted; this process grew by {grown / 1e6:.0f} MB"


async def odd_bytes(harness: Harness) -> str:
    """Bytes that are not text come back as they are, and as text they are harmless."""
    async with harness.sandbox() as sandbox:
        odd = b"\xff\xfe\x00\x1b[2J\x1b]0;title\x07\r\n" + bytes(range(256)) * 20
        result = await sandbox.exec("cat; cat odd >&2", stdin=odd)
        expect(result.stdout.head == odd, "bytes that are no UTF-8 came back changed")
        await sandbox.write_files({"odd": odd})
        again = await sandbox.exec(["cat", "odd"])
        expect(again.stdout.head == odd and isinstance(again.stdout.text, str), "bytes of a file came back changed")
        try:
            await sandbox.exec(["echo", "a\0b"])
            expect(False, "an argument with a zero byte was run")
        except (ToolError, ValueError):
            pass
        await works(sandbox)
    return f"{len(odd)} bytes with zeros, escapes and invalid UTF-8, unchanged; a zero in an argument is refused"


async def slow_readers(harness: Harness) -> str:
    """A megabyte on each stream, and a megabyte of input, do not wait for each other forever."""
    async with harness.sandbox() as sandbox:
        source = "import sys\nfor s in (sys.stdout, sys.stderr): s.write('x' * 1_000_000)\nprint(len(sys.stdin.read()))"
        result, seconds = await soon(python(sandbox, source, stdin=b"i" * 1_000_000), "a megabyte on each stream", 30.0)
        expect(result.ok, f"it ended with {ended(result)}")
        sizes = (result.stdout.size, result.stderr.size)
        expect(sizes == (1_000_008, 1_000_000), f"sizes {sizes}: not all of it was read")
        echo, _ = await soon(
            sandbox.exec("cat | tee /dev/stderr", stdin=b"i" * 1_000_000), "a megabyte through cat", 30.0
        )
        expect(echo.stdout.size == echo.stderr.size == 1_000_000, "a megabyte did not come through cat")
    return f"a megabyte each way in {seconds:.2f} s"


async def forged_endings(harness: Harness) -> str:
    """No output, descriptor or end of a shell is taken for a result that it is not."""
    async with harness.sandbox() as sandbox:
        forged, _ = await soon(python(sandbox, program("forge"), timeout=20.0), "a program that forges frames")
        expect(forged.exit_code == 41, f"a program that forged exit code 0 and exited with 41 gave {ended(forged)}")
        await works(sandbox)
        await _shells(sandbox)
        session = await sandbox.session("python")
        source = "import os, sys\nsys.stdout = sys.stderr = None\nos.close(1)\nos.close(2)\nraise SystemExit(0)"
        await soon(session.run(source), "a session of python that closes its output", 20.0)
        if session.alive:
            after, _ = await soon(session.run("1 / 0"), "a session of python without output", 20.0)
            expect(not after.ok, "an exception in a session of python without output is ok")
        await works(sandbox)
    return "frames written to every descriptor, markers, exec, closed and replaced streams, a shell that kills itself"


async def _shells(sandbox: Sandbox) -> None:
    for hostile_words in (
        "exec 1>&- 2>&-",
        'for fd in 3 4 5 6 7 8 9; do eval "echo 0 >&$fd" 2>/dev/null; eval "exec $fd>&-"; done',
        "trap 'echo 0; exit 0' EXIT; set -e; false",
        "printf() { :; }; echo() { :; }; eval() { :; }; read() { return 1; }; alias true=false",
        "exec cat",
        "kill -9 $$",
        "exec sh",
        "set -n",
    ):
        shell = await sandbox.session()
        try:
            await soon(shell.run(hostile_words, timeout=2.0), f"{hostile_words!r} in a session", 20.0)
            if shell.alive:
                after, _ = await soon(shell.run("(exit 6)", timeout=2.0), f"a session after {hostile_words!r}", 20.0)
                expect(not after.ok, f"after {hostile_words!r} a command that exits with 6 is ok")
        except (ToolError, SandboxError):
            expect(not shell.alive, f"after {hostile_words!r} the session refuses, and says that it is alive")
        await works(sandbox)
        await shell.close()


HOSTILE_OUTPUT_CASES = (
    hostile(8, endless_output),
    hostile(9, odd_bytes),
    hostile(10, slow_readers),
    hostile(34, forged_endings, seconds=200),
)
"""Cases about output."""
