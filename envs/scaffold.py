"""``scaffold``: the files of a new environment package, working and certified as they are."""

from __future__ import annotations

import keyword
import re
import sys
from enum import StrEnum
from pathlib import Path
from string import Template

from ..errors import UsageError
from .scaffold_container import container_files


class Kind(StrEnum):
    """The environment from which a scaffold starts."""

    TURN = "turn"
    """The agent answers in text."""
    TOOL = "tool"
    """The agent calls tools."""


TURN_ENV = '''\
"""$title: find a number. Replace this by your own task; `turnwise certify $id` says what is still missing."""

from __future__ import annotations

import turnwise as tw

REST = {"train": (1, 2), "dev": (3,), "test_iid": (4,)}  # each split has numbers of its own: tests are unseen tasks


class $cls(tw.TurnEnv):
    """Find the number between 1 and 1000 within ten turns."""

    max_turns = 10
    unparsed_reward = -0.1  # no cheaper than a wrong guess, or the agent learns to write what cannot be read
    contract = tw.Contract(random_floor=0.05)  # random guesses succeed at most this often; certification checks it

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        # rng is all the randomness there is: no clock, no global generator
        self.secret = 4 * rng.randint(0, 249) + rng.pick(REST[task.split])
        self.low, self.high = 1, 1000
        return "Guess my number between 1 and 1000."

    def act(self, action: tw.Action) -> tw.Step:
        guess = action.integer()  # what cannot be read becomes an observation by itself
        if guess == self.secret:
            return tw.success("Correct!")
        if guess < self.secret:
            self.low = max(self.low, guess + 1)
            return tw.running("Too low.", reward=-0.1)
        self.high = min(self.high, guess - 1)
        return tw.running("Too high.", reward=-0.1)

    def oracle(self) -> str:
        """Halve what is left. Certification proves the task solvable with it, and demonstrations are made with it."""
        return str((self.low + self.high) // 2)

    def random_action(self, rng: tw.Rng) -> str:
        """An agent that knows the rules and nothing else."""
        return str(rng.randint(1, 1000))

    def near_misses(self) -> dict[str, list[str]]:
        """What must not succeed: cheats, and answers that are almost right."""
        return {"the next number": [str(self.secret + 1)], "all numbers at once": ["1 2 3 4 5 6 7 8 9 10"]}
'''

TOOL_ENV = '''\
"""$title: put one thing away. Replace this by your own world; `turnwise certify $id` says what is still missing."""

from __future__ import annotations

from typing import Literal

import turnwise as tw

Place = Literal["shelf", "box", "drawer", "bag", "basket"]
THINGS = {  # each split has things of its own: tests are unseen tasks
    "train": ("cup", "book", "lamp", "pen", "hat"),
    "dev": ("key", "ball", "coat", "vase", "shoe"),
    "test_iid": ("fork", "radio", "towel", "clock", "brush"),
}


class $cls(tw.ToolEnv):
    """Put one thing where it belongs, touch nothing else, and say when you are done."""

    max_turns = 8

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        things = THINGS[task.split]
        self.where = dict.fromkeys(things, "shelf")  # the world; rng is all the randomness there is
        self.thing, self.goal = rng.pick(things), rng.pick(("box", "drawer", "bag", "basket"))
        return f"Put the {self.thing} into the {self.goal}, leave the rest, then call done."

    @tw.tool
    def look(self) -> dict[str, str]:
        """Say where everything is."""
        return self.where

    @tw.tool
    def move(self, thing: str, place: Place) -> str:
        """Move a thing.

        Args:
            thing: what to move.
            place: where to put it.
        """
        if thing not in self.where:
            raise tw.ToolError(f"there is no {thing[:20]!r}; there are: {', '.join(self.where)}")
        self.where[thing] = place
        return f"The {thing} is in the {place}."

    @tw.tool(ends=True)
    def done(self) -> str:
        """Say that the work is finished."""
        return "Thank you."

    def judge(self) -> tw.Score:
        """The world is judged, not the words."""
        moved = self.where[self.thing] == self.goal
        touched = tuple(thing for thing, place in self.where.items() if thing != self.thing and place != "shelf")
        return tw.Score(success=moved and not touched, checks={"moved": moved}, collateral=touched)

    def oracle(self) -> tw.ToolCall:
        """The best next call. Certification proves the task solvable with it, and demonstrations are made with it."""
        if self.where[self.thing] != self.goal:
            return tw.ToolCall("move", {"thing": self.thing, "place": self.goal})
        return tw.ToolCall("done")

    def near_misses(self) -> dict[str, list[tw.ToolCall]]:
        """What must not succeed: cheats, and solutions that are almost right."""
        move = tw.ToolCall("move", {"thing": self.thing, "place": self.goal})
        other = next(thing for thing in self.where if thing != self.thing)
        one_too_many = tw.ToolCall("move", {"thing": other, "place": self.goal})
        return {"nothing done": [tw.ToolCall("done")], "one thing too many": [move, one_too_many, tw.ToolCall("done")]}
'''

PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "$dist"
version = "0.1.0"
description = "$title: an environment for Turnwise"
requires-python = ">=3.11"
dependencies = ["turnwise"]

# This line is how Turnwise finds the environment once the package is installed.
[project.entry-points."turnwise.envs"]
"$id" = "$name.env:$cls"

[tool.hatch.build.targets.wheel]
packages = ["$name"]

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

TESTS = '''\
"""Every law that Turnwise has for environments, as a test of its own."""

from turnwise.envs import EnvironmentLaws

from $name.env import $cls


class Test$cls(EnvironmentLaws):
    env_id = $cls
'''

README = """\
# $title

An environment for Turnwise.

```
pip install -e .
turnwise envs                # lists $id
turnwise certify $id
pytest                       # the same laws, one test each
```

```python
import turnwise as tw

env = tw.make("$id")
observation, info = env.reset(seed=0)
print(observation.text)
observation, reward, terminated, truncated, info = env.step(env.oracle())
```

A change that alters results needs a new version: `$next`.
"""


def scaffold(name: str, kind: Kind | str = Kind.TURN, folder: Path | str = ".", *, serve: bool = False) -> list[Path]:
    """Write a small installable package with one working environment and its tests.

    Args:
        name: the package's name in Python, e.g. ``"my_env"``; hyphens and capitals are turned into that form.
        kind: ``"turn"`` or ``"tool"``.
        folder: the folder in which the package's folder is made.
        serve: whether to add the files that serve the environment from a container: ``Dockerfile``, ``openenv.yaml``,
            and a probe for OpenEnv's validation.

    Returns:
        The files written, the environment first.

    Raises:
        UsageError: the name cannot be a package's, the kind is unknown, or the folder has files in it already.
    """
    package = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip()).replace("-", "_").lower()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", package) or keyword.iskeyword(package):
        raise UsageError(
            f"{name!r} is not a valid name for a Python package; use letters, digits and '_', as in 'my_env'"
        )
    if package in sys.stdlib_module_names or package in ("turnwise", "test", "tests"):
        raise UsageError(f"the name {package!r} belongs to a module that Python would import instead; choose another")
    if kind not in list(Kind):
        raise UsageError(f"there is no kind of environment {str(kind)!r}; choose one of {', '.join(Kind)}")
    root = Path(folder) / package
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise UsageError(f"{root} already exists; choose another name, or remove it")
    cls = "".join(part.capitalize() for part in package.split("_"))
    words = {
        "name": package,
        "cls": cls,
        "title": package.replace("_", " ").strip().capitalize(),
        "dist": package.strip("_").replace("_", "-"),
        "id": f"{package}/{cls}-v0",
        "next": f"{package}/{cls}-v1",
    }
    texts = {
        f"{package}/env.py": TURN_ENV if kind == Kind.TURN else TOOL_ENV,
        f"{package}/__init__.py": '"""$title."""\n',
        f"tests/test_{package}.py": TESTS,
        "pyproject.toml": PYPROJECT,
        "README.md": README,
    }
    if serve:
        files, more = container_files(str(kind), README)
        texts, words = texts | files, words | more
    return _write(root, texts, words)


def _write(root: Path, texts: dict[str, str], words: dict[str, str]) -> list[Path]:
    """Fill in the templates, and write the files below ``root``."""
    written = []
    for path, text in texts.items():
        file = root / path
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(Template(text).substitute(words), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {file}: {error}") from None
        written.append(file)
    return written
