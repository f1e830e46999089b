"""Control groups: the kernel counts the resources of a sandbox, and ends processes that use too much.

Both interfaces work: version 1, with a hierarchy per controller, and version 2, with a single hierarchy, part of which
must be delegated to this user. If neither is writable, sandboxes run without control groups and report it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import SandboxError
from ..runner.processes import owner_in
from .group import Group

CONTROLLERS = ("memory", "pids", "cpu")
NEEDED = ("memory", "pids")
"""Controllers of version 2 that must be delegated; without ``cpu`` too, processors are reported as unlimited."""


@dataclass(frozen=True)
class Cgroups:
    """The place where groups can be made.

    Args:
        version: 1, 2, or 0 for nowhere.
        parents: folder below which a group is made, by controller.
        why: human-readable reason if there is none.
        mounts: whole hierarchies, which may contain groups of other processes.
    """

    version: int
    parents: Mapping[str, Path]
    why: str
    mounts: tuple[Path, ...] = ()

    def make(self, name: str) -> Group | None:
        """Make a new group without limits; return ``None`` if there are no control groups.

        Raises:
            SandboxError: it cannot be made.
        """
        if not self.version:
            return None
        group = Group(self.version, {controller: parent / name for controller, parent in self.parents.items()})
        try:
            for folder in group.places:
                folder.mkdir()
        except OSError as error:
            group.remove()
            raise SandboxError(f"cannot create a control group: {error}") from None
        return group

    def left(self) -> Iterator[Group]:
        """Yield groups whose owners have died."""
        found: dict[str, dict[str, Path]] = {}
        for mount in self.mounts:
            for parent, names, _ in os.walk(mount):  # ignores folders that other processes remove meanwhile
                for name in names:
                    owner = owner_in(name)
                    if owner is not None and not owner.alive:
                        folder = Path(parent) / name
                        found.setdefault(name, {})[str(folder)] = folder
        for folders in found.values():
            yield Group(self.version, folders)


def here() -> Cgroups:
    """Find the place where this process can make groups."""
    return find(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())


def find(mounts: str, own: str) -> Cgroups:
    """Find the place where groups can be made.

    Args:
        mounts: content of ``/proc/self/mountinfo``.
        own: content of ``/proc/self/cgroup``.
    """
    mounted, groups = list(_mounted(mounts)), _own(own)
    first = {
        controller: _below(point, root, groups[controller])
        for kind, point, root, options in mounted
        for controller in CONTROLLERS
        if kind == "cgroup" and controller in options and controller in groups
    }
    writable = {controller: parent for controller, parent in first.items() if os.access(parent, os.W_OK)}
    if all(controller in writable for controller in NEEDED):
        points = tuple(
            point for kind, point, _, options in mounted if kind == "cgroup" and set(options) & set(writable)
        )
        return Cgroups(1, writable, f"cgroup v1: {', '.join(writable)}", points)
    whys = (
        [f"cgroup v1 has {', '.join(first)} of which {', '.join(writable) or 'none'} can be written"] if first else []
    )
    for kind, point, root, _ in mounted:
        if kind == "cgroup2" and "" in groups:
            parent, why = _delegated(point, _below(point, root, groups[""]))
            if parent is not None:
                held = (parent / "cgroup.subtree_control").read_text().split()
                parents = {controller: parent for controller in CONTROLLERS if controller in held}
                return Cgroups(2, parents, f"cgroup v2: {', '.join(parents)} below {parent}", (point,))
            whys.append(why)
    return Cgroups(0, {}, "; ".join(whys) or "no cgroup controllers are mounted")


def _mounted(mounts: str) -> Iterator[tuple[str, Path, str, list[str]]]:
    """Yield for each hierarchy its kind, mount point, mounted part and options."""
    for line in mounts.splitlines():
        place, _, what = line.partition(" - ")
        words = what.split()
        if words and words[0] in ("cgroup", "cgroup2"):
            _, _, _, root, point, *_ = place.split()
            yield words[0], Path(point), root, words[2].split(",")


def _own(own: str) -> dict[str, str]:
    """Return the group of this process by controller; version 2 has the empty name."""
    lines = (line.split(":", 2) for line in own.splitlines())
    return {controller: path for _, controllers, path in lines for controller in controllers.split(",")}


def _below(point: Path, root: str, own: str) -> Path:
    """Return this process's group in a hierarchy mounted from ``root`` on; the top, if the group is not visible."""
    inside = own.removeprefix(root.rstrip("/")) if own.startswith(root) else ""
    return point / inside.lstrip("/")


def _delegated(point: Path, own: Path) -> tuple[Path | None, str]:
    """Return the nearest ancestor group of version 2 below which controllers can be used; or why there is none."""
    if not os.access(own, os.W_OK):
        return None, f"cgroup v2: {own} cannot be written (run under systemd-run --user --scope -p Delegate=yes)"
    group = own
    while os.access(group, os.W_OK):
        if _enabled(group) or (group == own and _step_aside(group) and _enabled(group)):
            return group, ""
        if group == point:
            break
        group = group.parent
    return None, f"cgroup v2: memory and pids cannot be delegated below {own}"


def _enabled(group: Path) -> bool:
    """Whether groups below this one have the necessary controllers, turning them on if possible."""
    switch = group / "cgroup.subtree_control"
    try:
        for controller in (group / "cgroup.controllers").read_text().split():
            if controller in CONTROLLERS and controller not in switch.read_text().split():
                switch.write_text(f"+{controller}")
        return set(NEEDED) <= set(switch.read_text().split())
    except OSError:
        return False


def _step_aside(group: Path) -> bool:
    """Move this process into a new subgroup if it is alone, since a group with processes cannot delegate."""
    leaf = group / "turnwise"
    try:
        if (group / "cgroup.procs").read_text().split() != [str(os.getpid())]:
            return False
        leaf.mkdir(exist_ok=True)
        (leaf / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        return False
    return True
