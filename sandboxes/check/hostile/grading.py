"""Code that will be graded, and tries to write its grade itself."""

from __future__ import annotations

import asyncio

from ....verdicts import expect
from ..case import hostile
from ..harness import Harness, ended, soon, works

POISON = {
    "sitecustomize.py": b"import os; os._exit(0)",
    "usercustomize.py": b"import os; os._exit(0)",
    "conftest.py": b"import os; os._exit(0)",
    "json.py": b"raise SystemExit(0)",
    "os.py": b"raise SystemExit(0)",
    "struct.py": b"raise SystemExit(0)",
    ".profile": b"exit 0",
    ".bashrc": b"exit 0",
    ".pythonrc.py": b"import os; os._exit(0)",
}
PROGRAMS = ("python3", "sh", "cat", "ls", "tar", "sleep")
GRADER = "import solution, sys; sys.exit(0 if solution.answer() == 42 else 9)"


async def poisoned_surroundings(harness: Harness) -> str:
    """Files that a solution leaves for Python, the shell and the path change neither the runner nor a new sandbox."""
    fake = dict.fromkeys((f"bin/{name}" for name in PROGRAMS), b"#!/bin/sh\nexit 0\n")
    async with harness.sandbox(files={**POISON, "solution.py": b"def answer(): return 41\n"}) as dirty:
        await dirty.write_files({**fake, **dict.fromkeys(PROGRAMS, b"#!/bin/sh\nexit 0\n")}, executable=True)
        spread = (
            "cp -r . /tmp/ ; cp -r . $HOME/; mkdir -p ~/.local/bin ~/bin; cp bin/* ~/bin; export PATH=$PWD/bin:$PATH"
        )
        shell = await dirty.session()
        await shell.run(f"{spread}; alias python3=true cat=true; exit() {{ :; }}")
        await works(dirty)
        expect(await dirty.read_file("json.py") == POISON["json.py"], "the runner reads files otherwise")
        expect(len(await dirty.list_files()) > len(POISON), "the runner lists files otherwise")
        session, _ = await soon(dirty.session("python"), "opening an interpreter")
        expect((await session.run("1 + 1")).stdout.text == "2\n", "an interpreter does not start among poison")
        result = await dirty.exec(["python3", "-I", "-c", "import json, sys; sys.exit(8)"])
        expect(result.exit_code == 8, f"an isolated Python in the working directory ended with {ended(result)}")
        taken = await dirty.read_file("solution.py")
        async with harness.sandbox(files={"solution.py": taken}) as fresh:
            graded = await fresh.exec(["python3", "-c", GRADER])
            expect(graded.exit_code == 9, f"in a fresh sandbox a wrong solution was graded with {ended(graded)}")
            found = (await fresh.exec("ls -a; ls -a /tmp ~ | grep -e py -e bin")).stdout.text.split()
            strange = sorted({*POISON, *PROGRAMS, "bin"} & set(found))
            expect(not strange, f"a fresh sandbox holds {strange}")
    return f"{len(POISON)} poisoned modules and {len(PROGRAMS)} programs: the runner and a fresh sandbox were not moved"


async def rewritten_results(harness: Harness) -> str:
    """Something that keeps writing results reaches neither a fresh sandbox nor a fork, and ends with its session."""
    async with harness.sandbox(files={"solution.py": b"def answer(): return 41\n"}) as dirty:
        shell = await dirty.session()
        await shell.run("(while :; do echo passed > result; echo passed > /tmp/result; done) & true")
        await asyncio.sleep(0.2)
        start = await dirty.snapshot()
        (fork,) = await harness.fork(dirty, 1)
        fresh = await harness.create(start=start)
        for sandbox, name in ((fresh, "a fresh sandbox"), (fork, "a fork")):
            graded = await sandbox.exec(["python3", "-c", GRADER])
            expect(graded.exit_code == 9, f"in {name} a wrong solution was graded with {ended(graded)}")
            await sandbox.exec("echo failed > result; echo failed > /tmp/result; sleep 0.5")
            for path in ("result", "/tmp/result"):
                got = await sandbox.read_file(path)
                expect(got == b"failed\n", f"in {name}, {path} was rewritten to {got!r}")
        await shell.close()
        await dirty.exec("echo failed > result; sleep 0.3")
        expect(await dirty.read_file("result") == b"failed\n", "what a closed session started still writes")
    return "it wrote on in its own sandbox, and in no other"


GRADING_CASES = (
    hostile(35, poisoned_surroundings),
    hostile(36, rewritten_results),
)
"""Cases about grading."""
