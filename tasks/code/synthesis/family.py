"""Synthesis: write a function or a small class from a description of its steps.

A seed draws a program of the grammar (``programs.py``) and runs it to get its values on hidden inputs. The program is
drawn again unless the hidden cases distinguish it from every version without one of its steps. A hash of their steps
assigns programs to splits, so that no test asks for a program of training. ``test_template`` holds out two shapes (a
second argument, classes), and ``test_entity`` names.

A level determines the size. Means over 40 training tasks:

| level | operations | lines | AST nodes | words of prompt |
|------:|-----------:|------:|----------:|----------------:|
|     1 |          1 |     2 |        17 |              30 |
|     2 |          2 |   5.4 |        38 |              69 |
|     3 |          3 |   6.4 |        49 |              74 |
|     4 |          5 |   8.4 |        75 |              90 |
|     5 |          7 |  10.4 |        96 |              98 |

At level 1 the answer is one expression on small numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ....errors import TaskError
from ...family import TaskFamily
from ...rng import Rng, unit_hash
from ...spec import Split, TaskSpec
from .. import canonical
from ..cheats import module_cheats
from ..task import Attempt, Case, CodeTask, ValueCheck, case, raising, text_files
from .inputs import calls, edge_calls
from .operations import KINDS
from .programs import SIZES, Program, program

MODULE = "solution.py"
TRIES = 4000
"""Most programs to draw for a seed; a few are usually enough."""
SHAPES = ("steps", "guard", "fork")
HELD_SHAPES = ("given", "class")
OTHER_NAMES = frozenset({Split.TEST_ENTITY, Split.CHALLENGE})
ORDINARY, VISIBLE = 10, 3
LONGEST = 3000
"""Most characters of the canonical text of a case's value."""


@dataclass(frozen=True, slots=True)
class Worth:
    """Cases with the values of the reference."""

    visible: tuple[Case, ...]
    ordinary: tuple[Case, ...]
    edges: tuple[Case, ...]

    @property
    def hidden(self) -> tuple[Case, ...]:
        """The cases that the prompt does not show."""
        return (*self.ordinary, *self.edges)


class SynthesisFamily(TaskFamily[CodeTask]):
    """Programs to write, by shape and size."""

    name = "code-synthesis"
    levels = tuple(SIZES)
    splits = tuple(Split)

    def templates(self, split: Split) -> tuple[str, ...]:
        return HELD_SHAPES if split in (Split.TEST_TEMPLATE, Split.CHALLENGE) else SHAPES

    def build(self, spec: TaskSpec, rng: Rng) -> CodeTask:
        for number in range(TRIES):
            draw = rng.child("try", number)
            made = program(spec.template, spec.level, draw, other=spec.split in OTHER_NAMES)
            if spec.split not in splits_of(made):
                continue
            worth = _worth(made, draw)
            if worth is not None:
                return _task(made, worth, spec, draw)
        raise TaskError(f"no program of {TRIES} is fit for {spec}; take another seed")


SYNTHESIS = SynthesisFamily()


def splits_of(made: Program) -> tuple[Split, ...]:
    """Return the splits that may ask for a program, by its steps and not by its name."""
    share = unit_hash("code-synthesis", *made.steps)
    if share < 0.7:
        return (Split.TRAIN,)
    return (Split.DEV,) if share < 0.8 else (Split.TEST_IID, Split.TEST_TEMPLATE, Split.TEST_ENTITY, Split.CHALLENGE)


def _worth(made: Program, rng: Rng) -> Worth | None:
    """Return the cases of a program; ``None`` if its values vary too little, or if a step makes no difference."""
    names = _namespace(made.source)
    ordinary = _cases(calls(made, rng, VISIBLE + ORDINARY), names)
    edges = _cases(edge_calls(made), names)
    if ordinary is None or edges is None:
        return None
    worth = Worth(ordinary[:VISIBLE], ordinary[VISIBLE:], edges)
    texts = [case.expected for case in worth.ordinary]
    if len(set(texts)) < 4 or max(map(texts.count, texts)) > 5:
        return None
    return worth if all(_differs(mutant, worth.hidden) for mutant in shorter(made)) else None


def _namespace(source: str) -> dict[str, Any]:
    """Return the namespace of a module. It must be Turnwise's own, never submitted."""
    names: dict[str, Any] = {}
    exec(compile(source, MODULE, "exec"), names)
    return names


def _cases(sources: Sequence[str], names: dict[str, Any]) -> tuple[Case, ...] | None:
    found = []
    for source in sources:
        try:
            made = case(source, evaluated(source, names))
        except TaskError:
            return None
        except ValueError:
            made = raising(source, "ValueError")
        if len(made.expected) > LONGEST:
            return None
        found.append(made)
    return tuple(found)


def evaluated(source: str, names: dict[str, Any]) -> Any:
    """Return the value of the last line of a case, after running the others."""
    *before, last = source.split("\n")
    inside = dict(names)
    exec("\n".join(before), inside)
    return eval(last, inside)


def _differs(source: str, cases: Sequence[Case]) -> bool:
    """Return whether a case distinguishes this module from the reference."""
    names = _namespace(source)
    for one in cases:
        try:
            if canonical.encode(evaluated(one.source, names)) != one.expected:
                return True
        except Exception as error:
            if canonical.encode_error(error) != one.expected:
                return True
    return False


def shorter(made: Program) -> Iterator[str]:
    """Yield versions of the reference: each without one step, and with its branch never or always taken."""
    lines = made.source.splitlines()
    for at, line in enumerate(lines):
        text = line.strip()
        if text.startswith("x = ") and text != "x = list(self.kept)":
            yield _joined([*lines[:at], line[: len(line) - len(text)] + "pass", *lines[at + 1 :]])
        if text.startswith("if "):
            for never in ("False", "True"):
                yield _joined([*lines[:at], line.split("if ")[0] + f"if {never}:", *lines[at + 1 :]])
    if made.expression:
        whole = ast.parse(made.expression, mode="eval").body
        parts = [ast.unparse(part) for part in (whole.body, whole.orelse)] if isinstance(whole, ast.IfExp) else []
        yield from (_joined([lines[0], f"    return {part}"]) for part in ("x", *parts))


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def _task(made: Program, worth: Worth, spec: TaskSpec, rng: Rng) -> CodeTask:
    examples = ValueCheck("examples", worth.visible)
    known = ValueCheck("defined", (case(f"callable({made.name})", True),))
    short = bool(made.expression)
    head = made.source.splitlines()[0]
    constant = f"{head}\n    return {{value}}\n"
    if made.is_class:
        constant = f"class {made.name}:\n    put = drop = result = lambda self, *x: {{value}}\n"
    mutants = list(shorter(made))
    cheats = {
        **module_cheats(MODULE, constant),
        "leaves a step out": Attempt(text_files({MODULE: mutants[spec.seed % len(mutants)]})),
        "says the examples by heart": Attempt(text_files({MODULE: by_heart(made, worth.visible)})),
    }
    return CodeTask(
        prompt=_prompt(made, worth.visible),
        files=text_files({MODULE: made.stub}),
        checks=(ValueCheck("ordinary", worth.ordinary), ValueCheck("edges", worth.edges)),
        solution=Attempt(text_files({MODULE: made.source})),
        taken=(MODULE,),
        visible=(examples,),
        progress=(known, examples),
        weights={"ordinary": 2.0},
        cheats=cheats,
        hole=f"{head}\n    return {{answer}}\n" if short else "{answer}",
        ask="Answer with the expression that it returns." if short else f"Answer with the full content of {MODULE}.",
        answer=made.expression,
        guesses=tuple(_guesses(spec, rng)) if short else (),
    )


def by_heart(made: Program, visible: Sequence[Case]) -> str:
    """Return a module that knows only the visible examples."""
    if made.is_class:
        return made.stub
    known = [(one.source.partition("(")[2][:-1], canonical.shown(one.expected, LONGEST)) for one in visible]
    tests = [f"    if ({made.arguments},) == ({given},):\n        return {value}" for given, value in known]
    return (
        "\n".join([made.source.splitlines()[0], *(test for test in tests if "raises" not in test), "    return 0"])
        + "\n"
    )


def _guesses(spec: TaskSpec, rng: Rng) -> Iterator[str]:
    for number in range(16):
        yield program(spec.template, 1, rng.child("guess", number)).expression


def _prompt(made: Program, visible: Sequence[Case]) -> str:
    examples = "; ".join(f"{one.source} is {canonical.shown(one.expected, 400)}" for one in visible)
    examples = examples.replace(" is raises ", " raises ")
    if made.is_class:
        steps = "\n".join(f"- {step}" for step in made.steps)
        examples = "\n\n".join(f"{one.source}\n# is {canonical.shown(one.expected, 400)}" for one in visible)
        return (
            f"Write a class {made.name} in {MODULE}. Its constructor takes no arguments. Its methods:\n{steps}.\n"
            f"Examples, each ending with an expression and its value:\n{examples}"
        )
    given = f"x is {KINDS[made.takes]}" + (" and n an integer from 2 to 9" if made.second else "")
    if made.expression:
        return (
            f"Complete {made.name}({made.arguments}) in {MODULE}: {given}; {'; '.join(made.steps)}; return the result. "
            f"{examples}."
        )
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(made.steps, 1))
    return (
        f"Write {made.name}({made.arguments}) in {MODULE}, where {given}. Apply these steps in order, each to the "
        f"result of the previous one, and return the final result:\n{steps}\nExamples: {examples}."
    )
