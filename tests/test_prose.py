"""The prose lint finds what it should and leaves good English alone; ``scripts/lint`` runs it over every file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("prose", ROOT / "scripts" / "prose.py")
assert SPEC is not None
assert SPEC.loader is not None
prose: Any = importlib.util.module_from_spec(SPEC)
sys.modules["prose"] = prose
SPEC.loader.exec_module(prose)


def rules(path: str, source: str) -> list[str]:
    return [fault.rule for fault in prose.faults_in(path, source)]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("overused word", "Nobody reads what somebody wrote, whoever it was."),
        ("overused word", "The caller is told of it."),
        ("stative passive", "The episode is over."),
        ("stative passive", "The store is not held while\nthe model is asked."),
        ("is no", "A timeout is no failure."),
        ("false friend", "The first 10 letters are kept."),
        ("false friend", "The run goes on from its newest checkpoint."),
        ("false friend", "What a person answers shall be kept."),
        ("British spelling", "The behaviour policy is normalised."),
        ("British spelling", "A judgement of the artefact."),
        ("British spelling", "The normaliser is unknown."),
        ("long sentence", "word " * 36),
    ],
)
def test_faults_are_found(rule: str, text: str) -> None:
    assert rule in rules("page.md", text)


@pytest.mark.parametrize(
    "text",
    [
        "There is no run in this folder, and the episode is no longer scored.",
        "Names have capital letters, or letters and digits.",
        "The value is over 5, and the tokenizer tokenizes otherwise precise exercises.",
        "`nobody` is a user, see [the page](nobody.md).",
        "normaliser='const' needs a denominator, and length_normalised a level.",
        "```\nnobody is told\n```\n",
        "word " * 35 + "\n\n" + "word " * 35,
        "| " + "word " * 30 + "| " + "word " * 30 + "|",
        "<!-- file: nobody.py -->",
    ],
)
def test_good_english_and_code_are_left_alone(text: str) -> None:
    assert rules("page.md", text) == []


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        ("relative summary", '"""What a token counts for."""'),
        ("relative summary", 'class Run:\n    out: str\n    """Where to write."""'),
        ("relative summary", 'Option(help="Which level.")'),
        ("entry begins mid-clause", '"""Play.\n\nArgs:\n    seed: of the run.\n"""'),
        ("overused word", "x = 1  # nobody reads it"),
        ("overused word", "# two\n# lines; nobody\nx = 1"),
        ("overused word", 'raise UsageError("nobody listens")'),
        ("is no", 'raise UsageError(f"{name} is no environment")'),
        ("overused word", 'raise UsageError("a" if wide else f"somebody wrote {name}")'),
    ],
)
def test_faults_in_python_are_found(rule: str, source: str) -> None:
    assert rules("module.py", source) == [rule]


@pytest.mark.parametrize(
    "source",
    [
        'nobody = "nobody is told, and a box is no circle"',
        '"""Play.\n\nArgs:\n    seed: seed of the run, an integer.\n"""',
        '"""Save.\n\nArgs:\n    what: name of the file.\n"""',
        '"""Return what the policy sampled.\n\n>>> print("nobody")\nnobody\n"""',
        'text = """\n# nobody\n"""',
        '"""How to weight tokens, and ``nobody`` in code."""',
        '"""A tree.\n\n::\n\n    nobody\n    └── somebody\n\nThe end."""',
    ],
)
def test_good_python_is_left_alone(source: str) -> None:
    assert rules("module.py", source) == []


def test_a_fault_names_the_line_the_words_and_the_cure() -> None:
    (fault,) = prose.faults_in("docs/page.md", "# Title\n\nIt is\nno cat.\n")
    assert str(fault) == "docs/page.md:3: is no: 'is no cat'; write 'is not a'"


def test_the_lint_reads_every_module_that_agents_repair() -> None:
    """Their docstrings and errors are observations, and folders of tasks must not fall out of the lint again."""
    modules = ROOT / "tasks" / "code" / "repair" / "modules"
    bundled = {str(path.relative_to(ROOT)) for path in modules.glob("*/*.py")}
    assert len(bundled) > 30
    assert bundled <= set(prose.files([]))


def test_a_fault_fails_the_lint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.md").write_text("It is no cat.\n", encoding="utf-8")
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(prose, "files", lambda wanted: ["page.md"])
    for arguments, words in (([], "page.md:1: is no: 'is no cat'"), (["--totals"], "1 is no")):
        monkeypatch.setattr(sys, "argv", ["prose.py", *arguments])
        assert prose.main() == 1
        assert words in capsys.readouterr().out
