"""The filter of system calls, judged by a small interpreter of its language: what is denied, and nothing else."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from turnwise.sandboxes.bubblewrap.seccomp import (
    ALLOW,
    AUDIT,
    DENIED,
    FAIL,
    JUDGED,
    KILL,
    NEW_NAMESPACES,
    TIOCLINUX,
    TIOCSTI,
    X32,
    program,
)

MACHINES = sorted(AUDIT)
NEEDED = {
    "x86_64": {"read": 0, "mmap": 9, "rt_sigaction": 13, "fork": 57, "execve": 59, "wait4": 61, "prctl": 157},
    "aarch64": {"read": 63, "mmap": 222, "rt_sigaction": 134, "execve": 221, "wait4": 260, "prctl": 167},
}
"""A few calls without which no program runs."""
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


def decided(code: bytes, audit: int, number: int, *arguments: int) -> int:
    """Return the filter's verdict on a call, by the rules of seccomp(2) for the few instructions that it uses."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, audit, 0, *padded)
    steps = list(struct.iter_unpack("=HBBI", code))
    at = held = 0
    while True:
        kind, then, otherwise, value = steps[at]
        at += 1
        if kind == 0x20:
            held = struct.unpack_from("=I", data, value)[0]
        elif kind == 0x06:
            return int(value)
        else:
            met = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[kind]
            at += then if met else otherwise


@pytest.mark.parametrize("machine", MACHINES)
def test_every_denied_call_fails_and_every_needed_one_is_allowed(machine: str) -> None:
    code, audit = program(machine), AUDIT[machine]
    for name, number in DENIED[machine].items():
        assert decided(code, audit, number) == FAIL | errno.EPERM, name
    for name, number in NEEDED[machine].items():
        assert decided(code, audit, number) == ALLOW, name
    known = {*DENIED[machine].values(), *JUDGED[machine].values()}
    others = [number for number in range(600) if number not in known]
    assert all(decided(code, audit, number) == ALLOW for number in others), "what is not named is allowed"


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_architecture_kill(machine: str) -> None:
    other = next(audit for name, audit in AUDIT.items() if name != machine)
    assert decided(program(machine), other, 0) == KILL
    assert decided(program(machine), 0x40000003, 11) == KILL, "32-bit calls have other numbers"


def test_calls_by_the_other_convention_of_x86_kill() -> None:
    assert decided(program("x86_64"), AUDIT["x86_64"], X32 | 101) == KILL


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "verdict"),
    [
        ("clone", (0x1200011,), ALLOW),
        ("clone", (0x10000000,), FAIL | errno.EPERM),
        ("clone", (NEW_NAMESPACES | 17,), FAIL | errno.EPERM),
        ("clone", (0x80,), FAIL | errno.EPERM),
        ("clone", (0x8011,), FAIL | errno.EPERM),
        ("clone3", (), FAIL | errno.ENOSYS),
        ("ioctl", (0, 0x5401), ALLOW),
        ("ioctl", (0, TIOCSTI), FAIL | errno.EPERM),
        ("ioctl", (0, 0xFFFFFFFF00000000 | TIOCSTI), FAIL | errno.EPERM),
        ("ioctl", (0, TIOCLINUX), FAIL | errno.EPERM),
        ("socket", (1,), ALLOW),
        ("socket", (2,), ALLOW),
        ("socket", (10,), ALLOW),
        ("socket", (16,), FAIL | errno.EAFNOSUPPORT),
        ("socket", (17,), FAIL | errno.EAFNOSUPPORT),
        ("socket", (38,), FAIL | errno.EAFNOSUPPORT),
        ("socket", (40,), FAIL | errno.EAFNOSUPPORT),
        ("personality", (0,), ALLOW),
        ("personality", (0xFFFFFFFF,), ALLOW),
        ("personality", (0x0040000,), FAIL | errno.EPERM),
    ],
)
def test_some_calls_are_judged_by_their_arguments(
    machine: str, name: str, arguments: tuple[int, ...], verdict: int
) -> None:
    assert decided(program(machine), AUDIT[machine], JUDGED[machine][name], *arguments) == verdict


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_the_kernel(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip(f"NOT TESTED: {HEADERS[machine]} is missing; apt-get install linux-libc-dev")
    lines = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text())
    known = {name: int(number) for name, number in lines}
    for name, number in (DENIED[machine] | JUDGED[machine]).items():
        assert known.get(name, number) == number, name
    assert len(known) > 250


@pytest.mark.parametrize("machine", MACHINES)
def test_the_kernel_would_take_it(machine: str) -> None:
    steps = list(struct.iter_unpack("=HBBI", program(machine)))
    assert len(steps) <= 4096
    for at, (kind, then, otherwise, _) in enumerate(steps):
        assert kind in (0x20, 0x06) or at + 1 + max(then, otherwise) < len(steps), "no jump leads out"


def test_there_is_none_for_another_machine() -> None:
    with pytest.raises(KeyError):
        program("riscv64")
