"""The contract of creating, keeping and destroying sandboxes."""

from __future__ import annotations

import asyncio
import os
import time

from ....errors import SandboxError
from ....verdicts import Failed, expect
from ...spec import Limit
from ..case import Case
from ..harness import Harness, reap_all, refused, soon, works


async def every_sandbox_is_new(harness: Harness) -> str:
    """A sandbox begins with the files that were given and no others, under a name of its own."""
    names = set()
    for _ in range(3):
        async with harness.sandbox(files={"given": b"1"}) as sandbox:
            found = [entry.path for entry in await sandbox.list_files()]
            expect(found == ["given"], f"a new sandbox holds {found}")
            await sandbox.exec("echo used > given; echo used > new")
            names.add(sandbox.id)
    expect(len(names) == 3, "two sandboxes have the same name")
    return "three, one after the other: none saw what the one before had written"


async def destroying_ends_everything(harness: Harness) -> str:
    """Destroying ends everything inside, can be repeated, and fails later calls and pending ones with an error."""
    sandbox = await harness.create()
    shell = await sandbox.session()
    running = asyncio.create_task(sandbox.exec("sleep 68", timeout=60.0))
    await asyncio.sleep(0.3)
    expect(sandbox.alive, "a sandbox that runs something is not alive")
    _, seconds = await soon(sandbox.destroy(), "destroying a sandbox")
    await soon(sandbox.destroy(), "destroying it once more")
    expect(not sandbox.alive, "a destroyed sandbox is alive")
    await is_sandbox_error(running, "a command during which the sandbox was destroyed")
    await is_sandbox_error(sandbox.exec("true"), "a command in a destroyed sandbox")
    await is_sandbox_error(sandbox.read_file("x"), "reading a file of a destroyed sandbox")
    await is_sandbox_error(sandbox.snapshot(), "a snapshot of a destroyed sandbox")
    expect(not shell.alive, "a session of a destroyed sandbox is alive")
    return f"{1000 * seconds:.0f} ms with a command and a session in it; the command and what came later are refused"


async def is_sandbox_error(work: object, what: str) -> None:
    """Check that something fails with ``SandboxError``, in time.

    Raises:
        Failed: it does not.
    """
    try:
        result, _ = await soon(work, what)
    except SandboxError:
        return
    except Failed:
        raise
    except Exception as error:
        raise Failed(f"{what} raised {type(error).__name__}, not SandboxError: {error}") from error
    raise Failed(f"{what} returned {str(result)[:100]} and should raise SandboxError")


async def sandboxes_are_used_from_any_loop(harness: Harness) -> str:
    """A sandbox made on one event loop is used and destroyed on others, also after its first loop has closed."""
    sandbox = await asyncio.to_thread(lambda: asyncio.run(harness.create()))
    await works(sandbox)

    async def elsewhere() -> str:
        shell = await sandbox.session()
        return (await shell.run("echo there")).stdout.text

    expect(await asyncio.to_thread(lambda: asyncio.run(elsewhere())) == "there\n", "a session fails on another loop")
    await asyncio.to_thread(lambda: asyncio.run(sandbox.destroy()))
    expect(not sandbox.alive, "it was not destroyed from another loop")
    return "made, used and destroyed on three loops in three threads"


async def lifetimes_end(harness: Harness) -> str:
    """A sandbox is destroyed at the end of its lifetime, even if it is in use."""
    sandbox = await harness.create(harness.spec(lifetime=1.0))
    await works(sandbox)
    await is_sandbox_error(sandbox.exec("sleep 4", timeout=15.0), "a command that outlives the sandbox")
    expect(not sandbox.alive, "it is alive after its lifetime")
    left = harness.host.remains([sandbox.id])
    expect(not left, f"after its lifetime there is {'; '.join(left)}")
    return "with a lifetime of 1 s a command of 4 s met its end, and nothing was left"


async def use_is_measured(harness: Harness) -> str:
    """Statistics are those of the sandbox: they grow with what it uses, and are known where they are limited."""
    async with harness.sandbox() as sandbox:
        before = await sandbox.stats()
        await sandbox.exec("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
        shell = await sandbox.session()
        await shell.run("sleep 69 & sleep 69 & sleep 69 & true")
        after = await sandbox.stats()
        expect(after.seconds > before.seconds, "its age does not grow")
        for name in ("memory", "pids", "cpu_seconds", "oom_kills"):
            first, second = getattr(before, name), getattr(after, name)
            if name in ("memory", "pids") and Limit(name) not in harness.absent:
                expect(second is not None, f"{name} is limited, but not known")
            expect(second is None or second >= 0, f"{name} is {second}")
            if name in ("pids", "cpu_seconds") and first is not None:
                expect(second > first, f"{name} was {first}, and after more use is {second}")
        grown = None if after.pids is None or before.pids is None else after.pids - before.pids
        expect(grown is None or grown >= 3, f"three more processes are {grown} more")
    memory = "unknown" if after.memory is None else f"{after.memory / 1e6:.1f} MB"
    return f"{memory} of memory, {after.pids} processes, {after.cpu_seconds} processor seconds, {after.oom_kills} kills"


async def many_are_made_at_once(harness: Harness) -> str:
    """Sixteen sandboxes are made, used and destroyed at the same time, and this process keeps no file open for them."""

    async def life(i: int) -> float:
        began = time.perf_counter()
        sandbox = await harness.create()
        seconds = time.perf_counter() - began
        got = (await sandbox.exec(f"echo {i}", timeout=60.0)).stdout.text
        expect(got == f"{i}\n", f"sandbox {i} of 16 said {got!r}")
        await sandbox.destroy()
        return seconds

    await life(0)
    open_before = len(os.listdir("/proc/self/fd"))
    seconds = await asyncio.gather(*map(life, range(16)))
    open_after = await _least(open_before)
    expect(open_after <= open_before + 8, f"{open_before} open files before, {open_after} after 16 sandboxes")
    return f"slowest creation {1000 * max(seconds):.0f} ms; {open_before} open files before and {open_after} after"


async def _least(wanted: int) -> int:
    """Open files of this process, once no more than wanted or after some seconds."""
    for _ in range(60):
        if (count := len(os.listdir("/proc/self/fd"))) <= wanted:
            break
        await asyncio.sleep(0.05)
    return count


async def a_full_working_directory_is_refused(harness: Harness) -> str:
    """Files that do not fit are refused at creation and later, and nothing is left of the failed sandbox."""
    large = {"large": b"x" * (2 * harness.spec().limits.disk)}
    await refused(harness.create(files=large), "files of twice the disk limit")
    async with harness.sandbox() as sandbox:
        await refused(sandbox.write_files(large), "writing twice the disk limit")
        await works(sandbox)
    return "twice the disk limit is refused as a file to begin with, and later"


async def the_living_are_not_reaped(harness: Harness) -> str:
    """Reaping removes nothing whose owner lives, and can be done at any time."""
    async with harness.sandbox() as sandbox:
        await harness.backend.reap()
        await works(sandbox)
        again = await reap_all(harness.backend)
        expect(again.sandboxes == 0, f"reaping once more found {again.sandboxes} sandboxes: the first left them")
    return "a sandbox in use went on working"


LIFE_CASES = (
    Case(161, every_sandbox_is_new),
    Case(162, destroying_ends_everything),
    Case(163, sandboxes_are_used_from_any_loop),
    Case(164, lifetimes_end, needs=(Limit.LIFETIME,)),
    Case(165, use_is_measured),
    Case(166, many_are_made_at_once, seconds=120),
    Case(167, a_full_working_directory_is_refused, needs=(Limit.DISK,)),
    Case(168, the_living_are_not_reaped),
)
"""Cases about the life of sandboxes."""
