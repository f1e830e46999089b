"""The user's code that a run's results depend on: digests of it, so that a resumed run says what has changed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ...envs.registry import find
from ...envs.source import module_digest
from ...errors import UnknownEnvironmentError


def sources(settings: Mapping[str, Any], algorithm: str) -> dict[str, str]:
    """Return a digest of the code behind the environment and the algorithm, for each that is not in Turnwise.

    Args:
        settings: the settings of a run.
        algorithm: its algorithm's name, or ``module:Class``.
    """
    modules = {f"the algorithm {algorithm}": algorithm.partition(":")[0]} if ":" in algorithm else {}
    env = str(settings.get("env") or "")
    if env and ":" not in env:  # others are not made by code here
        with suppress(UnknownEnvironmentError):
            point = find(env).entry_point
            made_by = point.partition(":")[0] if isinstance(point, str) else getattr(point, "__module__", "")
            modules[f"the environment {env}"] = made_by
    # A script's edits are mostly of its settings.
    found = {name: module_digest(module) for name, module in modules.items() if module != "__main__"}
    return {name: digest for name, digest in found.items() if digest}


def changed(before: Any, now: Mapping[str, str], step: int) -> str:
    """Describe the code that has changed since a run was started or last resumed; empty if none is known to have.

    Args:
        before: the digests that ``sources`` returned then, as stored; runs of earlier versions have none.
        now: the digests of the present code.
        step: step from which the run goes on.
    """
    known = before if isinstance(before, Mapping) else {}
    names = [name for name, digest in now.items() if known.get(name, digest) != digest]
    if not names:
        return ""
    return (
        f"the source of {' and '.join(names)} has changed since this run was started: steps after {step} follow the "
        "new one; for one version throughout, start a new run"
    )
