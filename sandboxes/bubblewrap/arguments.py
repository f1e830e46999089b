"""The arguments of bubblewrap, passed by a descriptor, since every process inside could read its command line."""

from __future__ import annotations

import shlex
from pathlib import Path

from ..spec import Limits, SandboxSpec
from .rootfs import USER, WRITABLE, Root

MODES = ("0755", "1777", "1777")
"""Permissions of ``WRITABLE``."""


def arguments(spec: SandboxSpec, root: Root, mounted: Path | None) -> bytes:
    """Return all arguments of bubblewrap except the program.

    Args:
        spec: specification of the sandbox.
        root: file system of the sandbox.
        mounted: folder below which ``mounting`` has mounted the writable folders; ``None`` lets bubblewrap make them,
            with a limit on bytes but not on files.
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
    """Return shell commands that mount the writable folders; bubblewrap cannot limit the number of files."""
    if mounted is None:
        return ""
    sizes = f"nosuid,nodev,size={limits.disk},nr_inodes={limits.inodes}"
    return "".join(
        f"mount -t tmpfs -o {sizes},mode={mode} tmpfs {shlex.quote(str(mounted / name))} && "
        for name, mode in zip(WRITABLE, MODES, strict=True)
    )
