"""Measure what watching a run costs it: the same short training, alternately with and without a viewer and a browser.

    python benchmarks/watching.py --rounds 6

Each round trains twice from the same clone with the same seed, so that both runs compute the same: once alone, and
once beside `turnwise view` with a page of Chromium open on the run's curves. The order alternates. Seconds are those of
the steps in metrics.jsonl without the first ones, so that neither the start of Python nor that of the browser counts.
It prints the ratio of throughputs, watched by alone, with Student's 95 % interval over rounds of its logarithm. The
seconds of CPU of the viewer and of the browser follow; both run on the machine that trains.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from turnwise.evals.statistics import student

MAZE = [
    "env=turnwise/MazeFO-v0",
    "agent.context=last:1",
    "agent.max_tokens=4",
    "eval.episodes=0",
    "threads=1",
    "seed=0",
]
CLONE = [
    "bc",
    *MAZE,
    "nano.size=0.1M",
    "steps=20",
    "batch=64",
    "demonstrations.count=20",
    "demonstrations.skills=[0.35]",
]
LOOP = ["loop", *MAZE, "keep_episodes=all", "tasks_per_step=2", "group_size=3"]
PATIENCE = 3600
"""Seconds until a process counts as broken."""


def train(out: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a training run."""
    command = [sys.executable, "-m", "turnwise", "train", *words, f"out={out}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def seconds(out: Path) -> float:
    """Return the seconds of all steps but the first ones, in which the browser starts."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [line["seconds/step"] for line in lines if "seconds/step" in line]
    return float(sum(steps[len(steps) // 4 :]))


def ended(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that must succeed."""
    if process.wait(PATIENCE):
        raise SystemExit(f"{process.args!r} failed")


@contextmanager
def watched(folder: Path, used: dict[str, float], *, browser: bool) -> Iterator[None]:
    """Show the run in ``folder`` as soon as it exists; add the seconds of CPU that this took."""
    command = [sys.executable, "-m", "turnwise", "view", str(folder), "--port", "0"]
    viewer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert viewer.stdout is not None
    address = httpx.URL(viewer.stdout.readline().strip())
    url = f"http://127.0.0.1:{address.port}"
    words = [sys.executable, __file__, "--follow", str(address), "--browser" if browser else "--no-browser"]
    follower = subprocess.Popen(words, stdin=subprocess.PIPE)
    try:
        with httpx.Client(base_url=url, cookies=httpx.get(address).cookies) as client:
            assert client.get("/api/runs").status_code == 200
        yield
    finally:
        assert follower.stdin is not None
        before = os.times()  # the training has ended, and does not count
        follower.stdin.close()
        follower.wait(PATIENCE)
        used["browser"] += os.times().children_user + os.times().children_system
        used["browser"] -= before.children_user + before.children_system
        before = os.times()
        viewer.terminate()
        viewer.wait(PATIENCE)
        used["viewer"] += os.times().children_user + os.times().children_system
        used["viewer"] -= before.children_user + before.children_system


def follow(address: str, *, browser: bool) -> None:
    """Wait for the run, keep its page open, and leave when standard input ends."""
    url = httpx.URL(address)
    with httpx.Client(base_url=f"http://127.0.0.1:{url.port}", cookies=httpx.get(url).cookies, timeout=60) as client:
        while not (runs := client.get("/api/runs").json()):
            time.sleep(0.2)
        if not browser:
            with client.stream("GET", f"/api/runs/{runs[0]['id']}/live") as answer:
                _until_closed(answer.iter_lines())
            return
    from playwright.sync_api import sync_playwright

    from turnwise.envs.web.chromium.launch import executable

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        page = opened.new_page()
        page.goto(address + f"#/run/{runs[0]['id']}")
        sys.stdin.read()
        opened.close()


def _until_closed(lines: Iterator[str]) -> None:
    import threading

    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    for _ in lines:
        pass


def main(rounds: int, steps: int, *, browser: bool) -> None:
    """Train in pairs, and print each pair and the interval of the ratio."""
    used, logs = {"viewer": 0.0, "browser": 0.0}, list[float]()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        ended(train(folder / "clone", *CLONE))
        for number in range(rounds):
            spent: dict[str, float] = {}
            for arm in ("alone", "watched") if number % 2 == 0 else ("watched", "alone"):
                out = folder / f"{arm}-{number}" / "run"
                out.parent.mkdir()
                words = [*LOOP, f"model={folder / 'clone' / 'model'}", f"steps={steps}"]
                if arm == "alone":
                    ended(train(out, *words))
                else:
                    process = train(out, *words)
                    while not (out / "config.json").exists() and process.poll() is None:
                        time.sleep(0.05)
                    with watched(out.parent, used, browser=browser):
                        ended(process)
                spent[arm] = seconds(out)
            logs.append(math.log(spent["alone"] / spent["watched"]))
            print(f"round {number + 1}: {json.dumps(spent)} ratio {math.exp(logs[-1]):.3f}", flush=True)
    found: Any = student(logs)
    low, middle, high = (math.exp(each) for each in (found.low, found.value, found.high))
    print(f"throughput watched / alone: {middle:.3f} ({low:.3f} to {high:.3f}), {rounds} rounds of {steps} steps")
    print(f"seconds of CPU in all: viewer {used['viewer']:.1f}, browser {used['browser']:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure what watching a run costs it.")
    parser.add_argument("--rounds", type=int, default=4, help="Pairs of runs.")
    parser.add_argument("--steps", type=int, default=20, help="Steps of each run.")
    parser.add_argument(
        "--browser", action=argparse.BooleanOptionalAction, default=True, help="Open a page in Chromium."
    )
    parser.add_argument("--follow", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.follow:
        follow(words.follow, browser=words.browser)
    else:
        main(words.rounds, words.steps, browser=words.browser)
