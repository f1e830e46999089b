"""Checkpoints: whole or absent, verified before use, complete enough that a resumed run is bitwise the same run."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from ...errors import CheckpointError

FORMAT, SHARDED_FORMAT = "turnwise-checkpoint/1", "turnwise-checkpoint/2"
"""Formats of a checkpoint of one process and of several. Both can be read by any number of processes."""
MANIFEST, STATE, TENSORS, MODEL, PENDING = "manifest.json", "state.json", "tensors.pt", "model", "pending"
SHARDS = "shards"


class Stateful(Protocol):
    """A part of a run whose state a checkpoint can store."""

    def state_dict(self) -> Mapping[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A verified checkpoint.

    Args:
        path: its folder; ``path / "model"`` is a model folder that ``agents.load_model`` reads; with
            shards, it has no weights.
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

    @property
    def shards(self) -> Path | None:
        """Folder of the weights and the optimizer, if several processes wrote them."""
        return self.path / SHARDS if (self.path / SHARDS).is_dir() else None


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

    def begin(self) -> Path:
        """Create a temporary folder for a checkpoint that several processes write, and remove those of killed ones.

        Raises:
            CheckpointError: the disk refuses.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for stray in self.folder.glob(".writing-*"):
                shutil.rmtree(stray, ignore_errors=True)
            return Path(tempfile.mkdtemp(prefix=".writing-", dir=self.folder))
        except OSError as error:
            raise CheckpointError(f"cannot write a checkpoint in {self.folder}: {error}") from error

    def save(
        self,
        step: int,
        *,
        write_model: Callable[[Path], None],
        progress: Mapping[str, Any],
        tensors: Mapping[str, Any],
        write_pending: Callable[[Path], None] | None = None,
        write_shards: Callable[[Path], Mapping[str, str]] | None = None,
        scratch: Path | None = None,
    ) -> Path:
        """Write a checkpoint: in a temporary folder, synced to disk, then renamed into place; then remove old ones.

        A kill at any moment leaves every older checkpoint, and at worst a stray temporary folder.

        Args:
            step: number of finished training steps.
            write_model: function that writes the model into a given folder.
            progress: state for JSON.
            tensors: state for ``torch.save``; plain types and tensors only, so that loading runs no code.
            write_pending: function that writes collected and untrained episodes into a given folder.
            write_shards: function that writes the shards of this process into a given folder, which other processes
                write too, and returns the digests of all their files.
            scratch: folder of ``begin``, if others write into ``scratch_shards(scratch)`` too.

        Raises:
            CheckpointError: the disk refuses.
        """
        target, scratch = self._unused(step), scratch or self.begin()
        try:
            new, known = scratch / "new", {}
            new.mkdir(exist_ok=True)
            if write_shards is not None:
                digests = write_shards(scratch_shards(scratch))
                known = {f"{SHARDS}/{name}": digest for name, digest in digests.items()}
            write_model(new / MODEL)
            if write_pending is not None:
                write_pending(new / PENDING)
            _save(tensors, new / TENSORS)
            (new / STATE).write_text(json.dumps({"step": step, "progress": progress}, indent=1))
            # In this order: contents, checksums, name. A rename changes the parent folder, so that is synced too:
            # otherwise a power failure could lose the new checkpoint after the old ones were removed.
            _seal(new, self.run, known)
            new.rename(target)
            _sync(self.folder)
        except OSError as error:
            raise CheckpointError(f"cannot write checkpoint {target}: {error}") from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        # Only after the new one is in place, so that there is a whole checkpoint at every moment.
        for surplus in self._steps()[: -self.keep]:
            shutil.rmtree(surplus, ignore_errors=True)
        return target

    def any(self) -> bool:
        """Whether there is any checkpoint, complete or not."""
        return bool(self._steps())

    def latest(self, models: Iterable[Path] = ()) -> Checkpoint:
        """Return the newest complete checkpoint; its ``passed_over`` names damaged newer ones.

        Args:
            models: other model folders of the run, which the error names if every checkpoint is damaged.

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
            whole = [path / MODEL for path in reversed(self._steps()) if _has_whole_model(path)]
            whole += [path for path in models if (path / "config.json").is_file()]
            start = f". `turnwise train` can start from its last whole model: model={whole[0]}" if whole else ""
            raise CheckpointError(
                f"no checkpoint in {self.folder} is whole: {'; '.join(problems)}; restore one from a copy, or start a "
                f"new run with another --out{start}"
            )
        raise CheckpointError(f"there is no checkpoint in {self.folder}; start the run without resume")

    def load(self, path: Path, *, verify: bool = True) -> Checkpoint:
        """Read one checkpoint, and check every file against its checksum.

        Args:
            path: its folder.
            verify: whether to check; not where another process has just done so.

        Raises:
            CheckpointError: it is missing, damaged, or of another run.
        """
        manifest = _verified(path, files=verify)
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


def scratch_shards(scratch: Path) -> Path:
    """Return the folder for shards in a folder of ``Checkpoints.begin``."""
    return scratch / "new" / SHARDS


def _seal(folder: Path, run: str, known: Mapping[str, str]) -> None:
    """Write the manifest of checksums, of which some are known already, and sync every file to disk."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [str(path.relative_to(folder)) for path in files]
    sums = _digests(folder, [name for name in names if name not in known]) | dict(known)
    form = SHARDED_FORMAT if known else FORMAT
    (folder / MANIFEST).write_text(json.dumps({"format": form, "run": run, "files": sums}, indent=1))
    for path in [*files, folder / MANIFEST, *(p for p in folder.rglob("*") if p.is_dir()), folder]:
        _sync(path)


def _verified(path: Path, *, files: bool) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((path / MANIFEST).read_text())
        if manifest["format"] not in (FORMAT, SHARDED_FORMAT):
            known = f"{FORMAT} and {SHARDED_FORMAT}"
            raise CheckpointError(f"checkpoint {path} has format {manifest['format']!r}; this version reads {known}")
        found = _digests(path, manifest["files"]) if files else manifest["files"]
        for name, digest in manifest["files"].items():
            if found[name] != digest:
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


def _has_whole_model(path: Path) -> bool:
    """Return whether the model of a damaged checkpoint is complete: undamaged itself, with no weights in shards."""
    try:
        files: dict[str, str] = json.loads((path / MANIFEST).read_text())["files"]
        own = {name: digest for name, digest in files.items() if name.startswith(f"{MODEL}/")}
        return bool(own) and not any(name.startswith(f"{SHARDS}/") for name in files) and _digests(path, own) == own
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the digests of several files, computed side by side."""
    names = list(names)
    with ThreadPoolExecutor(max_workers=8) as pool:
        return dict(zip(names, pool.map(lambda name: file_digest(folder / name), names), strict=True))


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
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
