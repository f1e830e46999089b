"""Load ``turnwise serve`` and OpenEnv's own server with the same client, alternately in one run.

    python benchmarks/serve_load.py --openenv VENV/bin/python      # 1, 64 and 256 sessions, both servers
    python benchmarks/serve_load.py --slow 2048 4096               # steps of a second, Turnwise alone

Make VENV for OpenEnv alone: ``python -m venv VENV; VENV/bin/pip install openenv==0.10.0``. Both servers are one process
each, with default settings except for their limits of sessions, and speak OpenEnv's grammar on ``/ws``. The environment
repeats what it hears; each session resets it every 100 steps. Turnwise runs it in the event loop (``inline``) and in a
thread per environment (``thread``), and with ``--isolation process`` in a process per environment, its default. OpenEnv
calls it from a pool of threads. The client is a process of its own.

The columns are steps per second, median and 99th percentile of a step's latency, and the share of steps answered within
a minute. The last one is the processor time per step of the server and its child processes, which other work on the
machine distorts least.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from serve_load_client import Counts, load

from turnwise.inference.serving.launch.ports import free_port

THEIRS = """
import sys
import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

class EchoAction(Action):
    text: str

class EchoObservation(Observation):
    text: str = ""

class Echo(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State(episode_id="e", step_count=0)

    def reset(self, seed=None, episode_id=None, **others):
        self._state = State(episode_id=episode_id or "e", step_count=0)
        return EchoObservation(text="ready", done=False, reward=0.0)

    def step(self, action, timeout_s=None, **others):
        self._state.step_count += 1
        return EchoObservation(text=action.text, done=False, reward=0.0)

    @property
    def state(self):
        return self._state

app = create_app(Echo, EchoAction, EchoObservation, env_name="echo", max_concurrent_envs=int(sys.argv[2]))
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
"""
OURS = Path(__file__).with_name("serve_load_ours.py")


@dataclass(frozen=True)
class Server:
    """A server under load.

    Args:
        name: name in the table.
        command: command that starts it, with ``{port}`` and ``{sessions}``.
    """

    name: str
    command: tuple[str, ...]

    @contextlib.contextmanager
    def running(self, sessions: int) -> Iterator[tuple[int, int]]:
        """Run it for this number of sessions; yields port and process id."""
        port = free_port()
        command = [word.replace("{port}", str(port)).replace("{sessions}", str(sessions)) for word in self.command]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            _wait_for(f"http://127.0.0.1:{port}/health", process)
            yield port, process.pid
        finally:
            process.kill()
            process.wait()


def ours(isolation: str, env: str = "Echo") -> Server:
    """Return ``turnwise serve`` with environments of one isolation."""
    command = [sys.executable, "-m", "turnwise", "serve", f"{OURS}:bench/{env}-v0", "--no-token", "--port", "{port}"]
    command += ["--capacity", "{sessions}", "connections=8192", f"isolation={isolation}"]
    return Server(f"Turnwise, {isolation}", tuple(command))


@dataclass(frozen=True)
class Result:
    """Result of one load.

    Args:
        rate: answered steps per second.
        median: median latency in seconds.
        p99: 99th percentile of the latency in seconds.
        answered: share of the steps that were answered.
        cpu: seconds of processor time of the server per step.
        counts: latencies and problems that the client recorded.
    """

    rate: float
    median: float
    p99: float
    answered: float
    cpu: float
    counts: Counts


def measured(server: Server, sessions: int, seconds: float, spread: float = 0.0) -> Result:
    """Return the result of a load on a fresh server."""
    with server.running(sessions) as (port, pid):
        asyncio.run(load(port, min(sessions, 8), min(1.0, seconds)))  # imports and caches
        marks: list[float] = []
        begun = partial(_mark, marks, pid)
        counts = asyncio.run(load(port, sessions, seconds, spread=spread, opened=begun))
        used = _processor_seconds(pid) - marks[0]
    ordered = sorted(counts.latencies) or [float("nan")]
    p99 = ordered[int(0.99 * (len(ordered) - 1))]
    answered = len(counts.latencies) / max(counts.sent, 1) if counts.opened == sessions else 0.0
    steps = len(counts.latencies)
    return Result(steps / seconds, statistics.median(ordered), p99, answered, used / max(steps, 1), counts)


def _mark(marks: list[float], pid: int) -> None:
    marks.append(_processor_seconds(pid))


def _processor_seconds(pid: int) -> float:
    server = psutil.Process(pid)
    times = [process.cpu_times() for process in (server, *server.children(recursive=True))]
    ended = sum(each.children_user + each.children_system for each in times)  # of those that were waited for
    return float(sum(each.user + each.system for each in times) + ended)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1200):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if answer.status == 200:
                return
        if process.poll() is not None:
            sys.exit(f"the server ended with code {process.returncode}")
        time.sleep(0.1)
    sys.exit("the server did not start within two minutes")


def _print(server: Server, sessions: int, results: list[Result]) -> None:
    """Print the median of each number over the rounds."""

    def middle(name: str) -> float:
        return statistics.median(getattr(each, name) for each in results)

    cells = f"{middle('rate'):,.0f} | {middle('median') * 1e3:.2f} | {middle('p99') * 1e3:.1f}"
    share = 100 * min(each.answered for each in results)
    print(f"| {server.name} | {sessions} | {cells} | {share:.3f} | {middle('cpu') * 1e6:.0f} |", flush=True)
    for problem, times in Counter(line for each in results for line in each.counts.problems).most_common(3):
        print(f"  {times} times: {problem}", flush=True)


def side_by_side(theirs: Server, ours: Sequence[Server], sessions: int, rounds: int, seconds: float) -> None:
    """Load the servers alternately, and print the medians of the rounds and of their ratios."""
    servers = [theirs, *ours]
    results: dict[str, list[Result]] = {server.name: [] for server in servers}
    for number in range(rounds):
        for server in servers if number % 2 == 0 else reversed(servers):
            results[server.name].append(measured(server, sessions, seconds))
    for server in servers:
        _print(server, sessions, results[server.name])
    for server in servers[1:]:
        pairs = list(zip(results[server.name], results[theirs.name], strict=True))
        rate = statistics.median(one.rate / other.rate for one, other in pairs)
        cpu = statistics.median(other.cpu / one.cpu for one, other in pairs)
        p99 = statistics.median(one.p99 / other.p99 for one, other in pairs)
        print(
            f"  {server.name} / {theirs.name} at {sessions}: {rate:.2f} × the steps/s, {p99:.2f} × the p99, "
            f"{cpu:.2f} × the steps per second of processor time",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--openenv", type=Path, help="Python of a virtual environment with OpenEnv's package")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 64, 256], help="sessions at a time")
    isolations = ["inline", "thread", "process"]
    parser.add_argument("--isolation", nargs="+", choices=isolations, default=isolations[:2], help="of Turnwise")
    parser.add_argument("--rounds", type=int, default=3, help="rounds for each number of sessions")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of each load")
    parser.add_argument("--slow", type=int, nargs="*", default=[], help="sessions at a time with steps of a second")
    parser.add_argument("--slow-seconds", type=float, default=20.0, help="seconds of each load with steps of a second")
    chosen = parser.parse_args()
    if chosen.openenv is not None and not chosen.openenv.is_file():
        parser.error(f"--openenv: there is no Python at {chosen.openenv}")
    print("load average (1 min):", os.getloadavg()[0])
    print("| server | sessions | steps/s | median ms | p99 ms | % answered | µs of processor time per step |")
    print("|---|---|---|---|---|---|---|")
    if chosen.openenv is not None:
        theirs = Server("OpenEnv", (str(chosen.openenv), "-c", THEIRS, "{port}", "{sessions}"))
        for sessions in chosen.sessions:
            side_by_side(theirs, [*map(ours, chosen.isolation)], sessions, chosen.rounds, chosen.seconds)
    for sessions in chosen.slow:
        slow = ours("inline", "Slow")
        _print(slow, sessions, [measured(slow, sessions, chosen.slow_seconds, spread=1.0)])
    print("load average (1 min):", os.getloadavg()[0])


if __name__ == "__main__":
    main()
