"""Python's documentation as pages, one for each section, from the system package ``python3-doc``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ....errors import UsageError
from ..document import Document

USUAL = Path("/usr/share/doc")
UNDERLINE = re.compile(r"^([=\-~^*\"'#+`.:])\1{2,}\s*$")
ROLE = re.compile(r":[a-zA-Z0-9:+-]+:`([^`<]+?)(?:\s*<[^>`]*>)?`")
LABEL = re.compile(r"^\.\. (?:_[^:]*:|index::.*|highlight::.*|sectionauthor::.*|moduleauthor::.*|currentmodule::.*)$")


def read_python_docs(folder: Path | None = None) -> Iterator[Document]:
    """Yield each section of each page: ``library/json#2`` is the second of ``library/json``; the title names both.

    Args:
        folder: where ``_sources`` lies, or something above it; without it, the newest that the system has.

    Raises:
        UsageError: it is not there.
    """
    where = _found(folder)
    for path in sorted(where.rglob("*.rst.txt")):
        name = path.relative_to(where).as_posix().removesuffix(".rst.txt")
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
        page = ""
        for number, (title, text) in enumerate(_sections(lines), 1):
            page = page or title
            full = (page or name) if title in ("", page) else f"{page}: {title}"
            if text or number == 1:
                yield Document(f"{name}#{number}", full, text)


def plain(text: str) -> str:
    """Return a line of reStructuredText without the markup of roles: ``:func:`len``` becomes ``len``."""
    return ROLE.sub(lambda found: found[1].lstrip("~!").strip(), text).replace("``", "")


def _sections(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield titles with the text up to the next title."""
    title, held = "", list[str]()
    at = 0
    while at < len(lines):
        line = lines[at]
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if line.strip() and not line.startswith(" ") and _under(line, following):
            if title or _said(held):
                yield title, _said(held)
            title, held, at = plain(line).strip(), [], at + 2
            continue
        over = UNDERLINE.match(line) and following.strip() and lines[at + 2 : at + 3] == [line]
        if not over and not LABEL.match(line):
            held.append(plain(line))
        at += 1
    if title or _said(held):
        yield title, _said(held)


def _under(line: str, following: str) -> bool:
    long = len(following.rstrip()) + 2 >= len(line.rstrip())
    return long and bool(UNDERLINE.match(following)) and not UNDERLINE.match(line)


def _said(held: list[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(held)).strip()


def _found(folder: Path | None) -> Path:
    tried = sorted(USUAL.glob("python3*/html"), reverse=True, key=_version) if folder is None else [folder]
    for place in tried:
        for sources in (place, place / "_sources", place / "html/_sources", *sorted(place.glob("*/_sources"))):
            if sources.is_dir() and any(sources.glob("*/*.rst.txt")):
                return sources
    if folder is not None:
        raise UsageError(f"{folder} has no sources of Python's documentation; --from names the folder _sources")
    raise UsageError("Python's documentation is not installed: apt-get install python3-doc, or name it with --from")


def _version(path: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", path.parent.name)))
