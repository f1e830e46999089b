"""Task sets of repair that were built from somebody's package: a folder of sources, tests and verified faults.

``turnwise tasks build-repair`` writes one; ``PackageRepairFamily`` reads it::

    FOLDER/set.json        what it was built of: package, version, licence, digest of the sources, known outcomes
    FOLDER/tasks.jsonl     one verified fault a line: module, number of the mutation, tests that fail, digest
    FOLDER/tried.jsonl     what was tried without success, so that building can go on where it stopped
    FOLDER/sources/        the package and its tests, as they came
    FOLDER/libraries/      what its tests need to run: pytest and what that needs
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
"""Up to which share of the modules, in an order of their own, a module belongs to a split; one is always train's."""
SLACK = 5.0
"""How much longer than it was known to take a suite may take, and seconds more."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one module, and how they end on the original.

    Args:
        module: its path.
        files: of its tests.
        outcomes: of each test, by its id.
        seconds: that they took.
    """

    module: str
    files: tuple[str, ...]
    outcomes: Mapping[str, str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Fault:
    """One verified fault: its tests fail with it, and pass without, twice.

    Args:
        module: the path that it is in.
        number: of the mutation, in ``mutations(source)``.
        operator: its kind.
        scope: the function or class that it is in.
        failing: tests that fail.
        digest: of the mutated source.
    """

    module: str
    number: int
    operator: str
    scope: str
    failing: tuple[str, ...]
    digest: str

    @property
    def key(self) -> tuple[str, int]:
        """Which fault it is."""
        return self.module, self.number


@dataclass(frozen=True, slots=True)
class Header:
    """What a task set was built of.

    Args:
        package: its name.
        version: its version; empty if it says none.
        licence: what it says of its licence; empty if it says nothing.
        digest: of all its sources.
        python: the version of the interpreter that ran the tests.
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
        folder: where it is.

    Raises:
        TaskError: it is none, or its sources were changed.
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
        """All verified faults, in an order that is not that of verifying them."""
        found = [Fault(**{**line, "failing": tuple(line["failing"])}) for line in lines_of(self.folder / TASKS)]
        return tuple(sorted({fault.key: fault for fault in found}.values(), key=lambda fault: fault.key))

    @cached_property
    def suites(self) -> dict[str, Suite]:
        """The tests of each module, by its path."""
        return {suite.module: suite for suite in self.header.suites}

    def text(self, module: str) -> str:
        """The source of a module."""
        return self.sources[module].decode("utf-8")

    def broken(self, fault: Fault) -> str:
        """A module with a fault in it.

        Raises:
            TaskError: the mutations of this version are not those that the set was built with.
        """
        source = self.text(fault.module)
        known = _mutations(source)
        broken = mutate(source, [known[fault.number]]) if fault.number < len(known) else ""
        if source_digest(broken) != fault.digest:
            raise TaskError(f"fault {fault.number} of {fault.module} differs in this version: build the set again")
        return broken


class PackageRepairFamily(TaskFamily[CodeTask]):
    """Faults in somebody's package; a template is a module, and its own tests judge.

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
        return package_task(self.set, fault, told=spec.level == 1)

    def __reduce__(self) -> Any:
        return (PackageRepairFamily, (self.set.folder,))


def package_task(tasks: TaskSet, fault: Fault, told: bool) -> CodeTask:
    """The task to repair one fault."""
    suite, original = tasks.suites[fault.module], tasks.text(fault.module)
    seconds = SLACK * (1 + suite.seconds)
    check = SuiteCheck("its tests", suite.files, suite.outcomes, seconds)
    where = f" in {fault.scope}, and {len(fault.failing)} of its tests fail, such as {fault.failing[0]}" if told else ""
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
    """Every regular file below a folder, by its path relative to it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def digest_of(files: Mapping[str, bytes]) -> str:
    """Changes with every byte and name of the files."""
    return stable_hash([[path, hashlib.sha256(files[path]).hexdigest()] for path in sorted(files)]).hex()[:32]


def source_digest(source: str) -> str:
    """Changes with every character of a source."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON lines of a file; a last one that was cut off is left out, and a file that is not there has none."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def line_of(fault: Fault) -> str:
    """A fault as a line of ``tasks.jsonl``."""
    return json.dumps(asdict(fault), separators=(",", ":")) + "\n"


@lru_cache(maxsize=64)
def _mutations(source: str) -> tuple[Mutation, ...]:
    return mutations(source)
