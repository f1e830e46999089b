"""The limits that a Docker engine can enforce, from its own report and that of its machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...errors import SandboxUnavailableError
from ..backend import Capabilities, Enforcement, Guarantee
from ..spec import Limit
from .config import OURS

if TYPE_CHECKING:
    from docker import APIClient

OLDEST = (1, 40)
"""Oldest version of the engine's API: the first with private control-group namespaces."""


def capabilities(api: APIClient, where: str, name: str, runtime: str | None) -> Capabilities:
    """Return the capabilities of an engine.

    Args:
        api: client of the engine, which answers.
        where: address of the engine.
        name: name of the backend.
        runtime: container runtime (default: the engine's own).
    """
    version: dict[str, Any] = api.version()
    is_podman = any("podman" in str(part.get("Name")).lower() for part in version.get("Components") or ())
    if is_podman != (name == "podman"):
        there = "podman" if is_podman else "docker"
        return unavailable(name, f"the engine at {where} is {there}, which has a sandbox backend of its own: {there}")
    if tuple(int(part) for part in str(version["ApiVersion"]).split(".")) < OLDEST:
        has, needed = version["ApiVersion"], ".".join(map(str, OLDEST))
        return unavailable(name, f"{name} {version['Version']} is too old: its API is {has}, and {needed} is needed")
    info: dict[str, Any] = api.info()  # Podman's client asks for more than a Docker engine has
    if info.get("OSType") != "linux":
        return unavailable(name, f"the engine runs {info.get('OSType')} containers; sandboxes need Linux")
    runs = runtime or str(info.get("DefaultRuntime", "runc"))
    known = info.get("Runtimes") or {}
    if runtime and runtime not in known:
        return unavailable(name, f"the engine has no runtime {runtime!r}: it has {', '.join(sorted(known))}")
    why = (
        f"{name} {version['Version']} at {where}, storage {info.get('Driver')}, "
        f"control groups v{info.get('CgroupVersion', '1')} by {info.get('CgroupDriver')}, runtime {runs}"
    )
    return Capabilities(name, True, True, why, guarantees(info, runs), notes(info, runs, name))


def unavailable(name: str, why: str | SandboxUnavailableError) -> Capabilities:
    """Return capabilities without sandboxes, with the reason."""
    return Capabilities(name, False, True, str(why))


def guarantees(info: Mapping[str, Any], runtime: str) -> dict[Limit, Guarantee]:
    """Return for every limit how well it holds.

    Args:
        info: report of the engine.
        runtime: container runtime.
    """
    held = {
        Limit.MEMORY: counted(info, "MemoryLimit", "control group of the container; no swap"),
        Limit.PIDS: counted(info, "PidsLimit", "control group of the container"),
        Limit.CPUS: counted(info, "CpuCfsQuota", "quota of the container's control group"),
        Limit.DISK: enforced("read-only root; what can be written is in memory, of fixed size"),
        Limit.INODES: enforced("file systems in memory, of a fixed number of files"),
        Limit.OUTPUT: enforced("the runner drops what is beyond it"),
        Limit.LIFETIME: enforced("the runner ends itself; the engine's record of it goes with the next reap"),
        Limit.NETWORK: enforced("a network namespace with nothing but a loopback"),
    }
    if not info.get("SwapLimit", True):
        how = "control group of the container; this kernel does not count swap, which comes on top"
        held[Limit.MEMORY] = Guarantee(Enforcement.BEST_EFFORT, how)
    if runtime not in OURS:
        held[Limit.INODES] = Guarantee(Enforcement.ABSENT, f"{runtime} keeps files itself, and does not count them")
        held[Limit.PIDS] = Guarantee(Enforcement.BEST_EFFORT, f"it counts the threads of {runtime}, not those inside")
    return held


def counted(info: Mapping[str, Any], flag: str, how: str) -> Guarantee:
    """Return a guarantee by control groups, which the engine may or may not have."""
    if info.get(flag):
        return enforced(how)
    return Guarantee(Enforcement.ABSENT, f"the engine reports that it cannot here ({flag} is false)")


def enforced(how: str) -> Guarantee:
    """Return a guarantee that holds."""
    return Guarantee(Enforcement.ENFORCED, how)


def notes(info: Mapping[str, Any], runtime: str, name: str = "docker") -> tuple[str, ...]:
    """Return further notes for careful users.

    Args:
        info: report of the engine.
        runtime: container runtime.
        name: name of the backend.
    """
    said = ["nothing is written to the engine's disk, which the engine could not limit"]
    if runtime in OURS:
        setting = f"TURNWISE_{name.upper()}_RUNTIME=runsc"
        said.append(f"containers share the host's kernel; another runtime has its own ({setting})")
        said.append("/proc/self/mountinfo names folders of the engine on the host")
    options = " ".join(info.get("SecurityOptions") or ())
    if "name=seccomp" not in options:
        said.append("the engine filters no system calls; only the runner's own filter does")
    if "name=userns" not in options and "name=rootless" not in options:
        remap = " (--userns-remap)" if name == "docker" else ""
        said.append(f"users inside are users of the host, though never root: the engine maps none{remap}")
    return tuple(said)
