"""Text of observations in code environments: numbered lines, output clipped in the middle, test reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from ...sandboxes.result import ExecResult, FileInfo, Status
from ...tasks.code.trouble import Trouble, trouble_in
from .grading import Graded

LONGEST = 4000
"""Most characters of one answer to a call."""
LISTED = 200
"""Most files of a listing."""
FOUND = 50
"""Most lines that a search shows."""
COUNTED = 1000
"""Most lines that a search counts."""
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
"""An object's memory address in its ``repr``, which differs between processes."""


def clipped(text: str, limit: int = LONGEST) -> str:
    """Return the beginning and the end of a text, with the number of omitted characters between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters omitted …]\n{text[-half:]}"


def numbered(text: str, first: int, count: int) -> str:
    """Return lines of a file with their numbers, and the total number of lines."""
    lines = text.splitlines()
    if not lines:
        return "The file is empty."
    if first > len(lines):
        return f"The file has only {len(lines)} lines; there is no line {first}."
    chosen = lines[first - 1 : first - 1 + count]
    shown = "\n".join(f"{number:>5}  {line}" for number, line in enumerate(chosen, first))
    last = first - 1 + len(chosen)
    more = f"\n[lines {first} to {last} of {len(lines)}]" if len(chosen) < len(lines) else ""
    return clipped(shown) + more


def listing(files: Sequence[FileInfo]) -> str:
    """List files with their sizes, and directories with a trailing slash."""
    lines = [f"{info.path}/" if info.kind == "directory" else _listed(info) for info in files[:LISTED]]
    if len(files) > LISTED:
        lines.append(f"[… {len(files) - LISTED} more …]")
    return "\n".join(lines) or "There are no files."


def _listed(info: FileInfo) -> str:
    return f"{info.path}  {info.size} bytes" if info.kind == "file" else f"{info.path}  ({info.kind})"


def matches(found: Iterable[tuple[str, int, str]]) -> str:
    """List lines in which a text was found, by file and line number."""
    lines = [f"{path}:{number}: {line.strip()[:160]}" for path, number, line in islice(found, COUNTED + 1)]
    least = "more than " if len(lines) > COUNTED else ""
    more = [f"[… {least}{min(len(lines), COUNTED) - FOUND} more …]"] if len(lines) > FOUND else []
    return "\n".join([*lines[:FOUND], *more]) or "No matches."


def outcome(result: ExecResult, seconds: float) -> str:
    """Describe a command's output and how it ended within its limit of ``seconds``."""
    ending = {
        Status.TIMEOUT: f"Stopped: it did not finish within {seconds:g} seconds.",
        Status.OOM: "Stopped: it ran out of memory.",
        Status.SIGNALED: f"Terminated by signal {result.signal}.",
        Status.EXITED: f"Exit code {result.exit_code}.",
    }[result.status]
    parts = [part for part in (result.stdout.text.rstrip("\n"), result.stderr.text.rstrip("\n")) if part]
    return "\n".join([ADDRESS.sub("0x…", clipped("\n".join(parts))), ending] if parts else [ending])


def trouble_with(result: ExecResult) -> Trouble | None:
    """Return the class of a command's failure; ``None`` if it succeeded."""
    if result.ok:
        return None
    special = {Status.TIMEOUT: Trouble.TIMEOUT, Status.OOM: Trouble.OOM, Status.SIGNALED: Trouble.CRASH}
    return special.get(result.status) or trouble_in(result.stderr.text) or Trouble.OTHER


def report(results: Sequence[Graded]) -> str:
    """Describe the results of the visible checks."""
    if not results:
        return "There are no visible tests."
    good = sum(result.passed for result in results)
    lines = [f"{good} of {len(results)} tests passed."]
    for result in results:
        if not result.passed:
            why = f" {clipped(result.detail.strip(), 600)}" if result.detail else ""
            lines.append(f"{result.name} failed ({result.trouble}).{why}")
    return clipped("\n".join(lines))
