"""Processes that will not end, hide, or turn on what runs them."""

from __future__ import annotations

import asyncio
import os
import subprocess

from ....errors import SandboxError
from ....verdicts import expect
from ...result import Status
from ...spec import Limit
from ..case import hostile
from ..contract.commands import LISTING
from ..harness import Harness, ended, program, python, run_program, soon, works


async def deaf_and_stopped_processes(harness: Harness) -> str:
    """Processes that ignore every signal they can, or stop themselves, end at their timeout."""
    sources = {
        "ignores signals": "import signal,time\nfor s in range(1, 65):\n  try: signal.signal(s, signal.SIG_IGN)\n"
        "  except (OSError, ValueError): pass\ntime.sleep(70)",
        "stops itself": "import os,signal,time; os.kill(os.getpid(), signal.SIGSTOP); time.sleep(70)",
        "stops its group": "import os,signal,time; os.killpg(0, signal.SIGSTOP); time.sleep(70)",
    }
    async with harness.sandbox() as sandbox:
        for name, source in sources.items():
            result, _ = await soon(python(sandbox, source, timeout=0.7), f"a process that {name}")
            expect(result.status is Status.TIMEOUT, f"a process that {name} ended with {ended(result)}")
            left = (await python(sandbox, LISTING)).stdout.text
            expect("sleep(70)" not in left, f"a process that {name} still runs: {left.strip()}")
        await works(sandbox)
    return f"one that {', one that '.join(sources)}: all killed at 0.7 s"


async def daemon_outlives_its_command(harness: Harness) -> str:
    """A daemon made by forking twice in a new session ends with its command, normally or at its timeout."""
    async with harness.sandbox() as sandbox:
        for timeout, status in ((20.0, Status.EXITED), (1.0, Status.TIMEOUT)):
            waits = "20" if status is Status.TIMEOUT else "0"
            result, _ = await soon(python(sandbox, program("daemon"), waits, timeout=timeout), "the daemon's command")
            expect(result.status is status, f"it ended with {ended(result)}, not {status}")
            first = await sandbox.read_file("heartbeat")
            await asyncio.sleep(0.5)
            second = await sandbox.read_file("heartbeat")
            expect(first == second, f"after a command that ended by {status} its daemon lives: it still writes")
    return "after exit and after timeout, it wrote no more"


async def background_child_holds_the_output(harness: Harness) -> str:
    """A child in the background that holds the output open does not keep the command from ending."""
    async with harness.sandbox() as sandbox:
        result, seconds = await soon(sandbox.exec("sleep 71 & echo here", timeout=30.0), "a command with a child")
        expect(result.ok and result.stdout.text == "here\n", f"it ended with {ended(result)}")
        hidden = "(setsid sh -c 'trap \"\" TERM HUP; sleep 72; echo late') & echo here"
        result, again = await soon(sandbox.exec(hidden, timeout=30.0), "a command with a hidden child")
        expect(result.ok and result.stdout.text == "here\n", f"it ended with {ended(result)}")
        await works(sandbox)
    return f"ended after {seconds:.2f} s and {again:.2f} s, with the output until then"


async def zombie_flood(harness: Harness) -> str:
    """Orphans by the hundred are reaped inside and do not use up the limit of processes."""
    async with harness.sandbox() as sandbox:
        found = await run_program(sandbox, "orphans", 300, timeout=40.0)
        expect(found["failed"] == 0, f"{found['failed']} of 300 forks failed: orphans are not reaped")
        unwaited = await python(sandbox, program("zombies"), timeout=10.0)
        expect(unwaited.ok, f"a process with children that nobody waits for ended with {ended(unwaited)}")
        await works(sandbox)
        pids = (await sandbox.stats()).pids
        expect(pids is None or pids <= 8, f"{pids} processes are left")
    return f"300 orphans; {unwaited.stdout.text.strip()} zombies that nobody waited for; afterwards {pids} processes"


async def attack_on_the_runner(harness: Harness) -> str:
    """The runner cannot be killed, stopped, traced, read or spoken for from inside."""
    async with harness.sandbox() as sandbox:
        try:
            found = await run_program(sandbox, "attack_runner", timeout=20.0)
        except SandboxError:
            expect(not sandbox.alive, "the sandbox failed and says that it is alive")
            return "the runner was killed, and the command and the sandbox said so"
        for what in ("traced", "memory", "descriptors"):
            expect(not found[what], f"from inside, process {found[what]} could be {what}")
        await works(sandbox)
        for signals in ("kill -KILL -1", "kill -STOP 1; kill -KILL 1", "kill -TERM 1; kill -INT 1; kill -HUP 1"):
            result, _ = await soon(sandbox.exec(signals, timeout=5.0), f"{signals!r}")
            expect(result.status is not Status.TIMEOUT, f"{signals!r} hung the command")
            await works(sandbox)
    return f"{found['tried']} processes: not traced, not read; it answers after KILL, STOP, TERM, INT, HUP and kill -1"


async def other_processes_are_invisible(harness: Harness) -> str:
    """Processes of the host and of other sandboxes are neither seen nor reached by signals."""
    watch = _watched()
    try:
        async with harness.sandbox() as one, harness.sandbox() as other:
            sleeping = asyncio.create_task(other.exec(["sleep", "73"], timeout=60.0))
            await asyncio.sleep(0.2)
            seen = (await one.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout.text
            expect("sleep 73" not in seen, "a process of another sandbox can be seen")
            expect("sleep 600" not in seen, "a process of the host can be seen")
            await run_program(one, "signal_everybody", watch.pid, os.getpid(), timeout=30.0)
            expect(watch.poll() is None, "a signal from inside ended a process of the host")
            expect(not sleeping.done(), "a signal from inside ended a process of another sandbox")
            await works(other)
            sleeping.cancel()
            number = len((await one.exec("ls -d /proc/[0-9]*")).stdout.text.split())
    finally:
        watch.kill()
        watch.wait()
    return f"{number} processes seen, none of them another's; signals to 65,000 numbers reached neither"


def _watched() -> subprocess.Popen[bytes]:
    """Start a process of the host that must not be reached."""
    return subprocess.Popen(["sleep", "600"])


PROCESS_CASES = (
    hostile(12, deaf_and_stopped_processes),
    hostile(13, daemon_outlives_its_command),
    hostile(14, background_child_holds_the_output),
    hostile(15, zombie_flood, Limit.PIDS),
    hostile(16, attack_on_the_runner),
    hostile(20, other_processes_are_invisible),
)
"""Cases about processes."""
