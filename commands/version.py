"""``turnwise version``: what is installed."""

from __future__ import annotations

import importlib.metadata
import platform

import typer

SHOWN = ("torch", "transformers", "gymnasium", "numpy", "pyarrow", "chess")


def version() -> None:
    """Print the versions of Turnwise and of the packages that it uses."""
    typer.echo(f"turnwise {importlib.metadata.version('turnwise')}")
    typer.echo(f"python {platform.python_version()}")
    for name in SHOWN:
        try:
            typer.echo(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            typer.echo(f"{name} is not installed")
