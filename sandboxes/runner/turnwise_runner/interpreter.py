"""A Python session, inside: runs what lies in descriptor 7 when it is told to, and says on descriptor 9 how it went.

It is a program of its own, not part of the runner. What it runs sees a fresh ``__main__``, in which the value of a last
expression is displayed as at the prompt.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
import traceback
from types import CodeType, ModuleType

SOURCE, STATUS, CONTROL = 7, 9, 8


def main() -> None:
    """Run sources until there are none."""
    os.dup2(0, CONTROL, inheritable=False)
    for descriptor in (SOURCE, STATUS):
        os.set_inheritable(descriptor, False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.argv, sys.path[0] = [""], ""
    module = ModuleType("__main__")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    with open(CONTROL, "rb", closefd=False) as orders:
        while True:
            try:
                order = orders.readline()
            except KeyboardInterrupt:  # it came after what it was meant for
                continue
            if not order:
                return
            code = run(os.pread(SOURCE, os.fstat(SOURCE).st_size, 0), f"<input {int(order)}>", module.__dict__)
            os.write(STATUS, b"%d %d\n" % (int(order), code))


def run(source: bytes, name: str, names: dict[str, object]) -> int:
    """Run one source, and give its exit code; ``SystemExit`` goes through."""
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
    """Its statements, and its last expression as at the prompt."""
    tree = ast.parse(text, name)
    last = [tree.body.pop()] if tree.body and isinstance(tree.body[-1], ast.Expr) else []
    parts: list[ast.Module | ast.Interactive] = [tree, ast.Interactive(last)] if last else [tree]
    return [compile(part, name, "single" if part is not tree else "exec") for part in parts]


def tell(error: BaseException) -> None:
    """Print a traceback that begins where the source does."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<input "):
        trace = trace.tb_next
    try:
        traceback.print_exception(type(error), error, trace)
    except BaseException:
        os.write(2, f"{type(error).__name__}\n".encode())


def flush() -> None:
    """Nothing may be left for later; what was closed is the source's own doing."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


if __name__ == "__main__":
    main()
