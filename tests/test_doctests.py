"""Examples in docstrings do what they show, and every module can be imported."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
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
INSIDE_SANDBOXES = ("turnwise.envs.code.inside.", "turnwise.envs.harbor.inside.")
"""Modules that are copied into sandboxes, beside what they import; they have no examples."""
FOR_GPUS = "turnwise.trainers.learning.row_kernels"
"""A module of Triton kernels; it can be imported where torch is a build for GPUs."""
INSIDE_VLLM = "turnwise.inference.serving.worker."
"""Modules that a server of vLLM loads; they can be imported where it can."""


FOLDERS: dict[str, list[str]] = {}
for module in MODULES:
    if not module.startswith((*INSIDE_SANDBOXES, INSIDE_VLLM, FOR_GPUS)):
        FOLDERS.setdefault(module.split(".")[1] if module.count(".") > 1 else "root", []).append(module)


def wrong_examples(modules: list[str]) -> str:
    """Run the examples of several modules and return a report of those that are wrong."""
    report = io.StringIO()
    for name in modules:
        module = importlib.import_module(name)
        if ">>>" in inspect.getsource(module):  # doctest takes long to find out that a module has no example
            with contextlib.redirect_stdout(report):
                doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    return report.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_are_true(folder: str) -> None:
    wrong = wrong_examples(FOLDERS[folder])
    assert not wrong, wrong


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")  # when torch loads
def test_docstrings_are_true_inside_vllm() -> None:
    wrong = wrong_examples([name for name in MODULES if name.startswith(INSIDE_VLLM)])
    assert not wrong, wrong
