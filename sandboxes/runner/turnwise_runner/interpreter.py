"""A Python session, inside: runs the code in descriptor 7 on command, and reports the result on descriptor 9.

It is a program of its own, not part of the runner. Its code sees a new ``__main__``, in which the value of a last
expression is displayed as at the prompt, and can ``import turnwise_host`` to ask the host (see ``asking.py``).
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
import traceback
from _thread import allocate_lock
from types import CodeType, ModuleType

REQUEST, ANSWER, QUESTIONS, ANSWERS = 3, 4, 5, 6
SOURCE, CONTROL, STATUS = 7, 8, 9
MOST = 1 << 18
"""Largest request in bytes; the runner enforces it too."""
HOST = "<host"
"""Name of code from the host; tracebacks leave it out."""


def main() -> None:
    """Run sources until there are none."""
    os.dup2(0, CONTROL, inheritable=False)
    for descriptor in (REQUEST, ANSWER, QUESTIONS, ANSWERS, SOURCE, STATUS):
        os.set_inheritable(descriptor, False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.argv, sys.path[0] = [""], ""
    module = ModuleType("__main__")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    host = Host()
    sys.modules["turnwise_host"] = host.module()
    with open(CONTROL, "rb", closefd=False) as orders:
        while True:
            try:
                order = orders.readline()
            except KeyboardInterrupt:  # it came after the end of its target
                continue
            if not order:
                return
            number, host.word = order.split()
            code = run(os.pread(SOURCE, os.fstat(SOURCE).st_size, 0), f"<input {int(number)}>", module.__dict__)
            os.write(STATUS, b"\n%d %d\n" % (int(number), code))  # the line break ends any incomplete line


class Refused(Exception):
    """Raised when the host does not answer a request; the text says why."""


class Host:
    """Asks the host, one request at a time."""

    def __init__(self) -> None:
        self.word, self.number, self.rest = b"", 0, b""
        self.process, self.turn = os.getpid(), allocate_lock()

    def module(self) -> ModuleType:
        """The module that code imports."""
        module = ModuleType("turnwise_host", "Ask the host of this session.")
        module.__dict__.update(ask=self.ask, Refused=Refused)
        return module

    def ask(self, request: bytes) -> bytes:
        """Return the host's answer.

        Raises:
            Refused: the host does not answer.
        """
        if os.getpid() != self.process:
            raise Refused("only the process of the session can ask, not one that it forked")
        if len(request) > MOST:
            raise Refused(f"a request has at most {MOST} bytes")
        with self.turn:
            try:
                return self.answer(bytes(request))
            except OSError as error:
                raise Refused(f"the way to the host is damaged: {error}") from None

    def answer(self, request: bytes) -> bytes:
        """Send a request, and wait for the answer."""
        self.number += 1
        word, number = self.word, b"%d" % self.number
        os.ftruncate(REQUEST, 0)
        os.pwrite(REQUEST, request, 0)
        os.write(QUESTIONS, b"\n%s %s %d\n" % (word, number, len(request)))
        while True:
            found = os.read(ANSWERS, 4096)
            if not found:
                raise Refused("the way to the host is closed")
            *lines, self.rest = (self.rest + found).split(b"\n")
            for line in lines:
                said = line.split()
                if said[:2] == [word, number]:
                    body = os.pread(ANSWER, int(said[3]), 0)
                    if said[2] == b"1":
                        return body
                    raise Refused(body.decode("utf-8", "replace"))


def run(source: bytes, name: str, names: dict[str, object]) -> int:
    """Run one source, and return its exit code; ``SystemExit`` is not caught."""
    code = 0
    try:
        text = source.decode()
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        for part in compiled(text, name):
            exec(part, names)
    except SystemExit:
        flush()
        raise
    except BaseException as error:
        code = 1
        tell(error)
    flush()
    return code


def compiled(text: str, name: str) -> list[CodeType]:
    """Compile the statements, and the last expression as at the prompt."""
    tree = ast.parse(text, name)
    last = [tree.body.pop()] if tree.body and isinstance(tree.body[-1], ast.Expr) else []
    parts: list[ast.Module | ast.Interactive] = [tree, ast.Interactive(last)] if last else [tree]
    return [compile(part, name, "single" if part is not tree else "exec", dont_inherit=True) for part in parts]


def tell(error: BaseException) -> None:
    """Print a traceback that begins at the source."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<input "):
        trace = trace.tb_next
    try:
        report = traceback.TracebackException(type(error), error, trace)
        hide(report)
        sys.stderr.write("".join(report.format()))
    except BaseException:
        os.write(2, f"{type(error).__name__}\n".encode())


def hide(report: traceback.TracebackException) -> None:
    """Leave out the host's own frames, also in the causes of an error."""
    each: traceback.TracebackException | None = report
    while each is not None:
        each.stack[:] = [frame for frame in each.stack if not frame.filename.startswith((HOST, __file__))]
        each = each.__cause__ or each.__context__


def flush() -> None:
    """Flush the streams; one that the source has closed is ignored."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


if __name__ == "__main__":
    main()
