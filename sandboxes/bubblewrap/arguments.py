"""The arguments of bubblewrap, read from a descriptor: on its command line everybody inside could read them."""

from __future__ import annotations

from ..spec import SandboxSpec
from .rootfs import USER, Root


def arguments(spec: SandboxSpec, root: Root) -> bytes:
    """Everything that bubblewrap is told but for the program.

    Args:
        spec: of the sandbox.
        root: its file system.
    """
    size = str(spec.limits.disk)
    words = [
        *("--unshare-user", "--unshare-all", "--disable-userns"),
        *("--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"),
        *("--uid", str(USER), "--gid", str(USER), "--hostname", "sandbox"),
        *root.arguments,
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", size, "--perms", "1777", "--tmpfs", "/dev/shm"),
        *("--size", size, "--perms", "1777", "--tmpfs", "/tmp"),
        *("--size", size, "--perms", "0755", "--tmpfs", spec.workdir),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", spec.workdir),
    ]
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)
