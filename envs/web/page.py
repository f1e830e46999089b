"""A page as the agent sees it: a tree of roles and names, as a screen reader reports it, and its text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..messages import clip

LONGEST = 500
"""Most characters shown of a URL."""
FIELDS = frozenset(
    {"textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "spinbutton", "slider", "switch"}
)
"""Roles of elements that can be filled in."""
ACTIVE = FIELDS | {"link", "button", "tab", "menuitem", "menuitemcheckbox", "menuitemradio", "treeitem"}
"""Roles of elements that can be acted on."""
NAMED = frozenset({"link", "button", "heading", "option", "tab", "menuitem", "img"})
"""Roles whose names are their content, so that their children are not shown."""
INLINE = frozenset({"strong", "emphasis", "time", "code", "mark", "deletion", "insertion", "subscript", "superscript"})
"""Roles of inline text, which becomes part of the surrounding text."""
THROUGH = frozenset({"generic", "none", "presentation", "rowgroup"})
"""Roles without meaning: only their children are shown."""
CONTENT = frozenset(
    {"cell", "gridcell", "columnheader", "rowheader", "row", "listitem", "caption", "term", "definition"}
)
"""Roles whose content serves as their name."""


@dataclass(frozen=True, slots=True)
class Node:
    """An element of a page.

    Args:
        role: ARIA role, such as ``link``; ``text`` for a stretch of text, which is then its name.
        name: accessible name.
        ref: reference by which a browser finds the element again; agents never see it.
        value: value of a field.
        states: states such as ``checked``, ``selected``, ``disabled``, ``expanded`` or ``level=2``.
        url: target of a link.
        pointer: whether it looks clickable, whatever its role.
        children: child elements.
        id: number by which actions name it; empty if it cannot be acted on.
    """

    role: str
    name: str = ""
    ref: str = ""
    value: str = ""
    states: tuple[str, ...] = ()
    url: str = ""
    pointer: bool = False
    children: tuple[Node, ...] = ()
    id: str = ""

    def walk(self) -> Iterator[Node]:
        """Yield this node and all of its descendants, in reading order."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def text(self) -> str:
        """All names and texts of the element, in reading order."""
        return " ".join(one.name for one in self.walk() if one.name)


@dataclass(frozen=True)
class Page:
    """The visible state of a browser.

    Args:
        url: URL of the current page.
        title: title of the current page.
        nodes: elements of the current page, simplified and numbered.
        tabs: titles of all tabs, in order.
        front: index of the current tab.
        source: HTML without scripts and styles, if requested.
        ``picture``: screenshot, PNG, if requested.
    """

    url: str
    title: str
    nodes: tuple[Node, ...]
    tabs: tuple[str, ...] = ()
    front: int = 0
    source: str = ""
    picture: bytes = b""
    by_id: dict[str, Node] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def text(self) -> str:
        """The page as text for agents; see ``as_text``."""
        return as_text(self)

    def walk(self) -> Iterator[Node]:
        """Yield all nodes in reading order."""
        for node in self.nodes:
            yield from node.walk()

    def find(self, role: str, name: str | None = None, *, within: Node | None = None) -> tuple[Node, ...]:
        """Return the nodes with a role, and with a name if one is given, in reading order."""
        found = within.walk() if within is not None else self.walk()
        return tuple(one for one in found if one.role == role and name in (None, one.name))


def with_ids(nodes: Sequence[Node], *, every: bool = False) -> tuple[Node, ...]:
    """Return the tree as agents see it: simplified, with ids from 1 for elements that can be acted on.

    Args:
        nodes: nodes from a browser.
        every: number every element except text, for pages whose elements do not declare their roles.
    """
    count = 0

    def numbered(node: Node) -> Node:
        nonlocal count
        if node.role == "text":
            return node
        id = ""
        if node.role in ACTIVE or node.pointer or (every and node.role != "text"):
            count += 1
            id = str(count)
        if not id and not node.children:
            return node
        inside = tuple(numbered(child) for child in node.children)
        return Node(node.role, node.name, node.ref, node.value, node.states, node.url, node.pointer, inside, id)

    return tuple(numbered(node) for node in simplified(nodes, every=every))


def simplified(nodes: Sequence[Node], *, every: bool = False) -> tuple[Node, ...]:
    """Remove repeated and meaningless nodes, so that every browser gives the same tree for the same page.

    Args:
        nodes: children of one parent.
        every: keep elements without meaning if they contain text.
    """
    lifted: list[Node] = []
    for node in nodes:
        if node.role in INLINE:
            lifted.append(Node("text", _content(node)))
        elif node.role in THROUGH and not node.pointer and not (every and node.role == "generic" and _bare(node)):
            own = (Node("text", node.name),) if node.name and not node.children else ()
            lifted.extend(simplified((*own, *node.children), every=every))
        else:
            lifted.append(_simple(node, every=every))
    merged: list[Node] = []
    for node in lifted:
        if node.role == "text" and merged and merged[-1].role == "text":
            merged[-1] = Node("text", f"{merged[-1].name} {node.name}".strip())
        elif node.role != "text" or node.name:
            merged.append(node)
    return tuple(
        node
        for number, node in enumerate(merged)
        if not (node.role == "text" and any(_labels(node, one) for one in _beside(merged, number)))
        and not (node.role == "paragraph" and not node.children and not node.name)  # left by what cannot be in one
    )


def _bare(node: Node) -> bool:
    return bool(node.name) or all(child.role == "text" for child in node.children)


def _simple(node: Node, *, every: bool) -> Node:
    children = node.children
    if not children and (node.role in FIELDS or (node.role in NAMED and node.name)):
        return node
    if node.role in NAMED:
        return replace(node, name=node.name or _content(node), children=())
    if node.role in CONTENT:
        own = (Node("text", node.name),) if node.name and not children else ()
        return replace(node, name="", children=simplified((*own, *children), every=every))
    if node.role in FIELDS:
        return replace(
            node, children=tuple(_simple(child, every=every) for child in children if child.role == "option")
        )
    inside = simplified(children, every=every)
    if node.role == "group" and node.name and inside[:1] == (Node("text", node.name),):
        inside = inside[1:]  # its legend, which is its name
    return replace(node, children=inside)


def _content(node: Node) -> str:
    return " ".join(one.name for one in (node, *node.children) if one.name) if node.role != "text" else node.name


def _beside(nodes: Sequence[Node], number: int) -> Iterator[Node]:
    if number > 0:
        yield nodes[number - 1]
    if number + 1 < len(nodes):
        yield nodes[number + 1]


def _labels(text: Node, other: Node) -> bool:
    return other.role in FIELDS and other.name == text.name


def as_text(page: Page, *, tabs: bool = True) -> str:
    """Return a page as text for agents: its URL, and then one line per element, with children indented by two spaces.

    Args:
        page: the visible state of the browser.
        tabs: whether to list the tabs if there are several.
    """
    lines = [f"URL: {clip(page.url, LONGEST)}", f"Title: {page.title}"]
    if tabs and len(page.tabs) > 1:
        shown = (
            f"{number} {title!r}{' (in front)' * (number == page.front)}" for number, title in enumerate(page.tabs)
        )
        lines.append(f"Tabs: {', '.join(shown)}")
    _tell_all(page.nodes, "", lines)
    return "\n".join(lines)


def _tell_all(nodes: Sequence[Node], indent: str, lines: list[str]) -> None:
    left = list(nodes)
    while left:
        node = left.pop(0)
        if node.role == "term" and left and left[0].role == "definition" and _line(left[0]) is not None:
            lines.append(f"{indent}{_words(node)}: {_words(left.pop(0))}")
        else:
            _tell(node, indent, lines)


def _tell(node: Node, indent: str, lines: list[str]) -> None:
    if node.role == "text":
        lines.append(f"{indent}{node.name}")
        return
    line = _line(node)
    if line is not None:
        lines.append(f"{indent}{line}")
        return
    head, inside = f"{indent}{_head(node)}", indent + "  "
    if node.role == "list" and not node.name:
        inside = indent
    elif node.role == "listitem":
        lines.append(f"{indent}-")
    else:
        lines.append(head)
    _tell_all(node.children, inside, lines)


def _head(node: Node) -> str:
    """Return the description of an element itself."""
    words = [f"[{node.id}] {node.role}" if node.id else node.role]
    if node.name:
        words.append(f'"{node.name}"')
    if node.value:
        words.append(f'value="{node.value}"')
    return " ".join((*words, *node.states))


def _line(node: Node) -> str | None:
    """Return an element with its content in one line, or ``None`` if that is not enough."""
    if node.role in ("combobox", "listbox") and node.children:
        options = (f'"{one.name}"{" selected" * ("selected" in one.states)}' for one in node.children)
        return f"{_head(node)}: {', '.join(options)}"
    if not node.children:
        return _head(node)
    if node.role == "row" and all(_short(cell) for cell in node.children):
        return f"row: {' | '.join(_words(cell) for cell in node.children)}"
    if node.role == "listitem" and all(one.role in SHORT or _short(one) for one in node.children):
        return f"- {_words(node)}"
    if _short(node) and node.role != "listitem":
        return f"{_head(node)}: {_words(node)}"
    return None


SHORT = frozenset({"text", "link", "button", "checkbox"})
"""Roles that can share a line."""


def _short(node: Node) -> bool:
    """Return whether an element contains only elements that can share a line."""
    return node.role in CONTENT | {"paragraph", "alert", "status"} and all(one.role in SHORT for one in node.children)


def _words(node: Node) -> str:
    """Return the content of an element in one line, with a colon between a term and its definition."""
    parts: list[str] = []
    children = list(node.children)
    while children:
        child = children.pop(0)
        if child.role == "text":
            parts.append(child.name)
        elif child.role == "term" and children and children[0].role == "definition":
            parts.append(f"| {_words(child)}: {_words(children.pop(0))}")
        else:
            parts.append(_words(child) if child.role in CONTENT else _head(child))
    return " ".join(parts)
