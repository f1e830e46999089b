"""Diffs and replacements: what fits is done, and what does not is refused with what stands there."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as some

from turnwise.errors import ToolError
from turnwise.tasks.code.patch import patched, replaced

TEXT = "def f(x):\n    y = x\n    return y\n\ndef g(x):\n    return x\n"
LINES = some.lists(some.sampled_from(["a", "b", "c d", "", "  e"]), max_size=12)


@given(LINES, LINES)
def test_the_diff_between_two_texts_leads_from_one_to_the_other(before: list[str], after: list[str]) -> None:
    diff = "\n".join(difflib.unified_diff(before, after, "a/f", "b/f", lineterm="", n=50))
    if before != after:
        old, new = ("".join(f"{line}\n" for line in lines) for lines in (before, after))
        assert patched(old, diff) == new


def test_line_numbers_may_be_off_where_the_lines_stand_once() -> None:
    assert patched(TEXT, "@@ -40,1 +40,1 @@\n-    y = x\n+    y = x + 1\n").splitlines()[1] == "    y = x + 1"


@pytest.mark.parametrize(
    ("diff", "said"),
    [
        ("- y\n+ z", "no hunk"),
        ("@@ nonsense @@\n-a", "must look like"),
        ("@@ -2,1 +2,1 @@\n-    y = z\n+    y = 1\n", "line 2 should be '    y = z', but the file has '    y = x'"),
        ("@@ -9,1 +9,1 @@\n-nowhere\n+x\n", "the file ends before it"),
        ("@@ -1,1 +1,1 @@\n*def\n", "must begin with ' ', '-' or '+'"),
    ],
)
def test_a_diff_that_does_not_fit_says_where(diff: str, said: str) -> None:
    with pytest.raises(ToolError, match=r".*") as refused:
        patched(TEXT, diff)
    assert said in str(refused.value)


def test_a_passage_that_fits_twice_must_say_where() -> None:
    twice = "a\nb\na\nb\n"
    assert patched(twice, "@@ -3,1 +3,1 @@\n-a\n+c\n") == "a\nb\nc\nb\n"
    with pytest.raises(ToolError, match="matches in 2 places"):
        patched(twice, "@@ -9,1 +9,1 @@\n-a\n+c\n")


@pytest.mark.parametrize(
    ("text", "diff", "said"),
    [
        (TEXT, f"@@ -{'9' * 5000} +1 @@\n-a\n", "must look like"),
        (TEXT, "@@ -1 +1 @@\n-def f(x):\n" + f"@@ -1,{'9' * 5000} +1 @@\n-a\n", "must begin with ' ', '-' or '+'"),
        (TEXT, "@@ -1,1 +1,1 @@\n-a\n+b\n" * 20_000, "characters"),
        (TEXT, "@@ -0,0 +1 @@\n+b\n" * 101, "more than 100 hunks"),
        ("x\n" * 50_001, "@@ -1 +1 @@\n-x\n", "too large"),
        ("x" * 1024 * 1025, "@@ -1 +1 @@\n-x\n", "too large"),
        ("a\nb\n" * 9, "@@ -99 +99 @@\n-a\n", "matches in more than 5 places (lines 1, 3, 5, 7, 9)"),
    ],
)
def test_what_would_take_long_is_refused(text: str, diff: str, said: str) -> None:
    with pytest.raises(ToolError) as refused:
        patched(text, diff)
    assert said in str(refused.value)


@pytest.mark.parametrize("guess", [0, 1, 2, 3, 7])
def test_passages_that_overlap_themselves_are_found_by_whole_lines(guess: int) -> None:
    text = "aa\na\na\na\nba\n"
    diff = f"@@ -{guess} +1 @@\n-a\n-a\n+c\n"
    if guess in (2, 3):
        assert patched(text, diff).splitlines().index("c") == guess - 1
    else:
        with pytest.raises(ToolError, match=r"matches in 2 places \(lines 2, 3\)"):
            patched(text, diff)


def test_one_place_is_replaced() -> None:
    assert replaced(TEXT, "    y = x\n", "") == TEXT.replace("    y = x\n", "")
    with pytest.raises(ToolError, match=r"appears 2 times \(lines 1, 5\)"):
        replaced(TEXT, "def ", "class ")
    with pytest.raises(ToolError, match="line 2 is similar"):
        replaced(TEXT, "y = x\nreturn y", "")
    with pytest.raises(ToolError, match="empty"):
        replaced(TEXT, "", "x")
