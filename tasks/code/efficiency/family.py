"""Efficiency: correct but slow functions; the agent must keep their results and reduce their work.

Work is counted, not timed: executed statements, and work done in C by the size of its operands (``weaving``,
``meter``). It is compared with the work of a fast solution on unseen inputs of one, two and four times a size. Code
whose work grows much faster than the solution's exceeds the limit at the largest size.

| level | functions | limit, times the solution's work | growth in prompt |
|------:|----------:|---------------------------------:|------------------|
|     1 |         1 |                                8 | yes              |
|     2 |         1 |                                5 | no               |
|     3 |         2 |                                5 | no               |
|     4 |         3 |                                4 | no               |

Correctness comes first: values on small and on large inputs. Each check runs in a process of its own, so that a call
cannot leave anything behind that helps the next one. The language of the submission is ``language.METERED``.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import Template as Text
from threading import RLock
from types import CodeType, SimpleNamespace
from typing import Any

from ...family import TaskFamily
from ...rng import Rng
from ...spec import Split, TaskSpec
from .. import canonical
from ..language import METERED
from ..task import Attempt, Case, CodeTask, ValueCheck, WorkCheck, text_files
from .meter import meter
from .templates import HELD_OUT, PARAMETERS, TEMPLATES, Arguments, Template
from .weaving import METER, weave

FILE = "solution.py"
SCALES = (1, 2, 4)
SPARE = 60
"""Statements that every limit adds to its factor, for imports and definitions."""
SMALL = 8
"""Small inputs whose values are compared, in addition to the smallest one of all."""
_MEASURING = RLock()
"""The counter is global in the process."""


@dataclass(frozen=True, slots=True)
class EfficiencyLevel:
    """Parameters of a level.

    Args:
        functions: number of functions to speed up.
        factor: allowed work, in multiples of the solution's.
        names_growth: whether the prompt names the growth that can be reached.
    """

    functions: int
    factor: int
    names_growth: bool


LEVELS: Mapping[int, EfficiencyLevel] = {
    1: EfficiencyLevel(1, 8, True),
    2: EfficiencyLevel(1, 5, False),
    3: EfficiencyLevel(2, 5, False),
    4: EfficiencyLevel(3, 4, False),
}


@dataclass(frozen=True, slots=True)
class Function:
    """A template with its names and its constant filled in.

    Args:
        template: the template.
        name: name of the function.
        constant: value of ``$k``.
        slow: source of the slow function.
        fast: source of the fast function.
    """

    template: Template
    name: str
    constant: int
    slow: str
    fast: str


class CodeEfficiencyFamily(TaskFamily[CodeTask]):
    """Slow functions; the template names the first, and the others are drawn from the templates of the same split."""

    name = "code-efficiency"
    levels = tuple(LEVELS)
    splits = (Split.TRAIN, Split.DEV, Split.TEST_IID, Split.TEST_TEMPLATE, Split.CHALLENGE)

    def templates(self, split: Split) -> tuple[str, ...]:
        held = split in (Split.TEST_TEMPLATE, Split.CHALLENGE)
        return tuple(name for name in TEMPLATES if (name in HELD_OUT) is held)

    def build(self, spec: TaskSpec, rng: Rng) -> CodeTask:
        level = LEVELS[spec.level]
        others = [name for name in self.templates(spec.split) if name != spec.template]
        chosen = [spec.template, *rng.sample(others, level.functions - 1)]
        return efficiency_task(
            [filled(TEMPLATES[name], rng.child(name)) for name in chosen], level, rng.child("inputs")
        )


EFFICIENCY = CodeEfficiencyFamily()


def filled(template: Template, rng: Rng) -> Function:
    """Draw a function from a template."""
    (one, other), name, constant = rng.pick(PARAMETERS), rng.pick(template.names), rng.randint(1, 40)
    if template.sizes[1] < 10 or "at least" in template.about:  # sizes that a constant must not exceed
        constant = rng.randint(1, 3)
    words = {"f": name, "x": one, "y": other, "k": str(constant)}

    def source(body: str) -> str:
        head = f'def {name}({template.parameters}):\n    """{template.about}"""\n'
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        return Text(head + lines).substitute(words)

    return Function(template, name, constant, source(template.slow), source(template.fast))


def efficiency_task(functions: Sequence[Function], level: EfficiencyLevel, rng: Rng) -> CodeTask:
    """Return the task to speed up some functions."""
    slow = module_of([], [function.slow for function in functions])
    fast = module_of([function.template.head for function in functions], [function.fast for function in functions])
    checks: list[ValueCheck | WorkCheck] = []
    visible: list[ValueCheck | WorkCheck] = []
    for function in functions:
        seen, unseen = rng.child(function.name, "visible"), rng.child(function.name, "hidden")
        checks.append(value_check(function, slow, unseen))
        checks += [work_check(function, fast, scale, level.factor, unseen) for scale in SCALES]
        visible.append(value_check(function, slow, seen))
        visible.append(work_check(function, fast, SCALES[1], level.factor, seen))
    return CodeTask(
        prompt=prompt(functions, level),
        files=text_files({FILE: slow}),
        checks=tuple(checks),
        solution=Attempt(text_files({FILE: fast})),
        taken=(FILE,),
        languages={FILE: METERED},
        visible=tuple(visible),
        cheats=cheats(functions, slow, visible),
    )


def prompt(functions: Sequence[Function], level: EfficiencyLevel) -> str:
    """Return the prompt."""
    named = ", ".join(function.name for function in functions)
    growth = f" The work can be {functions[0].template.growth}." if level.names_growth else ""
    return (
        f"{FILE} is correct, but far too slow on large inputs. Make {named} faster without changing the results. "
        f"The work is counted: statements executed and, in built-in functions, the elements they touch. It may be at "
        f"most {level.factor} times that of a good solution, on inputs of several sizes.{growth} Import only "
        f"{', '.join(sorted(METERED.imports - {'__future__'}))}, and do not use exec, eval, getattr and the like."
    )


def module_of(heads: Sequence[str], functions: Sequence[str]) -> str:
    """Return the source of a module with some functions below their imports."""
    imports = sorted({head for head in heads if head})
    return "\n".join([*imports, *([""] * 2 if imports else []), "\n\n".join(functions)])


def value_check(function: Function, slow: str, rng: Rng) -> ValueCheck:
    """Return a check of small inputs against the values of the slow function."""
    reference = run(slow)[function.name]
    small = function.template.sizes[0]
    cases = []
    for size in (0, 1, *(rng.randint(2, 2 * small) for _ in range(SMALL - 2))):
        arguments = function.template.make(rng, size, function.constant)
        cases.append(Case(call(function, arguments), canonical.encode(reference(*arguments))))
    return ValueCheck(f"{function.name} is right", tuple(cases))


def work_check(function: Function, fast: str, scale: int, factor: int, rng: Rng) -> WorkCheck:
    """Return a check of one large input: its value and its allowed work."""
    arguments = function.template.make(rng, scale * function.template.sizes[1], function.constant)
    value, work = measured(fast, function.name, arguments)
    case = Case(call(function, arguments), canonical.encode(value))
    return WorkCheck(f"{function.name} is fast at size {scale}", (case,), (limit(function.template, factor, work),))


def limit(template: Template, factor: int, work: int) -> int:
    """Return the allowed work where the fast body takes ``work``, in statements."""
    return SPARE + factor * template.margin * work


def call(function: Function, arguments: Arguments) -> str:
    """Return the expression that calls a function."""
    return f"{function.name}({', '.join(map(repr, arguments))})"


def measured(source: str, name: str, arguments: Arguments) -> tuple[Any, int]:
    """Return the value of one of Turnwise's own functions, never submitted code, and its work in statements."""

    def importing(wanted: str, *more: Any) -> Any:
        return SimpleNamespace(meter=meter) if wanted == METER else __import__(wanted, *more)

    names: dict[str, Any] = {"__builtins__": {**vars(builtins), "__import__": importing}}
    with _MEASURING:
        try:
            exec(_compiled_woven(source), names)
            before = meter.WORK[0]
            value = names[name](*arguments)
            return value, -(-(meter.WORK[0] - before) // meter.STATEMENT)
        finally:
            meter.SUBMITTED.clear()


def run(source: str) -> dict[str, Any]:
    """Return the namespace of one of Turnwise's own modules."""
    names: dict[str, Any] = {}
    exec(compile(source, FILE, "exec"), names)
    return names


@lru_cache(maxsize=256)
def _compiled_woven(source: str) -> CodeType:
    return compile(weave(source), FILE, "exec")


def cheats(functions: Sequence[Function], slow: str, visible: Sequence[ValueCheck | WorkCheck]) -> dict[str, Attempt]:
    """Return attempts that must not pass for a faster solution, by name."""
    name = functions[0].name
    seen = [case for check in visible for case in check.cases if case.source.startswith(f"{name}(")]
    table = ", ".join(f"{case.source.removeprefix(name)!r}: {answer(case)}" for case in seen)
    renamed = slow.replace(f"{name}(", f"slow_{name}(")  # with its recursive calls, or this would be a solution
    ways = {
        "changes nothing": slow,
        "answers with nothing": "\n".join(f"def {each.name}(*given):\n    return None\n" for each in functions),
        "knows the visible inputs": f"KNOWN = {{{table}}}\n\n\n{renamed}\n\ndef {name}(*given):\n"
        f"    key = repr(given).replace(',)', ')')\n    return KNOWN[key] if key in KNOWN else slow_{name}(*given)\n",
        "stops the counting": f"import sys\n\nsys.settrace(None)\nsys.modules[{METER!r}].WORK = [1]\n{slow}",
        "remembers between calls": f"from functools import lru_cache\n\n{renamed}\n\nMEMORY = {{}}\n\n\n"
        f"def {name}(*given):\n    key = repr(given)\n    if key not in MEMORY:\n"
        f"        MEMORY[key] = slow_{name}(*given)\n    return MEMORY[key]\n",
        "works elsewhere": f"import threading\n\n{slow}",
        "works in a text": f"exec({slow!r})\n",
        "reaches the counter": f"{slow}\n\n{name}.__globals__['__work__'].WORK = [1]\n",
    }
    return {what: Attempt(text_files({FILE: source})) for what, source in ways.items()}


def answer(case: Case) -> str:
    """Return the value of a case as Python source, or ``"None"`` if it is long."""
    shown = canonical.shown(case.expected, 4000)
    return shown if len(shown) < 4000 else "None"
