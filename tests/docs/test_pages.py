"""Pages that show a terminal are followed literally: files are written, commands typed, what is shown is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from .walk import follow, pages


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    follow(page, tmp_path)
