"""An HTML document as a tree of roles and names, like Chromium's accessibility tree, and its forms.

The parser knows the elements of documents and forms (headings, lists, tables, links, fields, landmarks), but neither
scripts nor styles. It follows ARIA's rules for roles and names as far as pages without scripts need them:
https://www.w3.org/TR/html-aam-1.0/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from lxml import html

from ..page import Node

Element = Any
"""An lxml element; lxml's stubs lack many of its methods."""
ROLES = {
    "main": "main",
    "nav": "navigation",
    "aside": "complementary",
    "article": "article",
    "p": "paragraph",
    "ul": "list",
    "ol": "list",
    "li": "listitem",
    "table": "table",
    "caption": "caption",
    "thead": "rowgroup",
    "tbody": "rowgroup",
    "tfoot": "rowgroup",
    "tr": "row",
    "td": "cell",
    "th": "columnheader",
    "dt": "term",
    "dd": "definition",
    "blockquote": "blockquote",
    "hr": "separator",
    "fieldset": "group",
    "strong": "strong",
    "em": "emphasis",
    "time": "time",
    "code": "code",
    "button": "button",
    "textarea": "textbox",
    "option": "option",
    "img": "img",
    **{f"h{level}": "heading" for level in range(1, 7)},
}
INPUTS = {
    "text": "textbox",
    "email": "textbox",
    "tel": "textbox",
    "url": "textbox",
    "password": "textbox",
    "date": "textbox",
    "search": "searchbox",
    "number": "spinbutton",
    "range": "slider",
    "checkbox": "checkbox",
    "radio": "radio",
    "submit": "button",
    "button": "button",
    "reset": "button",
    "image": "button",
}
SILENT = frozenset({"head", "script", "style", "template", "noscript", "title", "meta", "link"})
BOXES = ("checkbox", "radio")
INLINE_TAGS = frozenset(
    {"a", "span", "strong", "em", "b", "i", "small", "code", "time", "label", "abbr", "mark", "u", "q"}
)


@dataclass
class Document:
    """A loaded page, with the values filled in since.

    Args:
        text: HTML source.
        url: URL of the page.
    """

    text: str
    url: str
    values: dict[str, str] = field(default_factory=dict)
    """Values typed into fields, by reference."""
    checked: dict[str, bool] = field(default_factory=dict)
    """Checkboxes and radio buttons that were changed, by reference."""
    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Values of chosen options, by the reference of their list."""
    focus: str = ""
    """Reference of the focused element."""

    def __post_init__(self) -> None:
        self.root: Any = html.document_fromstring(self.text or "<html></html>")
        self._refs = {one: f"h{number}" for number, one in enumerate(self.root.iter()) if isinstance(one.tag, str)}
        self._by_ref = {ref: one for one, ref in self._refs.items()}
        self._labels: dict[str, Element] = {}
        for label in self.root.iter("label"):
            wanted = label.get("for")
            if wanted is not None:
                self._labels.setdefault(wanted, label)

    @property
    def title(self) -> str:
        """Title of the document."""
        found = self.root.find(".//title")
        return _plain(found.text_content()) if found is not None else ""

    def element(self, ref: str) -> Element | None:
        """Return the element with a reference."""
        return self._by_ref.get(ref)

    def ref(self, element: Element) -> str:
        """Return the reference of an element."""
        return self._refs[element]

    # -- roles and names --------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """Return the tree of the body."""
        body = self.root.find("body")
        return tuple(self._children(body)) if body is not None else ()

    def _children(self, element: Element) -> Iterator[Node]:
        if text := _plain(element.text):
            yield Node("text", text)
        for child in element:
            if isinstance(child.tag, str) and child.tag not in SILENT and child.get("hidden") is None:
                node = self._node(child)
                if node is not None:
                    yield node
            if text := _plain(child.tail):
                yield Node("text", text)

    def _node(self, element: Element) -> Node | None:
        role, ref = self._role(element), self._refs[element]
        if role == "":
            return None
        if role in ("textbox", "searchbox", "spinbutton", "slider"):
            return Node(role, self._name(element), ref, _plain(self.value(element)), self._states(element))
        if role in BOXES:
            states = (*(("checked",) if self.is_checked(element) else ()), *self._states(element))
            return Node(role, self._name(element), ref, "", states)
        if role in ("combobox", "listbox"):
            options = tuple(
                Node(
                    "option",
                    _plain(one.text_content()),
                    self._refs[one],
                    "",
                    ("selected",) * (value in self.selected(element)),
                )
                for one, value in self.options(element)
            )
            return Node(role, self._name(element), ref, "", self._states(element), children=options)
        if role == "button":
            name = element.get("value", "Submit") if element.tag == "input" else _plain(element.text_content())
            return Node(role, element.get("aria-label", name), ref, "", self._states(element), pointer=False)
        if role == "link":
            name = element.get("aria-label") or _plain(_spaced(element))
            return Node(role, name, ref, url=element.get("href", ""))
        if role == "heading":
            return Node(role, _plain(_spaced(element)), ref, "", (f"level={element.tag[1]}",))
        if role == "img":
            return Node(role, element.get("alt", ""), ref)
        return Node(role, self._own_name(element, role), ref, children=tuple(self._children(element)))

    def _role(self, element: Element) -> str:
        given, tag = element.get("role"), str(element.tag)
        if given:
            return str(given)
        if tag == "input":
            kind = element.get("type", "text").lower()
            return "" if kind == "hidden" else INPUTS.get(kind, "textbox")
        if tag == "select":
            return "listbox" if element.get("multiple") is not None else "combobox"
        if tag == "a":
            return "link" if element.get("href") is not None else "generic"
        if tag in ("header", "footer"):
            inside = any(one.tag in ("main", "article", "aside", "nav", "section") for one in element.iterancestors())
            return "generic" if inside else "banner" if tag == "header" else "contentinfo"
        if tag in ("br", "wbr"):
            return ""
        return ROLES.get(tag, "generic")

    def _own_name(self, element: Element, role: str) -> str:
        name: str = element.get("aria-label", "")
        if role == "group":
            legend = element.find("legend")
            return name or (_plain(legend.text_content()) if legend is not None else "")
        if role == "table":
            caption = element.find("caption")
            return name or (_plain(caption.text_content()) if caption is not None else "")
        return name

    def _name(self, element: Element) -> str:
        """Return the accessible name of a field: its label, wherever that is."""
        if given := element.get("aria-label"):
            return _plain(given)
        label = self._labels.get(element.get("id", ""))
        if label is None:
            label = next((one for one in element.iterancestors() if one.tag == "label"), None)
        if label is not None:
            return _plain(" ".join(_label_words(label)))
        return _plain(element.get("title") or element.get("placeholder"))

    def _states(self, element: Element) -> tuple[str, ...]:
        return ("disabled",) * (element.get("disabled") is not None)

    # -- fields and forms -------------------------------------------------------------------------------------------

    def value(self, element: Element) -> str:
        """Return the current value of a field."""
        given = element.text or "" if element.tag == "textarea" else element.get("value", "")
        return self.values.get(self._refs[element], given.removeprefix("\n"))

    def is_checked(self, element: Element) -> bool:
        """Return whether a checkbox or radio button is checked."""
        return self.checked.get(self._refs[element], element.get("checked") is not None)

    def options(self, element: Element) -> list[tuple[Element, str]]:
        """Return the options of a list with their values."""
        return [(one, one.get("value", _plain(one.text_content()))) for one in element.iter("option")]

    def selected(self, element: Element) -> tuple[str, ...]:
        """Return the values chosen in a list."""
        ref = self._refs[element]
        if ref in self.chosen:
            return self.chosen[ref]
        options = self.options(element)
        marked = tuple(value for one, value in options if one.get("selected") is not None)
        if element.get("multiple") is not None:
            return marked
        return marked[-1:] or tuple(value for _, value in options[:1])

    def group(self, element: Element) -> list[Element]:
        """Return the radio buttons of an element's group, of which only one can be checked."""
        form = self.form(element)
        return [
            one
            for one in self.root.iter("input")
            if one.get("type") == "radio" and one.get("name") == element.get("name") and self.form(one) is form
        ]

    def form(self, element: Element) -> Element | None:
        """Return the form that contains an element."""
        return next((one for one in element.iterancestors() if one.tag == "form"), None)

    def submit_button(self, form: Element) -> Element | None:
        """Return the first button that sends a form."""
        return next((one for one in form.iter("button", "input") if sends(one)), None)

    def sent(self, form: Element, by: Element | None) -> list[tuple[str, str]]:
        """Return the names and values of a form's fields, in the order in which a browser sends them.

        Args:
            form: the form element.
            by: the button that was pressed, if any.
        """
        pairs: list[tuple[str, str]] = []
        for one in form.iter("input", "select", "textarea", "button"):
            name, kind = one.get("name", ""), one.get("type", "text").lower()
            if not name or one.get("disabled") is not None:
                continue
            if one.tag == "select":
                pairs += [(name, value) for value in self.selected(one)]
            elif one.tag == "textarea":
                pairs.append((name, re.sub(r"\r?\n|\r", "\r\n", self.value(one))))
            elif one.tag == "button" or kind in ("submit", "image"):
                pairs += [(name, one.get("value", ""))] * (one is by)
            elif kind in BOXES:
                if self.is_checked(one):
                    pairs.append((name, one.get("value", "on")))
            elif kind not in ("button", "reset"):
                pairs.append((name, self.value(one)))
        return pairs


def sends(element: Element) -> bool:
    """Return whether pressing an element sends its form."""
    kind = element.get("type", "submit" if element.tag == "button" else "text").lower()
    return element.tag in ("button", "input") and kind in ("submit", "image") and element.get("disabled") is None


def address(form: Element, pairs: list[tuple[str, str]]) -> tuple[str, str, str]:
    """Return how and where a form is sent: the method, the URL as written, and the body."""
    text = urlencode(pairs, errors="replace")  # replaces lone surrogates, which cannot be encoded
    action = form.get("action", "")
    if form.get("method", "get").lower() == "post":
        return "POST", action, text
    return "GET", f"{action.partition('#')[0].partition('?')[0]}?{text}", ""


def _plain(text: str | None) -> str:
    """Return a text with single spaces."""
    return " ".join(text.split()) if text else ""


def _spaced(element: Element) -> str:
    """Return all text in an element, with spaces around its block elements."""
    parts = [element.text or ""]
    for child in element:
        if isinstance(child.tag, str) and child.tag not in SILENT:
            gap = "" if child.tag in INLINE_TAGS else " "
            parts += [gap, _spaced(child), gap]
        parts.append(child.tail or "")
    return "".join(parts)


def _label_words(label: Element) -> Iterator[str]:
    if label.text:
        yield label.text
    for child in label:
        if child.tag not in ("input", "select", "textarea", "button") and isinstance(child.tag, str):
            yield child.text_content()
        if child.tail:
            yield child.tail
