"""Load models from local folders, and save them atomically."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging

from ..errors import ModelError
from .attention import Attention, settle, transformers_name
from .policy_spec import is_chat_api
from .value_guided import guided

PADDING = 1024
"""Maximum number of ids that a model has beyond those of its tokenizer, if no configuration is available."""


def load_model(
    path: str | os.PathLike[str],
    *,
    dtype: torch.dtype | str = "auto",
    device: str | torch.device = "cpu",
    attention: Attention = "auto",
    weights: bool = True,
) -> tuple[Any, Any]:
    """Load a model in evaluation mode, and its tokenizer, from a folder or from the local Hugging Face cache.

    Nothing is ever downloaded: a name that is not on this machine is an error. A folder that has values beside the
    weights gives a ``ValueGuidedModel``.

    Args:
        path: a folder written by ``save_model`` or ``save_pretrained``, or the hub name of a cached model.
        dtype: data type of the weights; "auto" keeps the saved one.
        device: device to put the model on.
        attention: implementation of attention; see ``attention.py``.
        weights: whether to read the weights. Without them, parameters take no memory (they are on the meta device),
            and ``device`` is ignored.

    Raises:
        ModelError: The folder does not exist, or it has no model or no tokenizer.
        UsageError: This machine lacks that attention.
    """
    source = _locate(path)
    name = transformers_name(attention, torch.device(device))
    try:
        config = AutoConfig.from_pretrained(source, local_files_only=True)
        with _without_progress_bars():
            kind = {} if name is None else {"attn_implementation": name}
            if not weights:
                return _structure(source, config, dtype, kind), load_tokenizer(path)
            model: Any = AutoModelForCausalLM.from_pretrained(
                source, config=config, dtype=dtype, local_files_only=True, **kind
            )
    except Exception as error:
        raise ModelError(f"{path} has no language model that transformers can load: {_summary_line(error)}") from error
    settle(model, attention)
    return guided(model, source).to(available_device(device)).eval(), load_tokenizer(path)


def _structure(source: str, config: Any, dtype: torch.dtype | str, kind: Mapping[str, str]) -> Any:
    """Return a model whose parameters have no data; its buffers, such as frequencies of positions, are real."""
    from accelerate import init_empty_weights

    with init_empty_weights(include_buffers=False):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=dtype, **kind)  # type: ignore[no-untyped-call]
    model.tie_weights()
    if Path(source, "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(source, local_files_only=True)
    return guided(model, source).eval()


def resolve_device(name: str) -> str:
    """Resolve ``auto``: the GPU if torch sees one, otherwise the CPU; any other name is returned as it is."""
    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def available_device(name: str | torch.device) -> torch.device:
    """Return the device of this name, if this machine has it.

    Raises:
        ModelError: there is no such device, or torch was built without it.
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ModelError(
            f"device {str(name)!r} is not available here: {_summary_line(error)}; use cpu, or cuda on a GPU"
        ) from None
    return device


def load_tokenizer(path: str | os.PathLike[str]) -> Any:
    """Load the tokenizer of a model folder.

    Raises:
        ModelError: The folder has no tokenizer that transformers can load.
    """
    source = _locate(path)
    if Path(source).is_dir() and not any(Path(source).glob("tokenizer*")):
        raise ModelError(f"{path} has no tokenizer (no tokenizer.json); save one beside the model")
    if Path(source).is_dir() and not Path(source, "tokenizer_config.json").is_file():
        raise ModelError(
            f"{path} has a tokenizer without tokenizer_config.json, which says how it splits text and which token ends "
            "an action; copy it from where the model comes from"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True)
    except Exception as error:
        raise ModelError(f"{path} has no tokenizer that transformers can load: {_summary_line(error)}") from error
    return tokenizer


def vocabulary_of(path: str | os.PathLike[str], tokenizer: Any) -> int:
    """Return the number of ids of a model, from its configuration.

    Without a configuration, it is an upper bound: the size of the tokenizer plus ``PADDING``, since models are often
    padded beyond their tokenizer.

    Args:
        path: the folder or the name that the tokenizer was loaded from.
        tokenizer: tokenizer of the model.
    """
    try:
        config = AutoConfig.from_pretrained(_locate(path), local_files_only=True).get_text_config()
        return max(int(config.vocab_size), len(tokenizer))
    except (OSError, ValueError, KeyError, AttributeError):
        return len(tokenizer) + PADDING


def save_model(
    model: Any, tokenizer: Any, path: str | os.PathLike[str], *, weights: Mapping[str, torch.Tensor] | None = None
) -> None:
    """Write a model folder that ``load_model`` reads; ``path`` is always a complete folder, the old or the new one.

    The new folder is written beside ``path`` and then renamed. An existing folder is moved away just before and removed
    after. A machine that dies between the two renames leaves both folders complete, in a hidden folder beside ``path``.

    Args:
        model: transformers model.
        tokenizer: tokenizer to save with the model.
        path: folder to write.
        weights: tensors to write instead of the model's own, by name: for a model that is sharded or has adapters.

    Raises:
        ModelError: writing fails, or ``path`` is a file.
    """
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise ModelError(f"cannot save a model to {target}: it is a file; name a folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            with _without_progress_bars():
                _empty_model(model, weights).save_pretrained(new, state_dict=weights)
            tokenizer.save_pretrained(new)
            if target.exists():
                target.rename(old)
            try:
                new.rename(target)
            except OSError:
                old.rename(target)
                raise
    except (OSError, SafetensorError) as error:  # a full disk raises SafetensorError
        raise ModelError(f"cannot save a model to {target}: {error}") from error


def save_structure(model: Any, tokenizer: Any, path: str | os.PathLike[str]) -> None:
    """Write a model folder without weights, which are kept elsewhere: ``load_model`` reads it with ``weights=False``.

    Args:
        model: transformers model.
        tokenizer: tokenizer to save with the model.
        path: folder to write, which does not exist.

    Raises:
        ModelError: writing fails.
    """
    try:
        Path(path).mkdir(parents=True)
        model.config.save_pretrained(path)
        if model.generation_config is not None:
            model.generation_config.save_pretrained(path)
        tokenizer.save_pretrained(path)
    except OSError as error:
        raise ModelError(f"cannot save a model to {path}: {error}") from error


def _empty_model(model: Any, weights: Mapping[str, torch.Tensor] | None) -> Any:
    """Return a model without data to save ``weights`` with, since adapters and sharding change a model's layers."""
    if weights is None:
        return model
    with torch.device("meta"):
        shell = AutoModelForCausalLM.from_config(model.config, dtype=model.dtype)  # type: ignore[no-untyped-call]
    shell.generation_config = model.generation_config
    return shell


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Hide the progress bars of transformers: a training run saves often, and shows a progress bar itself."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _locate(path: str | os.PathLike[str]) -> str:
    folder = Path(path).expanduser()
    if folder.is_dir():
        if (folder / "model" / "config.json").is_file():
            raise ModelError(f"{path} is the folder of a run; its model is in {folder / 'model'}")
        if not (folder / "config.json").is_file():
            raise ModelError(f"{path} is not a model folder: it has no config.json; name the folder of a model")
        if (folder / "_lock").is_file():  # config.json is then that of the run
            raise ModelError(_cure(folder / "model"))
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
    raise ModelError(f"there is no model at {path}; {_cure(folder)}")


def _cure(folder: Path) -> str:
    """Say which model a user may have meant by a folder that does not exist, or where models come from."""
    run = folder.parent
    if folder.name == "model" and (run / "_lock").is_file():
        saved = sorted(run.glob("checkpoints/step-*/model/config.json"))
        newest = f", or name the model of its last checkpoint, {saved[-1].parent}" if saved else ""
        return f"the run in {run} has not finished: resume it with --resume{newest}"
    beside = [path.name for path in run.iterdir() if path.is_dir()] if run.is_dir() else []
    near = difflib.get_close_matches(folder.name, beside, n=1)
    if near and folder.name:
        return f"did you mean {run / near[0]}?"
    return "name a folder made by training, or download one first (Turnwise never does)"


def _cached(name: str) -> bool:
    try:
        AutoConfig.from_pretrained(name, local_files_only=True)
    except (OSError, ValueError):
        return False
    return True


def _summary_line(error: Exception) -> str:
    """Return the first line of an error, or all lines if the first only introduces them."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines) if lines[0].endswith(":") else lines[0]
