"""Classes of errors in code, for rewards and statistics (RLTF, arXiv 2307.04349, table 1)."""

from __future__ import annotations

import re
from enum import StrEnum


class Trouble(StrEnum):
    """Classes of errors."""

    SYNTAX = "syntax error"
    """The code does not compile."""
    IMPORT = "import error"
    """A module, or a name in one, does not exist."""
    NAME = "name error"
    """A name or an attribute does not exist."""
    TYPE = "type error"
    """An operation on values of a wrong type, or a call with wrong arguments."""
    VALUE = "value error"
    """An invalid value, index or key, or a division by zero."""
    ASSERTION = "assertion"
    """A test failed."""
    WRONG = "wrong value"
    """The code ran, but its result is wrong."""
    WORK = "too much work"
    """The result is right, but took more work than allowed."""
    TIMEOUT = "timeout"
    """The code exceeded its time limit."""
    OOM = "out of memory"
    """The code exceeded its memory."""
    RECURSION = "recursion"
    """The code exceeded the recursion limit."""
    CRASH = "crash"
    """A signal ended the process, or it ended itself during its check."""
    MISSING = "missing file"
    """A required file does not exist."""
    SIZE = "too large"
    """The files are larger than the limit of grading."""
    TAMPERING = "tampering"
    """The code modified its checks, or reported in their place."""
    LANGUAGE = "forbidden language"
    """The source uses what the task's language does not allow; see ``language.py``."""
    OTHER = "other error"
    """Any other exception, or a command that failed."""


KINDS = {
    "SyntaxError": Trouble.SYNTAX,
    "IndentationError": Trouble.SYNTAX,
    "TabError": Trouble.SYNTAX,
    "ImportError": Trouble.IMPORT,
    "ModuleNotFoundError": Trouble.IMPORT,
    "NameError": Trouble.NAME,
    "UnboundLocalError": Trouble.NAME,
    "AttributeError": Trouble.NAME,
    "TypeError": Trouble.TYPE,
    "ValueError": Trouble.VALUE,
    "KeyError": Trouble.VALUE,
    "IndexError": Trouble.VALUE,
    "ZeroDivisionError": Trouble.VALUE,
    "OverflowError": Trouble.VALUE,
    "UnicodeDecodeError": Trouble.VALUE,
    "AssertionError": Trouble.ASSERTION,
    "MemoryError": Trouble.OOM,
    "RecursionError": Trouble.RECURSION,
    "Tampered": Trouble.TAMPERING,
    "Uncounted": Trouble.TAMPERING,
}
"""Class of an exception, by the name of its type."""
LAST_LINE = re.compile(r"^(\w+)(?::|$)")


def trouble_of(name: str) -> Trouble:
    """Return the class of an exception, by the name of its type."""
    return KINDS.get(name.rpartition(".")[2], Trouble.OTHER)


def trouble_in(text: str) -> Trouble | None:
    """Return the class of the last exception in a program's error output; ``None`` if it reports none."""
    for line in reversed(text.rstrip().splitlines()):
        found = LAST_LINE.match(line)
        if found and (found[1] in KINDS or found[1].endswith(("Error", "Exception"))):
            return trouble_of(found[1])
    return None
