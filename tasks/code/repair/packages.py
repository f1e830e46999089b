"""Repair task sets built from a user's package: a folder of sources, tests and verified faults.

``turnwise tasks build-repair`` writes one; ``PackageRepairFamily`` reads it::

    FOLDER/set.json        its origin: package, version, license, digest of the sources, known outcomes
    FOLDER/tasks.jsonl     one verified fault per line: module, number of the mutation, tests that fail, digest
    FOLDER/tried.jsonl     faults tried without success, so that a build can continue where it stopped
    FOLDER/sources/        the package and its tests, unchanged
    FOLDER/libraries/      the libraries that its tests need: pytest and its dependencies
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ....errors import TaskError
from ...family import TaskFamily
from ...rng import Rng, stable_hash, unit_hash
from ...spec import Split, TaskSpec
from ..language import as_in
from ..task import Attempt, CodeTask, SuiteCheck, text_files
from .mutation import Mutation, mutate, mutations

HEADER, TASKS, TRIED, SOURCES, LIBRARIES = "set.json", "tasks.jsonl", "tried.jsonl", "sources", "libraries"
SHARES = ((Split.TEST_TEMPLATE, 0.25), (Split.TEST_IID, 0.4), (Split.DEV, 0.5), (Split.TRAIN, 1.0))
"""Shares of the modules, in a hashed order, up to which a module belongs to a split; train always gets one module."""
SLACK = 5.0
"""Factor and additional seconds by which a suite may exceed its measured time."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one module, with their outcomes on the original.

    Args:
        module: path of the module.
        files: paths of its test files.
        outcomes: outcome of each test, by its id.
        seconds: measured time of the tests, in seconds.
    """

    module: str
    files: tuple[str, ...]
    outcomes: Mapping[str, str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Fault:
    """One verified fault: its tests fail with it and pass without it, in two runs.

    Args:
        module: path of the module.
        number: index of the mutation in ``mutations(source)``.
        operator: kind of the mutation.
        scope: dotted name of the enclosing function or class.
        failing: ids of the tests that fail.
        digest: digest of the mutated source.
    """

    module: str
    number: int
    operator: str
    scope: str
    failing: tuple[str, ...]
    digest: str

    @property
    def key(self) -> tuple[str, int]:
        """Identity of the fault."""
        return self.module, self.number


@dataclass(frozen=True, slots=True)
class Header:
    """Metadata of a task set.

    Args:
        package: name of the package.
        version: version of the package; empty if unknown.
        ``licence``: license in the package's metadata; empty if unknown.
        digest: digest of all sources.
        python: version of the interpreter that ran the tests.
        suites: the modules that have tests.
    """

    package: str
    version: str
    licence: str
    digest: str
    python: str
    suites: tuple[Suite, ...]


class TaskSet:
    """A folder that ``build-repair`` wrote.

    Args:
        folder: path of the folder.

    Raises:
        TaskError: the folder is not a task set, or its sources have changed.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).resolve()
        try:
            data = json.loads((self.folder / HEADER).read_text(encoding="utf-8"))
            suites = tuple(Suite(**{**suite, "files": tuple(suite["files"])}) for suite in data.pop("suites"))
            self.header = Header(**data, suites=suites)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise TaskError(
                f"{folder} is not a task set ({type(error).__name__}: {error}); write one with: turnwise "
                f"tasks build-repair PACKAGE --out {folder}"
            ) from None
        if digest_of(self.sources) != self.header.digest:
            raise TaskError(f"the sources in {self.folder / SOURCES} are not those from which the tasks were built")

    @cached_property
    def sources(self) -> dict[str, bytes]:
        """Every file of the package and its tests, by path."""
        return files_below(self.folder / SOURCES)

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """All verified faults, in an order that does not depend on when they were verified."""
        found = [Fault(**{**line, "failing": tuple(line["failing"])}) for line in lines_of(self.folder / TASKS)]
        return tuple(sorted({fault.key: fault for fault in found}.values(), key=lambda fault: fault.key))

    @cached_property
    def suites(self) -> dict[str, Suite]:
        """The tests of each module, by its path."""
        return {suite.module: suite for suite in self.header.suites}

    def text(self, module: str) -> str:
        """Return the source of a module."""
        return self.sources[module].decode("utf-8")

    def broken(self, fault: Fault) -> str:
        """Return the source of a module with a fault injected.

        Raises:
            TaskError: this version of Turnwise generates other mutations than the one that built the set.
        """
        source = self.text(fault.module)
        known = _mutations(source)
        broken = mutate(source, [known[fault.number]]) if fault.number < len(known) else ""
        if source_digest(broken) != fault.digest:
            raise TaskError(f"fault {fault.number} of {fault.module} differs in this version: build the set again")
        return broken


class PackageRepairFamily(TaskFamily[CodeTask]):
    """Faults in a user's package; a template is a module, and the module's own tests decide.

    Level 1 names the function and the tests that fail; level 2 only the module.
    """

    levels = (1, 2)

    def __init__(self, folder: Path | str) -> None:
        self.set = TaskSet(folder)
        self.name = f"code-repair:{self.set.header.package}"
        found = {str(split): bool(self.templates(split)) for split in Split}
        self.splits = tuple(split for split in Split if found[split])
        if not self.splits:
            raise TaskError(f"the task set {folder} has no verified task yet; continue building it")

    def templates(self, split: Split) -> tuple[str, ...]:
        owner = Split.TEST_TEMPLATE if split is Split.CHALLENGE else split
        return tuple(module for module in self.modules if self.split_of(module) is owner)

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """The modules that have verified faults."""
        return tuple(sorted({fault.module for fault in self.set.faults}))

    def split_of(self, module: str) -> Split:
        """Return the split that has the faults of a module; ``challenge`` has those of ``test_template``."""
        order = sorted(self.modules, key=lambda name: unit_hash("repair-module", self.set.header.package, name))
        count, place = len(order), order.index(module)
        return next(split for split, upto in SHARES if place < min(int(upto * count + 0.5), count - (upto < 1)))

    def build(self, spec: TaskSpec, rng: Rng) -> CodeTask:
        pool = [fault for fault in self.set.faults if fault.module == spec.template]
        fault = pool[spec.seed % len(pool)]
        return package_task(self.set, fault, located=spec.level == 1)

    def __reduce__(self) -> Any:
        return (PackageRepairFamily, (self.set.folder,))


def package_task(tasks: TaskSet, fault: Fault, located: bool) -> CodeTask:
    """Return the task to repair one fault; if ``located``, its prompt names the function and a failing test."""
    suite, original = tasks.suites[fault.module], tasks.text(fault.module)
    seconds = SLACK * (1 + suite.seconds)
    check = SuiteCheck("its tests", suite.files, suite.outcomes, seconds)
    where = (
        f" in {fault.scope}, and {len(fault.failing)} of its tests fail, such as {fault.failing[0]}" if located else ""
    )
    prompt = (
        f"The package {tasks.header.package} worked until someone introduced one bug into {fault.module}{where}. "
        f"Find and fix it. You are judged by {', '.join(suite.files)}, as they are now. Only {fault.module} is used, "
        "and it may not import or access anything that it did not before."
    )
    return CodeTask(
        prompt=prompt,
        files={**tasks.sources, **text_files({fault.module: tasks.broken(fault)})},
        checks=(check,),
        solution=Attempt(text_files({fault.module: original})),
        taken=(fault.module,),
        languages={fault.module: as_in(original)},
        libraries=tasks.folder / LIBRARIES,
        originals={path: content for path, content in tasks.sources.items() if path != fault.module},
        visible=(check,),
        cheats={
            "empties the module": Attempt({fault.module: b""}),
            "empties the tests": Attempt(dict.fromkeys(suite.files, b"def test_nothing():\n    pass\n")),
            "ends with success": Attempt(text_files({fault.module: f"import os\nos._exit(0)\n{original}"})),
        },
    )


def files_below(folder: Path) -> dict[str, bytes]:
    """Return every regular file below a folder, by its relative path."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def digest_of(files: Mapping[str, bytes]) -> str:
    """Return a digest of the names and contents of files."""
    return stable_hash([[path, hashlib.sha256(files[path]).hexdigest()] for path in sorted(files)]).hex()[:32]


def source_digest(source: str) -> str:
    """Return a digest of a source."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON lines of a file. Skip a last line that was cut off; a missing file has no lines."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def line_of(fault: Fault) -> str:
    """Return a fault as a line of ``tasks.jsonl``."""
    return json.dumps(asdict(fault), separators=(",", ":")) + "\n"


@lru_cache(maxsize=64)
def _mutations(source: str) -> tuple[Mutation, ...]:
    return mutations(source)
