"""Slow functions and their fast twins: equal everywhere, and far apart in counted work."""

from __future__ import annotations

import copy
import re

import pytest

import turnwise as tw
from turnwise.tasks.code.efficiency.family import EFFICIENCY, LEVELS, SCALES, filled, limit, measured, module_of, run
from turnwise.tasks.code.efficiency.templates import HELD_OUT, PARAMETERS, TEMPLATES
from turnwise.tasks.code.language import METERED, objections
from turnwise.tasks.code.task import CodeTask, WorkCheck


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_both_do_the_same_on_small_inputs(name: str) -> None:
    for variant in range(4):
        function = filled(TEMPLATES[name], tw.Rng("variant", variant))
        slow = run(module_of([], [function.slow]))[function.name]
        fast = run(module_of([function.template.head], [function.fast]))[function.name]
        for size in range(2 * function.template.sizes[0] + 1):
            given = function.template.make(tw.Rng(name, variant, size), size, function.constant)
            assert fast(*copy.deepcopy(given)) == slow(*copy.deepcopy(given)), given


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_the_slow_one_exceeds_every_limit_at_the_largest_size(name: str) -> None:
    function = filled(TEMPLATES[name], tw.Rng(name))
    given = function.template.make(tw.Rng("large"), SCALES[-1] * function.template.sizes[1], function.constant)
    value, work = measured(module_of([function.template.head], [function.fast]), function.name, given)
    same, more = measured(module_of([], [function.slow]), function.name, given)
    assert value == same
    assert more > limit(function.template, max(level.factor for level in LEVELS.values()), work)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_parameters_are_called_like_nothing_else_in_a_function(name: str) -> None:
    template = TEMPLATES[name]
    words = set(re.findall(r"(?<!\.)\b\w+", f"{template.slow} {template.fast} {template.head}"))
    assert not words & {each for pair in PARAMETERS for each in pair}
    assert not set(template.names) & {each for pair in PARAMETERS for each in pair}


@pytest.mark.slow
def test_every_solution_is_in_the_language_that_it_is_held_to() -> None:
    for spec in EFFICIENCY.sample(24):
        task: CodeTask = EFFICIENCY.generate(spec)
        assert objections(task.solution.files["solution.py"], METERED) == ()
        assert objections(task.files["solution.py"], METERED) == ()


def test_equal_specs_make_equal_tasks_and_measuring_is_no_part_of_it() -> None:
    spec = EFFICIENCY.spec(5, level=3)
    assert EFFICIENCY.generate(spec) == EFFICIENCY.generate(spec)
    limits = [check.most for check in EFFICIENCY.generate(spec).checks if isinstance(check, WorkCheck)]
    assert len(limits) == 2 * len(SCALES)


def test_held_out_templates_are_in_no_other_split() -> None:
    for split in EFFICIENCY.splits:
        held = split in (tw.Split.TEST_TEMPLATE, tw.Split.CHALLENGE)
        assert all((name in HELD_OUT) is held for name in EFFICIENCY.templates(split))


def test_hidden_inputs_are_not_the_visible_ones() -> None:
    task = EFFICIENCY.generate(EFFICIENCY.spec(2, level=1))
    seen = {case.source for check in task.visible if isinstance(check, WorkCheck) for case in check.cases}
    asked = {case.source for check in task.checks if isinstance(check, WorkCheck) for case in check.cases}
    assert not seen & asked
