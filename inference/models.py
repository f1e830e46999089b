"""Loading and saving models: local folders only, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from ..errors import ModelError
from .policy_spec import is_chat_api
from .value_guided import guided

PADDING = 1024
"""By how many ids beyond their tokenizer's models are padded at most, where no configuration tells."""


def load_model(
    path: str | os.PathLike[str], *, dtype: torch.dtype | str = "auto", device: str | torch.device = "cpu"
) -> tuple[Any, Any]:
    """A model in evaluation mode, and its tokenizer, from a folder or from the local Hugging Face cache.

    Nothing is ever fetched: a name that is not on this machine is an error, not a download. A folder that holds values
    beside the weights gives a ``ValueGuidedModel``.

    Args:
        path: a folder written by ``save_model`` or ``save_pretrained``, or the hub name of a cached model.
        dtype: of the weights; "auto" keeps what was saved.
        device: where the model goes.

    Raises:
        ModelError: The folder does not exist, or it has no model or no tokenizer.
    """
    source = _located(path)
    try:
        config = AutoConfig.from_pretrained(source, local_files_only=True)
        with _quiet():
            model: Any = AutoModelForCausalLM.from_pretrained(source, config=config, dtype=dtype, local_files_only=True)
    except Exception as error:
        raise ModelError(f"{path} has no language model that transformers can load: {_line(error)}") from error
    return guided(model, source).to(existing_device(device)).eval(), load_tokenizer(path)


def chosen_device(name: str) -> str:
    """Resolve ``auto``: the GPU if torch sees one, otherwise the CPU; any other name is returned as it is."""
    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def existing_device(name: str | torch.device) -> torch.device:
    """The device of that name, if this machine has it.

    Raises:
        ModelError: there is no such device, or torch was built without it.
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ModelError(
            f"device {str(name)!r} is not available here: {_line(error)}; use cpu, or cuda on a GPU"
        ) from None
    return device


def load_tokenizer(path: str | os.PathLike[str]) -> Any:
    """Load the tokenizer of a model folder.

    Raises:
        ModelError: The folder has no tokenizer that transformers can load.
    """
    source = _located(path)
    if Path(source).is_dir() and not any(Path(source).glob("tokenizer*")):
        raise ModelError(f"{path} has no tokenizer (no tokenizer.json); save one beside the model")
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True)
    except Exception as error:
        raise ModelError(f"{path} has no tokenizer that transformers can load: {_line(error)}") from error
    return tokenizer


def vocabulary_of(path: str | os.PathLike[str], tokenizer: Any) -> int:
    """How many ids a model has: by its configuration, else by its tokenizer, beyond which models are padded.

    Args:
        path: the folder or the name that the tokenizer was loaded from.
        tokenizer: the model's.
    """
    try:
        config = AutoConfig.from_pretrained(_located(path), local_files_only=True).get_text_config()
        return max(int(config.vocab_size), len(tokenizer))
    except (OSError, ValueError, KeyError, AttributeError):
        return len(tokenizer) + PADDING


def save_model(
    model: Any, tokenizer: Any, path: str | os.PathLike[str], *, weights: Mapping[str, torch.Tensor] | None = None
) -> None:
    """Write a model folder that ``load_model`` reads; ``path`` is the old folder or the new one, never a part.

    It is written beside ``path`` and renamed. A folder that was there is moved away just before and removed after:
    a machine that dies between the two renames leaves both, whole, in a hidden folder beside ``path``.

    Args:
        model: of transformers.
        tokenizer: goes beside it.
        path: the folder.
        weights: written instead of the model's own, where these are shared out or have adapters among them.

    Raises:
        ModelError: the disk refuses, or ``path`` is a file.
    """
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise ModelError(f"cannot save a model to {target}: it is a file; name a folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            with _quiet():
                _plain(model, weights).save_pretrained(new, state_dict=weights)
            tokenizer.save_pretrained(new)
            if target.exists():
                target.rename(old)
            try:
                new.rename(target)
            except OSError:
                old.rename(target)
                raise
    except (OSError, SafetensorError) as error:  # a full disk is the latter
        raise ModelError(f"cannot save a model to {target}: {error}") from error


def _plain(model: Any, weights: Mapping[str, torch.Tensor] | None) -> Any:
    """A model without weights of its own, to save others': adapters and sharding have changed the model's layers."""
    if weights is None:
        return model
    with torch.device("meta"):
        shell = AutoModelForCausalLM.from_config(model.config, dtype=model.dtype)  # type: ignore[no-untyped-call]
    shell.generation_config = model.generation_config
    return shell


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars of transformers' own: a training run saves often, and shows a bar of its own."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _located(path: str | os.PathLike[str]) -> str:
    folder = Path(path).expanduser()
    if folder.is_dir():
        if (folder / "model" / "config.json").is_file():
            raise ModelError(f"{path} is the folder of a run; its model is in {folder / 'model'}")
        if not (folder / "config.json").is_file():
            raise ModelError(f"{path} is not a model folder: it has no config.json; name the folder of a model")
        return str(folder)
    if folder.exists():
        raise ModelError(f"{path} is a file; name the folder with config.json and the weights")
    name = os.fspath(path)
    if name.count("/") == 1 and not name.startswith((".", "/", "~")) and _cached(name):
        return name
    if is_chat_api(name):
        raise ModelError(
            f"{name} is a model behind a chat API, so its weights cannot be trained; name a model's folder"
        )
    raise ModelError(
        f"there is no model at {path}; name a folder made by training, or download one first (Turnwise never does)"
    )


def _cached(name: str) -> bool:
    try:
        AutoConfig.from_pretrained(name, local_files_only=True)
    except (OSError, ValueError):
        return False
    return True


def _line(error: Exception) -> str:
    """The first line of an error, and what follows where that line only introduces it."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines) if lines[0].endswith(":") else lines[0]
