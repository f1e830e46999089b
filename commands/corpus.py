"""``turnwise tasks build-corpus``: pages from anywhere, in one file with the index that finds them."""

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
"""Bad lines that are told of one by one."""


def build_corpus(source: str, out: Path | None, where: Path | None, words: int | None, skip_bad: bool) -> None:
    """Write a corpus.

    Args:
        source: a folder, a file of JSONL, or a package of the system.
        out: the file to write.
        where: the folder of a system's package.
        words: the most that a passage has; pages stay whole without it.
        skip_bad: leave out lines and files that are no page, and pages with an id of another's, and say which.
    """
    if out is None:
        raise UsageError(f"say where the corpus goes: turnwise tasks build-corpus {source} {Path(source).stem}.corpus")
    if out.exists() and Path(source).exists() and out.samefile(source):
        raise UsageError(f"{out} is the source itself, and would be lost; name another file for the corpus")
    bad: list[str] = []
    leave = bad.append if skip_bad else None
    name, pages = pages_of(source, where, leave)
    found = pages if words is None else passages(pages, words)
    with resumable(f"{out} is as it was: it is written when it is whole."), _bar() as shown:
        line = shown.add_task(name, total=None)
        made = build(out, name, found, lambda pages: shown.update(line, completed=pages), leave)
    for told in bad[:NAMED]:
        remark().print(f"left out: {told}", markup=False)
    if len(bad) > NAMED:
        what = "files" if Path(source).is_dir() else "lines"
        remark().print(f"left out: {len(bad) - NAMED} more {what}", markup=False)
    megabytes = out.stat().st_size / 1e6
    screen().print(f"{out}: {len(made)} pages of {name}, {megabytes:.1f} MB with their index", markup=False)


def _bar() -> Bar:
    shown = TextColumn("{task.description}"), SpinnerColumn(), TextColumn("{task.completed:,.0f} pages")
    console = remark()
    return Bar(*shown, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal)
