"""Grading: what an agent left is judged in a fresh sandbox, and what its code is worth is decided outside.

1. A snapshot of the agent's workspace is read by the trusted process. Only the files named in ``CodeTask.taken`` go on,
   as bytes: no ``conftest.py``, ``sitecustomize.py``, planted module, symbolic link, process or result file does.
2. They are put into a sandbox that nobody has used, with the task's ``originals`` over them (tests as they were) and
   its ``hidden`` files, which exist nowhere before.
3. There, ``inside/driver.py`` runs each check in a process of its own, with a time limit, and reports over a pipe.
4. The trusted process compares. The sandbox is destroyed.

What a submission could still do, and why it earns nothing. Its code runs in the process that reports, so a determined
one can find the reporting function in memory and make it say anything. For a ``ValueCheck`` that is worthless: what is
reported is a value, its canonical text is compared with one that never enters any sandbox, and to report the right
value is to compute it. Always-equal objects, patched comparisons, subclasses and ``sys.exit(0)`` have another text than
plain data, or none. The inputs of hidden cases can be read by the code that they are given to; that is no secret. For a
``TestCheck`` the process does say itself whether a test passed: exits, prints, planted files and patched ``unittest``
are caught, but code that hunts the driver through stack frames can forge it, and a test that compares with ``==`` can
be passed by an object that equals everything. Tasks that train a policy should use values. A ``WorkCheck`` compares
values like a ``ValueCheck``; its counts are counted by the same process, so that its files are held to a language
that has no word for the counter (``CodeTask.languages``), and the counting is woven into them before they go in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import TaskError
from ...sandboxes.backend import Backend
from ...sandboxes.spec import SandboxSpec
from ...tasks.code import canonical
from ...tasks.code.efficiency.meter.meter import STATEMENT
from ...tasks.code.efficiency.weaving import meter_files, weave
from ...tasks.code.language import objections
from ...tasks.code.task import Check, CodeTask, FileCheck, SuiteCheck, TestCheck, ValueCheck, WorkCheck
from ...tasks.code.trouble import Trouble, trouble_of
from .driving import PLACE, driven, suite_job
from .workspace import Workspace

WOVEN = f"{PLACE}/woven"
"""Where the taken files lie that count their work."""
DETAIL = 600
"""Characters of the reasons why operations were refused."""
Driven = ValueCheck | TestCheck | WorkCheck | SuiteCheck
"""Checks that run something."""
ENDINGS = {
    "timeout": Trouble.TIMEOUT,
    "oom": Trouble.OOM,
    "forged": Trouble.TAMPERING,
    "size": Trouble.SIZE,
}
"""How a check's process can end without a report, other than by crashing."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that a grading may take. A submission that exceeds a bound fails its checks: that is never a failure of
    the environment.

    Args:
        seconds: wall-clock seconds of all checks together, whatever each of them may take.
        taken: bytes of all taken files together.
        source: bytes of a file that is held to a language, which is parsed outside the sandbox; twice as many as the
            file had at first, where that is more.
    """

    seconds: float = 45.0
    taken: int = 1024 * 1024
    source: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class Graded:
    """What came of one check.

    Args:
        name: of the check.
        passed: whether it holds.
        trouble: why not.
        detail: that in words, for whoever may know what was expected.
    """

    name: str
    passed: bool
    trouble: Trouble | None = None
    detail: str = ""


async def graded(
    checks: Sequence[Check],
    task: CodeTask,
    workspace: Workspace,
    backend: Backend,
    spec: SandboxSpec | None = None,
    bounds: Bounds = Bounds(),
) -> tuple[Graded, ...]:
    """Each check, tried on what an agent left.

    Args:
        checks: of ``task``: those of the end, the visible ones, or its points of progress.
        workspace: the agent's.
        backend: makes the fresh sandbox; none is made if only files are checked.
        spec: of that sandbox.
        bounds: the most that it may take.

    Raises:
        SandboxError: the sandbox could not be made or died; whatever the submission does to the driver is no such
            error, but fails its checks.
    """
    inside = [check for check in checks if not isinstance(check, FileCheck)]
    reports: dict[str, Graded] = {}
    if inside:
        reports = {result.name: result for result in await _driven(inside, task, workspace, backend, spec, bounds)}
    return tuple(
        _file_graded(check, workspace) if isinstance(check, FileCheck) else reports[check.name] for check in checks
    )


def collateral(task: CodeTask, before: Workspace, after: Workspace) -> tuple[str, ...]:
    """What changed in the workspace of a strict task and should not have, in words."""
    if not task.strict:
        return ()
    free = {*task.taken, *(check.path for check in task.checks if isinstance(check, FileCheck))}
    found = []
    for path in sorted({*before.entries, *after.entries} - free):
        old, new = before.entries.get(path), after.entries.get(path)
        if old != new and not (_is_directory(old) or _is_directory(new)):
            found.append(f"{path} was {'added' if old is None else 'removed' if new is None else 'changed'}")
    return tuple(found)


def objected_to(task: CodeTask, workspace: Workspace) -> tuple[str, ...]:
    """What the taken files say that the task does not allow, in words."""
    found = []
    for path, language in task.languages.items():
        content = workspace.content(path)
        if content is not None:
            found += [f"{path}: {text}" for text in objections(content, language)]
    return tuple(found)


def _is_directory(entry: Any) -> bool:
    return entry is not None and entry.kind == "directory"


async def _driven(
    checks: Sequence[Driven],
    task: CodeTask,
    workspace: Workspace,
    backend: Backend,
    spec: SandboxSpec | None,
    bounds: Bounds,
) -> list[Graded]:
    missing = [path for path in task.taken if workspace.content(path) is None]
    if missing and not workspace.only(task.taken):
        return [Graded(check.name, False, Trouble.MISSING, f"there is no file {missing[0]}") for check in checks]
    large = _too_large(task, workspace, bounds)
    if large:
        return [Graded(check.name, False, Trouble.SIZE, large) for check in checks]
    objected = objected_to(task, workspace)
    if objected:
        return [Graded(check.name, False, Trouble.LANGUAGE, "; ".join(objected)) for check in checks]
    ours, theirs = {**task.originals, **task.hidden}, workspace.only(task.taken)
    if any(isinstance(check, WorkCheck) for check in checks):
        theirs |= _woven(theirs)
    theirs = {path: content for path, content in theirs.items() if path not in ours}
    reports = await driven([_job(check) for check in checks], ours, backend, spec, theirs, bounds.seconds)
    return [_judged(check, report) for check, report in zip(checks, reports, strict=True)]


def _too_large(task: CodeTask, workspace: Workspace, bounds: Bounds) -> str:
    """Which bound on bytes the taken files exceed, in words; empty if none."""
    sizes = {path: len(content) for path, content in workspace.only(task.taken).items()}
    if sum(sizes.values()) > bounds.taken:
        return f"the files to be graded have {sum(sizes.values())} bytes; at most {bounds.taken} are graded"
    for path in task.languages:
        most = max(bounds.source, 2 * len(task.files.get(path, b"")))
        if sizes.get(path, 0) > most:
            return f"{path} has {sizes[path]} bytes; at most {most} of source are graded"
    return ""


def _woven(taken: Mapping[str, bytes]) -> dict[str, bytes]:
    """The taken Python files that can be woven; whatever cannot does not compile either, and is left out."""
    files = {f"{WOVEN}/{path}": content for path, content in meter_files().items()}
    for path, content in taken.items():
        if path.endswith(".py"):
            try:
                files[f"{WOVEN}/{path}"] = weave(content.decode("utf-8", "replace")).encode()
            except (TaskError, RecursionError):
                files[f"{WOVEN}/{path}"] = content
    return files


def _job(check: Driven) -> dict[str, Any]:
    """What the driver is told of a check: everything but what is expected."""
    if isinstance(check, TestCheck):
        return {"kind": "tests", "tests": check.tests, "seconds": check.seconds}
    if isinstance(check, SuiteCheck):
        return suite_job(check.files, check.seconds)
    sources = [case.source for case in check.cases]
    job = {"kind": "values", "module": check.module, "sources": sources, "seconds": check.seconds}
    return {**job, "kind": "work"} if isinstance(check, WorkCheck) else job


def _judged(check: Driven, report: Mapping[str, Any]) -> Graded:
    if "error" in report:
        kind = str(report["error"])
        trouble = trouble_of(str(report.get("type"))) if kind == "exception" else ENDINGS.get(kind, Trouble.CRASH)
        return Graded(check.name, False, trouble, str(report.get("detail", "")))
    if isinstance(check, TestCheck):
        passed = report.get("passed") == list(check.tests)
        return Graded(check.name, passed, None if passed else Trouble.ASSERTION)
    if isinstance(check, SuiteCheck):
        return _suite_judged(check, report.get("outcomes"))
    if isinstance(check, WorkCheck) and report.get("refused"):
        return Graded(check.name, False, Trouble.LANGUAGE, "; ".join(map(str, report["refused"]))[:DETAIL])
    wrong = _wrong(check, report.get("values"))
    if wrong is None and isinstance(check, WorkCheck):
        wrong = _too_much(check, report.get("work"))
    return wrong or Graded(check.name, True)


def _suite_judged(check: SuiteCheck, outcomes: Any) -> Graded:
    if not isinstance(outcomes, dict):
        return Graded(check.name, False, Trouble.TAMPERING, "what it reported has another shape")
    expected = dict(check.outcomes)
    other = [name for name in {**expected, **outcomes} if outcomes.get(name) != expected.get(name)]
    text = "; ".join(f"{name} {outcomes.get(name, 'is missing')}" for name in other[:5])
    return Graded(check.name, not other, Trouble.ASSERTION if other else None, text)


def _wrong(check: ValueCheck | WorkCheck, values: Any) -> Graded | None:
    """The first case that did not come out right."""
    if not isinstance(values, list) or len(values) != len(check.cases):
        return Graded(check.name, False, Trouble.TAMPERING, "what it reported has another shape")
    for case, value in zip(check.cases, values, strict=True):
        if value != canonical.shortened(case.expected):
            got = canonical.shown(str(value))
            raised = got.removeprefix("raises ") if got.startswith("raises ") else None
            text = f"{case.source}: expected {canonical.shown(case.expected)}, got {got}"
            return Graded(check.name, False, trouble_of(raised) if raised else Trouble.WRONG, text)
    return None


def _too_much(check: WorkCheck, work: Any) -> Graded | None:
    """The first case that took more than it may."""
    if not isinstance(work, list) or [type(amount) for amount in work] != [int] * len(check.cases):
        return Graded(check.name, False, Trouble.TAMPERING, "what it reported has another shape")
    for case, units, most in zip(check.cases, work, check.most, strict=True):
        amount = -(-units // STATEMENT)
        if not 0 < amount <= most:
            trouble = Trouble.WORK if amount > 0 else Trouble.TAMPERING
            text = f"{canonical.shown(case.source)} took {amount} statements of {most}"
            return Graded(check.name, False, trouble, text)
    return None


def _file_graded(check: FileCheck, workspace: Workspace) -> Graded:
    entry, content = workspace.entries.get(check.path), workspace.content(check.path)
    if check.content is None:
        passed = entry is None
        return Graded(check.name, passed, None if passed else Trouble.WRONG, "" if passed else f"{check.path} is there")
    if content is None or entry is None:
        return Graded(check.name, False, Trouble.MISSING, f"there is no file {check.path}")
    if content != check.content:
        return Graded(check.name, False, Trouble.WRONG, f"{check.path} holds something else")
    if check.mode is not None and entry.mode != check.mode:
        text = f"{check.path} has mode {entry.mode:o}, not {check.mode:o}"
        return Graded(check.name, False, Trouble.WRONG, text)
    return Graded(check.name, True)
