"""``turnwise version``: what is installed."""

from __future__ import annotations

import importlib.metadata
import platform

import typer

SHOWN = ("torch", "transformers", "gymnasium", "numpy", "pyarrow", "chess")


def version() -> None:
    """Say which version of Turnwise this is, and of what it stands on."""
    typer.echo(f"turnwise {importlib.metadata.version('turnwise')}")
    typer.echo(f"python {platform.python_version()}")
    for name in SHOWN:
        try:
            typer.echo(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            typer.echo(f"{name} is not installed")
