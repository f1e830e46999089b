"""Grade the files of a task that Turnwise exported, as the environment that it comes from does.

This program runs from ``/tests`` in a container that no agent has seen. ``task.json`` beside it has the checks with
their expected values, and ``files`` the task's own files. Only the files that the task names are taken from the
working directory. They run in ``driver.py``, which ``confine.py`` keeps from reading any of this, and their results
are compared here. The reward is written last, when no process of the submission is left. Python 3.8 is enough.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import confine  # type: ignore[import-not-found]  # lies beside the copy of this file

HERE = os.path.dirname(os.path.abspath(__file__))
PLACE = ".turnwise"
GRACE = 5.0
"""Seconds for the driver itself, in addition to those for its checks."""
REPORT = 16 * 1024 * 1024
"""Most bytes that the driver may report."""
UNPROTECTED = (
    "cannot grade: submitted code could read the tests. Run them as root, or on Linux 5.13 or newer (Landlock)"
)
if TYPE_CHECKING:
    Entries = dict[str, dict[str, Any]]


def main() -> None:
    """Grade, and write the reward."""
    with open(os.path.join(HERE, "task.json"), encoding="utf-8") as file:
        task = json.load(file)
    if os.getuid() and not confine.version():
        sys.exit(UNPROTECTED)
    if not os.getuid():
        os.chmod(HERE, 0o700)
    confine.guard_self()
    found = entries(task["workdir"])
    passed = {check["name"]: holds(check, task, found) for check in task["checks"] if check["kind"] == "file"}
    driven = [check for check in task["checks"] if check["kind"] != "file"]
    if driven:
        passed.update(zip([check["name"] for check in driven], run(driven, task, found)))  # noqa: B905  # Python 3.8
    extra = collateral(task, found)
    for name, good in passed.items():
        print(f"{'passed' if good else 'failed'}: {name}")
    for text in extra:
        print(f"unwanted: {text}")
    write(reward(task, passed, extra) if confine.stop_descendants() else 0.0, task["logs"])


def reward(task: dict[str, Any], passed: dict[str, bool], extra: list[str]) -> float:
    """Return 1 for success; with partial credit, the shares of the checks that pass."""
    if extra or (not task["partial"] and not all(passed.values())):
        return 0.0
    return 1.0 if all(passed.values()) else sum(task["credit"][name] for name, good in passed.items() if good)


def write(value: float, logs: str) -> None:
    """Write the reward in place of whatever is there."""
    for name in ("reward.json", "reward.txt"):
        path = os.path.join(logs, name)
        with suppress(FileNotFoundError):
            os.unlink(path) if not os.path.isdir(path) or os.path.islink(path) else shutil.rmtree(path)
    with open(os.path.join(logs, "reward.json"), "x", encoding="utf-8") as file:
        json.dump({"reward": value}, file)


def entries(root: str) -> Entries:
    """Return everything below a folder by its path; links are not followed, and what cannot be read is left out."""
    found: Entries = {}
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    folders = [root]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as listed:
            for each in listed:
                facts = each.stat(follow_symlinks=False)
                kind = kinds.get(stat.S_IFMT(facts.st_mode), "other")
                one = {"kind": kind, "mode": stat.S_IMODE(facts.st_mode), "size": facts.st_size, "path": each.path}
                found[os.path.relpath(each.path, root)] = one
                folders += [each.path] if kind == "directory" else []
    return found


def content(one: dict[str, Any] | None) -> bytes | None:
    """Return the content of a regular file, or nothing if it is anything else or cannot be read."""
    if one is None or one["kind"] != "file":
        return None
    with suppress(OSError), open(os.open(one["path"], os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return file.read()
    return None


def is_same(one: dict[str, Any] | None, expected: dict[str, Any]) -> bool:
    """Whether an entry is a file with the expected size and content, and with the expected mode if there is one."""
    if one is None or one["kind"] != "file" or one["size"] != expected["size"]:
        return False
    if expected["mode"] is not None and one["mode"] != expected["mode"]:
        return False
    return hashlib.sha256(content(one) or b"").hexdigest() == str(expected["sha256"])


def holds(check: dict[str, Any], task: dict[str, Any], found: Entries) -> bool:
    """Whether a file is as it must be."""
    one = found.get(check["path"])
    return one is None if check["expected"] is None else is_same(one, check["expected"])


def collateral(task: dict[str, Any], found: Entries) -> list[str]:
    """Describe unwanted changes in the working directory of a strict task."""
    if task["start"] is None:
        return []
    free = {*task["taken"], *(check["path"] for check in task["checks"] if check["kind"] == "file")}
    extra = []
    for path in sorted({*task["start"], *found} - free):
        old, new = task["start"].get(path), found.get(path)
        if (new is None or new["kind"] != "directory") and (old is None or not is_same(new, old)):
            extra.append(f"{path} was {'added' if old is None else 'removed' if new is None else 'changed'}")
    return extra


def run(checks: list[dict[str, Any]], task: dict[str, Any], found: Entries) -> list[bool]:
    """Return which checks pass that run the submitted files."""
    taken = {path: found[path] for path in task["taken"] if found.get(path, {}).get("kind") == "file"}
    if task["taken"] and not taken:
        return [False] * len(checks)
    if sum(one["size"] for one in taken.values()) > task["most"]:
        return [False] * len(checks)
    seconds = min(task["seconds"], sum(check["job"]["seconds"] for check in checks))
    scratch = tempfile.mkdtemp(dir="/tmp", prefix="grade-")
    fill(scratch, taken)
    reports = listen(scratch, [check["job"] for check in checks], seconds, task["workdir"])
    with suppress(RecursionError):
        shutil.rmtree(scratch, ignore_errors=True)
    if len(reports) != len(checks):
        return [False] * len(checks)
    return [is_right(check, report) for check, report in zip(checks, reports)]  # noqa: B905


def fill(scratch: str, taken: Entries) -> None:
    """Write the taken files, the task's own over them, and the driver into a folder.

    As root, only the taken files belong to the user that runs them. The folders are writable, but sticky, so that the
    task's own files can be neither changed nor replaced.
    """
    own = {path: one for path, one in entries(os.path.join(HERE, "files")).items() if one["kind"] == "file"}
    for path, one in {**taken, **own}.items():
        put(os.path.join(scratch, path), content(one) or b"")
    for name in ("driver.py", "canonical.py"):
        shutil.copyfile(os.path.join(HERE, name), prepared(os.path.join(scratch, PLACE, name)))
    if not os.getuid():
        os.chmod(scratch, 0o1777)
        for path, one in entries(scratch).items():
            os.chmod(one["path"], 0o1777 if one["kind"] == "directory" else 0o644)
            if path in taken and path not in own:
                os.chown(one["path"], confine.OTHER, confine.OTHER)
        os.chmod(os.path.join(scratch, PLACE), 0o755)


def put(path: str, data: bytes) -> None:
    """Write a file, and make the folders above it."""
    with open(prepared(path), "wb") as file:
        file.write(data)


def prepared(path: str) -> str:
    """Make the folders above a path, and return it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def listen(scratch: str, jobs: list[dict[str, Any]], seconds: float, workdir: str) -> list[dict[str, Any]]:
    """Run the driver on a folder, and return its reports; none if it does not end well or in time."""
    closed = {"tests", "logs", "solution", workdir.split("/")[1], HERE.split("/")[1]} - {"tmp"}
    command = [sys.executable, "-s", "-S", os.path.join(PLACE, "driver.py"), f"{seconds:g}"]
    env = dict(os.environ, PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1", HOME=scratch)
    with tempfile.TemporaryFile() as given:
        given.write(json.dumps(jobs).encode())
        given.seek(0)
        driver = subprocess.Popen(
            command,
            cwd=scratch,
            env=env,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: confine.confine(frozenset(closed)),
        )
    until, heard = time.monotonic() + seconds + GRACE, b""
    assert driver.stdout is not None
    while len(heard) <= REPORT and select.select([driver.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(driver.stdout.fileno(), 65536)
        heard += piece
        if not piece:
            break
    driver.kill()
    driver.wait()
    confine.stop_descendants()
    with suppress(ValueError, RecursionError):
        reports = json.loads(heard)
        if isinstance(reports, list) and all(isinstance(report, dict) for report in reports):
            return reports
    return []


def is_right(check: dict[str, Any], report: dict[str, Any]) -> bool:
    """Whether the driver reports what a check expects."""
    return "error" not in report and report.get(check["reports"]) == check["expected"]


if __name__ == "__main__":
    main()
