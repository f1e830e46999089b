"""Ctrl-C, once and again: in processes of their own, since the last one ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from turnwise.stop_signals import run_until_stopped
from turnwise.trainers.run.interrupts import INTERRUPTED, Second, at_once, deferred

PROGRAM = """
import asyncio, os, signal, sys, time
from turnwise.stop_signals import run_until_stopped
from turnwise.trainers.run.interrupts import at_once

def press():
    os.kill(os.getpid(), signal.SIGINT)

async def patient():
    press()
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        print("tidied up", flush=True)
        raise

async def stubborn():
    async def work():
        while True:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                print("goes on", flush=True)
                press()
    await asyncio.gather(work(), work())

async def busy():
    press()
    press()  # in the midst of what does not wait for anything
    print("not reached", flush=True)

async def first():
    asyncio.get_running_loop().call_later(0.05, press)
    await stubborn()

async def done():
    return "done"

try:
    with at_once("stopped at once"):
        print(run_until_stopped(globals()[sys.argv[1]]()), flush=True)
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
    sys.exit(7)
"""


def ran(program: str, source: str = PROGRAM) -> tuple[int, str, str]:
    found = subprocess.run([sys.executable, "-c", source, program], capture_output=True, text=True, timeout=240)
    return found.returncode, found.stdout, found.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "ending"),
    [
        ("done", (0, "done\n", "")),
        ("patient", (7, "tidied up\nKeyboardInterrupt\n", "")),
        ("first", (INTERRUPTED, "goes on\n", "stopped at once\n")),
        ("busy", (INTERRUPTED, "", "stopped at once\n")),
    ],
)
def test_the_first_ends_a_run_whole_and_the_second_at_once(program: str, ending: tuple[int, str, str]) -> None:
    assert ran(program) == ending


JOB = """
import asyncio, os, signal, sys
from turnwise.stop_signals import counted_as_ctrl_c, run_until_stopped
from turnwise.trainers.run.interrupts import at_once, deferred

signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a background job of a shell script

def press(kind):
    os.kill(os.getpid(), kind)

async def once():
    press(signal.SIGINT)
    press(signal.SIGTERM)
    print("finished what does not wait", flush=True)
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        print("tidied up", flush=True)
        raise

async def twice():
    press(signal.SIGHUP)
    print("goes on", flush=True)
    press(signal.SIGTERM)

async def steps():
    with deferred() as interrupt:
        press(signal.SIGTERM)
        print("requested" if interrupt.requested else "not requested", flush=True)

try:
    with counted_as_ctrl_c(), at_once("stopped at once"):
        run_until_stopped(globals()[sys.argv[1]]())
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
print(signal.getsignal(signal.SIGINT).name, signal.getsignal(signal.SIGTERM).name)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "ending"),
    [
        ("once", (0, "finished what does not wait\ntidied up\nKeyboardInterrupt\nSIG_IGN SIG_DFL\n", "")),
        ("twice", (INTERRUPTED, "goes on\n", "stopped at once\n")),
        ("steps", (0, "requested\nSIG_IGN SIG_DFL\n", "")),
    ],
)
def test_a_background_job_of_a_script_ends_whole_on_sigterm(program: str, ending: tuple[int, str, str]) -> None:
    """Its SIGINT is ignored. SIGTERM then raised KeyboardInterrupt wherever the run was, also amid an update."""
    assert ran(program, JOB) == ending


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("once", "finished what does not wait\ntidied up\nKeyboardInterrupt\nSIG_IGN SIG_DFL\n"),
        ("twice", "goes on\nKeyboardInterrupt\nSIG_IGN SIG_DFL\n"),
    ],
)
def test_so_does_one_whose_second_signal_is_not_at_once(program: str, printed: str) -> None:
    """An evaluation got KeyboardInterrupt amid its event loop, and printed tracebacks of its tasks."""
    plain = JOB.replace(', at_once("stopped at once")', "")
    assert plain != JOB
    assert ran(program, plain) == (0, printed, "")


async def nothing() -> int:
    return 3


def test_everything_is_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with at_once("x"):
        assert isinstance(signal.getsignal(signal.SIGINT), Second)
        assert run_until_stopped(nothing()) == 3
        assert isinstance(signal.getsignal(signal.SIGINT), Second)
    assert signal.getsignal(signal.SIGINT) is before


def test_whoever_handles_ctrl_c_already_goes_on_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(*_: object) -> None:
        """Another handler."""

    before = signal.signal(signal.SIGINT, mine)
    try:
        with at_once("x"):
            assert run_until_stopped(nothing()) == 3
            assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
    monkeypatch.setenv("RANK", "0")
    with at_once("x"):
        assert not isinstance(signal.getsignal(signal.SIGINT), Second), "torchrun says everything twice"


def test_a_thread_has_no_signals() -> None:
    found: list[int] = []

    def work() -> None:
        with at_once("x"):
            found.append(run_until_stopped(nothing()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [3]


def test_a_deferred_ctrl_c_is_a_request_and_the_second_is_what_it_was() -> None:
    before = signal.getsignal(signal.SIGINT)
    with deferred() as interrupt:
        requests = [interrupt.requested]
        os.kill(os.getpid(), signal.SIGINT)
        requests.append(interrupt.requested)
        assert requests == [False, True], "the first Ctrl-C only asks"
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_deferred_ctrl_c_counts_as_the_first_of_a_command() -> None:
    with at_once("stopped at once"):
        handler = signal.getsignal(signal.SIGINT)
        assert isinstance(handler, Second)
        with deferred():
            os.kill(os.getpid(), signal.SIGINT)
        assert handler.pressed, "the next one ends the process"


def test_outside_the_main_thread_nothing_is_deferred() -> None:
    handlers: list[object] = []

    def work() -> None:
        with deferred():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]
