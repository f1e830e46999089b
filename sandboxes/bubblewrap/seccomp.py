"""The filter of system calls for sandboxes, as a program for the kernel (classic BPF), without a library.

It denies calls that programs in a sandbox do not need and that have been used for escapes: other processes' memory,
new namespaces, mounts, modules, io_uring, eBPF, keys, clocks, and unusual kinds of sockets. It also denies System V's
memory, messages and semaphores, which outlive their processes and so use up a sandbox's memory for good. The numbers
of system calls are those of ``asm/unistd_64.h`` (x86-64) and ``asm-generic/unistd.h`` (aarch64) of Linux; seccomp(2)
describes the format.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The kernel's numbers of architectures."""
X32 = 0x40000000
"""The bit of a call's number that selects x86-64's other calling convention."""
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NEW_NAMESPACES = 0x7E020080
"""``CLONE_NEWUSER`` and all its like, in the flags of ``clone``."""
CLONE_PARENT = 0x8000
"""The flag of ``clone`` that makes a sibling, which hides a process from a program that waits for its orphans."""
FAMILIES = {"unix": 1, "internet": 2, "internet 6": 10}
"""Kinds of sockets that are allowed."""
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
"""``ioctl`` requests that type into a terminal."""
PLAIN_PERSONALITY, ASK_PERSONALITY = 0, 0xFFFFFFFF

SAME = {
    "pidfd_getfd": 438,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "set_mempolicy_home_node": 450,
}
"""Since 2019, calls have the same number on every architecture."""
X86_64 = """acct 163, add_key 248, adjtimex 159, bpf 321, chroot 161, clock_adjtime 305, clock_settime 227,
delete_module 176, fanotify_init 300, finit_module 313, init_module 175, ioperm 173, iopl 172, kcmp 312,
kexec_file_load 320, kexec_load 246, keyctl 250, lookup_dcookie 212, mbind 237, migrate_pages 256, modify_ldt 154,
mount 165, move_pages 279, name_to_handle_at 303, nfsservctl 180, open_by_handle_at 304, perf_event_open 298,
pivot_root 155, process_vm_readv 310, process_vm_writev 311, ptrace 101, quotactl 179, reboot 169, remap_file_pages 216,
request_key 249, set_mempolicy 238, setdomainname 171, sethostname 170, setns 308, settimeofday 164, swapoff 168,
swapon 167, syslog 103, umount2 166, unshare 272, uselib 134, userfaultfd 323, vhangup 153, vmsplice 278,
msgget 68, semget 64, shmget 29"""
AARCH64 = """acct 89, add_key 217, adjtimex 171, bpf 280, chroot 51, clock_adjtime 266, clock_settime 112,
delete_module 106, fanotify_init 262, finit_module 273, init_module 105, kcmp 272, kexec_file_load 294, kexec_load 104,
keyctl 219, lookup_dcookie 18, mbind 235, migrate_pages 238, mount 40, move_pages 239, name_to_handle_at 264,
nfsservctl 42, open_by_handle_at 265, perf_event_open 241, pivot_root 41, process_vm_readv 270, process_vm_writev 271,
ptrace 117, quotactl 60, reboot 142, remap_file_pages 234, request_key 218, set_mempolicy 237, setdomainname 162,
sethostname 161, setns 268, settimeofday 170, swapoff 225, swapon 224, syslog 116, umount2 39, unshare 97,
userfaultfd 282, vhangup 58, vmsplice 75, msgget 186, semget 190, shmget 194"""


def _numbers(table: str) -> dict[str, int]:
    return {name: int(number) for name, number in (entry.split() for entry in table.split(","))} | SAME


DENIED = {"x86_64": _numbers(X86_64), "aarch64": _numbers(AARCH64)}
"""Calls that fail with ``EPERM`` whatever their arguments."""
JUDGED = {
    "x86_64": {"clone": 56, "clone3": 435, "ioctl": 16, "socket": 41, "personality": 135},
    "aarch64": {"clone": 220, "clone3": 435, "ioctl": 29, "socket": 198, "personality": 92},
}
"""Calls whose arguments decide whether they are allowed."""


@dataclass(frozen=True, slots=True)
class _Step:
    code: int
    value: int
    then: str = ""
    otherwise: str = ""


def program(machine: str | None = None) -> bytes:
    """Return the filter in the format of bubblewrap's ``--seccomp``.

    Args:
        machine: ``x86_64`` or ``aarch64`` (default: this machine's).

    Raises:
        KeyError: the architecture is another one.
    """
    machine = machine or platform.machine()
    return _assembled([*_entry(machine), *_by_number(machine), *_by_arguments(machine), *_ends()])


def _entry(machine: str) -> list[str | _Step]:
    steps: list[str | _Step] = [
        _Step(LOAD, ARCHITECTURE_AT),
        _Step(EQUAL, AUDIT[machine], "", "kill"),
        _Step(LOAD, NUMBER_AT),
    ]
    return [*steps, _Step(AT_LEAST, X32, "kill")] if machine == "x86_64" else steps


def _by_number(machine: str) -> list[str | _Step]:
    judged = JUDGED[machine]
    denied = [_Step(EQUAL, number, "denied") for number in sorted(DENIED[machine].values())]
    # Its flags are in memory, where no filter can look; C libraries use ``clone`` if it is missing.
    unknown = _Step(EQUAL, judged["clone3"], "unknown")
    return [
        *denied,
        unknown,
        *(_Step(EQUAL, judged[name], name) for name in judged if name != "clone3"),
        _Step(RETURN, ALLOW),
    ]


def _by_arguments(machine: str) -> list[str | _Step]:
    del machine
    return [
        "clone",
        _Step(LOAD, ARGUMENTS_AT),
        _Step(ANY_BIT, NEW_NAMESPACES | CLONE_PARENT, "denied", "allowed"),
        "ioctl",
        _Step(LOAD, ARGUMENTS_AT + 8),
        _Step(EQUAL, TIOCSTI, "denied"),
        _Step(EQUAL, TIOCLINUX, "denied", "allowed"),
        "personality",
        _Step(LOAD, ARGUMENTS_AT),
        _Step(EQUAL, PLAIN_PERSONALITY, "allowed"),
        _Step(EQUAL, ASK_PERSONALITY, "allowed", "denied"),
        "socket",
        _Step(LOAD, ARGUMENTS_AT),
        *(_Step(EQUAL, family, "allowed") for family in FAMILIES.values()),
        _Step(RETURN, FAIL | errno.EAFNOSUPPORT),
    ]


def _ends() -> list[str | _Step]:
    ends = {"allowed": ALLOW, "denied": FAIL | errno.EPERM, "unknown": FAIL | errno.ENOSYS, "kill": KILL}
    return [part for label, value in ends.items() for part in (label, _Step(RETURN, value))]


def _assembled(parts: list[str | _Step]) -> bytes:
    """Assemble steps and labels for the kernel: a jump counts the steps that it skips."""
    steps, places = list[_Step](), dict[str, int]()
    for part in parts:
        if isinstance(part, str):
            places[part] = len(steps)
        else:
            steps.append(part)

    def over(here: int, label: str) -> int:
        return places[label] - here - 1 if label else 0

    return b"".join(
        struct.pack("=HBBI", step.code, over(here, step.then), over(here, step.otherwise), step.value)
        for here, step in enumerate(steps)
    )
