"""Run the checks of one grading inside a fresh sandbox, as a copy of this file next to a copy of ``canonical.py``.

The driver reads the checks from its standard input and writes one line of JSON with their results to its standard
output. Each check runs in a process of its own, forked from one that has not imported any submitted code. It reports
over a pipe, and only output behind a word drawn for this run counts. The file stands alone: standard library only,
Python 3.8 or newer.
"""

from __future__ import annotations

import ast
import json
import os
import select
import signal
import sys
import threading  # before a submitted file can have that name
import time
import traceback
from contextlib import suppress
from types import ModuleType
from typing import Any

import canonical  # type: ignore[import-not-found]  # lies beside the copy of this file

HERE, WORK = os.path.dirname(os.path.abspath(__file__)), os.getcwd()
REPORT = 512 * 1024
"""Most bytes that one check may report."""
DETAIL = 600
"""Characters kept from the end of a traceback."""
TOO_MUCH = 88
"""Exit code of a process whose counted work exceeded the bound at which it is stopped."""
_exit, _write, _dumps = os._exit, os.write, json.dumps


class Tampered(Exception):
    """Raised when submitted code has modified what checks it."""


def main() -> None:
    """Run every check of the job in order."""
    job = json.loads(sys.stdin.buffer.read())
    until = now() + float(sys.argv[1])
    out = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # discard what submitted code prints
        os.dup2(nothing, stream)
    if any(check["kind"] in ("tests", "suite") for check in job):
        let_others_look(0)
    if any(check["kind"] == "tests" for check in job):
        import unittest  # before anything else can  # noqa: F401
    if any(check["kind"] == "suite" for check in job):
        import pytest  # type: ignore[import-not-found,unused-ignore] # noqa: F401
    out.write(json.dumps([supervised(check, out.fileno(), until) for check in job]).encode())
    out.close()


def let_others_look(allowed: int) -> None:
    """Allow or forbid other processes of the user to open this one's files and memory; the supervisor forbids it."""
    import ctypes

    ctypes.CDLL(None).prctl(4, allowed, 0, 0, 0)  # PR_SET_DUMPABLE


def supervised(check: dict[str, Any], out: int, until: float) -> dict[str, Any]:
    """Run a check in a process of its own, which does not get ``out``, and return its report.

    A check without a report by ``until`` gets one that describes how its process ended.
    """
    seconds = max(0.0, min(check["seconds"], until - now()))
    word = os.urandom(16).hex().encode()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        os.close(out)
        perform(check, word, write)
    os.close(write)
    heard, status = listen(read, child, word, now() + seconds)
    os.close(read)
    if status is None:
        stop(child)
    if heard is not None:
        try:
            return dict(json.loads(heard))
        except (TypeError, ValueError):
            return {"error": "forged", "detail": "what it reported cannot be read"}
    if status is None:
        return {"error": "timeout", "detail": f"no answer within {seconds:.0f} seconds"}
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return {"error": "oom" if number == signal.SIGKILL else "crash", "detail": f"ended by signal {number}"}
    code = os.WEXITSTATUS(status)
    if check["kind"] == "work" and code == TOO_MUCH:
        return {"error": "work", "detail": "stopped"}
    return {"error": "exit", "detail": f"the process ended by itself with code {code}"}


def listen(read: int, child: int, word: bytes, until: float) -> tuple[bytes | None, int | None]:
    """Return the line behind the word once it is complete, and the child's exit status if it has ended."""
    heard, status = b"", None
    while True:
        ready, _, _ = select.select([read], [], [], 0 if status is not None else min(0.05, max(0.0, until - now())))
        piece = os.read(read, 65536) if ready else b""
        heard += piece
        begin = heard.find(word)
        if begin >= 0 and heard.find(b"\n", begin) >= 0:
            return heard[begin + len(word) : heard.find(b"\n", begin)], status
        if len(heard) > REPORT or (status is not None and not piece) or now() >= until:
            return None, status
        if not piece:
            ended, code = os.waitpid(child, os.WNOHANG)
            status = code if ended else None


def now() -> float:
    """Return monotonic time, in seconds."""
    return time.monotonic()


def stop(child: int) -> None:
    """Kill a check's process and its group; a process that left the group ends with the sandbox."""
    for victim in (-child, child):
        with suppress(OSError):
            os.kill(victim, signal.SIGKILL)
    os.waitpid(child, 0)


def perform(check: dict[str, Any], word: bytes, pipe: int) -> None:
    """Run one check in the child process; never returns."""
    try:
        os.setsid()
        spare_the_others()
        sys.path[:] = [WORK, *(path for path in sys.path if path not in (HERE, "", WORK))]
        sys.argv[:] = [""]
        sys.dont_write_bytecode = True
        report = KINDS[check["kind"]](check)
    except BaseException as error:
        report = failed(error)
    line = word + _dumps(report).encode() + b"\n"
    while line:
        line = line[_write(pipe, line) :]
    _exit(0)


def spare_the_others() -> None:
    """Make the kernel kill this process first when memory runs out, and not its supervisor."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def failed(error: BaseException) -> dict[str, Any]:
    """Return a report for an exception."""
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    kept = [line for line in lines if HERE not in line]
    return {"error": "exception", "type": type(error).__name__, "detail": "".join(kept)[-DETAIL:]}


def namespace_of(name: str) -> dict[str, Any]:
    """Return the names of a freshly imported module; without a name, an almost empty namespace."""
    if not name:
        return {"__name__": "check"}
    __import__(name)
    return dict(vars(sys.modules[name]))


def values(check: dict[str, Any]) -> dict[str, Any]:
    """Return the canonical text of each expression's value, or of the exception that it raised."""
    names = namespace_of(check["module"])
    return {"values": [worth(source, dict(names)) for source in check["sources"]]}


def worth(source: str, names: dict[str, Any]) -> str:
    """Return one expression's value, or the exception that it raised, as canonical text."""
    try:
        return str(canonical.shortened(canonical.encode(evaluated(source, names))))
    except canonical.Unplain as error:
        return _dumps(["unplain", str(error)])
    except BaseException as error:
        return str(canonical.encode_error(error))


def evaluated(source: str, names: dict[str, Any]) -> object:
    """Run statements and return the value of the last, which is an expression."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    exec(compile(tree, "<check>", "exec"), names)
    return eval(compile(last, "<check>", "eval"), names)


def tests(check: dict[str, Any]) -> dict[str, Any]:
    """Return the named tests that passed; the first one that fails raises its exception."""
    import unittest

    before = dict(vars(unittest.TestCase))
    passed = []
    for name in check["tests"]:
        path, *rest = name.split("::")
        module = path[: -len(".py")].replace("/", ".")
        __import__(module)
        one_test(sys.modules[module], rest)
        passed.append(name)
    if any(before.get(name) is not value for name, value in vars(unittest.TestCase).items() if name != "__doc__"):
        raise Tampered("unittest was changed")
    return {"passed": passed}


def one_test(module: ModuleType, names: list[str]) -> None:
    """Run a test function or a test method, and let its exceptions through."""
    import unittest

    found = getattr(module, names[0])
    if len(names) == 1:
        found()
        return
    if not issubclass(found, unittest.TestCase):
        getattr(found(), names[1])()
        return
    case = found(names[1])
    found.setUpClass()
    try:
        case.setUp()
        try:
            getattr(case, names[1])()
        finally:
            case.tearDown()
            case.doCleanups()
    finally:
        found.tearDownClass()


def work(check: dict[str, Any]) -> dict[str, Any]:
    """Return each expression's value and the work that it took; the first count includes the import.

    Operations whose work cannot be counted are refused; the reasons are reported even if the code caught the error.
    """
    sys.path.insert(0, os.path.join(HERE, "woven"))
    from turnwise_work_meter import meter  # type: ignore[import-not-found]  # in the folder of the woven files

    sys.setrecursionlimit(3 * sys.getrecursionlimit())  # counted calls may take more frames than plain ones
    counter, counts, found = meter.WORK, [], []
    threading.Thread(target=stop_at, args=(counter, check["stop"]), daemon=True).start()
    try:
        names = namespace_of(check["module"])
    except meter.RefusedError as error:
        return {"values": [], "work": [], "refused": [str(error)]}
    for source in check["sources"]:
        found.append(worth(source, dict(names)))
        counts.append(counter[0])
        counter[0] = 0
    return {"values": found, "work": counts, "refused": meter.REFUSED}


def stop_at(counter: list[int], most: int) -> None:
    """End this process once the counter exceeds a bound: the check has failed, however long the code would run on."""
    while counter[0] <= most:
        time.sleep(0.02)
    _exit(TOO_MUCH)


def suite(check: dict[str, Any]) -> dict[str, Any]:
    """Return the outcome of each test of some files under pytest."""
    import pytest

    for path, text in check["write"].items():
        with open(os.path.join(WORK, path), "w", encoding="utf-8", newline="") as file:
            file.write(text)
    recorder = Recorder()
    options = ["-q", "-p", "no:cacheprovider", "--assert=plain", "-c", os.devnull, "--rootdir", WORK]
    options += ["--exitfirst"] if check["first"] else []
    pytest.main([*options, *(os.path.join(WORK, path) for path in check["files"])], plugins=[recorder])
    return {"outcomes": recorder.outcomes}


class Recorder:
    """A pytest plugin that records the outcome of each test."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record the outcome of a test, or of a setup or teardown that did not pass."""
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid] = str(report.outcome)

    def pytest_collectreport(self, report: Any) -> None:
        """Record a file that could not be collected."""
        if report.failed:
            self.outcomes[f"{report.nodeid} (collecting)"] = "failed"


KINDS = {"values": values, "tests": tests, "work": work, "suite": suite}

if __name__ == "__main__":
    main()
