"""Run jobs in a fresh sandbox through ``inside/driver.py``, whose reports are trusted no further than their shape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import SandboxError, ToolError
from ...sandboxes.backend import Backend
from ...sandboxes.result import ExecResult, Status
from ...sandboxes.spec import SandboxSpec
from ...tasks.code import canonical

PLACE = ".turnwise"
"""Folder of the driver in a grading sandbox."""
INSIDE = Path(__file__).parent / "inside"
GRACE = 5.0
"""Seconds for the driver itself, in addition to those for its checks."""
MANY = 3600.0
"""Seconds for a grading without a limit of its own."""


async def driven(
    jobs: Sequence[Mapping[str, Any]],
    files: Mapping[str, bytes],
    backend: Backend,
    spec: SandboxSpec | None,
    submitted: Mapping[str, bytes] | None = None,
    seconds: float = MANY,
) -> list[Mapping[str, Any]]:
    """Run jobs in a fresh sandbox with some files, and return the driver's report on each job.

    Args:
        jobs: jobs for ``inside/driver.py``.
        files: contents of the task author's files, by path.
        backend: creates the sandbox.
        spec: specification of the sandbox.
        submitted: an agent's files, by path; if they do not fit into the sandbox, every job fails.
        seconds: time limit for all jobs together, in seconds.

    Raises:
        SandboxError: the sandbox could not be created or died, or it has no Python.
    """
    limit = min(seconds, sum(job["seconds"] for job in jobs))
    sources = [INSIDE / "driver.py", Path(canonical.__file__)]
    driver = {f"{PLACE}/{source.name}": source.read_bytes() for source in sources}
    async with await backend.create(spec, files={**files, **driver}) as sandbox:
        try:
            await sandbox.write_files(submitted or {})
        except ToolError as error:
            return [{"error": "size", "detail": str(error)}] * len(jobs)
        done = await sandbox.exec(
            ["python3", "-s", "-S", f"{PLACE}/driver.py", f"{limit:g}"],
            stdin=json.dumps(jobs).encode(),
            env={"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
            timeout=GRACE + limit,
        )
    return _reports(done, len(jobs))


def suite_job(
    files: Sequence[str], seconds: float, write: Mapping[str, str] | None = None, first: bool = False
) -> dict[str, Any]:
    """Return a job that writes the files in ``write`` and runs test files; ``first`` stops at the first failure."""
    return {"kind": "suite", "files": list(files), "seconds": seconds, "write": dict(write or {}), "first": first}


def _reports(done: ExecResult, n: int) -> list[Mapping[str, Any]]:
    """Parse the driver's output. Only its shape is checked, since submitted code may have forged it."""
    try:
        read = json.loads(done.stdout.head + done.stdout.tail) if not done.stdout.dropped else None
    except (ValueError, RecursionError):
        read = None
    if isinstance(read, list) and len(read) == n and all(isinstance(report, dict) for report in read):
        return read
    if done.status is Status.EXITED and done.exit_code in (126, 127):
        raise SandboxError(f"there is no Python in the grading sandbox: {done.stderr.text[-200:]}")
    ending = {Status.TIMEOUT: "timeout", Status.OOM: "oom"}.get(done.status, "crash")
    return [{"error": ending, "detail": "what checks it did not come back"}] * n
