"""The vLLM of a Python environment: its version, found without starting it, and the options that it knows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ....errors import UsageError
from ..http.reading import NEWEST, OLDEST, supported

SINCE: Mapping[str, tuple[int, int]] = {"--enable-scale-out": (0, 30)}
"""Options that older versions refuse, with the first that knows them; before, what they enable was always on."""
DISTRIBUTION = re.compile(r"vllm(?:_cpu)?-(\d+)\.(\d+)[^/]*\.dist-info")


def installed_version(python: Path | str) -> tuple[int, int] | None:
    """Return the version of vLLM beside an interpreter; ``None`` if it cannot be seen from outside.

    Args:
        python: interpreter of a virtual environment.
    """
    for folder in Path(python).absolute().parent.parent.glob("lib*/python*/site-packages/vllm*.dist-info"):
        if (found := DISTRIBUTION.fullmatch(folder.name)) is not None:
            return int(found[1]), int(found[2])
    return None


def refuse_version(version: tuple[int, int] | None, python: Path | str) -> None:
    """Refuse to start a vLLM that Turnwise does not support, before anything of it runs.

    Raises:
        UsageError: it is too old or too new.
    """
    if version is None or OLDEST <= version <= NEWEST:
        return
    cure = "install a newer one" if version < OLDEST else "install an older one, or a newer Turnwise"
    raise UsageError(
        f"the vLLM of {python} is {version[0]}.{version[1]}, and Turnwise supports {supported()}; {cure} (VENV_VLLM "
        "names the environment of scripts/serve)"
    )


def knows(option: str, version: tuple[int, int] | None) -> bool:
    """Return whether a version knows an option; an unknown version counts as the newest."""
    return version is None or version >= SINCE.get(option, OLDEST)
