"""A folder that trainer and servers both see, through which weights go as safetensors files."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from ...errors import ModelError

CHUNK = 1 << 30
"""Bytes of weights in one file."""
LEDGER = "loaded.json"


class SharedFolder:
    """The trainer's side of the folder. An entry in it is complete, or absent.

    Args:
        folder: folder of this run alone; the first write removes everything that an earlier process of the run left
            there.
        there: path of the same folder on the servers, if it differs.
        dtype: type to convert floating-point weights to, as on the servers; ``None`` to keep theirs.
        chunk: bytes of weights in one file.
    """

    def __init__(
        self, folder: Path, *, there: Path | None = None, dtype: torch.dtype | None = None, chunk: int = CHUNK
    ) -> None:
        self.folder = folder
        self.there = there or folder.absolute()
        self.dtype = dtype
        self.chunk = chunk
        self._cleared = False

    def seen(self, name: str) -> Path:
        """Return the path of an entry on the servers."""
        return self.there / name

    def write(self, name: str, weights: Mapping[str, Tensor]) -> Path:
        """Write a model's weights, and return the path of the entry on the servers.

        Output and input embedding may be one tensor, but both are written: a server without a new output embedding
        keeps its old one silently (docs/serving.md, Notes on vLLM).

        Raises:
            ModelError: the folder cannot be written, e.g. because the disk is full; no partial entry remains.
        """
        needed = sum(value.numel() * self._kind(value).itemsize for value in weights.values())

        def fill(place: Path) -> None:
            for number, part in enumerate(self._parts(weights), 1):
                save_file(part, place / f"model-{number:05d}.safetensors", metadata={"format": "pt"})

        return self.fill(name, fill, needed=needed)

    def fill(self, name: str, write: Callable[[Path], Any], *, needed: int = 0) -> Path:
        """Create an entry with ``write``, which gets an empty folder; return its path on the servers.

        Raises:
            ModelError: it cannot be written; no partial entry remains.
        """
        half = self.folder / f".{name}.half"
        try:
            self.clear()
            free = shutil.disk_usage(self.folder).free
            if free < needed:
                raise OSError(errno.ENOSPC, f"{needed:,} bytes are needed and {free:,} are free")
            half.mkdir(parents=True)
            write(half)
            half.rename(self.folder / name)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(half, ignore_errors=True)
            raise self._unwritable(error) from None
        return self.seen(name)

    def remove(self, *names: str) -> None:
        """Remove entries; missing ones do not matter."""
        for name in names:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def clear(self) -> None:
        """Create the folder, and empty it the first time, except for the note on the servers."""
        if self._cleared:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.iterdir():
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
        self._cleared = True

    def note(self, held: Mapping[str, list[str]]) -> None:
        """Note what servers have loaded for this run, by address, for a later process of the run.

        Raises:
            ModelError: it cannot be written; the last note stays.
        """
        new = self.folder / f".{LEDGER}.new"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps(held))
            new.replace(self.folder / LEDGER)
        except OSError as error:
            raise self._unwritable(error) from None

    def noted(self) -> dict[str, list[str]]:
        """Return the note of the last process of this run."""
        try:
            found: dict[str, list[str]] = json.loads((self.folder / LEDGER).read_text())
        except (OSError, ValueError):
            return {}
        return found

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _unwritable(self, error: Exception) -> ModelError:
        return ModelError(
            f"weights cannot be written to the exchange folder {self.folder}: {error}; the servers keep the weights "
            "that they have. Free some space or set server.exchange, then continue the run with --resume"
        )

    def _kind(self, value: Tensor) -> torch.dtype:
        return self.dtype if self.dtype is not None and value.is_floating_point() else value.dtype

    def _parts(self, weights: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        """Split the weights, on the CPU and each in memory of its own, into files of at most ``chunk`` bytes."""
        part: dict[str, Tensor] = {}
        held, places = 0, set[int]()
        for name, value in weights.items():
            ready = value.detach().to("cpu", self._kind(value)).contiguous()
            size = ready.numel() * ready.element_size()
            if part and held + size > self.chunk:
                yield part
                part, held, places = {}, 0, set()
            part[name] = ready.clone() if ready.data_ptr() in places else ready
            places.add(ready.data_ptr())
            held += size
        if part:
            yield part
