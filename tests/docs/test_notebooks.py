"""The cells of docs/notebooks.md run as in a notebook: one namespace, a running event loop, no file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .walk import NOTEBOOK, steps

KERNEL = """
import ast, asyncio, inspect, json, linecache, sys

async def _play(cells):
    for number, text in enumerate(cells):
        name = f"cell {number + 1}"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)  # as IPython does
        made = eval(compile(text, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), globals())
        if inspect.isawaitable(made):
            await made

asyncio.run(_play(json.load(sys.stdin)))
"""


def play(cells: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", KERNEL]
    return subprocess.run(command, cwd=folder, input=json.dumps(cells), capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_cells_run_and_run_again(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="NOT TESTED: docs/notebooks.md needs pandas")
    cells = [step.text for step in steps(NOTEBOOK) if step.language == "python"]
    ran = play([*cells, *cells[:3]], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "SKIP  two_processes_agree: Secret is defined in a notebook" in ran.stdout


@pytest.mark.slow
def test_evaluate_says_what_to_await(tmp_path: Path) -> None:
    cell = """
import turnwise as tw
tw.evaluate("turnwise/Maze-v0", "null", n=1, out="runs/x")
"""
    ran = play([cell], tmp_path)
    assert "use `await evaluate_async()`" in ran.stderr
