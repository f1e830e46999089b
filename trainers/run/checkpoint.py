"""Checkpoints: whole or absent, verified before use, complete enough that a resumed run is bitwise the same run."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from ...errors import CheckpointError

FORMAT = "turnwise-checkpoint/1"
MANIFEST, STATE, TENSORS, MODEL, PENDING = "manifest.json", "state.json", "tensors.pt", "model", "pending"


class Stateful(Protocol):
    """A part of a run whose state a checkpoint can store."""

    def state_dict(self) -> Mapping[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A verified checkpoint.

    Args:
        path: its folder; ``path / "model"`` is a model folder that ``agents.load_model`` reads.
        step: number of finished training steps when it was written.
        progress: state for JSON: counters, the data cursor *after the trained tasks, not after the generated ones*.
        tensors: optimizer state and random generators.
        passed_over: damaged newer checkpoints, each with its fault.
    """

    path: Path
    step: int
    progress: Mapping[str, Any]
    tensors: Mapping[str, Any]
    passed_over: tuple[str, ...] = field(default=())

    @property
    def model(self) -> Path:
        """Folder of the model."""
        return self.path / MODEL

    @property
    def pending(self) -> Path:
        """Folder of collected episodes that are not trained yet, if there were any."""
        return self.path / PENDING


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: parent of one folder per checkpoint, ``step-00000012``; another one of the same step adds ``-01``.
        run: name of the run; a checkpoint of another run is refused.
        keep: number of the newest checkpoints to keep.
    """

    def __init__(self, folder: Path, *, run: str, keep: int = 2) -> None:
        self.folder = folder
        self.run = run
        self.keep = keep

    def save(
        self,
        step: int,
        *,
        write_model: Callable[[Path], None],
        progress: Mapping[str, Any],
        tensors: Mapping[str, Any],
        write_pending: Callable[[Path], None] | None = None,
    ) -> Path:
        """Write a checkpoint: in a temporary folder, synced to disk, then renamed into place; then remove old ones.

        A kill at any moment leaves every older checkpoint, and at worst a stray temporary folder.

        Args:
            step: number of finished training steps.
            write_model: function that writes the model into a given folder.
            progress: state for JSON.
            tensors: state for ``torch.save``; plain types and tensors only, so that loading runs no code.
            write_pending: function that writes collected and untrained episodes into a given folder.

        Raises:
            CheckpointError: the disk refuses.
        """
        target = self._unused(step)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for stray in self.folder.glob(".writing-*"):
                shutil.rmtree(stray, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=".writing-", dir=self.folder) as scratch:
                new = Path(scratch, "new")
                new.mkdir()
                write_model(new / MODEL)
                if write_pending is not None:
                    write_pending(new / PENDING)
                _save(tensors, new / TENSORS)
                (new / STATE).write_text(json.dumps({"step": step, "progress": progress}, indent=1))
                # In this order: contents, checksums, name. A rename changes the parent folder, so that is synced too:
                # otherwise a power failure could lose the new checkpoint after the old ones were removed.
                _seal(new, self.run)
                new.rename(target)
                _sync(self.folder)
        except OSError as error:
            raise CheckpointError(f"cannot write checkpoint {target}: {error}") from error
        # Only after the new one is in place, so that there is a whole checkpoint at every moment.
        for surplus in self._steps()[: -self.keep]:
            shutil.rmtree(surplus, ignore_errors=True)
        return target

    def any(self) -> bool:
        """Whether there is any checkpoint, complete or not."""
        return bool(self._steps())

    def latest(self) -> Checkpoint:
        """Return the newest complete checkpoint; its ``passed_over`` names damaged newer ones.

        Raises:
            CheckpointError: there is none, or it belongs to another run.
        """
        problems: list[str] = []
        for path in reversed(self._steps()):
            try:
                found = self.load(path)
            except _DamagedError as error:
                problems.append(str(error))
                continue
            return Checkpoint(found.path, found.step, found.progress, found.tensors, tuple(problems))
        if problems:
            raise CheckpointError(f"no checkpoint in {self.folder} is whole: {'; '.join(problems)}")
        raise CheckpointError(f"there is no checkpoint in {self.folder}; start the run without resume")

    def load(self, path: Path) -> Checkpoint:
        """Read one checkpoint, and check every file against its checksum.

        Raises:
            CheckpointError: it is missing, damaged, or of another run.
        """
        manifest = _verified(path)
        if manifest["run"] != self.run:
            raise CheckpointError(
                f"checkpoint {path} belongs to run {manifest['run']!r}, not {self.run!r}; name another run folder"
            )
        try:
            state = json.loads((path / STATE).read_text())
            # ``weights_only``: a checkpoint may come from elsewhere, and unpickling anything more could run its code.
            tensors = torch.load(path / TENSORS, map_location="cpu", weights_only=True)
        except (OSError, ValueError, RuntimeError, pickle.UnpicklingError) as error:
            raise _DamagedError(f"checkpoint {path} cannot be read: {_line(error)}") from error
        return Checkpoint(path, int(state["step"]), state["progress"], tensors)

    def _unused(self, step: int) -> Path:
        """Return a name for another checkpoint of a step; later ones sort later."""
        name = f"step-{step:08d}"
        numbers = [int(path.name[len(name) + 1 :] or 0) for path in self.folder.glob(f"{name}*")]
        return self.folder / (f"{name}-{max(numbers) + 1:02d}" if numbers else name)

    def _steps(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if re.fullmatch(r"step-\d{8,}(-\d\d)?", path.name))


class _DamagedError(CheckpointError):
    """Raised when a checkpoint is incomplete or damaged; an older one may be usable."""


def _save(tensors: Mapping[str, Any], path: Path) -> None:
    try:
        torch.save(dict(tensors), path)
    except RuntimeError as error:  # torch's error about a full disk does not mention the disk
        free = shutil.disk_usage(path.parent).free / 2**20
        raise OSError(f"{path.name} does not fit: {free:,.0f} MiB of its disk are free ({_line(error)})") from error


def _seal(folder: Path, run: str) -> None:
    """Write the manifest of checksums and sync every file to disk."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = {str(path.relative_to(folder)): _digest(path) for path in files}
    (folder / MANIFEST).write_text(json.dumps({"format": FORMAT, "run": run, "files": sums}, indent=1))
    for path in [*files, folder / MANIFEST, *(p for p in folder.rglob("*") if p.is_dir()), folder]:
        _sync(path)


def _verified(path: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((path / MANIFEST).read_text())
        if manifest["format"] != FORMAT:
            raise CheckpointError(f"checkpoint {path} has format {manifest['format']!r}; this version reads {FORMAT}")
        for name, digest in manifest["files"].items():
            if _digest(path / name) != digest:
                raise _DamagedError(f"checkpoint {path} is damaged: {name} does not match its checksum")
        manifest["run"] = str(manifest["run"])
    except CheckpointError:  # a subclass of ValueError
        raise
    except OSError as error:
        missing = Path(error.filename).name if error.filename else _line(error)
        raise _DamagedError(f"checkpoint {path} is not whole: {missing} cannot be read") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _DamagedError(f"checkpoint {path} is damaged: {MANIFEST} cannot be read ({_line(error)})") from error
    return manifest


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
