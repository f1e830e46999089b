"""Repair tasks: what the index promises, what is visible, what is held out."""

from __future__ import annotations

import ast
from collections import Counter
from types import SimpleNamespace

import pytest

import turnwise as tw
from turnwise.errors import TaskError
from turnwise.tasks.code.repair import bundled
from turnwise.tasks.code.repair.bundled import combinations, module_named, module_names, sites
from turnwise.tasks.code.repair.family import LEVELS, MODULES, REPAIR, STRANGE, visible_tests
from turnwise.tasks.code.repair.packages import PackageRepairFamily
from turnwise.tasks.code.task import CodeTask, ValueCheck

SPECS = [
    REPAIR.spec(seed, level=level, split=split) for split in REPAIR.splits for level in LEVELS for seed in range(3)
]


@pytest.mark.parametrize("name", module_names())
def test_the_index_is_of_the_modules_as_they_are(name: str) -> None:
    assert len(combinations(name, 1)) > 100, "a module with few faults makes few tasks"
    for faults in (1, 2, 3):
        for combination in combinations(name, faults):
            assert len(combination.sites) == faults
            assert combination.caught <= set(range(len(module_named(name).names)))


def test_an_index_of_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    combinations.cache_clear()
    monkeypatch.setattr(bundled, "digest_of", lambda name: "another")
    with pytest.raises(TaskError, match="build-repair-index"):
        combinations("trie", 1)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.split}-{spec.level}-{spec.seed}")
def test_levels_are_as_they_are_described(spec: tw.TaskSpec) -> None:
    task: CodeTask = REPAIR.generate(spec)
    level, module = LEVELS[spec.level], module_named(spec.template)
    broken = [path for path, content in task.solution.files.items() if task.files[path] != content]
    assert broken == list(task.solution.files), "the solution changes what is broken, and nothing else"
    if level.faults > 1:
        assert len(broken) == min(level.faults, len(module.files))
    assert len(task.visible) >= 3
    assert ("All tests in" in task.prompt) == (level.shown == 0)
    assert ("no longer work" in task.prompt) == (level.reports > 0)
    for path in task.files:
        ast.parse(task.files[path])


def test_no_hidden_scenario_and_no_expected_value_is_in_the_workspace() -> None:
    task = REPAIR.generate(REPAIR.spec(0, level=1))
    assert not set(task.hidden) & set(task.files)
    assert len(task.visible) < sum(len(check.cases) for check in task.checks if isinstance(check, ValueCheck))


@pytest.mark.slow
def test_a_memorized_module_is_of_no_use_in_another_split() -> None:
    assert {name for names in MODULES.values() for name in names} == set(module_names()), "a module has no split"
    seen = set()
    for seed in range(60):
        task = REPAIR.generate(REPAIR.spec(seed, level=1))
        seen |= {content for path, content in task.files.items() if not path.startswith("tests/")}
    for split in REPAIR.splits:
        shared = set(REPAIR.templates(split)) & set(REPAIR.templates(tw.Split.TRAIN))
        assert bool(shared) is (split is tw.Split.TRAIN)
        solutions = [REPAIR.generate(REPAIR.spec(seed, split=split, level=1)).solution.files for seed in range(20)]
        if split is not tw.Split.TRAIN:
            assert not any(content in seen for files in solutions for content in files.values())
    assert REPAIR.templates(tw.Split.CHALLENGE) == STRANGE


@pytest.mark.parametrize(
    ("modules", "shares"),
    [(1, "train 1"), (2, "test_template 1, train 1"), (20, "test_template 5, test_iid 3, dev 2, train 10")],
)
def test_modules_of_a_package_are_divided_between_splits(modules: int, shares: str) -> None:
    family = object.__new__(PackageRepairFamily)
    faults = [SimpleNamespace(module=f"package/m{number}.py") for number in range(modules) for _ in range(3)]
    vars(family)["set"] = SimpleNamespace(header=SimpleNamespace(package="package"), faults=faults)
    counts = Counter(map(family.split_of, family.modules))
    assert counts == Counter({tw.Split(part.split()[0]): int(part.split()[1]) for part in shares.split(", ")})


def test_visible_tests_pass_on_the_original_and_hold_no_other_scenario() -> None:
    module = module_named("trie")
    text = visible_tests(module, [0, 3])
    assert text.count("def test_") == 2
    assert f"def {module.names[1]}" not in text
    names: dict[str, object] = {}
    exec(text.replace("from trie.", "from turnwise.tasks.code.repair.modules.trie."), names)
    for name, function in list(names.items()):
        if name.startswith("test_"):
            function()  # type: ignore[operator]


def test_scenarios_tell_one_another_apart() -> None:
    for name in module_names():
        values = module_named(name).values()
        assert len(values) >= 15
        assert len(sites(name)) > 100
