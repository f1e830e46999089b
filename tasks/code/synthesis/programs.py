"""Programs drawn from the grammar: a shape, operations that fit, words for a prompt and a reference in Python.

| shape | program to write                                                                                           |
|-------|------------------------------------------------------------------------------------------------------------|
| steps | a function that does one thing after the other                                                             |
| guard | the same, after a condition under which something else is returned or an error raised                      |
| fork  | a condition, and other steps on either side                                                                |
| given | steps whose numbers are a second argument                                                                  |
| class | a class that keeps items: each is changed as it comes in, the last can be taken back, all can be summed up |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ...rng import Rng
from .operations import CONDITIONS, KINDS, OPERATIONS, Kind, Operation

SIZES: Mapping[int, int] = MappingProxyType({1: 1, 2: 2, 3: 3, 4: 5, 5: 7})
"""Number of operations of a program, by level."""
LETTERS = "aeionrst"
NAMES = ("f", "solve", "work", "change", "result", "compute", "convert", "apply_steps")
OTHER_NAMES = ("transmute", "munge", "distill", "refine", "g", "brew", "forge", "weave")
"""Names of functions: for most splits, and for those that hold out entities."""
CLASSES = ("Box", "Shelf", "Pile", "Store")
OTHER_CLASSES = ("Vault", "Crate", "Ledger", "Hoard")


@dataclass(frozen=True, slots=True)
class Program:
    """A program to write.

    Args:
        name: name of the function or class.
        takes: kind of its argument, or of a class's items.
        steps: descriptions of the steps.
        source: source of the reference module.
        expression: returned expression, if the function consists of one; otherwise empty.
        second: whether there is a second argument ``n``.
        is_class: whether it is a class.
    """

    name: str
    takes: Kind
    steps: tuple[str, ...]
    source: str
    expression: str = ""
    second: bool = False
    is_class: bool = False

    @property
    def stub(self) -> str:
        """Initial content of the file."""
        if self.is_class:
            return f"class {self.name}:\n    pass\n"
        return f"def {self.name}({self.arguments}):\n    raise NotImplementedError\n"

    @property
    def arguments(self) -> str:
        """Arguments of the function, as source."""
        return "x, n" if self.second else "x"


def program(shape: str, level: int, rng: Rng, *, other: bool = False) -> Program:
    """Draw a program of a shape, in the size of its level.

    Args:
        shape: ``steps``, ``guard``, ``fork``, ``given`` or ``class``.
        level: level, 1 to 5.
        rng: draws the program.
        other: whether to use the held-out names.
    """
    size = SIZES[level]
    if shape == "class":
        return _class(size, rng, rng.pick(OTHER_CLASSES if other else CLASSES))
    name = rng.pick(OTHER_NAMES if other else NAMES)
    kind: Kind = "int" if level == 1 else rng.pick(("int", "ints", "ints", "str", "strs", "dict"))
    if shape == "guard":
        return _guarded(name, kind, size, level, rng)
    if shape == "fork":
        return _forked(name, kind, size, level, rng)
    number = "n" if shape == "given" else None
    chain = _chain(kind, size, rng, number=number)
    if level == 1:
        return _short(name, kind, [words for words, _ in chain], chain[0][1].format(x="x"), second=number is not None)
    arguments = "x, n" if number else "x"
    lines = [f"def {name}({arguments}):", *_lines(chain), "    return x"]
    return Program(name, kind, tuple(w for w, _ in chain), _module(lines), second=number is not None)


def _short(name: str, kind: Kind, words: Sequence[str], expression: str, *, second: bool = False) -> Program:
    arguments = "x, n" if second else "x"
    source = f"def {name}({arguments}):\n    return {expression}\n"
    return Program(name, kind, tuple(words), source, expression, second)


def _guarded(name: str, kind: Kind, size: int, level: int, rng: Rng) -> Program:
    words, test = _condition(kind, rng)
    chain = _chain(kind, size, rng)
    if level == 1:
        amends = rng.randint(-3, 9)
        steps = [f"if {words}, return {amends} immediately", *(step for step, _ in chain)]
        return _short(name, kind, steps, f"{amends} if {test} else {chain[0][1].format(x='x')}")
    if rng.random() < 0.4:
        steps, guard = [f"if {words}, raise ValueError"], [f"    if {test}:", "        raise ValueError"]
    else:
        early = rng.pick(("None", "-1", "0", "''", "[]"))
        steps, guard = [f"if {words}, return {early} immediately"], [f"    if {test}:", f"        return {early}"]
    lines = [f"def {name}(x):", *guard, *_lines(chain), "    return x"]
    return Program(name, kind, (*steps, *(step for step, _ in chain)), _module(lines))


def _forked(name: str, kind: Kind, size: int, level: int, rng: Rng) -> Program:
    words, test = _condition(kind, rng)
    yes = _chain(kind, (size + 1) // 2, rng)
    no = _chain(kind, max(1, size // 2), rng)
    steps = [f"if {words}: {', then '.join(w for w, _ in yes)}", f"otherwise: {', then '.join(w for w, _ in no)}"]
    if level == 1:
        return _short(name, kind, steps, f"{yes[0][1].format(x='x')} if {test} else {no[0][1].format(x='x')}")
    lines = [f"def {name}(x):", f"    if {test}:", *_lines(yes, 8), "        return x", *_lines(no), "    return x"]
    return Program(name, kind, tuple(steps), _module(lines))


def _class(size: int, rng: Rng, name: str) -> Program:
    """Draw a class of three methods; levels differ in the work on items as they come in and are summed up."""
    kind: Kind = rng.pick(("int", "str"))
    coming, summing = (
        _chain(kind, max(1, size // 2), rng, to=kind),
        _chain("ints" if kind == "int" else "strs", max(1, size - size // 2), rng),
    )
    steps = (
        f"put(x) takes {KINDS[kind]}, applies these steps to it: {', then '.join(w for w, _ in coming)}; and appends "
        "the result to those already stored",
        "drop() removes the most recently stored result and returns it (None if there is none)",
        f"result() applies these steps to a copy of the list of all stored results: "
        f"{', then '.join(w for w, _ in summing)}; and returns the final result",
    )
    lines = [
        f"class {name}:", "    def __init__(self):", "        self.kept = []", "",
        "    def put(self, x):", *_lines(coming, 8), "        self.kept.append(x)", "",
        "    def drop(self):", "        return self.kept.pop() if self.kept else None", "",
        "    def result(self):", "        x = list(self.kept)", *_lines(summing, 8), "        return x",
    ]  # fmt: skip
    return Program(name, kind, steps, _module(lines), is_class=True)


def _module(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def _lines(chain: Sequence[tuple[str, str]], indent: int = 4) -> list[str]:
    return [f"{' ' * indent}x = {source.format(x='x')}" for _, source in chain]


def _chain(
    kind: Kind, size: int, rng: Rng, *, number: str | None = None, to: Kind | None = None
) -> list[tuple[str, str]]:
    """Draw operations that fit one after the other: their words, and source in which only ``{x}`` is open."""
    drawn: list[Operation] = []
    for left in range(size, 0, -1):
        last = drawn[-1] if drawn else None
        fits = [op for op in OPERATIONS if op.takes == kind and op is not last]
        if number is not None and left == size:
            fits = [op for op in fits if "{n}" in op.source]
        if to is not None:
            fits = [op for op in fits if op.gives == to]
        if size == 1 and kind == "int":
            fits = [op for op in fits if op.gives == "int"]
        if left > 2 and kind != "int":  # a number too early makes later steps hard to distinguish
            fits = [op for op in fits if op.gives != "int"]
        drawn.append(rng.pick(fits))
        kind = drawn[-1].gives
    return [_filled(op.words, op.source, rng, number) for op in drawn]


def _condition(kind: Kind, rng: Rng) -> tuple[str, str]:
    condition = rng.pick([condition for condition in CONDITIONS if condition.takes == kind])
    words, source = _filled(condition.words, condition.source, rng, None)
    return words, source.format(x="x")


def _filled(words: str, source: str, rng: Rng, number: str | None) -> tuple[str, str]:
    value = number or str(rng.randint(2, 9))
    letter = rng.pick(LETTERS)
    return words.format(n=value, c=letter, x="{x}"), _open(source, value, letter)


def _open(source: str, number: str, letter: str) -> str:
    """Fill in the draws of a source, in which braces are still doubled and ``{x}`` is still open."""
    return source.replace("{n}", number).replace("{c}", letter)
