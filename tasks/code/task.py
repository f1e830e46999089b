"""``CodeTask``: what is asked of an agent that works on files, and how what it leaves behind is graded.

Nothing here runs anything. ``envs/code/grading.py`` grades: it takes the files named in ``taken`` out of the agent's
sandbox, puts them with ``originals`` and ``hidden`` into a fresh one, and runs the checks there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ...errors import TaskError
from . import canonical
from .language import Language

Files = Mapping[str, bytes]
"""Contents of files by path, relative to the workspace."""


@dataclass(frozen=True, slots=True)
class Case:
    """One expression and what it must be worth.

    Args:
        source: Python statements, the last of which is an expression; names are the check's module's.
        expected: the canonical text of its value, or of the exception that it must raise; never enters a sandbox.
    """

    source: str
    expected: str


def case(source: str, value: object) -> Case:
    """Return a case whose expression must have ``value``, which is plain data.

    Raises:
        TaskError: it is not.
    """
    try:
        return Case(source, canonical.encode(value))
    except canonical.Unplain as error:
        raise TaskError(f"{source} cannot be checked: its value is not plain data ({error})") from None


def raising(source: str, error: str) -> Case:
    """Return a case whose expression must raise an exception of exactly this type, e.g. ``"ValueError"``."""
    return Case(source, canonical.raises(error))


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """Expressions evaluated on the submitted files, their values compared type by type outside the sandbox.

    Args:
        name: name of the check.
        cases: expressions with the values that all of them must have, evaluated in one process in this order.
        module: module to import first, whose names the expressions use; may be hidden; ``""`` for none.
        seconds: time limit of its process, in seconds.
    """

    name: str
    cases: tuple[Case, ...]
    module: str = "solution"
    seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class TestCheck:
    """Unit tests run by our own driver. The process of the submitted code reports their results, which is weaker than a
    ``ValueCheck``: see ``envs/code/grading.py``.

    Args:
        name: name of the check.
        tests: ids ``path::function`` or ``path::Class::method`` of plain functions or unittest's methods.
        seconds: time limit of its process, in seconds.
    """

    __test__ = False  # otherwise pytest collects it as a class of tests

    name: str
    tests: tuple[str, ...]
    seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class FileCheck:
    """A file of the workspace itself, compared outside; nothing is run.

    Args:
        name: name of the check.
        path: path in the workspace.
        content: required bytes; ``None`` if the file must not exist.
        mode: required permission bits; ``None`` for any.
    """

    name: str
    path: str
    content: bytes | None
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class WorkCheck:
    """Work that expressions may take, counted inside while they are evaluated; their values are compared too.

    The submitted files are woven (``weaving.py``), so that their statements and what they do in C count themselves.

    Args:
        name: name of the check.
        cases: as of a ``ValueCheck``; the first is charged with importing the module.
        most: how much each case may take, in statements.
        module: as of a ``ValueCheck``.
        seconds: time limit of its process, in seconds.
    """

    name: str
    cases: tuple[Case, ...]
    most: tuple[int, ...]
    module: str = "solution"
    seconds: float = 20.0

    def __post_init__(self) -> None:
        if len(self.most) != len(self.cases):
            raise TaskError(f"work check {self.name!r} has {len(self.cases)} cases and {len(self.most)} limits")


WHOLE = "{answer}"
"""The hole of a task whose plain answer is the file itself."""


@dataclass(frozen=True, slots=True)
class SuiteCheck:
    """A third party's test files under pytest, each test of which must end as it is known to. As weak as a
    ``TestCheck``, and so for files that are held to a language (``CodeTask.languages``).

    Args:
        name: name of the check.
        files: of tests, by path.
        outcomes: how each test ends by its node id: ``passed``, ``skipped`` or ``failed``; there must be no others.
        seconds: time limit of its process, in seconds.
    """

    name: str
    files: tuple[str, ...]
    outcomes: Mapping[str, str]
    seconds: float = 60.0


Check = ValueCheck | TestCheck | FileCheck | WorkCheck | SuiteCheck


@dataclass(frozen=True, slots=True)
class Attempt:
    """Actions of an agent on a task: write files, then run shell commands, then submit.

    Args:
        files: files to write, with their whole contents.
        commands: shell commands to run after that, in order.
    """

    files: Files = field(default_factory=dict)
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class CodeTask:
    """One task on files.

    Args:
        prompt: text of the task.
        files: files of the workspace at the beginning.
        checks: checks for grading; success means that all pass, without collateral.
        solution: attempt that solves it; it enters a sandbox only when the oracle plays it.
        taken: paths of the files that are graded; other files of the agent are ignored.
        languages: permitted language of some of those files; every check that runs a file fails if it goes beyond.
        databases: SQL that creates the SQLite files of the workspace, by path.
        libraries: local folder of Python packages that the code can import but not change.
        originals: files such as tests and fixtures that replace the agent's before grading.
        hidden: files that exist only while grading.
        visible: checks that the agent can run with ``test``, which shows the expected values.
        progress: checks that measure progress, from easy to hard; never part of success.
        weights: weights of the checks for partial credit, by name; 1 for the others.
        cheats: named attempts that must not succeed.
        hole: for a task with one taken file, the text of that file, with ``{answer}`` in place of a plain answer.
        perform: shell command that carries out a plain answer, with ``{answer}`` in place of the quoted answer; for
            tasks whose answer is an action and not a file.
        ask: description of a plain answer for agents that answer in text; empty for the whole taken file.
        answer: solution as a plain answer, where ``hole`` has more than the answer.
        guesses: plain answers of an agent that knows only what answers look like.
        strict: whether a changed file counts as collateral if it is neither named by a ``FileCheck`` nor in
            ``taken``.
        turns: limit on the number of actions; ``None`` for the environment's own.
    """

    prompt: str
    files: Files
    checks: tuple[Check, ...]
    solution: Attempt
    taken: tuple[str, ...] = ()
    languages: Mapping[str, Language] = field(default_factory=dict)
    databases: Mapping[str, str] = field(default_factory=dict)
    libraries: Path | None = None
    originals: Files = field(default_factory=dict)
    hidden: Files = field(default_factory=dict)
    visible: tuple[Check, ...] = ()
    progress: tuple[Check, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    cheats: Mapping[str, Attempt] = field(default_factory=dict)
    hole: str = WHOLE
    perform: str = ""
    ask: str = ""
    answer: str = ""
    guesses: tuple[str, ...] = ()
    strict: bool = False
    turns: int | None = None

    def __post_init__(self) -> None:
        for group in (self.checks, self.visible, self.progress):
            names = [check.name for check in group]
            if len(set(names)) < len(names):
                raise TaskError(f"two checks have one name: {sorted(names)}")
        if not self.checks:
            raise TaskError("a task without checks cannot be graded")
        unknown = set(self.weights) - {check.name for check in self.checks}
        if unknown:
            raise TaskError(f"a weight names no check: {min(unknown)!r}")

    @cached_property
    def credit(self) -> Mapping[str, float]:
        """The share of each check in partial credit, by name; the shares add up to 1."""
        weights = {check.name: self.weights.get(check.name, 1.0) for check in self.checks}
        return {name: weight / sum(weights.values()) for name, weight in weights.items()}


def text_files(files: Mapping[str, str]) -> dict[str, bytes]:
    """Return files from their texts."""
    return {path: text.encode() for path, text in files.items()}
