"""The command of a child process that runs a module of this package."""

from __future__ import annotations

import sys


def child_command(module: str, *arguments: object) -> list[str]:
    """Return a command that calls ``main`` of a module, in a process that imports from where this one does.

    Args:
        module: module below ``turnwise``, such as ``rollouts.host_child``.
        arguments: arguments of its ``main``, each with a literal.
    """
    path = [each for each in sys.path if isinstance(each, str)]  # Python ignores others, which have no literal
    call = f"main({', '.join(map(repr, arguments))})"
    return [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; from turnwise.{module} import main; {call}"]
