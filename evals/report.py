"""``report``: turn folders of episodes or training runs into HTML, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from .collect_runs import collect_runs
from .html import render_html
from .markdown import render_markdown


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """Paths of a written report.

    Args:
        html: the page, which needs nothing else.
        markdown: the same content in Markdown.
        json: all the numbers.
    """

    html: Path
    markdown: Path
    json: Path


def report(
    source: Path | str | Sequence[Path | str],
    out: Path | str | None = None,
    *,
    title: str | None = None,
    confidence: float = 0.95,
) -> ReportFiles:
    """Write ``report.html``, ``report.md`` and ``report.json``.

    Args:
        source: one or more folders, each an episode store, a training run, or a folder of several such (seeds of one
            training are averaged). Two stores of one environment are compared; three or more are ranked, by environment
            if they do not all share one.
        out: output folder (default: the first source, or its parent if it is named ``episodes``).
        title: heading of the report (default: made from environments and policies).

    Raises:
        UsageError: there is nothing to report, or ``out`` cannot be written.
    """
    sources = [source] if isinstance(source, (str, Path)) else list(source)
    if not sources:
        raise UsageError("name at least one folder to report on")
    found = collect_runs(sources, title=title, confidence=confidence)
    folder = Path(out) if out is not None else _beside(Path(sources[0]))
    files = ReportFiles(folder / "report.html", folder / "report.md", folder / "report.json")
    texts = {
        files.html: render_html(found),
        files.markdown: render_markdown(found),
        files.json: json.dumps(found.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            _replaced(path, text)
    except OSError as error:
        raise UsageError(f"cannot write a report to {folder}: {error.strerror}") from None
    return files


def _replaced(path: Path, text: str) -> None:
    """Write a file under a temporary name and rename it; if the disk refuses, nothing is left behind."""
    partial = path.with_name(f".{path.name}.part")
    try:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")  # lone surrogates
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _beside(source: Path) -> Path:
    """Return a folder outside of the store itself: ``runs/x/episodes`` is reported in ``runs/x``."""
    return source.parent if source.name == "episodes" else source
