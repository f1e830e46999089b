"""``turnwise tasks build-corpus``: write pages from any source into one file with a search index."""

from __future__ import annotations

from pathlib import Path

from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from ..errors import UsageError
from ..tasks.search.build import build
from ..tasks.search.sources.named import pages_of
from ..tasks.search.sources.passages import passages
from .terminal import remark, resumable, screen

NAMED = 10
"""Bad lines that are listed one by one; the rest are counted."""


def build_corpus(source: str, out: Path | None, where: Path | None, words: int | None, skip_bad: bool) -> None:
    """Write a corpus.

    Args:
        source: a folder, a JSONL file, or the name of a system package.
        out: the file to write.
        where: the folder of the system package, if not the default one.
        words: maximum words per passage; without it, pages stay whole.
        skip_bad: leave out lines and files that are not pages and pages with a duplicate id, and list them.
    """
    if out is None:
        raise UsageError(f"name the file to write: turnwise tasks build-corpus {source} {Path(source).stem}.corpus")
    if out.exists() and Path(source).exists() and out.samefile(source):
        raise UsageError(f"{out} is the source itself and would be overwritten; name another file for the corpus")
    bad: list[str] = []
    leave = bad.append if skip_bad else None
    name, pages = pages_of(source, where, leave)
    found = pages if words is None else passages(pages, words)
    with resumable(f"{out} is unchanged: the file is replaced only when it is complete."), _bar() as shown:
        line = shown.add_task(name, total=None)
        made = build(out, name, found, lambda pages: shown.update(line, completed=pages), leave)
    for each in bad[:NAMED]:
        remark().print(f"left out: {each}", markup=False)
    if len(bad) > NAMED:
        what = "files" if Path(source).is_dir() else "lines"
        remark().print(f"left out: {len(bad) - NAMED} more {what}", markup=False)
    megabytes = out.stat().st_size / 1e6
    screen().print(f"{out}: {len(made)} pages of {name}, {megabytes:.1f} MB with their index", markup=False)


def _bar() -> Bar:
    shown = TextColumn("{task.description}"), SpinnerColumn(), TextColumn("{task.completed:,.0f} pages")
    console = remark()
    return Bar(*shown, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal)
