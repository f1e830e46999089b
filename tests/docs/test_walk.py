"""Following a page of the documentation, tried on pages that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from .walk import Typed, follow, missing, typed


def page(folder: Path, text: str) -> Path:
    (folder / "page.md").write_text(text, encoding="utf-8")
    return folder / "page.md"


def test_a_terminal_is_commands_and_what_they_print() -> None:
    console = "$ one \\\n    two\nsaid\n\n$ three\n"
    assert typed(console) == [Typed("one \\\n    two", ("said",)), Typed("three", ())]


@pytest.mark.parametrize(
    ("shown", "lacks"),
    [
        (("a", "c"), None),
        (("c", "a"), "a"),
        (("b is 12 %",), None),
        (("b is … %",), None),
        (("…", "c"), None),
        (("b",), "b"),
    ],
)
def test_shown_lines_are_whole_and_in_order(shown: tuple[str, ...], lacks: str | None) -> None:
    assert missing(shown, "a\nb  is 12 %\nc\n") == lacks


def test_a_page_is_one_shell_with_files_and_programs(tmp_path: Path) -> None:
    text = """
<!-- file: sub/one.txt -->
```
first
```

```console
$ export WORD=second
$ cat sub/one.txt; echo $WORD
first
second
```

```python
import os
assert os.environ["WORD"] == "second" and open("sub/one.txt").read() == "first\\n"
```

```sh
exit 1
```
"""
    follow(page(tmp_path, text), tmp_path)


@pytest.mark.parametrize(
    "wrong", ["```console\n$ false\n```", "```console\n$ echo a\nb\n```", "```python\nassert False\n```"]
)
def test_a_page_that_is_wrong_fails(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(AssertionError, match=r"page\.md, line 2"):
        follow(page(tmp_path, f"{wrong}\n"), tmp_path)
