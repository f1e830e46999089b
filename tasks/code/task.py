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
"""Contents by path, relative to the workspace."""


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
    """A case whose expression must be worth ``value``, which is plain data.

    Raises:
        TaskError: it is not.
    """
    try:
        return Case(source, canonical.encode(value))
    except canonical.Unplain as error:
        raise TaskError(f"{source} cannot be checked: its value is not plain data ({error})") from None


def raising(source: str, error: str) -> Case:
    """A case whose expression must raise an exception of exactly this type, e.g. ``"ValueError"``."""
    return Case(source, canonical.raises(error))


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """Expressions evaluated on the submitted files, their values compared type by type outside the sandbox.

    Args:
        name: of the check.
        cases: all must come out right; each is evaluated in the same process, in this order.
        module: what is imported first, and whose names the expressions see; may be a hidden one, and ``""`` for none.
        seconds: after which its process is killed.
    """

    name: str
    cases: tuple[Case, ...]
    module: str = "solution"
    seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class TestCheck:
    """Unit tests run by our own driver. What they claim is said by the process that the submitted code runs in, which
    is weaker than a ``ValueCheck``: see ``envs/code/grading.py``.

    Args:
        name: of the check.
        tests: ``path::function`` or ``path::Class::method``; unittest's classes or plain functions.
        seconds: after which its process is killed.
    """

    __test__ = False  # for pytest, which takes it for a class of tests

    name: str
    tests: tuple[str, ...]
    seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class FileCheck:
    """A file of the workspace itself, compared outside; nothing is run.

    Args:
        name: of the check.
        path: in the workspace.
        content: its bytes; ``None``: there is no such file.
        mode: its permission bits, where they matter.
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
        name: of the check.
        cases: as of a ``ValueCheck``; the first is charged with importing the module.
        most: how much each case may take, in statements.
        module: as of a ``ValueCheck``.
        seconds: after which its process is killed.
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
        name: of the check.
        files: of tests, by path.
        outcomes: how each test ends by its node id: ``passed``, ``skipped`` or ``failed``; there must be no others.
        seconds: after which its process is killed.
    """

    name: str
    files: tuple[str, ...]
    outcomes: Mapping[str, str]
    seconds: float = 60.0


Check = ValueCheck | TestCheck | FileCheck | WorkCheck | SuiteCheck


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an agent may do with a task: write files, then run shell commands, then submit.

    Args:
        files: to write, whole.
        commands: for the shell, in order, after the files.
    """

    files: Files = field(default_factory=dict)
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class CodeTask:
    """One task on files.

    Args:
        prompt: what is asked.
        files: what the agent finds in its workspace.
        checks: what is graded in the end; success is all of them, and no collateral.
        solution: what solves it; never enters a sandbox, except by the oracle's hands.
        taken: the files whose contents are graded; whatever else the agent leaves is ignored.
        languages: what some of those files may say; one that says more fails every check that runs it.
        databases: SQLite files of the workspace, by path: SQL that makes them.
        libraries: a folder of this machine with Python packages that its code can import and not change.
        originals: files put over the agent's before grading: tests, fixtures. By default none.
        hidden: files that exist only while grading.
        visible: checks that the agent may try with ``test``, which tells it what was expected.
        progress: checks that tell how far the agent has come, from easy to hard; never part of success.
        weights: of the checks for partial credit; 1 for those that are not named.
        cheats: named attempts that must not succeed.
        hole: of a task with one taken file: that file around a plain answer, which stands for ``{answer}``.
        perform: the shell command that does what a plain answer says, which stands, quoted, for ``{answer}``; for tasks
            in which an answer is something to do, and not a file.
        ask: what a plain answer is, in words, for agents that answer in text; empty: the whole taken file.
        answer: the solution as a plain answer, where ``hole`` is more than the answer.
        guesses: plain answers of an agent that knows what answers look like and nothing else.
        strict: any file that is neither named by a ``FileCheck`` nor in ``taken`` must be as it was; else it is
            collateral.
        turns: how many actions an agent has; ``None``: the environment's own limit.
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
        """What each check is worth in partial credit; the shares add up to 1."""
        weights = {check.name: self.weights.get(check.name, 1.0) for check in self.checks}
        return {name: weight / sum(weights.values()) for name, weight in weights.items()}


def text_files(files: Mapping[str, str]) -> dict[str, bytes]:
    """Files from text."""
    return {path: text.encode() for path, text in files.items()}
