"""Berths: control groups with a parked shell in each, made before a sandbox is asked for.

To move a process into a control group takes the kernel ten milliseconds or more, most of which it waits (for all
processors to have noticed). So that is done beforehand: a shell enters the group, becomes the user that the sandbox
shall have, and waits until it is told to turn into bubblewrap. No berth is ever used twice.
"""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass

from ..loop import to_thread
from ..runner.child import Child, start_child
from ..runner.processes import kill_until_none
from .cgroups import Cgroups
from .group import Group
from .uids import Uids


@dataclass(slots=True)
class Berth:
    """A place for one sandbox.

    Args:
        name: of what will be there, with its owner's.
        group: that holds its limits, where there is such a thing.
        uid: its user number, ``None``: our own.
        child: the parked shell.
        rules: a file in memory for the filter of system calls.
        told: a file in memory for the arguments of bubblewrap.
    """

    name: str
    group: Group | None
    uid: int | None
    child: Child
    rules: int
    told: int

    def depart(self, rules: bytes, told: bytes, mounting: str, runner: list[str]) -> None:
        """Have the shell turn into bubblewrap.

        Args:
            rules: the filter of system calls.
            told: the arguments of bubblewrap.
            mounting: what the shell does before.
            runner: what it shall start.
        """
        for descriptor, content in ((self.rules, rules), (self.told, told)):
            os.pwrite(descriptor, content, 0)  # where the shell's copy of the descriptor will begin to read
        bubblewrap = [which("bwrap"), "--seccomp", str(self.rules), "--args", str(self.told)]
        line = f"{mounting}exec {shlex.join([*bubblewrap, *runner])}"
        self.child.writer.write(line.encode("utf-8", "surrogateescape") + b"\n")
        self.let_go()

    def let_go(self) -> None:
        """Close what is held for the shell."""
        for descriptor in (self.rules, self.told):
            os.close(descriptor)


async def make_berth(name: str, cgroups: Cgroups, uids: Uids, mounts: bool) -> Berth:
    """A new one; what it takes is given back if it cannot be made.

    Raises:
        SandboxError: it cannot be made.
    """
    group = cgroups.make(name)
    uid = None
    rules, told = os.memfd_create("rules"), os.memfd_create("told")
    try:
        uid = uids.take() if os.getuid() == 0 else None
        child = await start_child(shell(group, uid, mounts), env={}, pass_fds=(rules, told))
    except BaseException:
        os.close(rules)
        os.close(told)
        await give_back(group, uids, uid)
        raise
    return Berth(name, group, uid, child, rules, told)


def shell(group: Group | None, uid: int | None, mounts: bool) -> list[str]:
    """The command that parks: it reads one line, which mounts what is needed and becomes bubblewrap.

    Args:
        group: whose entrances to go through.
        uid: to become; ``None``: stay.
        mounts: whether it is to mount something, for which it needs namespaces of its own.
    """
    entering = "".join(f"echo 0 > {shlex.quote(str(path))} || exit 97; " for path in (group.entrances if group else ()))
    parking = ["/bin/sh", "-c", 'ulimit -c 0; read -r line && eval "$line"']
    if mounts:
        parking = [which("unshare"), "--user", "--map-root-user", "--mount", "--propagation", "private", *parking]
    become = [which("setpriv"), f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid is not None else []
    return ["/bin/sh", "-c", f"{entering}exec {shlex.join([*become, *parking])}"]


def which(program: str) -> str:
    """Where a program is: what is started has no ``PATH``."""
    return shutil.which(program) or program


async def give_back(group: Group | None, uids: Uids, uid: int | None) -> None:
    """End whatever is in a group, remove it, and free the user number."""
    if group is not None:
        await kill_until_none(group.members)
        await to_thread(group.remove)
    if uid is not None:
        uids.release(uid)


async def remove_berth(berth: Berth, uids: Uids) -> None:
    """Of a berth that nobody took."""
    berth.let_go()
    berth.child.process.kill()
    await berth.child.gone()
    await give_back(berth.group, uids, berth.uid)
    berth.child.let_go()
