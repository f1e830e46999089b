"""The first process of a container: it makes the kernel refuse system calls, then becomes the runner.

The filter is added to the engine's own, whose default varies by version and allows calls that no sandbox needs. Like
the runner beside it, this module needs only a Python of 3.8 or later, without its site.
"""

import ctypes
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
INSTRUCTION = 8
"""Size in bytes."""


class Program(ctypes.Structure):
    """``struct sock_fprog`` of the kernel."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def deny(instructions: bytes) -> None:
    """Apply a filter to this process and all that it starts; see seccomp(2).

    Args:
        instructions: instructions of the Berkeley packet filter.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(instructions) // INSTRUCTION, instructions)
    none = ctypes.c_ulong(0)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), none, none, none) or libc.prctl(
        PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(program), none, none
    ):
        sys.exit(f"the kernel takes no filter of system calls: error {ctypes.get_errno()}")
