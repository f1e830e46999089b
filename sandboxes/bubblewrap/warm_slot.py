"""Warm slots: control groups that each have a waiting shell, made before a sandbox needs one.

Moving a process into a control group takes the kernel ten milliseconds or more, mostly spent waiting for all
processors. So it is done beforehand: a shell enters the group, becomes the user of the sandbox, and waits for the
command to turn into bubblewrap. No slot is ever used twice.
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
class WarmSlot:
    """A place for one sandbox.

    Args:
        name: name of the future sandbox, which includes its owner.
        group: control group with its limits, if there are control groups.
        uid: its user id; ``None`` for this process's own.
        child: the waiting shell.
        rules: file in memory for the filter of system calls.
        options: file in memory for the arguments of bubblewrap.
    """

    name: str
    group: Group | None
    uid: int | None
    child: Child
    rules: int
    options: int

    def launch(self, rules: bytes, options: bytes, mounting: str, runner: list[str]) -> None:
        """Turn the shell into bubblewrap.

        Args:
            rules: the filter of system calls.
            options: the arguments of bubblewrap.
            mounting: shell commands to run before.
            runner: command to run inside.
        """
        for descriptor, content in ((self.rules, rules), (self.options, options)):
            os.pwrite(descriptor, content, 0)  # at the offset where the shell's copy of the descriptor starts to read
        bubblewrap = [which("bwrap"), "--seccomp", str(self.rules), "--args", str(self.options)]
        line = f"{mounting}exec {shlex.join([*bubblewrap, *runner])}"
        self.child.writer.write(line.encode("utf-8", "surrogateescape") + b"\n")
        self.close()

    def close(self) -> None:
        """Close the descriptors that belong to the shell."""
        for descriptor in (self.rules, self.options):
            os.close(descriptor)


async def make_slot(name: str, cgroups: Cgroups, uids: Uids, mounts: bool) -> WarmSlot:
    """Make a new slot; if that fails, release everything that it has taken.

    Raises:
        SandboxError: it cannot be made.
    """
    group = cgroups.make(name)
    uid = None
    rules, options = os.memfd_create("rules"), os.memfd_create("options")
    try:
        uid = uids.take() if os.getuid() == 0 else None
        child = await start_child(shell(group, uid, mounts), env={}, pass_fds=(rules, options))
    except BaseException:
        os.close(rules)
        os.close(options)
        await give_back(group, uids, uid)
        raise
    return WarmSlot(name, group, uid, child, rules, options)


def shell(group: Group | None, uid: int | None, mounts: bool) -> list[str]:
    """Return the command of a waiting shell: it reads one line, mounts what is needed and becomes bubblewrap.

    Args:
        group: control group to enter.
        uid: user id to take; ``None`` keeps the present one.
        mounts: whether it has to mount folders, for which it needs namespaces of its own.
    """
    entering = "".join(f"echo 0 > {shlex.quote(str(path))} || exit 97; " for path in (group.entrances if group else ()))
    parking = ["/bin/sh", "-c", 'ulimit -c 0; read -r line && eval "$line"']
    if mounts:
        parking = [which("unshare"), "--user", "--map-root-user", "--mount", "--propagation", "private", *parking]
    become = [which("setpriv"), f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid is not None else []
    return ["/bin/sh", "-c", f"{entering}exec {shlex.join([*become, *parking])}"]


def which(program: str) -> str:
    """Return the path of a program, since the started processes have no ``PATH``."""
    return shutil.which(program) or program


async def give_back(group: Group | None, uids: Uids, uid: int | None) -> None:
    """End all processes in a group, remove it, and free the user id."""
    if group is not None:
        await kill_until_none(group.members)
        await to_thread(group.remove)
    if uid is not None:
        uids.release(uid)


async def remove_slot(slot: WarmSlot, uids: Uids) -> None:
    """Remove a slot that was not used."""
    slot.close()
    slot.child.process.kill()
    await slot.child.gone()
    await give_back(slot.group, uids, slot.uid)
    slot.child.close()
