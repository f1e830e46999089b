"""The choice of tasks and the last lines of the output, which all commands share that export an environment's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from ..config import load_config
from ..errors import UsageError
from ..evals.sampling import Sample
from ..evals.settings import EvalConfig
from .terminal import remark


def task_settings(options: Mapping[str, object], words: Sequence[str]) -> EvalConfig:
    """Return the evaluation whose tasks are exported.

    Args:
        options: settings from the options of the command; an empty text keeps the default.
        words: further words of the command line, which set arguments of the environment.

    Raises:
        UsageError: a word is not an argument of the environment.
    """
    if wrong := [word for word in words if not word.startswith("env_kwargs.")]:
        raise UsageError(f"{wrong[0]!r} is not an argument of the environment; write env_kwargs.KEY=VALUE")
    given = [f"{name}={value}" for name, value in options.items() if value != ""]
    return load_config(EvalConfig, None, [*given, *words])


def print_written(sample: Sample, path: Path) -> None:
    """Print the notes of a sample of tasks, how many there are, and the path that they were written to."""
    for note in sample.notes:
        remark().print(note, markup=False)
    count = len(sample.tasks)
    remark().print(f"{count} task{'s' * (count != 1)} written", markup=False)
    typer.echo(path)
