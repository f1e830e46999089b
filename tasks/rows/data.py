"""Data files beside modules: tables in SQL, texts in TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def text_beside(module: str, name: str) -> str:
    """Return the text of a data file beside a module.

    Args:
        module: full name of the module.
        name: name of the file, such as ``schema.sql``.
    """
    return resources.files(module.rpartition(".")[0]).joinpath(name).read_text(encoding="utf-8")


@cache
def lists_beside(module: str, name: str) -> Mapping[str, tuple[str, ...]]:
    """Return the lists of texts in a TOML file beside a module. Their order is part of every task that draws from them.

    Args:
        module: full name of the module.
        name: name of the file, such as ``labels.toml``.
    """
    return {key: tuple(texts) for key, texts in tomllib.loads(text_beside(module, name)).items()}


def phrases_beside(module: str) -> Mapping[str, tuple[str, ...]]:
    """Return the lists of the file ``phrases.toml`` beside a module: texts of which a world's content is made."""
    return lists_beside(module, "phrases.toml")
