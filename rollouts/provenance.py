"""Provenance of a result: date, command, settings, software and commit."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..logs import MASK, SECRET, USER, item_names

PACKAGES = ("turnwise", "gymnasium", "torch", "transformers", "vllm")
"""Packages whose versions are recorded if this process has imported them. A distribution may have another name."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of a result.

    Args:
        date: end of the run, in UTC, as ISO 8601.
        command: the command line of the process, quoted for a shell.
        settings: the resolved settings, JSON-able.
        versions: versions of Python and the packages involved, by name.
        commit: git commit of the working directory, with the suffix ``-dirty`` if tracked files differ; ``None``
            outside of a repository.
    """

    date: str
    command: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    commit: str | None = None


def provenance(settings: Mapping[str, Any]) -> Provenance:
    """Describe the current process.

    Args:
        settings: its settings, JSON-able.
    """
    program, *words = sys.argv or [""]
    used = [sys.modules[name] for name in PACKAGES if name in sys.modules]
    return Provenance(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        command=shlex.join(
            [
                Path(program).name,
                *(_masked_word(word, own) for own, word in zip(item_names(words, ""), words, strict=True)),
            ]
        ),
        settings=masked(settings),
        versions={"python": platform.python_version(), **{module.__name__: str(module.__version__) for module in used}},
        commit=_commit(),
    )


def masked(value: Any, name: str = "") -> Any:
    """Replace secrets in settings: values under revealing names, and credentials in URLs.

    Args:
        value: a JSON-able value.
        name: name of the setting.
    """
    if isinstance(value, Mapping):
        return {key: masked(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked(inner, own) for own, inner in zip(item_names(value, name), value, strict=True)]
    if value is not None and SECRET.search(name):
        return MASK
    return USER.sub(f"{MASK}@", value) if isinstance(value, str) else value


def _masked_word(word: str, option: str) -> str:
    name, equals, value = word.partition("=")
    return f"{name}={masked(value, name)}" if equals and not SECRET.search(option) else str(masked(word, option))


def _commit() -> str | None:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
