"""A nano model whose tokenizer has merges under which almost nothing survives a way through text, and who serves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from turnwise.inference.models import save_model
from turnwise.inference.nano import NanoConfig, build_model

from ...agents.fakes import tokenizer as merging_tokenizer
from .fake_server import FakeServer

CONTEXT = 128

Serve = Callable[..., FakeServer]


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """Of the model: byte-level, with merges that overlap."""
    return merging_tokenizer(pad_token="<|endoftext|>")


@pytest.fixture(scope="session")
def models(tokenizer: Any) -> list[Any]:
    """Three models of one shape and other weights."""
    shape = NanoConfig(size="0.1M", context_length=CONTEXT, initializer_range=0.2)
    return [build_model(shape, tokenizer, seed) for seed in range(3)]


@pytest.fixture(scope="session")
def folders(models: list[Any], tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Save each of ``models``, and return the folders."""
    base = tmp_path_factory.mktemp("models")
    for number, model in enumerate(models):
        save_model(model, tokenizer, base / str(number))
    return [base / str(number) for number in range(len(models))]


@pytest.fixture
def serve(models: list[Any], tokenizer: Any) -> Iterator[Serve]:
    """Starts fake servers of the first model; they are stopped after the test."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(FakeServer(models[0], tokenizer, **settings))


@pytest.fixture
def fake(serve: Serve) -> FakeServer:
    """One fake server."""
    return serve()


@pytest.fixture(scope="session")
def standing(models: list[Any], tokenizer: Any) -> Iterator[FakeServer]:
    """A fake server for many tests, none of which changes it."""
    with FakeServer(models[0], tokenizer) as server:
        yield server
