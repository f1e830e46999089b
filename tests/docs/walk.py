"""Follow a page of the documentation literally, as a user does who copies each block from top to bottom.

- A fence with ``<!-- file: NAME -->`` above it is a file: it is written.
- A ``console`` fence is a terminal: lines with ``$`` are typed into one shell for the whole page; the lines below a
  command must occur in its output, in this order. ``…`` stands for anything. A command may fail only where the page
  shows an error of Turnwise.
- Any other ``python`` fence is a program of its own.
- Other fences are not run.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "notebooks.md"
"""Its blocks are the cells of one notebook; ``test_notebooks.py`` runs them."""
STEP = re.compile(r"^(?:<!-- file: (\S+) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
END = "end-of-command"
COMMANDS = {
    "python": '#!/bin/sh\nexec "{python}" "$@"\n',  # a link would be outside its virtual environment
    "turnwise": "#!{python}\nimport sys\n\nfrom turnwise.cli import main\n\n"
    "if __name__ == '__main__':\n    sys.exit(main())\n",
}
"""The two programs of a user; the second as pip writes it."""


@dataclass(frozen=True)
class Step:
    """One fence of a page.

    Args:
        language: language of the fence.
        text: inside it.
        file: the name to write it to, if any.
        line: line number, for messages.
    """

    language: str
    text: str
    file: str
    line: int


@dataclass(frozen=True)
class Typed:
    """A command of a terminal and the lines that the page shows below it."""

    command: str
    shown: tuple[str, ...]


def pages() -> list[Path]:
    """The pages that can be followed: those that show a terminal."""
    return [page for page in sorted((ROOT / "docs").rglob("*.md")) if any(s.language == "console" for s in steps(page))]


def steps(page: Path) -> Iterator[Step]:
    """The fences of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in STEP.finditer(text):
        yield Step(found[2], found[3], found[1] or "", text[: found.start(3)].count("\n") + 1)


def typed(console: str) -> list[Typed]:
    """The commands of a terminal; a backslash at the end of a line continues a command."""
    parts = re.split(r"^\$ ", console, flags=re.MULTILINE)
    assert not parts[0].strip(), f"a terminal begins with a command, not with {parts[0]!r}"
    found = (re.match(r"((?:.*\\\n)*.*)\n?", part) for part in parts[1:])
    pairs = ((match[1], part[match.end() :]) for part, match in zip(parts[1:], found, strict=True) if match)
    return [Typed(command, tuple(filter(str.strip, shown.splitlines()))) for command, shown in pairs]


def missing(shown: tuple[str, ...], output: str) -> str | None:
    """The first line that a page shows and the output lacks, or has in another order; spaces do not matter."""
    lines = iter([" ".join(line.split()) for line in output.splitlines()])
    for line in shown:
        pattern = ".*".join(re.escape(" ".join(part.split())) for part in line.split("…"))
        pattern = pattern.replace(".*", r"\s*.*\s*")
        if line.strip() != "…" and not any(re.fullmatch(pattern, there) for there in lines):
            return line
    return None


class Shell:
    """One shell in an empty folder, with the ``turnwise`` and the ``python`` of these tests."""

    def __init__(self, folder: Path, bin: Path) -> None:
        bin.mkdir()
        for name, text in COMMANDS.items():
            (bin / name).write_text(text.format(python=sys.executable))
            (bin / name).chmod(0o755)
        pipe = subprocess.PIPE
        self._bash = subprocess.Popen(
            ["bash"], cwd=folder, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )
        # -m: background jobs get a process group of their own and hear signals, as in a terminal.
        self.run(f"set -m; export PATH='{bin}':$PATH VIRTUAL_ENV=")

    def run(self, command: str) -> tuple[int, str]:
        """Type a command and wait for its end; its exit code, and what it printed."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{command}\nprintf '\\n%s %d\\n' {END} $?\n")
        self._bash.stdin.flush()
        output = ""
        for line in self._bash.stdout:
            if line.startswith(END):
                return int(line.split()[1]), output
            output += line
        raise AssertionError(f"the shell ended at {command!r}: {output}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.run("kill -9 $(jobs -p) 2>/dev/null")
        self._bash.communicate()


def follow(page: Path, folder: Path) -> None:
    """Do what a page says, in an empty folder.

    Args:
        page: page to follow.
        folder: working folder; it gets two subfolders, of which the user sees one.
    """
    place = folder / "user"
    place.mkdir()
    with Shell(place, folder / "bin") as shell:
        for step in steps(page):
            where = f"{page.name}, line {step.line}"
            if step.file:
                (place / step.file).parent.mkdir(parents=True, exist_ok=True)
                (place / step.file).write_text(step.text, encoding="utf-8")
            elif step.language == "python":
                (folder / "block.py").write_text(step.text, encoding="utf-8")
                _succeed(shell, f"python - < '{folder / 'block.py'}'", (), where)
            elif step.language == "console":
                for each in typed(step.text):
                    _succeed(shell, each.command, each.shown, where)


def _succeed(shell: Shell, command: str, shown: tuple[str, ...], where: str) -> None:
    code, output = shell.run(command)
    fails = any(line.startswith("turnwise: ") for line in shown)
    assert code == 0 or fails, f"{where}: `{command}` ended with {code}:\n{output}"
    lacks = missing(shown, output)
    assert lacks is None, f"{where}: `{command}` should print {lacks!r}; it printed:\n{output}"
