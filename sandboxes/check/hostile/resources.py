"""Code that takes more than its share: processes, memory, disk, processor time."""

from __future__ import annotations

import asyncio

from ....errors import SandboxError, ToolError
from ....verdicts import Failed, expect
from ...result import Status
from ...sandbox import Sandbox
from ...spec import MIB, Limit
from ..case import hostile
from ..harness import SMALL, Harness, ended, program, python, refused, run_program, soon, works

OWN = 4
"""Processes that a backend may need for the sandbox itself."""


async def fork_bomb(harness: Harness) -> str:
    """A fork bomb stays below the limit of processes, is killed in time, and the sandbox works on."""
    async with harness.sandbox() as sandbox:
        bomb = asyncio.create_task(python(sandbox, program("fork_bomb"), timeout=2.0))
        most = 0
        while not bomb.done():
            most = max(most, (await sandbox.stats()).pids or 0)
            await asyncio.sleep(0.1)
        result = await bomb
        expect(result.status is Status.TIMEOUT, f"the bomb ended with {ended(result)}")
        expect(most <= int(SMALL["pids"]) + OWN, f"{most} processes, though the limit is {SMALL['pids']}")
        expect(result.seconds < 10, f"with a timeout of 2 s it took {result.seconds:.1f} s to kill it")
        await works(sandbox)
    return f"at most {most} processes of {SMALL['pids']}; killed after {result.seconds:.1f} s of 2 s"


async def memory_bomb(harness: Harness) -> str:
    """A process that takes memory without end is killed for it, and the sandbox works on."""
    async with harness.sandbox() as sandbox:
        result = await python(sandbox, "b = []\nwhile True: b.append(b'x' * 1_000_000)", timeout=30.0)
        expect(result.status is Status.OOM and not result.ok, f"it ended with {ended(result)}, not {Status.OOM}")
        await works(sandbox)
        stats = await sandbox.stats()
        peak = stats.memory_peak or 0
        expect(peak <= int(SMALL["memory"]) + MIB, f"{peak} bytes were used, the limit is {SMALL['memory']}")
    return (
        f"oom after {result.seconds:.1f} s; at most {peak / MIB:.0f} of 128 MiB; kills by the kernel: {stats.oom_kills}"
    )


async def many_medium_processes(harness: Harness) -> str:
    """Processes that are small each, and too large together, are killed for memory."""
    async with harness.sandbox() as sandbox:
        source = program("many_medium")
        result = await python(sandbox, source, 8, int(SMALL["memory"]) // 4, timeout=40.0)
        expect(result.status is Status.OOM, f"eight processes of a quarter of the limit ended with {ended(result)}")
        peak = (await sandbox.stats()).memory_peak or 0
        expect(peak <= int(SMALL["memory"]) + MIB, f"{peak} bytes were used, the limit is {SMALL['memory']}")
        await works(sandbox)
    return f"eight times a quarter of the limit: oom after {result.seconds:.1f} s, at most {peak / MIB:.0f} MiB"


async def memory_file_systems(harness: Harness) -> str:
    """Every place that can be written is small: filling all of them leaves the sandbox at work."""
    async with harness.sandbox() as sandbox:
        filled = await run_program(sandbox, "fill_all", int(SMALL["memory"]), timeout=60.0)
        total = sum(filled.values())
        expect(total <= int(SMALL["memory"]), f"{total} bytes were written, more than the memory limit: {filled}")
        strange = {name for name in filled if name.split("/")[1] not in ("work", "tmp", "dev", "run", "var", "home")}
        expect(not strange, f"places of the image could be written: {sorted(strange)}")
        await works(sandbox)
    return ", ".join(f"{name} {size / MIB:.0f} MiB" for name, size in filled.items())


async def disk_fill(harness: Harness) -> str:
    """The working directory takes no more than the disk limit, and works again when something is removed."""
    async with harness.sandbox() as sandbox:
        found = await run_program(sandbox, "fill_disk", timeout=40.0)
        limit = int(SMALL["disk"])
        expect(found["error"] in ("ENOSPC", "EDQUOT", "EFBIG"), f"writing without end ended with {found['error']}")
        expect(found["bytes"] <= limit, f"{found['bytes']} bytes were written, the limit is {limit}")
        expect(found["bytes"] >= limit // 2, f"only {found['bytes']} bytes fit, the limit is {limit}")
        await refused(sandbox.write_files({"more": b"x" * MIB}), "another file on a full disk")
        await sandbox.remove(["filling"])
        await sandbox.write_files({"more": b"x" * MIB})
        await works(sandbox)
    return f"{found['error']} after {found['bytes'] / MIB:.1f} of {limit / MIB:.0f} MiB; works again when it is removed"


async def inode_fill(harness: Harness) -> str:
    """Empty files without end meet the limit of inodes."""
    async with harness.sandbox() as sandbox:
        found = await run_program(sandbox, "fill_inodes", 4 * int(SMALL["inodes"]), timeout=40.0)
        expect(found["error"] in ("ENOSPC", "EDQUOT"), f"{found['files']} files, and then {found['error']}")
        expect(found["files"] <= int(SMALL["inodes"]), f"{found['files']} files, the limit is {SMALL['inodes']}")
        await works(sandbox)
        _, seconds = await soon(sandbox.destroy(), "destroying a sandbox full of files")
    return f"{found['error']} after {found['files']} of {SMALL['inodes']} files; destroyed in {1000 * seconds:.0f} ms"


async def processor_spin(harness: Harness) -> str:
    """Spinning processes get no more than their share of processor time, and are killed in time."""
    share = 0.5
    async with harness.sandbox(cpus=share) as sandbox:
        used = await run_program(sandbox, "spin", 4, 2.0)
        expect(used <= 1.2 * share + 0.05, f"four processes got {used:.2f} processors; the limit is {share}")
        result, _ = await soon(python(sandbox, program("spin"), 4, 60, timeout=1.0), "spinning with a timeout of 1 s")
        expect(result.status is Status.TIMEOUT, f"it ended with {ended(result)}")
        await works(sandbox)
    return f"four processes got {used:.2f} of {share} processors; killed after {result.seconds:.1f} s of 1 s"


async def exhausted_processes(harness: Harness) -> str:
    """When no more processes can be made, nothing hangs, and the sandbox can be destroyed."""
    sandbox = await harness.create()
    full = asyncio.create_task(python(sandbox, program("sleepers"), timeout=60.0))
    for _ in range(100):
        await asyncio.sleep(0.05)
        if ((await sandbox.stats()).pids or 0) >= int(SMALL["pids"]) - 1:
            break
    try:
        result, _ = await soon(sandbox.exec("echo a | cat"), "a command when all processes are taken", 20.0)
        told_so = f"a further command: {ended(result)}"
        expect(not result.ok or result.stdout.text == "a\n", f"without processes a pipe gave {ended(result)}")
    except (ToolError, SandboxError) as error:
        told_so = f"a further command: {type(error).__name__}: {str(error)[:80]}"
    _, seconds = await soon(sandbox.destroy(), "destroying it")
    try:
        await soon(full, "the command that took all processes")
        raise Failed("a command in a destroyed sandbox has a result")
    except SandboxError:
        pass
    return f"{told_so}; destroyed in {1000 * seconds:.0f} ms"


async def memory_of_the_runner(harness: Harness) -> str:
    """When files fill the memory and the runner itself may be killed, that is reported, and nothing hangs."""
    seen = []
    for attack in (
        "echo 1000 > /proc/1/oom_score_adj; for p in /proc/[0-9]*; do echo 1000 > $p/oom_score_adj; done",
        "",
    ):
        sandbox = await harness.create(harness.spec(memory=32 * MIB, disk=64 * MIB))
        await sandbox.exec(attack)
        for _ in range(6):
            if (met := await _pressed(sandbox)) is not None:
                seen.append(met)
            if not sandbox.alive:
                break
        await soon(sandbox.destroy(), "destroying it")
    expect("oom" in seen or "SandboxError" in seen, f"64 MiB of files in 32 MiB of memory: {seen}")
    return f"64 MiB of files in 32 MiB of memory: {', '.join(dict.fromkeys(seen))}; nothing hung"


async def _pressed(sandbox: Sandbox) -> str | None:
    fill = "open('more', 'ab').write(b'x' * 20_000_000)\nb = b'y' * 40_000_000"
    try:
        result, _ = await soon(python(sandbox, fill, timeout=15.0), "a command without memory", 30.0)
    except SandboxError:
        expect(not sandbox.alive, "a sandbox that failed says that it is alive")
        return "SandboxError"
    except ToolError:
        return "ToolError"
    expect(not result.ok, "60 MB fit into 32 MiB")
    return str(result.status)


RESOURCE_CASES = (
    hostile(1, fork_bomb, Limit.PIDS),
    hostile(2, memory_bomb, Limit.MEMORY),
    hostile(3, many_medium_processes, Limit.MEMORY),
    hostile(4, memory_file_systems, Limit.DISK, seconds=90),
    hostile(5, disk_fill, Limit.DISK),
    hostile(6, inode_fill, Limit.INODES),
    hostile(11, processor_spin, Limit.CPUS),
    hostile(42, exhausted_processes, Limit.PIDS),
    hostile(43, memory_of_the_runner, Limit.MEMORY, seconds=240),
)
"""Cases about resources."""
