"""Episodes of the same MiniWoB++ pages in ``turnwise/MiniWoB-…-v1``, in BrowserGym and by Playwright alone, for
``benchmarks/web.py``.

Every system plays every episode, one right after the other: the same page of the same package, the same draw of it, the
same acts, the same Chromium. What a page asks is compared, and so is whether it was solved. BrowserGym lives in a
virtual environment of its own; ``web_browsergym.py`` describes that, and which of its defaults cost time. It is
measured with its defaults, and once more without its pauses. Its observations have a screenshot, so Turnwise is
measured with one, too. Playwright alone opens the page in a new context, starts the episode as Turnwise does, acts, and
takes an aria snapshot; it does not wait until the page has come to rest.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

import turnwise as tw
from turnwise.envs.miniwob.chromium import AGES, BEGIN
from turnwise.envs.miniwob.env import MiniwobEnv
from turnwise.envs.web.chromium.launch import executable
from turnwise.envs.web.chromium.loop import LOOP
from turnwise.envs.web.chromium.pool import pool
from turnwise.tasks.miniwob.suite import MiniwobTask, id_of, installed

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "web_browsergym.py"
TASKS = ("click-test-2", "click-button", "click-link", "enter-text", "login-user", "focus-text")
"""Pages whose solutions are written down for the comparison with upstream's driver, of one to three acts."""
UNPAUSED = {"slow_mo": 0, "pre_observation_delay": 0.0}
LONGEST = 300.0
"""Seconds that BrowserGym may take for an episode."""
Found = dict[str, list[float]]
Counts = dict[str, list[int]]
Act = list[Any]


def drawn(seed: int) -> int:
    """Return the seed that BrowserGym gives a page from its own seed; Turnwise takes the page's seed directly."""
    return int(np.random.RandomState(seed).randint(0, 1_000_000))


def acts_for(task: str, asked: str) -> list[Act]:
    """The right way to play a page that asks for this."""
    folder = str(HERE.parent / "tests" / "envs" / "miniwob")
    if folder not in sys.path:
        sys.path.append(folder)
    solutions: Any = importlib.import_module("solutions")
    return [list(act) for act in solutions.plays(task, asked)["right"]]


class BrowserGym:
    """BrowserGym in a process of its own.

    Args:
        python: interpreter of the environment in which it is installed.
    """

    def __init__(self, python: str) -> None:
        self.python = python

    async def __aenter__(self) -> BrowserGym:
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        words = (self.python, str(SCRIPT), str(installed()), executable())
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, env=env)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()  # upon which it ends, with its browsers
        try:
            await asyncio.wait_for(self.process.wait(), 60)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()

    async def play(self, task: str, seed: int, acts: list[Act], settings: dict[str, Any]) -> dict[str, Any]:
        """An episode, as ``web_browsergym.py`` answers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        wanted = {"task": task, "seed": seed, "acts": acts, "settings": settings}
        self.process.stdin.write(json.dumps(wanted).encode() + b"\n")
        line = await asyncio.wait_for(self.process.stdout.readline(), LONGEST)
        if not line:
            raise SystemExit(f"BrowserGym ended in {task}, seed {seed}; what it said is above")
        return dict(json.loads(line))


def call(env: MiniwobEnv, act: Act) -> tw.ToolCall:
    """An act as our environment takes it."""
    nodes = list(env.page.by_id.values())
    if act[0] == "click":
        return tw.ToolCall("click", {"id": [one for one in nodes if one.name == act[1]][-1].id})
    field = [one for one in nodes if one.role == "textbox"][act[1]].id
    return (
        tw.ToolCall("fill", {"id": field, "value": act[2]}) if act[0] == "type" else tw.ToolCall("click", {"id": field})
    )


async def ours(env: MiniwobEnv, task: str, seed: int) -> dict[str, Any]:
    """An episode in our environment; milliseconds."""
    began = time.perf_counter()
    await env.areset(seed=drawn(seed))
    reset = 1000 * (time.perf_counter() - began)
    asked, steps = env.browser.utterance, []
    for act in acts_for(task, asked):
        action = call(env, act)
        began = time.perf_counter()
        await env.astep(action)
        steps.append(1000 * (time.perf_counter() - began))
    return {"asked": asked, "reset": reset, "steps": steps, "solved": env.over and env.raw > 0}


async def bare(task: str, seed: int) -> dict[str, Any]:
    """An episode by Playwright alone, in our Chromium, on whose loop it must run; milliseconds."""
    url = (installed() / MiniwobTask(task, 0, "train").path).as_uri()
    began = time.perf_counter()
    context = await pool().browsers[-1].browser.new_context()
    page = await context.new_page()
    await page.goto(url)
    asked, _ = await page.evaluate(BEGIN, [drawn(seed), "train", AGES])
    await page.wait_for_function("() => WOB_TASK_READY")
    await page.aria_snapshot(mode="ai")
    reset, steps = 1000 * (time.perf_counter() - began), []
    for act in acts_for(task, asked):
        began = time.perf_counter()
        if act[0] == "click":
            await page.get_by_text(act[1], exact=True).last.click()
        else:
            field = page.locator("#area").locator("textarea, input[type=text], input[type=password]").nth(act[1])
            await (field.fill(act[2]) if act[0] == "type" else field.click())
        await page.aria_snapshot(mode="ai")
        steps.append(1000 * (time.perf_counter() - began))
    solved = await page.evaluate("() => WOB_DONE_GLOBAL && WOB_RAW_REWARD_GLOBAL > 0")
    await context.close()
    return {"asked": asked, "reset": reset, "steps": steps, "solved": solved}


async def everywhere(task: str, seed: int, envs: dict[str, MiniwobEnv], other: BrowserGym) -> dict[str, dict[str, Any]]:
    """One episode in every system, by its name in the table."""
    found = {name: await ours(env, task, seed) for name, env in envs.items()}
    found["Playwright alone"] = await LOOP.run(bare(task, seed))
    acts = acts_for(task, found["ours"]["asked"])
    found["BrowserGym"] = await other.play(task, seed, acts, {})
    found["BrowserGym, no pauses"] = await other.play(task, seed, acts, UNPAUSED)
    return found


def noted(episode: dict[str, dict[str, Any]], found: Found, counts: Counts) -> None:
    """Put an episode to the others, and count for every system what was the same, and what was solved."""
    asked = episode["ours"]["asked"]
    for name, one in episode.items():
        found.setdefault(f"MiniWoB, {name}: reset", []).append(one["reset"])
        found.setdefault(f"MiniWoB, {name}: step", []).extend(one["steps"])
        count = counts.setdefault(name, [0, 0, 0])
        count[0] += 1
        count[1] += one["asked"].split() == asked.split()
        count[2] += bool(one["solved"])


async def measured(python: str, seeds: int, found: Found, tasks: tuple[str, ...] = TASKS) -> Counts:
    """Play every page with so many seeds, and once more before them, which is not counted.

    Args:
        python: interpreter of the environment in which BrowserGym is installed.
        seeds: number of seeds of each page.
        found: lists of milliseconds to extend, by system.
        tasks: pages to play.

    Returns:
        Numbers of episodes per system, of those that asked the same as in Turnwise, and of solved ones.
    """
    counts: Counts = {}
    async with BrowserGym(python) as other:
        for task in tasks:
            envs: dict[str, MiniwobEnv] = {}
            for name, picture in (("ours", False), ("ours, with a picture", True)):
                env = tw.make(id_of(task), screenshot=picture).unwrapped
                assert isinstance(env, MiniwobEnv)
                envs[name] = env
            await everywhere(task, seeds, envs, other)
            for seed in range(seeds):
                noted(await everywhere(task, seed, envs, other), found, counts)
            for env in envs.values():
                await env.leave()
    return counts
