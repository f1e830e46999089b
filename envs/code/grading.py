"""Grading: an agent's files are checked in a fresh sandbox, and the results are judged outside of it.

1. The trusted process reads a snapshot of the agent's workspace. It takes only the bytes of the files named in
   ``CodeTask.taken``: no ``conftest.py``, ``sitecustomize.py``, planted module, link, process or result file.
2. It puts them into an unused sandbox, with the task's ``originals`` over them (the tests as they were) and its
   ``hidden`` files, which have not existed anywhere before.
3. There, ``inside/driver.py`` runs each check in a process of its own, with a time limit, and reports over a pipe.
4. The trusted process compares. The sandbox is destroyed.

Remaining attacks, and why they earn nothing. Submitted code runs in the process that reports, so that a determined
submission can find the reporting function in memory and make it report anything. For a ``ValueCheck`` that is
worthless. The report is a value, its canonical text is compared with one that never enters any sandbox, and reporting
the right value means computing it. Always-equal objects, patched comparisons, subclasses and ``sys.exit(0)`` have
another text than plain data, or none. Code can read the inputs of hidden cases that it is given; they are not secret.
For a ``TestCheck``, the process itself reports whether a test passed. Exits, prints, planted files and a patched
``unittest`` are caught. But code that finds the driver through stack frames can forge the report, and an object that
equals everything passes a test that compares with ``==``. Use values for tasks that train a policy. A ``WorkCheck``
compares values like a ``ValueCheck``, but the same process counts the work. Its files are therefore restricted to a
language that cannot name the counter (``CodeTask.languages``), and counting is woven into them before they go in.
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
"""Folder of the taken files that count their own work."""
DETAIL = 600
"""Characters kept of the reasons why operations were refused."""
FAR = 2
"""Multiple of its limit at which a submission's work is no longer counted, but stopped."""
Driven = ValueCheck | TestCheck | WorkCheck | SuiteCheck
"""Checks that run code."""
ENDINGS = {
    "timeout": Trouble.TIMEOUT,
    "oom": Trouble.OOM,
    "forged": Trouble.TAMPERING,
    "size": Trouble.SIZE,
}
"""Ways in which a check's process can end without a report, other than a crash."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one grading. A submission that exceeds one fails its checks; this is never an environment failure.

    Args:
        seconds: wall-clock time for all checks together, in seconds, whatever the limits of the single checks.
        taken: size of all taken files together, in bytes.
        source: size of a file with a restricted language, in bytes, since it is parsed outside of the sandbox. Twice
            the file's initial size is allowed if that is more.
    """

    seconds: float = 45.0
    taken: int = 1024 * 1024
    source: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class Graded:
    """The result of one check.

    Args:
        name: name of the check.
        passed: whether the check passed.
        trouble: class of the failure.
        detail: description of the failure, for readers who may know the expected values.
        partly: share of the cases that hold, of a check of values that did not pass; of other checks 0.
    """

    name: str
    passed: bool
    trouble: Trouble | None = None
    detail: str = ""
    partly: float = 0.0

    @property
    def share(self) -> float:
        """Share of the check that holds: 1 if it passed."""
        return 1.0 if self.passed else self.partly


async def graded(
    checks: Sequence[Check],
    task: CodeTask,
    workspace: Workspace,
    backend: Backend,
    spec: SandboxSpec | None = None,
    bounds: Bounds = Bounds(),
) -> tuple[Graded, ...]:
    """Run each check on the files that an agent left.

    Args:
        checks: checks of ``task``: the final ones, the visible ones, or those of its points of progress.
        task: the task.
        workspace: the agent's workspace.
        backend: creates the fresh sandbox; none is created if all checks only read files.
        spec: specification of that sandbox.
        bounds: limits of the grading.

    Raises:
        SandboxError: the sandbox could not be created or died. A submission that attacks the driver does not raise this
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
    """Describe unwanted changes in the workspace of a strict task."""
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
    """Describe code in the taken files that the task's languages do not allow."""
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
    if large := _too_large(task, workspace, bounds):
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
    """Describe which size limit the taken files exceed; empty if none."""
    sizes = {path: len(content) for path, content in workspace.only(task.taken).items()}
    if sum(sizes.values()) > bounds.taken:
        return f"the files to be graded have {sum(sizes.values())} bytes; at most {bounds.taken} are graded"
    for path in task.languages:
        most = max(bounds.source, 2 * len(task.files.get(path, b"")))
        if sizes.get(path, 0) > most:
            return f"{path} has {sizes[path]} bytes; at most {most} of source are graded"
    return ""


def _woven(taken: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the taken Python files with counting woven in, and the meter.

    A file that cannot be woven would not compile either, and is left out.
    """
    files = {f"{WOVEN}/{path}": content for path, content in meter_files().items()}
    for path, content in taken.items():
        if path.endswith(".py"):
            try:
                files[f"{WOVEN}/{path}"] = weave(content.decode("utf-8", "replace")).encode()
            except (TaskError, RecursionError):
                files[f"{WOVEN}/{path}"] = content
    return files


def _job(check: Driven) -> dict[str, Any]:
    """Return the driver's job for a check: everything except the expected results."""
    if isinstance(check, TestCheck):
        return {"kind": "tests", "tests": check.tests, "seconds": check.seconds}
    if isinstance(check, SuiteCheck):
        return suite_job(check.files, check.seconds)
    sources = [case.source for case in check.cases]
    job = {"kind": "values", "module": check.module, "sources": sources, "seconds": check.seconds}
    return {**job, "kind": "work", "stop": _stop(check)} if isinstance(check, WorkCheck) else job


def _stop(check: WorkCheck) -> int:
    """Return the units of work at which a check is stopped."""
    return FAR * max(check.most) * STATEMENT


def _judged(check: Driven, report: Mapping[str, Any]) -> Graded:
    if isinstance(check, WorkCheck) and (far := _far_too_much(check, report)):
        return far
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


def _far_too_much(check: WorkCheck, report: Mapping[str, Any]) -> Graded | None:
    """Return the failure of a check that was stopped, or could have been: it does not depend on how soon."""
    work = report.get("work")
    counted = isinstance(work, list) and any(type(units) is int and units > _stop(check) for units in work)
    if not counted and report.get("error") != "work":
        return None
    text = f"it took more than {FAR} times the {max(check.most)} statements that are allowed"
    return Graded(check.name, False, Trouble.WORK, text)


def _suite_judged(check: SuiteCheck, outcomes: Any) -> Graded:
    if not isinstance(outcomes, dict):
        return Graded(check.name, False, Trouble.TAMPERING, "what it reported has another shape")
    expected = dict(check.outcomes)
    other = [name for name in {**expected, **outcomes} if outcomes.get(name) != expected.get(name)]
    text = "; ".join(f"{name} {outcomes.get(name, 'is missing')}" for name in other[:5])
    return Graded(check.name, not other, Trouble.ASSERTION if other else None, text)


def _wrong(check: ValueCheck | WorkCheck, values: Any) -> Graded | None:
    """Return the failure of the first case with a wrong value, if any."""
    if not isinstance(values, list) or len(values) != len(check.cases):
        return Graded(check.name, False, Trouble.TAMPERING, "what it reported has another shape")
    wrong = [at for at, one in enumerate(check.cases) if values[at] != canonical.shortened(one.expected)]
    if not wrong:
        return None
    case, got = check.cases[wrong[0]], canonical.shown(str(values[wrong[0]]))
    raised = got.removeprefix("raises ") if got.startswith("raises ") else None
    text = f"{case.source}: expected {canonical.shown(case.expected)}, got {got}"
    partly = 1 - len(wrong) / len(values) if isinstance(check, ValueCheck) else 0.0
    return Graded(check.name, False, trouble_of(raised) if raised else Trouble.WRONG, text, partly)


def _too_much(check: WorkCheck, work: Any) -> Graded | None:
    """Return the failure of the first case that took too much work, if any."""
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
