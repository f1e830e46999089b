"""Objects of a user's own code, named as ``module:name``."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

from ..envs.author_line import at, author_line
from ..errors import UsageError

PLACE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
"""A word of the form ``module:name``."""


def imported(place: str) -> Any:
    """Import ``module:name`` from the working directory or an installed package.

    Raises:
        UsageError: it has another form, or there is no such module or name.
    """
    if not PLACE.fullmatch(place):
        raise UsageError(f"{place!r} must have the form module:name")
    module, _, name = place.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        file = module.endswith(".py") and Path(here, module).is_file()
        cure = f"; the module of the file {module} is {module.removesuffix('.py')!r}" if file else ""
        raise UsageError(f"cannot import {module!r} ({error}){cure}") from None
    except SyntaxError as error:
        raise UsageError(f"cannot import {module!r}: {error.msg} (at {error.filename}:{error.lineno})") from None
    except Exception as error:
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UsageError(f"importing {module!r} raised {said}{at(author_line(error))}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{module} has no {name!r}")
        found = getattr(found, part)
    return found
