"""Plant twenty faults where mistakes matter most, and check that the core of the tests catches each.

Each fault of ``planted_faults_table`` is planted by itself in a temporary copy of the working tree. First the test
files that should see it run, then, if nothing there fails, the whole core. At the end the tests that failed run again
without any fault; where one fails all the same, its fault does not count as caught. The exit code is 1 if one escapes.

Run: python benchmarks/planted_faults.py [--only NAME …] [--json FILE [--resume]]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from planted_faults_table import FAULTS, Fault
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
OWN_TEST = "tests/benchmarks/test_planted_faults.py"
"""Compares the table with the sources, so every planted fault breaks it."""
ALONE = "tests/sandboxes/check"
"""Tests that watch the whole machine, and so run after the others, as in ``scripts/test``."""
CORE = ("--numprocesses", "2", "--dist", "worksteal", "--ignore", OWN_TEST, "--ignore", ALONE)
FAILED = (1, 2)
"""Exit codes of pytest after a failed test; 2 where several processes stop at the first."""


@dataclass(frozen=True)
class Result:
    """The result of one fault.

    Args:
        place: part of the system that the fault breaks.
        fault: its name.
        planted: the file with the old and the new text, to tell whether a stored result is still valid.
        caught_by: names of the tests that fail with the fault and pass without; empty if it escaped.
        core: whether the whole core had to run.
        seconds: time until the first failure, or until all tests had passed.
        note: why failed tests do not count, if they do not.
    """

    place: str
    fault: str
    planted: str
    caught_by: tuple[str, ...]
    core: bool
    seconds: float
    note: str = ""


def copy_tree(target: Path) -> None:
    """Copy the working tree, uncommitted changes included, as a repository of its own."""
    git = ["git", "-C", str(ROOT)]
    subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", str(ROOT), str(target)], check=True)
    listing = [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split("\0"):
        source = ROOT / name
        if name and (source.is_symlink() or source.is_file()):  # a deleted file is listed until it is committed
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    subprocess.run(["git", "-C", str(target), "add", "--all"], check=True)


def planted_text(text: str, fault: Fault) -> str:
    """Return a file's text with the fault in it.

    Raises:
        ValueError: the old text does not occur exactly once.
    """
    count = text.count(fault.old)
    if count != 1:
        raise ValueError(f"{fault.name}: its old text occurs {count} times in {fault.file}, not once; update the table")
    return text.replace(fault.old, fault.new)


@contextmanager
def planted(copy: Path, fault: Fault) -> Iterator[None]:
    """Plant a fault in the copy, and remove it at the end."""
    path = copy / fault.file
    sound = path.read_text()
    path.write_text(planted_text(sound, fault))
    try:
        yield
    finally:
        path.write_text(sound)


def failing(copy: Path, arguments: Sequence[str]) -> tuple[str, ...]:
    """Run tests of the core in the copy until one fails, and return the names of those that failed.

    Raises:
        RuntimeError: pytest could not run them.
    """
    cache = copy / ".pytest_cache/v/cache/lastfailed"
    cache.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--shift", "core", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ()
    failed = tuple(json.loads(cache.read_text())) if cache.exists() else ()
    collected = bool(failed) and all("::" in name for name in failed)  # a file that cannot be collected has no test
    if done.returncode not in FAILED or not collected:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
        raise RuntimeError(f"exit code {done.returncode} of {' '.join(command)}:\n{end}")
    return failed


def tried(copy: Path, fault: Fault) -> Result:
    """Plant one fault, and look for a test that fails."""
    began = time.perf_counter()
    with planted(copy, fault):
        failed = failing(copy, fault.tests)
        core = not failed
        if core:
            failed = failing(copy, CORE) or failing(copy, [ALONE])
    return Result(fault.place, fault.name, identity(fault), failed, core, round(time.perf_counter() - began, 1))


def confirmed(copy: Path, results: Sequence[Result]) -> list[Result]:
    """Run the tests that failed again, without a fault; those that fail all the same have caught nothing."""
    names = sorted({name for each in results for name in each.caught_by})
    anyway = set(failing(copy, ["--maxfail=0", *names])) if names else set()
    return [
        replace(each, caught_by=(), note=f"{', '.join(found)} fails without the fault too")
        if (found := [name for name in each.caught_by if name in anyway])
        else each
        for each in results
    ]


def identity(fault: Fault) -> str:
    """Describe what is planted, as stored results name it."""
    return f"{fault.file}: {fault.old!r} -> {fault.new!r}"


def stored(path: Path) -> list[Result]:
    """Read the caught faults of an earlier run that are still in the table."""
    known = {identity(fault) for fault in FAULTS}
    read = [Result(**{**each, "caught_by": tuple(each["caught_by"])}) for each in json.loads(path.read_text())]
    return [each for each in read if each.planted in known and each.caught_by]


def write(path: Path | None, results: Sequence[Result]) -> None:
    """Write the results, if a file is wanted."""
    if path is not None:
        path.write_text(json.dumps([asdict(each) for each in results], indent=1) + "\n")


def print_table(results: Sequence[Result]) -> None:
    """Print one line per fault."""
    table = Table("place", "fault", "caught by", "seconds")
    for each in results:
        seen = each.caught_by[0] if each.caught_by else f"ESCAPED {each.note}"
        table.add_row(each.place, each.fault, seen + (" (whole core)" if each.core else ""), f"{each.seconds:.1f}")
    Console(width=160).print(table, markup=False)
    print(f"{sum(bool(each.caught_by) for each in results)} of {len(results)} faults are caught")


def main(words: Sequence[str] | None = None) -> None:
    """Plant the faults one after the other, and report."""
    parser = argparse.ArgumentParser(description="plant faults, and see whether the core of the tests catches them")
    parser.add_argument("--only", action="append", choices=[fault.name for fault in FAULTS], help="only this fault")
    parser.add_argument("--json", type=Path, help="file for the results, written after each fault")
    parser.add_argument("--resume", action="store_true", help="skip faults that the file says are caught")
    chosen = parser.parse_args(words)
    if chosen.resume and chosen.json is None:
        parser.error("--resume needs the file of an earlier run: --json FILE")
    earlier = stored(chosen.json) if chosen.resume and chosen.json.exists() else []
    results = {each.planted: each for each in earlier}
    with tempfile.TemporaryDirectory(prefix="planted-faults-") as scratch:
        copy = Path(scratch, "copy")
        copy_tree(copy)
        for fault in FAULTS:
            if identity(fault) in results or fault.name not in (chosen.only or [fault.name]):
                continue
            found = results[identity(fault)] = tried(copy, fault)
            print(f"{fault.name}: {', '.join(found.caught_by) or 'ESCAPED'}", file=sys.stderr, flush=True)
            write(chosen.json, list(results.values()))
        checked = confirmed(copy, list(results.values()))
    write(chosen.json, checked)
    print_table(checked)
    sys.exit(any(not each.caught_by for each in checked))


if __name__ == "__main__":
    main()
