"""Parse Playwright's aria snapshots, which are YAML, into ``Node`` trees."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from ....errors import InfrastructureError
from ..page import Node

LINE = re.compile(r'(?P<role>[\w-]+)(?: (?P<name>"(?:[^"\\]|\\.)*"|/.*?/))?(?P<states>(?: \[[^\]]*\])*)')
STATE = re.compile(r"\[([^\]=]*)(?:=([^\]]*))?\]")
TOLD = frozenset({"checked", "disabled", "expanded", "level", "pressed", "selected"})
"""States to show to an agent; the focus is not among them."""
WRITTEN = frozenset({"textbox", "searchbox", "spinbutton", "slider"})
"""Roles whose text is their value."""
UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that YAML cannot contain, but that an agent may write into a page."""
Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Loader that reads every scalar as text, so that a page's ``12`` or ``no`` does not become a number or a boolean."""


def nodes_of(snapshot: str) -> tuple[Node, ...]:
    """Return the tree of a page.

    Args:
        snapshot: result of ``page.aria_snapshot(mode="ai")``.

    Raises:
        InfrastructureError: the snapshot cannot be parsed, for instance because of another version of Playwright.
    """
    if not snapshot.strip():
        return ()
    try:
        return tuple(_nodes(yaml.load(UNREADABLE.sub("\ufffd", snapshot), Loader=Loader)))
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise InfrastructureError(f"a snapshot of a page cannot be read: {error}") from error


def _nodes(items: Any) -> Iterator[Node]:
    for item in items or ():
        if isinstance(item, str):
            yield _node(item, None)
        else:
            for line, inside in item.items():
                if line == "text":
                    yield Node("text", _plain(inside))
                elif not line.startswith("/"):
                    yield _node(line, inside)


def _node(line: str, inside: Any) -> Node:
    found = LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"{line[:100]!r} is not an element of a page snapshot")
    role, quoted = found["role"], found["name"] or ""
    name = _plain(json.loads(quoted) if quoted.startswith('"') else quoted)
    given = dict(STATE.findall(found["states"]))
    states = tuple(f"{key}={value}" if value else key for key, value in given.items() if key in TOLD)
    children = (Node("text", _plain(inside)),) if isinstance(inside, str) and inside else tuple(_inside(inside))
    value = ""
    if role in WRITTEN:
        value, children = " ".join(one.name for one in children), ()
    return Node(
        role, name, given.get("ref", ""), value, states, _url(inside), given.get("cursor") == "pointer", children
    )


def _inside(inside: Any) -> Iterator[Node]:
    return _nodes(inside if isinstance(inside, list) else ())


def _url(inside: Any) -> str:
    items = inside if isinstance(inside, list) else ()
    return next((str(item["/url"]) for item in items if isinstance(item, dict) and "/url" in item), "")


def _plain(text: Any) -> str:
    return " ".join(str(text).split())
