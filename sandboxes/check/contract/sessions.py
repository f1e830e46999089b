"""The contract of ``Session``."""

from __future__ import annotations

import asyncio

from ....errors import ToolError
from ....verdicts import expect
from ...result import Status
from ...sandbox import Session
from ..case import Case
from ..harness import Harness, ended, python, refused, soon, works
from .commands import LISTING


async def said(session: Session, source: str) -> str:
    """Return everything that a session prints, on both streams."""
    result = await session.run(source)
    return result.stdout.text + result.stderr.text


async def shells_keep_their_state(harness: Harness) -> str:
    """A shell keeps directory, variables and functions, and gives every command its own exit code and streams."""
    async with harness.sandbox(files={"below/file": b""}) as sandbox:
        shell = await sandbox.session()
        await shell.run("cd below; a='two words'; export b=3; f() { echo \"f $1\"; }")
        expect(
            await said(shell, "ls; echo \"$a\"; sh -c 'echo $b'; f x") == "file\ntwo words\n3\nf x\n", "state is lost"
        )
        result = await shell.run("echo out; echo err >&2; (exit 9)")
        got = (result.exit_code, result.stdout.text, result.stderr.text)
        expect(got == (9, "out\n", "err\n"), f"a command that exits with 9 gave {got}")
        expect((await shell.run("true")).ok, "the exit code of one command is that of the next")
        broken = await shell.run("echo 'unfinished")
        expect(not broken.ok, "an unfinished quotation is ok")
        alive = "alive" if shell.alive and await said(shell, "echo $b") == "3\n" else "ended"
    return f"directory, variables, a function, exit code 9; after an unfinished quotation it is {alive}"


async def interpreters_keep_their_state(harness: Harness) -> str:
    """Python keeps names, prints the value of a last expression, and an exception is exit code 1 with a traceback."""
    async with harness.sandbox() as sandbox:
        session = await sandbox.session("python")
        await session.run("import math\nx = 20\ndef twice(n):\n    return 2 * n\n")
        expect(await said(session, "twice(x) + math.floor(2.5)") == "42\n", "names or the last value are lost")
        expect(await said(session, "print('a'); x") == "a\n20\n", "a last expression after a statement is not printed")
        expect(await said(session, "x = 5\nNone") == "", "None is printed")
        result = await session.run("x = 7\n1 / 0")
        expect(result.exit_code == 1, f"an exception is {ended(result)}")
        expect("ZeroDivisionError" in result.stderr.text, f"its traceback is {result.stderr.text!r}")
        wrong = await session.run("def (")
        expect(wrong.exit_code == 1 and "SyntaxError" in wrong.stderr.text, f"a syntax error is {ended(wrong)}")
        expect(await said(session, "x") == "7\n", "the state is lost after an exception")
    return "names, last values, an exception and a syntax error with tracebacks; the state outlives them"


async def sessions_read_no_input(harness: Harness) -> str:
    """Commands in a session find an empty standard input, and do not consume later commands."""
    async with harness.sandbox() as sandbox:
        for kind, reads, then in (("sh", "cat; read line; wc -c", "echo on"), ("python", INPUT, "print('on')")):
            session = await sandbox.session(kind)  # type: ignore[arg-type]
            result, _ = await soon(session.run(reads), f"reading the input of a session of {kind}")
            expect("0" in result.stdout.text, f"{kind}: reading gave {ended(result)}")
            expect(await said(session, then) == "on\n", f"{kind}: the next command was swallowed")
    return "cat, read, wc and input() found nothing, and the next command was there"


INPUT = """
import sys
print(len(sys.stdin.read()))
try:
    input()
except EOFError:
    pass
"""


async def slow_commands_of_sessions_are_interrupted(harness: Harness) -> str:
    """A command of a session that does not end in time is a timeout; the session goes on, or says that it ended."""
    states = []
    async with harness.sandbox() as sandbox:
        for kind, keeps, slow, look in (
            ("sh", "a=1", "echo begun; sleep 65", "echo $a"),
            ("python", "a = 1", "import time\nprint('begun', flush=True)\ntime.sleep(65)", "print(a)"),
            ("python", "a = 1", "try:\n    while True: pass\nexcept BaseException:\n    while True: pass", "print(a)"),
        ):
            session = await sandbox.session(kind)  # type: ignore[arg-type]
            await session.run(keeps)
            result, _ = await soon(session.run(slow, timeout=0.7), f"a slow command of a session of {kind}", 20.0)
            expect(result.status is Status.TIMEOUT and not result.ok, f"{kind}: it ended with {ended(result)}")
            if "begun" in slow:
                expect("begun" in result.stdout.text, f"{kind}: what it wrote before is {result.stdout.text!r}")
            if session.alive:
                expect(await said(session, look) == "1\n", f"{kind}: it is alive, but its state is lost")
            else:
                await refused(session.run(look), f"running something in a session of {kind} that ended")
            states.append("alive" if session.alive else "ended")
        left = (await python(sandbox, LISTING)).stdout.text
        expect("sleep 65" not in left, f"what was interrupted still runs: {left.strip()}")
    return f"sh, python, python that catches everything: {', '.join(states)} afterwards, all said to be timeouts"


async def sessions_end(harness: Harness) -> str:
    """A session ends by itself or when it is closed, with all that it started; then it refuses commands."""
    async with harness.sandbox() as sandbox:
        for kind, ends in (
            ("sh", "exit 3"),
            ("python", "import sys; sys.exit(3)"),
            ("python", "import os; os._exit(3)"),
        ):
            session = await sandbox.session(kind)  # type: ignore[arg-type]
            result, _ = await soon(session.run(ends), f"{ends!r} in a session")
            if session.alive:
                expect(kind == "python" and result.exit_code in (1, 3), f"{ends!r} gave {ended(result)} and goes on")
            else:
                expect(result.exit_code == 3, f"{ends!r} ended the session with {ended(result)}")
                await refused(session.run("1"), "running something in a session that ended")
        shell = await sandbox.session()
        await shell.run("sleep 66 & setsid sleep 67 & true")
        expect("sleep 66" in (await python(sandbox, LISTING)).stdout.text, "what a session started does not go on")
        await shell.close()
        await shell.close()
        expect(not shell.alive, "a closed session says that it is alive")
        await refused(shell.run("true"), "running something in a closed session")
        left = (await python(sandbox, LISTING)).stdout.text
        expect("sleep" not in left, f"a closed session has left something running: {left.strip()}")
        await works(sandbox)
    return "by exit, sys.exit, os._exit and close; what it ran in the background went on until then, and not after"


async def sessions_are_apart(harness: Harness) -> str:
    """Several sessions and commands run beside each other and share files, and nothing else."""
    async with harness.sandbox() as sandbox:
        sessions = await asyncio.gather(*(sandbox.session("sh" if i % 2 else "python") for i in range(4)))
        for i, session in enumerate(sessions):
            await session.run(f"mine={i}")
        looks = [session.run("echo $mine" if i % 2 else "print(mine)") for i, session in enumerate(sessions)]
        *found, command = await asyncio.gather(*looks, sandbox.exec("echo ${mine:-none}; echo x > shared"))
        expect([result.stdout.text for result in found] == [f"{i}\n" for i in range(4)], "sessions share variables")
        expect(command.stdout.text == "none\n", "a command sees a session's variables")
        expect(await said(sessions[1], "cat shared") == "x\n", "files are not shared")
    return "two shells and two interpreters with one name for four values; a file of one command is there for all"


async def code_asks_the_host(harness: Harness) -> str:
    """Python code asks while it runs, from any thread, and gets answers and refusals; a failure ends the run."""
    async with harness.sandbox() as sandbox:
        session = await sandbox.session("python")
        heard: list[bytes] = []

        async def upper(request: bytes) -> bytes:
            heard.append(request)
            if request == b"no":
                raise ToolError("not this")
            if request == b"fail":
                raise LookupError("the function failed")
            return request.upper()

        source = f"import turnwise_host\n{ASKS}"
        result, _ = await soon(session.run(source, answer=upper), "a program that asks", 20.0)
        expect(result.stdout.text == "b'A\\n\\x00' not this 200000 ok\n", f"asking ended with {ended(result)}")
        expect(len(heard) == 11, f"{len(heard)} of 11 requests were heard")
        result = await session.run("for i in range(5): turnwise_host.ask(b'')", answer=upper, asks=3)
        expect(not result.ok and len(heard) == 14, f"with three asks {len(heard) - 11} were heard: {ended(result)}")
        try:
            await soon(session.run("turnwise_host.ask(b'fail')", answer=upper), "an answer that fails")
            expect(False, "what the answer raised does not come out")
        except LookupError:
            pass
        await works(sandbox)
    return "bytes both ways, a refusal, 200 kB, eight threads, three asks and no fourth; a failure comes out of run()"


ASKS = """
import threading
ask = turnwise_host.ask
try:
    ask(b"no")
except turnwise_host.Refused as refused:
    why = refused
got = []
threads = [threading.Thread(target=lambda n=n: got.append(ask(b"t%d" % n) == b"T%d" % n)) for n in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(ask(bytes([97, 10, 0])), why, len(ask(b"x" * 200_000)), "ok" if got == [True] * 8 else got)
"""


async def nobody_is_asked_out_of_turn(harness: Harness) -> str:
    """Without an answer asking is refused; an answer still pending at the timeout is canceled and never arrives."""
    async with harness.sandbox() as sandbox:
        session = await sandbox.session("python")
        result = await session.run("import turnwise_host\nturnwise_host.ask(b'')")
        expect(not result.ok and "Refused" in result.stderr.text, f"asking nobody ended with {ended(result)}")
        state = ["idle"]

        async def slow(request: bytes) -> bytes:
            state[0] = "asked"
            try:
                await asyncio.sleep(30.0)
            finally:
                state[0] = "ended"
            return b"late"

        async def quick(request: bytes) -> bytes:
            return b"quick"

        result, _ = await soon(session.run("turnwise_host.ask(b'')", timeout=0.7, answer=slow), "a slow answer", 20.0)
        expect(result.status is Status.TIMEOUT, f"while an answer was awaited it ended with {ended(result)}")
        expect(state[0] == "ended", f"when the run is over its answer is {state[0]}")
        if session.alive:
            result = await session.run("turnwise_host.ask(b'')", answer=quick)
            expect(result.stdout.text == "b'quick'\n", f"after an answer that was cancelled: {ended(result)}")
        await works(sandbox)
    return "refused without an answer; cancelled at the timeout, and the next run heard its own"


SESSION_CASES = (
    Case(141, shells_keep_their_state),
    Case(142, interpreters_keep_their_state),
    Case(143, sessions_read_no_input),
    Case(144, slow_commands_of_sessions_are_interrupted, seconds=90),
    Case(145, sessions_end),
    Case(146, sessions_are_apart),
    Case(147, code_asks_the_host),
    Case(148, nobody_is_asked_out_of_turn),
)
"""Cases about sessions."""
