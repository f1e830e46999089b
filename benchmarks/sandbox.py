"""Measure sandboxes side by side, in one run: to start, to use, to copy, to end; many at a time; and per episode.

Latencies are medians in milliseconds, each way measured in turn so that other load on the machine affects all of them.
*Many* makes N sandboxes that live at the same time. Memory of each is the proportional share (PSS) of all their
processes outside this one's, and the counter of one's control group. *Episodes* are short: a sandbox, a file, three
Python programs that compute, the end. They are compared with the same programs as plain subprocesses, as many at a time
as there are cores. The quotient is the share of the cores' capacity that is left for the programs themselves.

Run: python benchmarks/sandbox.py [BACKEND …] [--n 30] [--many 256] [--episodes 1000] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import platform
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sandbox_systems import SAME, DockerCommands, DockerSdk, Ours, Plain, Ready, System, took

from turnwise.sandboxes.backend import Enforcement
from turnwise.sandboxes.check.harness import held_as
from turnwise.sandboxes.check.host import pids
from turnwise.sandboxes.named import backend_named
from turnwise.sandboxes.spec import Limit

MEASURES = ("cold", "nothing", "python", "files", "snapshot", "fork", "destroy")
TITLES = {
    "cold": "cold start",
    "nothing": "true",
    "python": "python3 -c",
    "files": "100 kB in, out",
    "snapshot": "snapshot",
    "fork": "fork",
    "destroy": "destroy",
}
DEAR = 3
"""Factor by which Docker's commands are measured less often."""


@dataclass(frozen=True)
class Many:
    """Sandboxes that live at the same time; bytes are of one."""

    backend: str
    number: int
    created_per_second: float
    destroyed_per_second: float
    pss: float
    group: float | None


@dataclass(frozen=True)
class Episodes:
    """Short episodes, beside the same programs as plain subprocesses; seconds are of all."""

    backend: str
    number: int
    at_once: int
    seconds: float
    plain_seconds: float

    @property
    def share(self) -> float:
        """Share of the cores' capacity that the programs themselves got."""
        return self.plain_seconds / self.seconds


async def latencies(systems: Sequence[System], n: int) -> dict[str, dict[str, list[float]]]:
    """Seconds by system and measure, measured in turn."""
    found: dict[str, dict[str, list[float]]] = {system.name: {name: [] for name in MEASURES} for system in systems}
    for turn in range(n):
        for system in systems:
            if system.cheap or turn % DEAR == 0:
                await system.begin()
                for name in MEASURES:
                    seconds = await getattr(system, name)()
                    if seconds is not None:
                        found[system.name][name].append(seconds)
    return found


async def many(system: Ours, n: int) -> Many:
    """N that live at the same time."""
    before = set(pids())
    began = time.perf_counter()
    end = await system.many(n)
    created = time.perf_counter() - began
    assert end is not None
    shares = sum(share(pid) for pid in set(pids()) - before if nested(pid))
    stats = await system.sandbox.stats() if system.live else None
    began = time.perf_counter()
    await end()
    group = None if stats is None else stats.memory
    return Many(system.name, n, n / created, n / (time.perf_counter() - began), shares / n, group)


def nested(pid: int) -> bool:
    """Whether a process belongs to a sandbox: it has a number of its own in a namespace, or descends from us."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
    return len(numbers) > 1 or descends(pid)


def descends(pid: int) -> bool:
    """Whether a process is a descendant of this one."""
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
        if pid == os.getpid():
            return True
    return False


def share(pid: int) -> int:
    """The proportional share of memory of a process, in bytes."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


async def episodes(system: Ours, number: int, work: float, at_once: int) -> Episodes:
    """Sandboxed episodes and their programs alone, in blocks that take turns."""
    program = ["python3", "-c", f"import time\nwhile time.process_time() < {work}: pass"]
    seconds = {"plain": 0.0, "sandboxed": 0.0}

    async def plain() -> None:
        for _ in range(3):
            await took(program, SAME)

    async def sandboxed() -> None:
        async with await system.backend.create(system.spec, files={"task.py": b"x = 1\n"}) as sandbox:
            for _ in range(3):
                result = await sandbox.exec(program)
                assert result.ok, result

    blocks = 10
    for _ in range(blocks):
        for name, episode in (("plain", plain), ("sandboxed", sandboxed)):
            began = time.perf_counter()
            left = iter(range(number // blocks))

            async def worker(episode=episode, left=left) -> None:  # type: ignore[no-untyped-def]
                for _ in left:
                    await episode()

            await asyncio.gather(*(worker() for _ in range(at_once)))
            seconds[name] += time.perf_counter() - began
    return Episodes(system.name, number // blocks * blocks, at_once, seconds["sandboxed"], seconds["plain"])


@contextlib.asynccontextmanager
async def ours(names: Sequence[str]) -> AsyncIterator[list[Ours]]:
    """Yield this package's backends that work here, as they are and with sandboxes made ahead; print why others do
    not.
    """
    found: list[Ours] = []
    for name in names:
        for kind in (Ours, Ready):
            backend = backend_named(name)
            probed = await backend.probe()
            if probed.available:
                absent = frozenset(limit for limit in Limit if held_as(probed, limit) is Enforcement.ABSENT)
                found.append(kind(backend, absent))
            else:
                print(f"{name} is left out: {probed.why}")
                await backend.close()
                break
    try:
        yield found
    finally:
        for system in found:
            await system.backend.close()


def others(image: str) -> list[System]:
    """Return other sandbox systems, as far as they are installed."""
    found: list[System] = [Plain()]
    if image:
        import docker

        found += [DockerCommands(image), DockerSdk(docker.from_env(), image)]
        if importlib.util.find_spec("swerex") is not None:
            from sandbox_swerex import SweRex

            found.append(SweRex(image))
    return found


def shown(found: dict[str, dict[str, list[float]]]) -> Table:
    """The latencies as a table."""
    table = Table(title="medians, ms")
    table.add_column("")
    for name in MEASURES:
        table.add_column(TITLES[name], justify="right")
    for system, measured in found.items():
        table.add_row(
            system, *(f"{1000 * statistics.median(s):.1f}" if (s := measured[name]) else "–" for name in MEASURES)
        )
    return table


def summary(each: Many | Episodes) -> str:
    """One result in a line."""
    if isinstance(each, Episodes):
        speed = f"{each.number / each.seconds:.1f} per second, {each.share:.0%} of what plain subprocesses reach"
        return f"{each.backend}: {each.number} episodes, {each.at_once} at once: {speed}"
    group = "" if each.group is None else f", {each.group / 1e6:.1f} MB in its control group"
    return (
        f"{each.backend}: {each.number} live sandboxes: {each.created_per_second:.0f} made per second, "
        f"{each.pss / 1e6:.1f} MB each (PSS{group}), {each.destroyed_per_second:.0f} destroyed per second"
    )


async def measured(arguments: argparse.Namespace) -> None:
    """Measure, print, and write the numbers if asked to."""
    async with ours(arguments.backends) as backends:
        systems = [*others(arguments.image), *backends]
        found = await latencies(systems, arguments.n)
        Console(width=140).print(shown(found))
        results: list[Many | Episodes] = []
        for system in backends:
            if arguments.many and not isinstance(system, Ready):
                await system.begin()
                results.append(await many(system, arguments.many))
                await system.destroy()
                print(summary(results[-1]), flush=True)
            if arguments.episodes and isinstance(system, Ready):
                results.append(await episodes(system, arguments.episodes, arguments.work, os.cpu_count() or 1))
                print(summary(results[-1]), flush=True)
    if arguments.json:
        settings = {name: str(value) for name, value in vars(arguments).items()}
        written = {"machine": platform.platform(), "cores": os.cpu_count(), "settings": settings, "seconds": found}
        more = [{"kind": type(each).__name__.lower(), **asdict(each)} for each in results]
        arguments.json.write_text(json.dumps(written | {"results": more}, indent=1) + "\n")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("backends", nargs="*", default=["unconfined", "bubblewrap", "docker"])
    parser.add_argument("--n", type=int, default=30, help="measurements of each latency")
    parser.add_argument("--many", type=int, default=256, help="sandboxes that live at the same time; 0: none")
    parser.add_argument("--episodes", type=int, default=1000, help="0: none")
    parser.add_argument("--work", type=float, default=0.1, help="processor seconds of each of an episode's programs")
    parser.add_argument("--image", default="", help="of docker run and the SDK; omitted: these are left out")
    parser.add_argument("--json", type=Path)
    asyncio.run(measured(parser.parse_args()))


if __name__ == "__main__":
    main()
