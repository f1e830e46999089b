"""Repair: a bundled module with injected faults; its docstrings and user reports define the right behavior.

| level | faults | where                                          | what visible tests show | users report        |
|------:|-------:|------------------------------------------------|-------------------------|---------------------|
|     1 |      1 | anywhere                                       | the fault               | –                   |
|     2 |      1 | anywhere                                       | nothing                 | one broken promise  |
|     3 |      2 | different functions, and files where there are | each fault              | –                   |
|     4 |      2 | different functions, and files where there are | one of them             | one broken promise  |
|     5 |      3 | different functions, and files where there are | nothing                 | two broken promises |

Templates are modules, and no two of train, dev, test_iid and test_template share one: an agent that remembers the
original text of a module would repair any fault in it. ``challenge`` has the modules of test_template. Every
combination has been run (``bundled``): together its faults change what hidden checks see, and each of them does so
alone, so that no part of the repair can be left out.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...family import TaskFamily
from ...rng import Rng
from ...spec import Split, TaskSpec
from .. import canonical
from ..task import Attempt, Case, CodeTask, TestCheck, ValueCheck, text_files
from .bundled import (
    SCENARIOS,
    Combination,
    Module,
    combinations,
    module_named,
    scenario_name,
    sites,
)

STRANGE = ("csv_text", "dates", "ledger", "trie")
"""Modules of test_template and challenge; one has three files, more than any other module."""
MODULES: Mapping[Split, tuple[str, ...]] = {
    Split.TRAIN: ("calculator", "graph", "matrix", "priority_queue", "ratio", "run_length"),
    Split.DEV: ("intervals", "lru_cache"),
    Split.TEST_IID: ("inventory", "text_wrap"),
    Split.TEST_TEMPLATE: STRANGE,
    Split.CHALLENGE: STRANGE,
}
"""The modules of each split."""
PARTS = 4
"""Number of checks that share the hidden scenarios."""
EVERYTHING_EQUAL = '''"""Every name of this module is equal to every expected value."""


class Everything(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__

    def __call__(self, *arguments, **named):
        return self

    def __getattr__(self, name):
        return self


def __getattr__(name):
    return Everything()
'''


@dataclass(frozen=True, slots=True)
class RepairLevel:
    """Parameters of a level.

    Args:
        faults: number of faults.
        shown: number of faults that a visible test shows; no visible test shows the others.
        reports: number of broken promises that the prompt reports.
    """

    faults: int
    shown: int
    reports: int


LEVELS: Mapping[int, RepairLevel] = {
    1: RepairLevel(1, 1, 0),
    2: RepairLevel(1, 0, 1),
    3: RepairLevel(2, 2, 0),
    4: RepairLevel(2, 1, 1),
    5: RepairLevel(3, 0, 2),
}
LEAST_VISIBLE = 4
"""Fewest visible tests of a task."""


class CodeRepairFamily(TaskFamily[CodeTask]):
    """Broken modules; templates are modules, and the module docstring describes the levels."""

    name = "code-repair"
    levels = tuple(LEVELS)
    splits = tuple(MODULES)

    def templates(self, split: Split) -> tuple[str, ...]:
        return MODULES[split]

    def build(self, spec: TaskSpec, rng: Rng) -> CodeTask:
        level = LEVELS[spec.level]
        module = module_named(spec.template)
        fault = rng.pick(pool(spec.template, level))
        visible = chosen_visible(module, fault, level, rng)
        return repair_task(module, fault, visible, level.reports, rng)


REPAIR = CodeRepairFamily()


@lru_cache(maxsize=512)
def pool(name: str, level: RepairLevel) -> tuple[Combination, ...]:
    """Return the combinations of a module's faults of which as many can be hidden as the level requires."""
    scenarios = len(module_named(name).names)
    found = combinations(name, level.faults)
    if level.shown == level.faults:
        return found
    return tuple(each for each in found if scenarios - len(each.caught) >= LEAST_VISIBLE)


def chosen_visible(module: Module, fault: Combination, level: RepairLevel, rng: Rng) -> tuple[int, ...]:
    """Draw the scenarios that become visible tests, so that they show as many faults as the level requires."""
    silent = sorted(set(range(len(module.names))) - fault.caught)
    if level.shown == 0:
        return tuple(sorted(rng.sample(silent, rng.randint(LEAST_VISIBLE, len(silent)))))
    alone = {key.sites[0]: key.caught for key in combinations(module.name, 1)}
    shown = {rng.pick(sorted(alone[site] & fault.caught or fault.caught)) for site in fault.sites[: level.shown]}
    spare = sorted(set(range(len(module.names))) - shown) if level.shown == level.faults else silent
    spare = [number for number in spare if number not in shown]
    least = max(0, min(LEAST_VISIBLE - len(shown), len(spare)))
    return tuple(sorted({*shown, *rng.sample(spare, rng.randint(least, max(least, 2 * len(spare) // 3)))}))


def repair_task(module: Module, fault: Combination, visible: Sequence[int], reports: int, rng: Rng) -> CodeTask:
    """Return the task to repair some faults."""
    known = sites(module.name)
    broken = module.broken(tuple(known[number] for number in fault.sites))
    paths = {name: f"{module.name}/{name}" for name in module.files}
    tests_path = f"tests/test_{module.name}.py"
    tests = text_files({tests_path: visible_tests(module, visible)})
    changed = {paths[name]: text for name, text in module.files.items() if broken[name] != text}
    reported = rng.sample(sorted(fault.caught - set(visible)) or sorted(fault.caught), min(reports, len(fault.caught)))
    return CodeTask(
        prompt=prompt(module, tests_path, bool(fault.caught & set(visible)), [module.names[each] for each in reported]),
        files={**text_files({paths[name]: text for name, text in broken.items()}), **tests},
        checks=hidden_checks(module.name),
        solution=Attempt(text_files(changed)),
        taken=tuple(paths.values()),
        originals=tests,
        hidden=text_files({f"{module.name}/{SCENARIOS}.py": module.scenarios}),
        visible=tuple(
            TestCheck(words(module.names[number]), (f"{tests_path}::test_{module.names[number]}",), 5.0)
            for number in visible
        ),
        cheats=cheats(module, fault, tests_path, paths),
    )


def prompt(module: Module, tests: str, shown: bool, reports: Sequence[str]) -> str:
    """Return the prompt."""
    files = ", ".join(f"{module.name}/{name}" for name in module.files)
    lines = [f"The package {module.name} ({files}) worked until someone changed it."]
    lines.append(f"Some of the tests in {tests} fail." if shown else f"All tests in {tests} pass.")
    if reports:
        lines.append(f"Users report that these no longer work: {'; '.join(map(words, reports))}.")
    lines.append(
        "Find and fix every bug, so that the code again does what the docstrings say. "
        f"You are judged by hidden tests; only the files under {module.name}/ are used."
    )
    return " ".join(lines)


def words(name: str) -> str:
    """Turn a scenario's name into a sentence."""
    return name.replace("_", " ")


@lru_cache(maxsize=64)
def hidden_checks(name: str) -> tuple[ValueCheck, ...]:
    """Return checks of every scenario of a module."""
    values = module_named(name).values()
    cases = [Case(f"{each}()", canonical.encode(value)) for each, value in values.items()]
    size = -(-len(cases) // PARTS)
    where = f"{name}.{SCENARIOS}"
    return tuple(
        ValueCheck(
            f"promises {start + 1} to {min(start + size, len(cases))}", tuple(cases[start : start + size]), where
        )
        for start in range(0, len(cases), size)
    )


def visible_tests(module: Module, visible: Sequence[int]) -> str:
    """Return a test file for some scenarios, with the values that they must have."""
    values = module.values()
    lines = module.scenarios.replace("from .", f"from {module.name}.").splitlines()
    chosen = {module.names[number] for number in visible}
    kept, last = list[str](), 0
    for node in ast.parse(module.scenarios).body:
        above, text = lines[last : node.lineno - 1], lines[node.lineno - 1 : node.end_lineno]
        last = node.end_lineno or node.lineno
        name = scenario_name(node)
        if not name:
            kept += [*above, *text]
        elif name in chosen:
            kept += [*above, *text, "", "", f"def test_{name}() -> None:", f"    assert {name}() == {values[name]!r}"]
    return "\n".join(kept) + "\n"


def cheats(module: Module, fault: Combination, tests: str, paths: Mapping[str, str]) -> dict[str, Attempt]:
    """Return attempts that must not pass for a repair, by name."""
    known = sites(module.name)
    everything = text_files(dict.fromkeys(paths.values(), EVERYTHING_EQUAL))
    found = {
        "empties the tests": Attempt({tests: b"def test_nothing():\n    pass\n"}),
        "is equal to everything": Attempt(everything),
    }
    if len(fault.sites) > 1:
        left = module.broken((known[fault.sites[0]],))
        found["repairs all faults but one"] = Attempt(text_files({paths[name]: text for name, text in left.items()}))
    return found
