"""Commands in a sandbox: what they are given, what of them is kept, and that nothing of them goes on."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from turnwise.errors import SandboxError, ToolError
from turnwise.sandboxes.result import Status
from turnwise.sandboxes.sandbox import Sandbox


async def test_a_command_is_given_what_was_said_and_nothing_of_ours(
    trusted: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_SECRET", "do not tell")
    await trusted.write_files({"a/here.txt": b""})
    result = await trusted.exec("cat; ls; env; exit 3", stdin=b"given\n", cwd="a", env={"COLOUR": "red"})
    assert result.stdout.text.startswith("given\nhere.txt\n")
    assert "COLOUR=red\n" in result.stdout.text
    assert "HOST_SECRET" not in result.stdout.text
    assert (result.status, result.exit_code, result.signal, result.ok) == (Status.EXITED, 3, None, False)


async def test_only_three_descriptors_come_in(trusted: Sandbox) -> None:
    result = await trusted.exec(
        [sys.executable, "-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"]
    )
    assert result.stdout.text == "[0, 1, 2, 3]\n", "3 is the listing's own"


async def test_what_a_signal_ends_says_so(trusted: Sandbox) -> None:
    result = await trusted.exec("kill -TERM $$")
    assert (result.status, result.exit_code, result.signal) == (Status.SIGNALED, 143, 15)


async def test_of_a_flood_the_beginning_and_the_end_are_kept(trusted: Sandbox) -> None:
    result = await trusted.exec("echo first; yes | head -c 3000000; echo last; echo a word >&2", output=100)
    assert result.stdout.head.startswith(b"first\n")
    assert result.stdout.tail.endswith(b"last\n")
    assert (len(result.stdout.head), len(result.stdout.tail), result.stdout.size) == (50, 50, 3_000_011)
    assert result.stderr.text == "a word\n"


async def test_a_command_that_reads_nothing_of_much_input_ends(trusted: Sandbox) -> None:
    assert (await trusted.exec(["true"], stdin=bytes(5_000_000))).ok
    assert (await trusted.exec(["wc", "-c"], stdin=bytes(5_000_000))).stdout.text == "5000000\n"


@pytest.mark.parametrize(
    "source",
    ["sleep 600", "trap '' TERM INT HUP; sleep 600", "kill -STOP $$; sleep 600", "setsid sleep 600 & sleep 600"],
    ids=["sleeps", "ignores signals", "stops itself", "has started another"],
)
async def test_what_does_not_end_in_time_is_killed(trusted: Sandbox, source: str) -> None:
    began = time.monotonic()
    result = await trusted.exec(source, timeout=0.2)
    assert result.status is Status.TIMEOUT
    assert time.monotonic() - began < 30
    assert (await trusted.stats()).pids == 1, "only the runner is left"


async def test_what_a_command_leaves_neither_holds_its_result_nor_lives_on(trusted: Sandbox) -> None:
    began = time.monotonic()
    result = await trusted.exec("sleep 600 & (setsid sleep 600 &) ; echo done")
    assert result.stdout.text == "done\n"
    assert time.monotonic() - began < 60
    assert (await trusted.stats()).pids == 1, "only the runner is left"


async def test_commands_run_at_the_same_time(trusted: Sandbox) -> None:
    await trusted.exec("mkfifo pipe")
    writes, reads = await asyncio.gather(trusted.exec("echo through > pipe"), trusted.exec("cat pipe"))
    assert writes.ok
    assert reads.stdout.text == "through\n"


async def test_a_cancelled_command_is_killed_inside(trusted: Sandbox) -> None:
    running = asyncio.ensure_future(trusted.exec("echo $$ > pid; exec sleep 600"))
    assert (await trusted.exec("until [ -s pid ]; do sleep 0.01; done")).ok
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    gone = await trusted.exec(
        "for i in $(seq 200); do kill -0 $(cat pid) 2>/dev/null || exit 0; sleep 0.05; done; exit 1"
    )
    assert gone.ok


@pytest.mark.parametrize(
    ("command", "cwd", "why"),
    [
        (["no-such-program"], None, "there is no program no-such-program"),
        (["./plain.txt"], None, "not permitted to use the program ./plain.txt"),
        ("pwd", "nowhere", "there is no directory"),
        ("pwd", "plain.txt", "there is no directory"),
        ([], None, "needs a program"),
        (["echo", "a\0b"], None, "NUL"),
    ],
)
async def test_what_cannot_be_run_is_refused_in_words(
    trusted: Sandbox, command: str | list[str], cwd: str | None, why: str
) -> None:
    await trusted.write_files({"plain.txt": b"no program"})
    with pytest.raises(ToolError, match=why):
        await trusted.exec(command, cwd=cwd)


async def test_after_its_end_a_sandbox_says_so(trusted: Sandbox) -> None:
    await trusted.destroy()
    await trusted.destroy()
    assert not trusted.alive
    with pytest.raises(SandboxError, match="was destroyed"):
        await trusted.exec("true")


async def test_a_sandbox_ends_under_what_runs_in_it(trusted: Sandbox) -> None:
    running = asyncio.ensure_future(trusted.exec("sleep 600"))
    await asyncio.sleep(0.05)
    await trusted.destroy()
    with pytest.raises(SandboxError, match="was destroyed"):
        await running
