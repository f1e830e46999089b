"""The guarantees of bubblewrap on this machine, and what is missing if it does not work at all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..backend import Capabilities, Enforcement, Guarantee
from ..spec import Limit
from .cgroups import Cgroups

SWITCHES = {
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "AppArmor keeps unprivileged programs from making user namespaces: give bwrap a profile with `userns,`, or set "
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    "/proc/sys/kernel/unprivileged_userns_clone": (
        "0",
        "this kernel keeps unprivileged programs from making user namespaces: set kernel.unprivileged_userns_clone=1",
    ),
    "/proc/sys/user/max_user_namespaces": ("0", "there may be no user namespaces: set user.max_user_namespaces=10000"),
}
"""Kernel settings that keep bubblewrap from working, the value that does, and the cure."""


def promises(cgroups: Cgroups, uncounted: str = "") -> Mapping[Limit, Guarantee]:
    """Return how well each limit holds.

    Args:
        cgroups: control groups of this machine.
        uncounted: reason from a trial why file systems cannot limit the number of files; empty if they can.
    """

    def counted(controller: str) -> Guarantee:
        if controller in cgroups.parents:
            return Guarantee(Enforcement.ENFORCED, f"control group of version {cgroups.version}")
        return Guarantee(Enforcement.ABSENT, f"there is no control group for it ({cgroups.why})")

    memory = counted("memory")
    inodes = Guarantee(
        Enforcement.BEST_EFFORT,
        "each costs memory, which is limited; their number is not: a sandbox with file systems of its own did not "
        f"start ({uncounted})",
    )
    if not uncounted:
        inodes = Guarantee(Enforcement.ENFORCED, "file systems in memory of that many files")
    return {
        Limit.MEMORY: memory,
        Limit.PIDS: counted("pids"),
        Limit.CPUS: counted("cpu"),
        Limit.DISK: Guarantee(Enforcement.ENFORCED, "file systems in memory of that size"),
        Limit.INODES: inodes if not uncounted or memory.enforcement is Enforcement.ENFORCED else memory,
        Limit.OUTPUT: Guarantee(Enforcement.ENFORCED, "the runner keeps no more of it"),
        Limit.LIFETIME: Guarantee(Enforcement.ENFORCED, "a timer here, and another inside should this process hang"),
        Limit.NETWORK: Guarantee(Enforcement.ENFORCED, "a network namespace with nothing in it but loopback"),
    }


def notes(cgroups: Cgroups) -> tuple[str, ...]:
    """Return further notes for careful users."""
    own = (
        "one user number for each sandbox" if os.getuid() == 0 else "sandboxes run as your user: its limits are shared"
    )
    ends = "killed by control group" if cgroups.version else "killed by namespace: there are no control groups"
    return (
        "the kernel of this machine is shared",
        own,
        ends,
        "programs of this machine can be read unless an image is given, in a list of folders (docs/sandboxes.md)",
    )


def unavailable(name: str, missing: Sequence[str], trial: str) -> Capabilities:
    """Describe why it does not work here, and the cure.

    Args:
        name: name of the backend.
        missing: programs that are not installed.
        trial: result of a trial, if there was one.
    """
    packages = {"bwrap": "bubblewrap", "setpriv": "util-linux"}
    if missing:
        install = " ".join(packages[tool] for tool in missing)
        why = f"{' and '.join(missing)} cannot be found: apt-get install {install}"
    elif not trial:
        why = f"there is no filter of system calls for {os.uname().machine}, only for x86_64 and aarch64"
    else:
        blocked = [advice for path, (value, advice) in SWITCHES.items() if _reads(Path(path), value)]
        why = "; ".join([f"a trial failed: {trial}", *blocked])
    return Capabilities(name, False, True, why)


def _reads(path: Path, value: str) -> bool:
    try:
        return path.read_text().strip() == value
    except OSError:
        return False
