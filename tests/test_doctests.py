"""Examples in docstrings do what they show, and every module can be imported."""

from __future__ import annotations

import doctest
import importlib
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ITEMS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
    "only-include"
]
MODULES = sorted(
    ".".join(("turnwise", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for item in ITEMS
    for file in ([ROOT / item] if item.endswith(".py") else (ROOT / item).rglob("*.py"))
)
INSIDE_SANDBOXES = "turnwise.envs.code.inside."
"""Modules that are copied into sandboxes, beside what they import; there are no examples in them."""
INSIDE_VLLM = "turnwise.agents.serving.worker."
"""Modules that a server of vLLM loads; they can be imported where it can."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.vllm] * name.startswith(INSIDE_VLLM))
        for name in MODULES
        if not name.startswith(INSIDE_SANDBOXES)
    ],
)
def test_docstrings_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert not result.failed, f"{result.failed} of {result.attempted} examples in {name} are wrong; see above"
