"""The calls of apps as tools: their schemas come from their signatures, and their effects happen in the world."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from ...errors import ToolError
from ...tasks.apps.simulators.catalogue import APPS
from ..tools import Tool, describe, tools_of


def tools_for(cls: type, shown: tuple[str, ...], *, talks: bool) -> tuple[Tool, ...]:
    """Return the calls of some apps, and then the environment's own tools, unbound.

    Args:
        cls: the environment's class.
        shown: names of apps.
        talks: whether there is a user to talk to.
    """
    return _tools_for(cast(Hashable, cls), shown, talks)


@lru_cache(maxsize=256)
def _tools_for(cls: Any, shown: tuple[str, ...], talks: bool) -> tuple[Tool, ...]:
    found = [one for app in APPS if app.name in shown for one in _calls(app.name)]
    return (*found, *(one for one in tools_of(cls) if talks or one.name != "say"))


@lru_cache(maxsize=32)
def _calls(name: str) -> tuple[Tool, ...]:
    app = next(one for one in APPS if one.name == name)
    return tuple(
        replace(describe(function, called, strict=True), function=_made(called))
        for called, function in app.calls().items()
    )


def _made(name: str) -> Callable[..., Any]:
    def make(env: Any, **arguments: Any) -> Any:
        return env.made(name, arguments)

    return make


def docs_of(tools: Sequence[Tool], app: str) -> Mapping[str, str]:
    """Return the calls of an app with a one-line description each.

    Raises:
        ToolError: there is no such app.
    """
    found = {one.name: one.description.splitlines()[0] for one in tools if one.name.startswith(f"{app}_")}
    if not found or "_" in app:
        known = sorted({one.name.split("_")[0] for one in tools})
        raise ToolError(f"404 app {app[:40]!r} does not exist; the apps are {', '.join(known)}")
    return found


def apps_text(shown: Sequence[str]) -> str:
    """Describe the apps in one sentence."""
    return "; ".join(f"{app.name} ({app.about})" for app in APPS if app.name in shown)
