"""The arguments of bubblewrap, read from a descriptor: on its command line everybody inside could read them."""

from __future__ import annotations

import shlex
from pathlib import Path

from ..spec import Limits, SandboxSpec
from .rootfs import USER, WRITABLE, Root

MODES = ("0755", "1777", "1777")
"""Permissions of ``WRITABLE``."""


def arguments(spec: SandboxSpec, root: Root, mounted: Path | None) -> bytes:
    """Everything that bubblewrap is told but for the program.

    Args:
        spec: of the sandbox.
        root: its file system.
        mounted: the folder below which ``mounting`` has mounted what can be written; ``None``: bubblewrap makes it,
            of limited bytes and any number of files.
    """
    words = [
        *("--unshare-user", "--unshare-all", "--disable-userns"),
        *("--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL"),
        *("--uid", str(USER), "--gid", str(USER), "--hostname", "sandbox"),
        *root.arguments,
        *("--proc", "/proc", "--dev", "/dev"),
        *_writable(spec, mounted),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", spec.workdir),
    ]
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)


def _writable(spec: SandboxSpec, mounted: Path | None) -> list[str]:
    words = list[str]()
    for name, mode, place in zip(WRITABLE, MODES, (spec.workdir, "/tmp", "/dev/shm"), strict=True):
        if mounted is None:
            words += ["--size", str(spec.limits.disk), "--perms", mode, "--tmpfs", place]
        else:
            words += ["--bind", str(mounted / name), place]
    return words


def mounting(limits: Limits, mounted: Path | None) -> str:
    """A shell's commands that mount what can be written; bubblewrap cannot limit the number of files."""
    if mounted is None:
        return ""
    sizes = f"nosuid,nodev,size={limits.disk},nr_inodes={limits.inodes}"
    return "".join(
        f"mount -t tmpfs -o {sizes},mode={mode} tmpfs {shlex.quote(str(mounted / name))} && "
        for name, mode in zip(WRITABLE, MODES, strict=True)
    )
