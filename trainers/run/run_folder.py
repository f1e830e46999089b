"""The folder of one training run, and the check that a resumed run is the same run.

::

    runs/loop-maze/
    ├── config.json       every setting, resolved; command, date and versions of the last start
    ├── metrics.jsonl     one object per step
    ├── tensorboard/
    ├── checkpoints/      step-00000012/ …
    ├── _lock             lock of the training process (the kernel releases it when that process dies)
    ├── _end.json         how the run ended: finished, interrupted, or failed with an error
    ├── demonstrations/  episodes that behavior cloning played for itself
    ├── training_episodes/  episodes that keep_episodes keeps, each with its step and the learner's numbers
    ├── diverged.pt       the batch that stopped the run, if one did
    ├── best/             the model of the best evaluation so far, with eval.keep_best
    └── model/            the trained model, for agents.load_model and --policy
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pydantic

from ...config import Config
from ...envs.named import place_of
from ...errors import CheckpointError, UsageError
from ...logs import tell, without_secrets
from ...renamed import silent, with_new_names
from ...rollouts.locks import take
from ...rollouts.provenance import provenance
from .checkpoint import Checkpoint, Checkpoints
from .metrics import METRICS, read_metrics
from .sources import changed, sources

LOG = logging.getLogger(__name__)

CONFIG, CHECKPOINTS, MODEL, BEST, DEMONSTRATIONS = "config.json", "checkpoints", "model", "best", "demonstrations"
END = "_end.json"
"""Name of the record of how the run ended."""
LONGEST_ERROR = 2000
"""The most characters of the error in it."""


class ResumableConfig(Protocol):
    """Settings of a run in steps that can be resumed; a ``Config`` with these fields."""

    @property
    def steps(self) -> int: ...

    @property
    def resume(self) -> bool: ...

    @property
    def checkpoint_every(self) -> int: ...

    def model_dump(self, *, mode: str) -> dict[str, Any]: ...


class RunFolder:
    """A run's folder.

    Args:
        path: path of the folder.
        algorithm: name of the algorithm, e.g. ``"loop"``; a folder of another algorithm is refused.
        keep: number of checkpoints to keep.
    """

    def __init__(self, path: Path | str, algorithm: str, *, keep: int = 2) -> None:
        self.path = Path(path)
        self.algorithm = algorithm
        self.checkpoints = Checkpoints(self.path / CHECKPOINTS, run=algorithm, keep=keep)

    @property
    def model(self) -> Path:
        """Path of the exported, trained model."""
        return self.path / MODEL

    @property
    def metrics(self) -> Path:
        """Path of the log of metrics."""
        return self.path / METRICS

    @property
    def episodes(self) -> Path:
        """Path of the training episodes for readers."""
        return self.path / "training_episodes"

    @property
    def dump(self) -> Path:
        """Path of a batch with a non-finite loss."""
        return self.path / "diverged.pt"

    def keep_best(self, write: Callable[[Path], None], *, step: int) -> None:
        """Keep a model as the best so far instead of the previous one; completely or not at all.

        Raises:
            CheckpointError: the disk refuses.
        """
        target = self.path / BEST / f"step-{step:08d}"
        try:
            with tempfile.TemporaryDirectory(prefix=".best-", dir=self.path) as scratch:
                write(Path(scratch, "new"))
                target.parent.mkdir(exist_ok=True)
                shutil.rmtree(target, ignore_errors=True)
                Path(scratch, "new").rename(target)
        except OSError as error:
            raise CheckpointError(f"cannot keep the best model {target}: {error}") from error
        for older in target.parent.iterdir():
            if older != target:
                shutil.rmtree(older, ignore_errors=True)

    def export_best(self, *, step: int) -> bool:
        """Export the best model, that of ``step``, as the trained one; return whether it is there."""
        kept = self.path / BEST / f"step-{step:08d}"
        if not kept.is_dir():
            return False
        shutil.copytree(kept, self.model, dirs_exist_ok=True)
        return True

    def export(self, write: Callable[[Path], None], *, best: tuple[int, float] | None = None) -> list[str]:
        """Write the run's model, and return a note on which one it is, unless it is simply the last.

        Args:
            write: function that writes the last model.
            best: step and return of the best evaluation, to export its model.
        """
        if best is None:
            write(self.model)
            return []
        if self.export_best(step=best[0]):
            return [f"the model is that of step {best[0]}, with a held-out return of {best[1]:.4g}"]
        write(self.model)
        return [f"the model is the last one: that of the best evaluation, at step {best[0]}, was not kept"]

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from training here.

        Raises:
            UsageError: another process does, or the path is not a folder.
        """
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"cannot run in {self.path}: it is a file; choose another folder with --out")
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "_lock").open("w") as file:
            if not take(file.fileno()):
                raise UsageError(f"another process is training in {self.path}; wait for it, or choose another --out")
            yield

    @contextmanager
    def record_end(self) -> Iterator[None]:
        """Write how the block ended to ``_end.json``; a process that is killed inside leaves no such file.

        Only a block that ends without an exception has finished. ``SystemExit``, whatever its code, interrupts it.
        """
        (self.path / END).unlink(missing_ok=True)
        state, error = "interrupted", ""
        try:
            yield
            state = "finished"
        except Exception as failure:
            state, error = "failed", " ".join(without_secrets(f"{type(failure).__name__}: {failure}").split())
            raise
        finally:
            end = {
                "state": state,
                "error": error[:LONGEST_ERROR],
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            with suppress(OSError):  # a full disk must not hide why the run ended
                (self.path / END).write_text(json.dumps(end) + "\n", encoding="utf-8")

    def begin(self, config: Config | ResumableConfig) -> None:
        """Start a run here, also over one that died before it learned or evaluated anything.

        Raises:
            UsageError: the folder has a run already.
        """
        if self.checkpoints.any() or (self.metrics.exists() and self.metrics.stat().st_size):
            raise UsageError(f"{self.path} holds a run already: continue it with --resume, or choose another --out")
        self._write(config, sources(config.model_dump(mode="json"), self.algorithm))

    def resume(self, config: ResumableConfig, *, may_change: Collection[str]) -> Checkpoint | None:
        """Continue the run in this folder: return its newest complete checkpoint, or ``None`` before its first.

        A refused run stays as it is, including its settings.

        Args:
            config: the present settings.
            may_change: fields that a resumed run may change.

        Raises:
            CheckpointError: there is no run, it is of another algorithm, its settings differ (each is named), or its
                checkpoints are missing.
            UsageError: it has done more steps than ``config`` asks for.
        """
        try:
            data = json.loads((self.path / CONFIG).read_text(encoding="utf-8"))
            algorithm, known = data["algorithm"], dict(data["config"])
        except OSError:
            raise CheckpointError(f"there is no run in {self.path} to resume; start one without --resume") from None
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.path / CONFIG} cannot be read ({error}); start a new run") from None
        if algorithm != self.algorithm:
            raise CheckpointError(f"{self.path} holds a run of {algorithm!r}, not {self.algorithm!r}")
        known = _completed(known, type(config))
        others = differences(known, config.model_dump(mode="json"), may_change)
        if others:
            raise CheckpointError(
                f"{self.path} was run with other settings: {'; '.join(others)}. Set them back, or start a new run"
            )
        exported = [self.model, *(self.path / BEST).glob("step-*")]
        checkpoint = self.checkpoints.latest(exported) if self.checkpoints.any() else None
        if checkpoint is None:
            self._refuse_bereft(int(known.get("checkpoint_every", config.checkpoint_every)))
        elif checkpoint.step > config.steps:
            raise UsageError(
                f"the run in {self.path} has been trained for {checkpoint.step} steps already, more than "
                f"steps={config.steps}; ask for as many or more, or start a new run"
            )
        now = sources(config.model_dump(mode="json"), self.algorithm)
        done = checkpoint.step if checkpoint is not None else 0
        if 0 < done < config.steps and (text := changed(data.get("sources"), now, done)):
            tell(LOG, "remark", text)
        self._write(config, now, data.get("made"))
        return checkpoint

    def entered(self, config: ResumableConfig, *, may_change: Collection[str]) -> Checkpoint | None:
        """Start a run, or find the checkpoint to continue from (``None`` if the run died before its first).

        Raises:
            UsageError: the folder is taken; or as for ``resume``.
            CheckpointError: see ``resume``.
        """
        if not config.resume:
            self.begin(config)
            return None
        checkpoint = self.resume(config, may_change=may_change)
        for problem in checkpoint.passed_over if checkpoint else ():
            tell(LOG, "checkpoint passed over", f"passed over a newer checkpoint: {problem}")
        if checkpoint is None:
            tell(LOG, "no checkpoint", f"{self.path} has no checkpoint yet: the run starts again")
        return checkpoint

    def _refuse_bereft(self, every: int) -> None:
        """Refuse a run without a checkpoint that has come so far that it must have had one.

        Args:
            every: steps between its checkpoints.
        """
        logged = read_metrics(self.metrics) if self.metrics.exists() else []
        learnt = max((line["step"] for line in logged), default=0)
        if learnt > every or self.model.exists():  # a kill after step ``every`` may come before its checkpoint
            raise CheckpointError(
                f"the run in {self.path} has {learnt} training steps, but its checkpoints are missing from "
                f"{self.checkpoints.folder}: restore them, or start a new run with another --out"
            )

    def _write(
        self, config: Config | ResumableConfig, digests: Mapping[str, str], started: dict[str, Any] | None = None
    ) -> None:
        """Write the settings, and the command and versions that started the run, beside those that resumed it last."""
        made = {name: value for name, value in asdict(provenance({})).items() if name != "settings"}
        settings = config.model_dump(mode="json")
        env = {"env": place_of(settings["env"])} if "env" in settings else {}  # pre-training has none
        data = {"algorithm": self.algorithm, **env, "config": settings, "made": started or made, "sources": digests}
        data |= {"resumed": made} if started else {}
        text = json.dumps(data, indent=1)
        partial = self.path / f".{CONFIG}"
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(self.path / CONFIG)


def _completed(known: dict[str, Any], config_type: Any) -> dict[str, Any]:
    """Give settings their new names, and add the defaults of those that did not exist when a run started."""
    known = with_new_names(known, config_type, report=silent)
    try:
        completed: dict[str, Any] = config_type.model_validate(known).model_dump(mode="json")
    except pydantic.ValidationError:  # a setting that no longer exists; the differences name it
        return known
    return completed


def differences(old: dict[str, Any], new: dict[str, Any], ignored: Collection[str], prefix: str = "") -> list[str]:
    """Describe the differences of two resolved configurations, one human-readable entry per field."""
    found: list[str] = []
    for name in [*old, *(name for name in new if name not in old)]:
        key = f"{prefix}{name}"
        if key in ignored:
            continue
        before, now = old.get(name), new.get(name)
        if isinstance(before, dict) and isinstance(now, dict):
            found += differences(before, now, ignored, f"{key}.")
        elif before != now:
            found.append(f"{key} was {before!r}, now {now!r}")
    return found
