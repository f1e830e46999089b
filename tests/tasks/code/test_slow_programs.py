"""No program that hides superlinear work keeps within its limit, and every honest one does."""

from __future__ import annotations

import contextlib
import copy
import io
from typing import Any

import pytest

import turnwise as tw
from turnwise.tasks.code.efficiency.family import (
    LEVELS,
    SCALES,
    Function,
    filled,
    limit,
    measured,
    module_of,
    run,
)
from turnwise.tasks.code.efficiency.meter import meter
from turnwise.tasks.code.efficiency.templates import TEMPLATES
from turnwise.tasks.code.language import METERED, objections

from ...shifts import SEED, sampled
from .honest_programs import HONEST, honest
from .slow_programs import Slow, slow_programs

PROGRAMS = list(slow_programs(SEED))
LARGEST, LEAST = (choose(level.factor for level in LEVELS.values()) for choose in (max, min))


def small_inputs(function: Function) -> list[tuple[Any, ...]]:
    """Inputs on which a program is compared with the slow body that it stands for."""
    template = function.template
    return [template.make(tw.Rng("small", size), size, function.constant) for size in (0, 1, 2, template.sizes[0])]


def expected(function: Function) -> list[Any]:
    """Return the slow body's results for the small inputs."""
    slow = run(module_of([], [function.slow]))[function.name]
    return [slow(*arguments) for arguments in small_inputs(function)]


def rewarded(source: str, function: Function, factor: int) -> bool:
    """Whether a program is in the language and within the limit at every scale."""
    if objections(source.encode(), METERED):
        return False
    template = function.template
    for scale in SCALES:
        arguments = template.make(tw.Rng("large"), scale * template.sizes[1], function.constant)
        fast = module_of([template.head], [function.fast])
        value, work = measured(fast, function.name, copy.deepcopy(arguments))
        meter.REFUSED.clear()
        try:
            found, more = measured(source, function.name, copy.deepcopy(arguments))
        except (meter.RefusedError, RecursionError):
            return False
        if meter.REFUSED or more > limit(template, factor, work):
            return False
        assert found == value, "a program that is within its limit returns the right value"
    return True


def check(program: Slow) -> None:
    """Check that a program is right, and not rewarded."""
    with contextlib.redirect_stdout(io.StringIO()):
        plain = run(program.source)[program.function.name]
        given = small_inputs(program.function)
        assert [plain(*arguments) for arguments in given] == expected(program.function), program.name
        assert not rewarded(program.source, program.function, LARGEST), f"{program.name} hides its work"


def test_there_are_more_than_a_thousand_different_programs() -> None:
    assert len({program.source for program in PROGRAMS}) == len(PROGRAMS) > 1000


@pytest.mark.parametrize("program", sampled(PROGRAMS, 30, key="slow"), ids=lambda program: program.name)
def test_a_slow_program_is_refused_or_exceeds_its_limit(program: Slow) -> None:
    check(program)


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize("part", range(10))
def test_none_of_a_thousand_slow_programs_passes(part: int) -> None:
    for program in sampled(PROGRAMS, 1000, key="thousand")[part::10]:
        check(program)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_honest_programs_keep_within_the_least_limit(name: str) -> None:
    for variant in range(2):
        function = filled(TEMPLATES[name], tw.Rng(name, variant))
        for source in honest(function):
            plain = run(source)[function.name]
            assert [plain(*arguments) for arguments in small_inputs(function)] == expected(function), source
            assert rewarded(source, function, LEAST), source


def test_every_template_has_honest_programs() -> None:
    assert set(HONEST) == set(TEMPLATES)
    assert all(len(sources) >= 2 for sources in HONEST.values())
