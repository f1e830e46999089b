"""Measure what watching a run costs it: two training runs of equal work, whose viewers stop and go on in turns.

    python benchmarks/watching.py --minutes 12

Both runs train the same model from the same seed at a learning rate of nearly 0, so that each step does the same work
in both, token for token. Each is shown by ``turnwise view`` to a client that follows the page of the run. SIGSTOP and
SIGCONT halt the viewer and the client in blocks of four periods of some steps, A B B A or B A A B at random, and in the
second run the other way round. So each period has a pair, one watched and one not, and a block cancels what differs
between the two runs. The seconds of its steps are those that a run writes; the first step of each period is left out.
The result is the mean logarithm of the ratio with Student's 95 % interval over blocks.

A second ratio does not hear other processes of the machine: the seconds of CPU of the run and its viewer in a period,
not watched by watched. It is the throughput where all share one core.

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
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx

from turnwise.evals.statistics import student

MAZE = ["env=turnwise/Maze-v0", "levels=[1]", "agent.context=last:1:bare", "agent.max_tokens=4", "eval.episodes=0"]
MAZE += ["episodes.concurrency=256", "agent.max_batch=256", "threads=1"]  # as in the quickstart
CLONE = ["bc", *MAZE, "nano.size=0.1M", "steps=30", "demonstrations.count=50", "demonstrations.skills=[0.35]"]
LOOP = ["loop", *MAZE, "keep_episodes=all", "tasks_per_step=4", "group_size=8", "minibatch=16", "optimizer.lr=1e-12"]
LOOP += ["steps=1000000", "checkpoint_every=1000000"]  # all steps do the same kind of work
FIRST = 40
"""Steps before the first block, in which the viewer starts."""
BLOCKS = ((True, False, False, True), (False, True, True, False))
"""Orders of a block's periods; ``True`` where the first run's viewer goes."""


Step = tuple[float, float]
"""Tokens that a step sampled, and its seconds."""


def count(file: Path) -> int:
    """Return the number of finished steps of a run."""
    return file.read_bytes().count(b"\n") if file.exists() else 0


def steps_of(file: Path) -> list[Step]:
    """Return the finished steps of a run."""
    whole = file.read_bytes().rpartition(b"\n")[0]
    return [(line["action_tokens"], line["seconds/step"]) for line in map(json.loads, whole.splitlines())]


def start(stack: ExitStack, *command: str) -> subprocess.Popen[bytes]:
    """Start Python with a command that ends with the stack."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    stack.callback(end, process)
    return process


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


def play(
    folder: Path, model: Path, orders: Iterable[tuple[bool, ...]], words: argparse.Namespace
) -> tuple[list[Step], list[float]]:
    """Train a run whose viewer goes in the periods that ``orders`` names.

    Returns:
        The steps of these periods, and for each period the seconds of CPU of the run and its viewer together.

    Args:
        folder: folder of the run.
        model: model with which it begins.
        orders: blocks of periods; they end early after half of the minutes.
        words: settings of the command line.
    """
    metrics = folder / "metrics.jsonl"
    with ExitStack() as stack:
        run = start(stack, "-m", "turnwise", "train", *LOOP, f"model={model}", f"out={folder}", "progress=false")

        def wait(steps: int) -> None:
            while count(metrics) < steps:
                time.sleep(0.01)
                if run.poll() is not None:
                    raise SystemExit(f"the run ended with {run.returncode}")

        wait(2)
        viewer = start(stack, "-m", "turnwise", "view", str(folder), "--port", "0")
        client = start(stack, __file__, "--follow", first_line(viewer), *["--browser"] * words.browser)
        first_line(client)
        if count(metrics) >= FIRST:
            raise SystemExit(f"the viewer needed more than {FIRST} steps to start; this machine is too busy to measure")
        wait(FIRST)
        done, began, viewing = FIRST, time.time(), family(viewer.pid)
        running, spent, before = family(run.pid), list[float](), cpu(viewing)
        for order in orders:
            for going in order:
                for pid in [*viewing, *family(client.pid)]:
                    os.kill(pid, signal.SIGCONT if going and not words.control else signal.SIGSTOP)
                done += words.steps
                already = cpu([*running, *viewing])
                wait(done)
                spent.append(cpu([*running, *viewing]) - already)
            if time.time() > began + 30 * words.minutes:
                break
        used, passed = cpu(viewing) - before, time.time() - began
        print(
            f"viewer: {used:.2f} s of CPU while it went, half of {passed:.0f} s: {200 * used / passed:.2f} % of a core"
        )
        return steps_of(metrics)[FIRST:done], spent


def compare(orders: Sequence[tuple[bool, ...]], one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return the logarithm of the ratio of costs, not watched by watched, in each block.

    Args:
        orders: blocks of periods, with ``True`` for those in which the viewer of the first run went.
        one: cost of each period of the first run.
        other: cost of the same periods of the second run, watched where the first was not.
    """
    found = [
        math.log(two / first) * (1 if going else -1)
        for going, first, two in zip((each for order in orders for each in order), one, other, strict=True)
    ]
    periods = len(orders[0])
    return [statistics.mean(found[at : at + periods]) for at in range(0, len(found), periods)]


def seconds(steps: list[Step], period: int) -> list[float]:
    """Return the seconds of each period without its first step, within which the viewer stopped or went on."""
    return [sum(spent for _, spent in steps[at + 1 : at + period]) for at in range(0, len(steps), period)]


def tell(what: str, logs: list[float]) -> None:
    """Print the blocks and the interval of a ratio."""
    print(f"{what}, blocks:", *(f"{math.exp(each):.4f}" for each in logs))
    found = student(logs)
    low, middle, high = (math.exp(each or 0.0) for each in (found.low, found.value, found.high))
    print(f"{what}, watched / not watched: {middle:.4f} ({low:.4f} to {high:.4f}), {len(logs)} blocks")


def main(words: argparse.Namespace) -> None:
    """Train twice, watch in turns, and print each block and the interval of the ratio."""
    if words.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: words.cores])  # children inherit it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chance = random.Random(0)
    orders = [chance.choice(BLOCKS) for _ in range(10_000)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        model = folder / "clone" / "model"
        start(stack, "-m", "turnwise", "train", *CLONE, f"out={folder / 'clone'}").wait()
        one, cost = play(folder / "one", model, orders, words)
        orders = orders[: len(cost) // 4]
        other, others = play(folder / "other", model, [tuple(not going for going in order) for order in orders], words)
    one, other = one[: len(other)], other[: len(one)]
    if [tokens for tokens, _ in one] != [tokens for tokens, _ in other]:
        raise SystemExit("the two runs did not do the same work")
    orders = orders[: len(one) // (4 * words.steps)]
    periods = 4 * len(orders)
    tell("throughput", compare(orders, seconds(one, words.steps)[:periods], seconds(other, words.steps)[:periods]))
    tell("throughput per second of CPU", compare(orders, cost[:periods], others[:periods]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure what watching a run costs it.")
    parser.add_argument("--minutes", type=float, default=12, help="Minutes of blocks, in both runs together.")
    parser.add_argument("--steps", type=int, default=10, help="Steps of a period; a block has four periods.")
    parser.add_argument("--cores", type=int, default=0, help="Cores for all processes (default: all).")
    parser.add_argument("--browser", action="store_true", help="Follow with Chromium instead of a stream.")
    parser.add_argument("--control", action="store_true", help="Never let the viewer go on.")
    parser.add_argument("--follow", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.follow:
        follow(words.follow, browser=words.browser)
    else:
        main(words)
