"""What went wrong with code, as one word that rewards and statistics can compare (RLTF, arXiv 2307.04349, table 1)."""

from __future__ import annotations

import re
from enum import StrEnum


class Trouble(StrEnum):
    """Classes of errors."""

    SYNTAX = "syntax error"
    """It does not compile."""
    IMPORT = "import error"
    """A module, or a name in one, is not there."""
    NAME = "name error"
    """A name or an attribute is not there."""
    TYPE = "type error"
    """An operation on values of a wrong type, or a call with wrong arguments."""
    VALUE = "value error"
    """A value, index or key that does not fit, a division by zero."""
    ASSERTION = "assertion"
    """A test says so."""
    WRONG = "wrong value"
    """It ran, and what came out is not what was asked for."""
    WORK = "too much work"
    """Right, but not within the work that was allowed."""
    TIMEOUT = "timeout"
    """It did not end in time."""
    OOM = "out of memory"
    """It needed more memory than it had."""
    RECURSION = "recursion"
    """It called itself without end."""
    CRASH = "crash"
    """A signal ended it, or it ended itself while it was being checked."""
    MISSING = "missing file"
    """A file that was asked for is not there."""
    SIZE = "too large"
    """What it left is larger than what is graded."""
    TAMPERING = "tampering"
    """It changed, or spoke for, what checks it."""
    LANGUAGE = "forbidden language"
    """It says what the task does not allow to say; see ``language.py``."""
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
"""The class of an exception by its type's name."""
LAST_LINE = re.compile(r"^(\w+)(?::|$)")


def trouble_of(name: str) -> Trouble:
    """The class of an exception by its type's name."""
    return KINDS.get(name.rpartition(".")[2], Trouble.OTHER)


def trouble_in(text: str) -> Trouble | None:
    """The class of the last exception of which a program's error output tells; ``None`` if it tells of none."""
    for line in reversed(text.rstrip().splitlines()):
        found = LAST_LINE.match(line)
        if found and (found[1] in KINDS or found[1].endswith(("Error", "Exception"))):
            return trouble_of(found[1])
    return None
