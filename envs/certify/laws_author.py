"""Laws of authorship: the class has what an environment needs; these faults would break many other laws."""

from __future__ import annotations

import inspect

import docstring_parser

from ..author_line import at, defined_at
from ..base import TurnEnv
from ..deprecated import remark_on_start
from ..toolenv import ToolEnv
from ..tools import tools_of
from .findings import Broken
from .harness import Harness
from .law import Law

ENDINGS = ("act", "ends_with", "_answer", "offered")
"""Methods that a tool environment may override to end episodes in its own way."""


def is_complete(harness: Harness) -> str | None:
    """Read the class: its tools, what ends an episode, and what judges it. The remark names a deprecated ``start``."""
    env = harness.sample.unwrapped
    if isinstance(env, ToolEnv):
        _tools_complete(type(env))
    try:
        generated = harness.family.generate(harness.specs[0])
    except Exception:  # the law ``begins`` reports it
        return None
    return remark_on_start(type(env), generated)


def _tools_complete(cls: type[ToolEnv]) -> None:
    name, place = cls.__name__, at(defined_at(cls))
    tools = tools_of(cls)
    if not tools and cls.offered is ToolEnv.offered:
        raise Broken(f"{name} has no tools: mark its methods with @tw.tool, or derive from tw.TurnEnv{place}")
    usual = all(getattr(cls, ending) is getattr(ToolEnv, ending) for ending in ENDINGS)
    if usual and not any(tool.ends for tool in tools):
        raise Broken(
            "no tool ends the episode: mark the last one with @tw.tool(ends=True), or override ends_with(tool) if the "
            f"state of the world ends it{place}"
        )
    if usual and cls.judge is TurnEnv.judge:
        raise Broken(f"{name} has no judge(), so nothing can succeed: write one that returns tw.Score{place}")
    for tool in tools:
        known = inspect.signature(tool.function).parameters
        docs = docstring_parser.parse(inspect.getdoc(tool.function) or "")
        for documented in docs.params:
            if documented.arg_name not in known:
                takes = ", ".join(one for one in known if one != "self") or "no arguments"
                raise Broken(
                    f"the docstring of tool {tool.name!r} describes {documented.arg_name!r}, which is not an "
                    f"argument (it takes {takes}); an agent that sends it would be "
                    f"refused{at(defined_at(tool.function))}"
                )


AUTHOR_LAWS = (
    Law("is_complete", "the class has what an environment needs, and its docstrings are true", is_complete, gate=True),
)
"""Laws of authorship."""
