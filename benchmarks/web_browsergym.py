"""BrowserGym's MiniWoB environments for ``benchmarks/web.py``; runs in a virtual environment of its own, since
BrowserGym pins an old Playwright:

    python -m venv .venv-browsergym && .venv-browsergym/bin/pip install browsergym-core browsergym-miniwob
    python benchmarks/web.py --browsergym .venv-browsergym/bin/python

A line ``{"task", "seed", "acts", "settings"}`` on standard input is an episode; a line on standard output answers with
what is asked, the milliseconds of ``reset`` and of every ``step``, and whether it was solved. Environments are made by
``gymnasium.make``, with the given settings and else as they are by default (0.14.3). These defaults cost time:

* ``reset`` ends two browsers and starts two: the page's, and one for a chat window, whose path cannot be given. So a
  folder like that of Playwright's own builds is made here, in which its Chromium is the one that Turnwise drives.
* ``slow_mo=100``: Playwright waits so many milliseconds with whatever it does; MiniWoB's tasks ask for it.
* ``pre_observation_delay=0.5``: seconds that pass before each observation of a step.
* every observation has the DOM, the accessibility tree, each element's properties and a screenshot.

An element's id is looked up before the clock starts. Linux only.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any

FIND = """
([kind, which]) => {
  const all = [...document.querySelectorAll('[bid]')];
  const field = e => e.matches('textarea, input[type=text], input[type=password], input:not([type])');
  const says = e => [...e.childNodes].filter(one => one.nodeType === 3).map(one => one.data).join('').trim() || e.value;
  const found = kind === 'click' ? all.filter(e => says(e) === which).at(-1) : all.filter(field)[which];
  return found ? found.getAttribute('bid') : null;
}
"""


def build_of(folder: Path, chromium: str) -> None:
    """Make a folder of browsers in which Playwright finds this Chromium as if it were its own build."""
    listed = json.loads((files("playwright") / "driver/package/browsers.json").read_text())["browsers"]
    revision = next(one["revision"] for one in listed if one["name"] == "chromium")
    place = folder / f"chromium-{revision}" / "chrome-linux"
    place.mkdir(parents=True)
    (place / "chrome").symlink_to(chromium)
    os.environ["PLAYWRIGHT_BROWSERS_PATH"] = str(folder)


def action(page: Any, act: list[Any]) -> str:
    """An act as BrowserGym writes it."""
    bid = page.evaluate(FIND, ["click" if act[0] == "click" else "field", act[1]])
    if bid is None:
        raise LookupError(f"there is nothing on the page for {act}")
    return f"fill({bid!r}, {act[2]!r})" if act[0] == "type" else f"click({bid!r})"


def episode(env: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """Play one episode; milliseconds."""
    began = time.perf_counter()
    observation, _ = env.reset(seed=wanted["seed"])
    reset = 1000 * (time.perf_counter() - began)
    steps, reward, over = [], 0.0, False
    for act in wanted["acts"]:
        text = action(env.unwrapped.page, act)
        began = time.perf_counter()
        _, reward, over, _, _ = env.step(text)
        steps.append(1000 * (time.perf_counter() - began))
    return {"asked": observation["goal"], "reset": reset, "steps": steps, "solved": bool(over and reward > 0)}


def main(html: str, chromium: str) -> None:
    """Answer until standard input ends. One task's environments are kept until a request for another task."""
    with tempfile.TemporaryDirectory() as folder:
        build_of(Path(folder), chromium)
        os.environ["MINIWOB_URL"] = f"{(Path(html) / 'miniwob').as_uri()}/"
        logging.disable(logging.WARNING)  # it says of every setting that it is not the task's
        warnings.simplefilter("ignore")
        gymnasium: Any = importlib.import_module("gymnasium")
        importlib.import_module("browsergym.miniwob")
        envs: dict[tuple[str, str], Any] = {}
        for line in sys.stdin:
            wanted = json.loads(line)
            task, settings = wanted["task"], wanted["settings"]
            for key in [one for one in envs if one[0] != task]:
                envs.pop(key).close()
            key = (task, json.dumps(settings))
            if key not in envs:
                envs[key] = gymnasium.make(f"browsergym/miniwob.{task}", **settings)
            print(json.dumps(episode(envs[key], wanted)), flush=True)
        for env in envs.values():
            env.close()


if __name__ == "__main__":
    main(*sys.argv[1:3])
