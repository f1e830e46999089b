"""Kernel interfaces that untrusted code does not need: system calls, privileges, devices, kernel settings."""

from __future__ import annotations

import os

from ....verdicts import expect
from ..case import hostile
from ..harness import Harness, run_program


async def new_namespaces_and_mounts(harness: Harness) -> str:
    """Namespaces, mounts and other roots cannot be made or entered, nested user namespaces included."""
    return await _denied(harness, "namespaces")


async def dangerous_system_calls(harness: Harness) -> str:
    """io_uring, bpf, keyrings, perf, userfaultfd, kexec, modules and the x32 ABI are denied before they do anything."""
    return await _denied(harness, "dangerous")


async def privileges(harness: Harness) -> str:
    """There are no capabilities, no way to get any, and no processes of root's or of the host's user outside."""
    async with harness.sandbox() as sandbox:
        found = await run_program(sandbox, "privileges")
        expect(
            found["no_new_privileges"] == "1", "programs with the setuid bit may gain privileges: no_new_privs is off"
        )
        for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
            expect(int(found[name], 16) == 0, f"{name} is {found[name]}: there are capabilities")
        expect(not found["became"], f"it became {', '.join(found['became'])}")
        shell = await sandbox.session()
        await shell.run("sleep 74 & true")
        uids = harness.host.users()
        expect(os.getuid() != 0 or 0 not in uids, "outside, it is a process of root's")
        await shell.close()
    seen = ", ".join(map(str, sorted(uids))) or "not visible"
    return f"no capability, no_new_privs; {found['setuid_files']} setuid programs gave nothing; user outside: {seen}"


async def kernel_settings(harness: Harness) -> str:
    """No setting of the kernel can be opened for writing: /proc/sys, sysrq, /sys, control groups."""
    async with harness.sandbox() as sandbox:
        found = await run_program(sandbox, "kernel_settings", timeout=40.0)
    expect(not found["open"], f"these can be written: {', '.join(found['open'][:8])}")
    return f"{found['tried']} files tried, none can be opened for writing"


async def devices(harness: Harness) -> str:
    """There are no devices but the harmless ones, and none can be made."""
    async with harness.sandbox() as sandbox:
        found = await run_program(sandbox, "devices")
    expect(not found["strange"], f"devices that should not be there: {', '.join(found['strange'])}")
    expect(not found["made"], f"devices could be made: {', '.join(found['made'])}")
    expect(not found["opened"], f"devices could be opened: {', '.join(found['opened'])}")
    return f"{', '.join(found['there'])}; none made"


async def typing_into_terminals(harness: Harness) -> str:
    """There is no terminal of the host to type into: none controls what runs, none is open, none can be taken."""
    async with harness.sandbox() as sandbox:
        found = await run_program(sandbox, "terminals")
    expect(not found, f"a terminal was reached: {', '.join(found)}")
    return "no controlling terminal, no descriptor of one, TIOCSTI and TIOCSCTTY without effect"


async def clocks_and_priorities(harness: Harness) -> str:
    """The clock, the machine's name, priorities and hard limits cannot be changed."""
    return await _denied(harness, "clocks")


async def _denied(harness: Harness, group: str) -> str:
    async with harness.sandbox() as sandbox:
        found = await run_program(sandbox, "system_calls", group, timeout=30.0)
    allowed = sorted(name for name, error in found.items() if not error)
    expect(not allowed, f"not denied: {', '.join(allowed)}")
    kinds = sorted(set(found.values()))
    return f"{len(found)} denied ({', '.join(kinds)}): {', '.join(found)}"


KERNEL_CASES = (
    hostile(28, new_namespaces_and_mounts),
    hostile(29, dangerous_system_calls),
    hostile(30, privileges),
    hostile(31, kernel_settings),
    hostile(32, devices),
    hostile(33, typing_into_terminals),
    hostile(45, clocks_and_priorities),
)
"""Cases about the kernel."""
