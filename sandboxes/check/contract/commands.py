"""The contract of ``Sandbox.exec``: arguments, shell, environment, directory, input, endings, time, concurrency."""

from __future__ import annotations

import asyncio
import json
import os
import time

from ....verdicts import Failed, expect
from ...result import Status
from ..case import Case
from ..harness import Harness, ended, python, refused, soon, works

ODD_ARGUMENTS = ["two words", "", "'\"`$HOME;|&", "line\nbreak", "-n", "ünïcödé ☃", "*"]


async def arguments_arrive_untouched(harness: Harness) -> str:
    """A list is a program with its arguments, none of which a shell reads."""
    async with harness.sandbox() as sandbox:
        result = await python(sandbox, "import json,sys; print(json.dumps(sys.argv[1:]))", *ODD_ARGUMENTS)
        expect(result.ok, f"the program ended with {ended(result)}")
        got = json.loads(result.stdout.text)
        expect(got == ODD_ARGUMENTS, f"arguments {ODD_ARGUMENTS} arrived as {got}")
    return f"{len(ODD_ARGUMENTS)} arguments with spaces, quotes, line breaks and wildcards arrived as they were"


async def text_is_for_the_shell(harness: Harness) -> str:
    """Text is run by /bin/sh, with pipes, variables and the exit code of the last command."""
    async with harness.sandbox() as sandbox:
        result = await sandbox.exec("a=3; echo one two | tr a-z A-Z; echo err >&2; exit $((a + 4))")
        got = (result.status, result.exit_code, result.stdout.text, result.stderr.text)
        wanted = (Status.EXITED, 7, "ONE TWO\n", "err\n")
        expect(got == wanted, f"a line with a pipe, a variable and 'exit 7' gave {got}, not {wanted}")
        expect(not result.ok, "a command that exits with 7 is not ok")
    return "a pipe, a variable, both streams and exit code 7 came back"


async def environment_is_what_was_asked(harness: Harness) -> str:
    """The environment is that of the spec and of the command, and nothing of the host's."""
    async with harness.sandbox(env={"FROM_SPEC": "1", "BOTH": "spec"}) as sandbox:
        show = "import json,os; print(json.dumps(dict(os.environ)))"
        first = json.loads((await python(sandbox, show, env={"BOTH": "call", "ONCE": "ü"})).stdout.text)
        got = {name: first.get(name) for name in ("FROM_SPEC", "BOTH", "ONCE")}
        expect(got == {"FROM_SPEC": "1", "BOTH": "call", "ONCE": "ü"}, f"variables arrived as {got}")
        second = json.loads((await python(sandbox, show)).stdout.text)
        expect("ONCE" not in second, "a variable of one command is still set in the next")
        own = {name for name, value in os.environ.items() if first.get(name) == value and len(value) > 1}
        strange = sorted(own - {"PATH", "LANG", "LC_ALL", "HOME", "PWD", "SHLVL", "_"})
        expect(not strange, f"variables of the host came in: {', '.join(strange)}")
    return f"two of the spec, two of the command, {len(first)} in all, none of the host's"


async def directories_are_relative_to_the_working_directory(harness: Harness) -> str:
    """Commands start in the working directory or below it; a directory that is not there is refused."""
    async with harness.sandbox(files={"below/it/file": b""}) as sandbox:
        for cwd, wanted in ((None, ""), ("below/it", "/below/it")):
            found = (await sandbox.exec("ls", cwd=cwd)).stdout.text
            expect(found == ("file\n" if wanted else "below\n"), f"with cwd={cwd!r} it starts where there is {found!r}")
        await refused(sandbox.exec(["true"], cwd="not/there"), "a directory that is not there")
        await refused(sandbox.exec(["no-such-program"]), "a program that is not there")
        await works(sandbox)
    return "the working directory, one below; a missing directory and a missing program are refused"


async def input_is_exact_and_then_ends(harness: Harness) -> str:
    """Standard input is the bytes that were given, then its end; empty if none were."""
    async with harness.sandbox() as sandbox:
        given = bytes(range(256)) * 40
        expect((await sandbox.exec(["cat"], stdin=given)).stdout.head == given, "10 kB of all bytes came back changed")
        nothing, _ = await soon(sandbox.exec("wc -c"), "a command that reads its empty input")
        expect(nothing.stdout.text.strip() == "0", f"without input, {nothing.stdout.text.strip()} bytes were read")
        large, _ = await soon(sandbox.exec(["true"], stdin=b"x" * 500_000), "a command that does not read its input")
        expect(large.ok, f"a command that does not read its input ended with {ended(large)}")
    return "10 kB of all bytes; the end at once without input; 500 kB that nobody reads"


async def endings_are_told_apart(harness: Harness) -> str:
    """Exit codes and signals are what they were, and 137 is not taken for a kill."""
    seen = []
    async with harness.sandbox() as sandbox:
        for command, status, code, signal in (
            ("exit 0", Status.EXITED, 0, None),
            ("exit 3", Status.EXITED, 3, None),
            ("exit 255", Status.EXITED, 255, None),
            ("exit 137", Status.EXITED, 137, None),
            ("kill -TERM $$", Status.SIGNALED, 143, 15),
            ("kill -KILL $$", Status.SIGNALED, 137, 9),
            ("kill -SEGV $$", Status.SIGNALED, 139, 11),
        ):
            result = await sandbox.exec(command)
            got = (result.status, result.exit_code, result.signal)
            expect(got == (status, code, signal), f"{command!r} gave {got}, not {(status, code, signal)}")
            seen.append(command)
    return f"{', '.join(seen)} were told apart"


async def timeouts_are_said_and_keep_what_was_written(harness: Harness) -> str:
    """A command that does not end in time is killed, and says so, with what it wrote until then."""
    async with harness.sandbox() as sandbox:
        command = "echo begun; sleep 61 & sleep 60; echo never"
        result, seconds = await soon(sandbox.exec(command, timeout=0.5), "a command with a timeout of 0.5 s")
        expect(result.status is Status.TIMEOUT, f"it ended with {ended(result)}")
        expect(not result.ok and result.exit_code != 0, "a timeout is neither ok nor exit code 0")
        expect(result.stdout.text == "begun\n", f"what it wrote before is {result.stdout.text!r}")
        expect(0.4 <= result.seconds <= 5, f"with a timeout of 0.5 s it says that it took {result.seconds:.2f} s")
        left = await python(sandbox, LISTING)
        expect("sleep" not in left.stdout.text, f"it still runs after the timeout: {left.stdout.text.strip()}")
    return f"killed with its child after {result.seconds:.2f} s of 0.5 s, came back after {seconds:.2f} s"


async def what_is_left_running_is_killed(harness: Harness) -> str:
    """Processes that a command leaves in the background are killed when it ends, even in a session of their own."""
    async with harness.sandbox() as sandbox:
        began = time.monotonic()
        result = await sandbox.exec("sleep 62 & (setsid sleep 63 &) ; echo done")
        expect(result.ok and result.stdout.text == "done\n", f"the command ended with {ended(result)}")
        expect(time.monotonic() - began < 10, "it waited for what runs in the background")
        left = (await python(sandbox, LISTING)).stdout.text
        expect("sleep" not in left, f"still running: {left.strip()}")
    return "a background job and one in its own session were gone when the command had ended"


LISTING = """
import os
mine = os.environ["TURNWISE_CHECK_MARK"].encode()
for pid in os.listdir("/proc"):
    try:
        if pid.isdigit() and mine in open(f"/proc/{pid}/environ", "rb").read():
            print(open(f"/proc/{pid}/cmdline").read().replace("\\0", " ")[:60])
    except OSError:
        pass
"""
"""Prints the command lines of the processes of this check that can be seen."""


async def what_a_command_used_is_measured(harness: Harness) -> str:
    """Seconds, processor seconds and peak memory of a command are those that it used."""
    async with harness.sandbox() as sandbox:
        source = "import time; b = b'x' * 40_000_000\nwhile time.process_time() < 0.4: pass\ntime.sleep(0.3)"
        result = await python(sandbox, source)
        expect(result.ok, f"it ended with {ended(result)}")
        expect(result.seconds >= 0.65, f"0.4 s of work and 0.3 s of sleep took {result.seconds:.2f} s")
        expect(0.35 <= result.cpu_seconds <= 1.5, f"0.4 s of work are {result.cpu_seconds:.2f} processor seconds")
        megabytes = result.peak_memory / 1e6
        expect(40 <= megabytes <= 120, f"40 MB and Python itself are {megabytes:.0f} MB of peak memory")
        idle = await sandbox.exec(["sleep", "0.2"])
        expect(idle.cpu_seconds < 0.1, f"a sleep used {idle.cpu_seconds:.2f} processor seconds: not its own")
    return f"{result.seconds:.2f} s, {result.cpu_seconds:.2f} processor seconds, {megabytes:.0f} MB"


async def commands_run_at_the_same_time(harness: Harness) -> str:
    """Commands of one sandbox run beside each other, and each has its own output and ending."""
    async with harness.sandbox() as sandbox:
        began = time.monotonic()
        results = await asyncio.gather(
            *(sandbox.exec(f"cat; sleep 1; echo {i} >&2; exit {i}", stdin=str(i).encode()) for i in range(8))
        )
        seconds = time.monotonic() - began
        for i, result in enumerate(results):
            got = (result.exit_code, result.stdout.text, result.stderr.text)
            expect(got == (i, str(i), f"{i}\n"), f"command {i} of 8 got {got}")
        expect(seconds < 6, f"8 commands that sleep for a second took {seconds:.1f} s: one after the other")
    return f"8 commands that sleep for a second took {seconds:.1f} s, none got what is another's"


async def a_cancelled_command_is_killed(harness: Harness) -> str:
    """Cancelling the wait for a command kills it, and the sandbox can be used on."""
    async with harness.sandbox() as sandbox:
        for wait in (0.0, 0.01, 0.3):
            task = asyncio.create_task(sandbox.exec("sleep 64; echo never", timeout=60.0))
            await asyncio.sleep(wait)
            task.cancel()
            try:
                async with asyncio.timeout(10.0):
                    await task
                raise Failed("a cancelled command returned")
            except asyncio.CancelledError:
                pass
            except TimeoutError:
                raise Failed("cancelling a command takes more than 10 s") from None
            await works(sandbox)
        left = (await python(sandbox, LISTING)).stdout.text
        expect("sleep" not in left, f"a cancelled command still runs: {left.strip()}")
    return "cancelled at once, after 10 ms and after 300 ms: killed, and the next command runs"


COMMAND_CASES = (
    Case(101, arguments_arrive_untouched),
    Case(102, text_is_for_the_shell),
    Case(103, environment_is_what_was_asked),
    Case(104, directories_are_relative_to_the_working_directory),
    Case(105, input_is_exact_and_then_ends),
    Case(106, endings_are_told_apart),
    Case(107, timeouts_are_said_and_keep_what_was_written),
    Case(108, what_is_left_running_is_killed),
    Case(109, what_a_command_used_is_measured),
    Case(110, commands_run_at_the_same_time),
    Case(111, a_cancelled_command_is_killed),
)
"""Cases about commands."""
