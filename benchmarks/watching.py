"""Measure what watching a run costs it: one training run, whose viewer stops and goes on every few seconds.

    python benchmarks/watching.py --minutes 12

A training run that stays as it is (its learning rate is nearly 0) is shown by ``turnwise view`` to a client that
follows the page of the run. SIGSTOP and SIGCONT halt the viewer and the client in blocks of four periods, A B B A or
B A A B at random, so that a drift of the machine's speed cancels. A period begins and ends with a step, at the times
at which the run wrote its metrics. Each block gives one ratio of throughput, watched by not watched; the result is the
mean of its logarithm with Student's 95 % interval over blocks. The seconds of CPU of the viewer follow.

The client is a stream without a browser, because the browser is usually on another machine; ``--browser`` opens
Chromium on this one. ``--cores 1`` keeps all processes on one core, as where a run uses all cores. ``--control`` never
lets the viewer go on, and shows what the method finds where there is nothing to find.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx

from turnwise.evals.statistics import student

MAZE = ["env=turnwise/Maze-v0", "levels=[1]", "agent.context=last:1:bare", "agent.max_tokens=4", "eval.episodes=0"]
MAZE += ["episodes.concurrency=256", "agent.max_batch=256", "threads=1"]  # as in the quickstart
CLONE = ["bc", *MAZE, "nano.size=0.1M", "steps=30", "demonstrations.count=50", "demonstrations.skills=[0.35]"]
LOOP = ["loop", *MAZE, "keep_episodes=all", "tasks_per_step=4", "group_size=8", "minibatch=16", "optimizer.lr=1e-12"]
LOOP += ["steps=1000000", "checkpoint_every=1000000"]  # all steps do the same kind of work
BLOCKS = ((True, False, False, True), (False, True, True, False))
"""Orders of a block's periods; ``True`` where the viewer goes."""


class Progress:
    """Reads the metrics of a run as they grow.

    Args:
        file: path of ``metrics.jsonl``.
        run: process of the run.
    """

    def __init__(self, file: Path, run: subprocess.Popen[bytes]) -> None:
        self._file, self._run = file, run
        self._read, self._tokens = 0, 0.0

    def after(self, seconds: float) -> tuple[float, float]:
        """Wait for the first end of a step after some seconds; return its time, and the tokens sampled so far."""
        until = time.time() + seconds
        while True:
            time.sleep(0.05)
            if self._run.poll() is not None:
                raise SystemExit(f"the run ended with {self._run.returncode}")
            if self._file.exists() and self._take() and (at := self._file.stat().st_mtime_ns / 1e9) >= until:
                return at, self._tokens  # the time of the line, not that of its discovery

    def _take(self) -> bool:
        """Read new lines, and return whether there were some."""
        with self._file.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        self._tokens += sum(line.get("action_tokens", 0.0) for line in map(json.loads, whole.splitlines()))
        return bool(end)


def first_line(process: subprocess.Popen[bytes]) -> str:
    """Return the first line that a process prints."""
    assert process.stdout is not None
    if not (line := process.stdout.readline()):
        raise SystemExit(f"{process.args!r} ended")
    return line.decode().strip()


def family(pid: int) -> list[int]:
    """Return a process and all that it started, by walking ``/proc``."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with suppress(ValueError, OSError):  # not a process, or ended meanwhile
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started, also if they are stopped."""
    if process.poll() is None:
        for pid in family(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()


def cpu(pids: list[int]) -> float:
    """Return the seconds of CPU that processes have used."""
    words = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in words) / os.sysconf("SC_CLK_TCK")


def follow(address: str, *, browser: bool) -> None:
    """Follow the page of the only run until this process is ended; print a line once it does."""
    url = httpx.URL(address)
    client = httpx.Client(base_url=f"http://127.0.0.1:{url.port}", cookies=httpx.get(url).cookies, timeout=None)
    run = client.get("/api/runs").json()[0]["id"]
    if browser:
        from playwright.sync_api import sync_playwright

        from turnwise.envs.web.chromium.launch import executable

        with sync_playwright() as driver:
            page = driver.chromium.launch(executable_path=executable(), args=["--no-sandbox"]).new_page()
            page.goto(f"{address}#/run/{run}")
            page.wait_for_selector("canvas")
            print(page.url, flush=True)
            page.wait_for_event("close", timeout=0)
    with client.stream("GET", f"/api/runs/{run}/live") as answer:
        lines = answer.iter_lines()
        print(next(lines), flush=True)
        for _ in lines:
            pass


def measure(progress: Progress, watchers: list[int], words: argparse.Namespace) -> list[float]:
    """Return the logarithm of the ratio of throughputs in each block, and print the blocks."""

    def switch(*, going: bool) -> None:
        for pid in watchers:
            os.kill(pid, signal.SIGCONT if going and not words.control else signal.SIGSTOP)

    chance, logs, end = random.Random(0), list[float](), time.time() + 60 * words.minutes
    now, tokens = progress.after(words.period)  # not the first steps
    while time.time() < end or len(logs) < 2:
        rates: dict[bool, list[float]] = {True: [], False: []}
        for going in chance.choice(BLOCKS):
            switch(going=going)
            then, before = now, tokens
            now, tokens = progress.after(words.period)
            rates[going].append(math.log((tokens - before) / (now - then)))
        logs.append(statistics.mean(rates[True]) - statistics.mean(rates[False]))
        print(f"block {len(logs)}: watched / not watched {math.exp(logs[-1]):.4f}", flush=True)
    switch(going=True)
    return logs


def main(words: argparse.Namespace) -> None:
    """Train, watch in turns, and print each block and the interval of the ratio."""
    if words.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: words.cores])  # children inherit it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))

        def start(*command: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            stack.callback(end, process)
            return process

        model, out = folder / "clone" / "model", folder / "runs" / "loop"
        start("-m", "turnwise", "train", *CLONE, f"out={folder / 'clone'}").wait()
        run = start("-m", "turnwise", "train", *LOOP, f"model={model}", f"out={out}", "progress=false")
        progress = Progress(out / "metrics.jsonl", run)
        progress.after(0)
        viewer = start("-m", "turnwise", "view", str(out), "--port", "0")
        client = start(__file__, "--follow", first_line(viewer), *["--browser"] * words.browser)
        first_line(client)
        viewing = family(viewer.pid)
        before, began = cpu(viewing), time.time()
        logs = measure(progress, [*viewing, *family(client.pid)], words)
        used, passed = cpu(viewing) - before, time.time() - began
    found = student(logs)
    low, middle, high = (math.exp(each or 0.0) for each in (found.low, found.value, found.high))
    print(f"throughput watched / not watched: {middle:.4f} ({low:.4f} to {high:.4f}), {len(logs)} blocks")
    print(f"viewer: {used:.2f} s of CPU while it went, half of {passed:.0f} s: {200 * used / passed:.2f} % of a core")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure what watching a run costs it.")
    parser.add_argument("--minutes", type=float, default=12, help="Minutes of blocks.")
    parser.add_argument("--period", type=float, default=10, help="Seconds of a period; a block has four.")
    parser.add_argument("--cores", type=int, default=0, help="Cores for all processes (default: all).")
    parser.add_argument("--browser", action="store_true", help="Follow with Chromium instead of a stream.")
    parser.add_argument("--control", action="store_true", help="Never let the viewer go on.")
    parser.add_argument("--follow", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.follow:
        follow(words.follow, browser=words.browser)
    else:
        main(words)
