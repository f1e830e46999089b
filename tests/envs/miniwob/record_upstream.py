"""Ask upstream's own driver: writes ``upstream.json``, which the tests compare with, so that they need no Selenium.

    python -m venv /tmp/miniwob && /tmp/miniwob/bin/pip install miniwob && apt-get install chromium chromium-driver
    MINIWOB_CHROME_BINARY=/usr/bin/chromium MINIWOB_CHROMEDRIVER=/usr/bin/chromedriver SE_OFFLINE=true \
        /tmp/miniwob/bin/python tests/envs/miniwob/record_upstream.py tests/envs/miniwob/upstream.json
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
solutions: Any = importlib.import_module("solutions")


def environment(task: str) -> Any:
    """Upstream's environment of a task, paying its raw reward."""
    package: Any = importlib.import_module("miniwob.environment")
    reward: Any = importlib.import_module("miniwob.reward")
    return package.MiniWoBEnvironment(subdomain=task, reward_processor=reward.get_raw_reward)


def fresh(env: Any, seed: int) -> Any:
    """Reset a page that has just been loaded (upstream's keep some state from one episode to the next).

    The episode's time limit is far away, as ours has it.
    """
    env.instance.driver.get(env.instance.url)
    env.instance.driver.find_element("id", "sync-task-cover")  # waits for it
    env.instance.driver.execute_script("core.EPISODE_MAX_TIME = 2000000000;")
    observation, _ = env.reset(seed=seed)
    return observation


def element(observation: Any, act: list[Any]) -> Any:
    """The element that an act is about."""
    elements = observation["dom_elements"]
    if act[0] in ("type", "focus"):
        fields = [one for one in elements if one["tag"] in ("input_text", "input_password", "textarea")]
        return fields[act[1]]
    texts = [one for one in elements if act[1] in (one["text"], one["value"])]
    if act[0] == "click":
        return texts[-1]
    parents = {one["parent"] for one in texts}
    return next(one for one in elements if one["parent"] in parents and one["tag"].startswith("input_"))


def do(env: Any, observation: Any, act: list[Any]) -> Any:
    """Do one act; gives what upstream's ``step`` gives."""
    kinds: Any = importlib.import_module("miniwob.action").ActionTypes
    if act[0] == "at":
        return env.step(env.create_action(kinds.CLICK_COORDS, coords=[float(act[1]), float(act[2])]))
    ref = element(observation, act)["ref"]
    if act[0] == "type":
        return env.step(env.create_action(kinds.FOCUS_ELEMENT_AND_TYPE_TEXT, ref=ref, text=act[2]))
    return env.step(env.create_action(kinds.CLICK_ELEMENT, ref=ref))


def played(task: str, seeds: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return the rewards of upstream's driver for every way to play a task."""
    found, env = [], environment(task)
    for seed in seeds:
        utterance = fresh(env, seed)["utterance"]
        for name, acts in solutions.plays(task, utterance).items():
            observation = fresh(env, seed)
            raw, done = 0.0, False
            for act in acts:
                observation, raw, done, _, _ = do(env, observation, act)
            row = {"task": task, "seed": seed, "play": name, "utterance": utterance, "acts": acts}
            found.append({**row, "raw": raw, "done": bool(done)})
    env.close()
    return found


def asked(task: str, seeds: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return the request of a task's page."""
    env = environment(task)
    found = [{"task": task, "seed": seed, "utterance": fresh(env, seed)["utterance"]} for seed in seeds]
    env.close()
    return found


def main(target: str) -> None:
    """Write all of it down; a task that upstream's driver cannot play is named on stderr and left out."""
    registration = Path(importlib.import_module("miniwob").__file__ or "").with_name("registration.py").read_text()
    names = sorted(part.split('-v1"')[0] for part in registration.split('id="miniwob/')[1:])
    rows: dict[str, list[dict[str, Any]]] = {"plays": [], "utterances": []}
    for kind, function, tasks, seeds in (
        ("plays", played, solutions.PLAYED, solutions.SEEDS),
        ("utterances", asked, names, solutions.EVERYWHERE),
    ):
        for task in tasks:
            began = time.monotonic()
            try:
                rows[kind] += function(task, seeds)
            except Exception as error:
                print(f"{kind} of {task}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
            print(kind, task, f"{time.monotonic() - began:.1f} s", flush=True)
            found = {"version": importlib.metadata.version("miniwob"), **rows}
            Path(target).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
