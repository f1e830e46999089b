"""Sandboxes beside each other, which must not notice it."""

from __future__ import annotations

import asyncio

from ....verdicts import expect
from ...spec import Limit
from ..case import hostile
from ..harness import SMALL, Harness, ended, program, python, run_program, works


async def neighbors(harness: Harness) -> str:
    """Files, shared memory, queues, keys and limits of one sandbox are not those of another."""
    async with harness.sandbox() as one, harness.sandbox() as other:
        left = await run_program(one, "shared", "leave")
        found = await run_program(other, "shared", "find")
        common = sorted(name for name in found if found[name] and left[name])
        expect(not common, f"one sandbox finds what the other left: {', '.join(common)}")
        made = sorted(name for name in left if left[name])
        crowd = asyncio.create_task(python(one, program("sleepers"), timeout=30.0))
        await asyncio.sleep(0.7)
        many = "import os,time\nfor _ in range(20):\n  if not os.fork(): time.sleep(0.5); os._exit(0)\nprint('all')"
        if Limit.PIDS not in harness.absent:
            result = await python(other, many)
            expect(result.ok, f"while one sandbox is full of processes, another cannot start 20: {ended(result)}")
        crowd.cancel()
        await works(other)
    return f"{', '.join(made)}: not found by the other; one was full of {SMALL['pids']} processes, the other started 20"


async def forks_are_apart(harness: Harness) -> str:
    """Forks share nothing with their parent or each other: files, processes, or their end."""
    async with harness.sandbox(files={"file": b"parent"}) as parent:
        await parent.exec("mkdir d; echo 1 > d/inner; chmod 000 d/inner; mkfifo pipe")
        shell = await parent.session()
        await shell.run("echo temporary > /tmp/only-here; sleep 75 & true")
        forks = await harness.fork(parent, 3)
        for i, fork in enumerate(forks):
            await fork.write_files({"file": f"fork {i}".encode(), f"new-{i}": b""})
        for i, fork in enumerate(forks):
            expect(await fork.read_file("file") == f"fork {i}".encode(), "a fork's file was changed by another")
            names = {entry.path for entry in await fork.list_files()} - {"pipe"}
            expect(names == {"file", "d", "d/inner", f"new-{i}"}, f"fork {i} holds {sorted(names)}")
            seen = (await fork.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls /tmp")).stdout.text
            expect("sleep 75" not in seen and "only-here" not in seen, "a fork sees its parent's processes or /tmp")
        expect(await parent.read_file("file") == b"parent", "a fork has changed its parent's file")
        await forks[0].destroy()
        await works(forks[1])
        await works(parent)
    await works(forks[2])
    return "three forks: own files and processes; one destroyed, then the parent: the others go on"


NEIGHBOR_CASES = (
    hostile(37, neighbors),
    hostile(44, forks_are_apart),
)
"""Cases about neighbors."""
