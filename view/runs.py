"""Find runs in folders, and tell what state each one is in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import StoreError, UsageError
from ..evals.collect_runs import NOT_SEARCHED
from ..evals.curves import METRICS
from ..evals.summary import SUMMARY
from ..rollouts.locks import is_taken
from ..rollouts.provenance import masked
from ..rollouts.store import EPISODES, LOCK, MANIFEST, parts, run_of
from .metrics import MetricsFile, latest

CONFIG, END, MODEL = "config.json", "_end.json", "model"
TRAINING_STORES = ("training_episodes", "demonstrations")
"""Stores that a training run may hold, besides those of evaluations."""
DEPTH = 3
"""Levels of folders below a named one that are searched for runs."""
FILES = (METRICS, CONFIG, END, SUMMARY, MANIFEST)
"""Files of a run that change while it goes on."""
OPENED = 16
"""Most runs whose curves stay in memory."""
SEVERAL = 400
"""Most runs in the list; the newest are kept."""


class State(StrEnum):
    """State of a run, as its folder tells it."""

    RUNNING = "running"
    """A process holds its lock."""
    FINISHED = "finished"
    """It came to its end."""
    INTERRUPTED = "interrupted"
    """Ctrl-C stopped it, or its process was killed."""
    FAILED = "failed"
    """An error ended it."""
    STORED = "stored"
    """A store of episodes that belongs to no run with an end, such as demonstrations."""
    DAMAGED = "damaged"
    """A file of it cannot be read."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One row of the list of runs.

    Args:
        id: key of the run in URLs; the same in every start of the viewer.
        name: path of the folder below the named one.
        kind: ``"training"``, ``"evaluation"`` or ``"store"``.
        state: state of the run.
        problem: the error that ended the run, or what is damaged; empty otherwise.
        env: id of the environment; empty if unknown.
        policy: algorithm of a training run, or policy of an evaluation.
        step: finished steps of a training run.
        steps: steps that it shall take; ``None`` if unknown.
        numbers: last value of the most important metrics by name.
        updated: time of the last change, in seconds since the epoch.
        stores: names of the episode stores, with which their URLs continue.
    """

    id: str
    name: str
    kind: str
    state: State
    problem: str = ""
    env: str = ""
    policy: str = ""
    step: int | None = None
    steps: int | None = None
    numbers: dict[str, float] | None = None
    updated: float = 0.0
    stores: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict."""
        return asdict(self)


class Runs:
    """The runs in some folders.

    Args:
        sources: folders, each a run or a folder of runs.
        wait: whether the folders may be missing or empty until a run begins.

    Raises:
        UsageError: A folder is a file; or ``wait`` is false, and a folder does not exist or none has a run.
    """

    def __init__(self, sources: Sequence[Path], *, wait: bool = False) -> None:
        for source in sources:
            if source.is_file():
                inside = next((f", such as {each}" for each in source.parents if _is_run(each)), "")
                raise UsageError(f"{source} is a file; name the folder of a run, or a folder of runs{inside}")
            if not source.is_dir() and not wait:
                raise UsageError(f"there is no folder {source}; name the folder of a run, or a folder of runs")
        self.sources = tuple(source.resolve() for source in sources)
        self._metrics: dict[Path, MetricsFile] = {}
        self._known: dict[str, Path] = {}
        if not wait and not any(True for source in self.sources for _ in _found(source, DEPTH)):
            named = ", ".join(map(str, sources))
            raise UsageError(
                f"there is no run in {named}: no {CONFIG}, no {METRICS} and no episode store; name a folder that "
                "`turnwise train` or `turnwise eval` wrote"
            )

    def folders(self) -> dict[str, tuple[Path, str]]:
        """Return path and name of each run by id, the newest first; a run may have appeared since the last call."""
        found = {key_of(path): (path, _name(path, source)) for source in self.sources for path in _found(source, DEPTH)}
        ordered = dict(sorted(found.items(), key=lambda item: -_changed(item[1][0]))[:SEVERAL])
        self._known = {id: path for id, (path, _) in ordered.items()}
        return ordered

    def list(self) -> list[RunInfo]:
        """Return all runs, the newest first; a damaged one says so and hides no other."""
        return [self._info(id, path, name) for id, (path, name) in self.folders().items()]

    def info(self, id: str) -> RunInfo | None:
        """Return one run, or ``None`` if there is none of this id."""
        path = self.path(id)
        return None if path is None else self._info(id, path, self._named(path))

    def path(self, id: str) -> Path | None:
        """Return the folder of a run, or ``None``; only ids of runs that were found lead to a path."""
        known = self._known.get(id)
        if known is not None and known.is_dir():
            return known
        found = self.folders().get(id)
        return found[0] if found else None

    def store(self, id: str, name: str) -> Path | None:
        """Return the folder of a run's store, or ``None`` if it has none of this name."""
        path = self.path(id)
        return stores(path).get(name) if path is not None else None

    def signature(self, path: Path) -> tuple[object, ...]:
        """Return what differs as soon as ``info`` or the metrics of a run may differ, without reading a file."""
        folders = (path, *stores(path).values())
        files = [path / name for name in FILES]
        return *map(_stamp, [*folders, *files]), *(is_taken(folder / LOCK) for folder in folders)

    def metrics(self, path: Path) -> MetricsFile:
        """Return the reader of a run's metrics, which reads only what is new."""
        found = self._metrics.setdefault(path, MetricsFile(path / METRICS))
        while len(self._metrics) > OPENED:
            self._metrics.pop(next(iter(self._metrics)))
        return found

    def config(self, path: Path) -> dict[str, Any]:
        """Return what a run records about itself: settings, command, versions; secrets are masked.

        Raises:
            UsageError: The file cannot be read.
        """
        if (path / CONFIG).is_file():
            found: dict[str, Any] = masked(_read(path / CONFIG))
            return found
        for store in stores(path).values():
            summary = _read(path / SUMMARY) if (path / SUMMARY).is_file() else {}
            return {"config": masked(run_of(store)), "made": masked(summary.get("made") or {})}
        return {}

    def _named(self, path: Path) -> str:
        source = next(each for each in self.sources if path.is_relative_to(each))
        return _name(path, source)

    def _info(self, id: str, path: Path, name: str) -> RunInfo:
        kind = "store" if (path / MANIFEST).is_file() else "training"
        if kind == "training" and not _is_training(path):
            kind = "evaluation"
        try:
            details = {"training": self._training, "evaluation": _evaluation, "store": _store}[kind](path)
        except (UsageError, StoreError, OSError, ValueError, TypeError, KeyError) as error:
            problem = str(error) or type(error).__name__
            details = {"state": State.DAMAGED, "problem": " ".join(problem.split())[:500]}
        return RunInfo(id, name, kind, updated=_changed(path), stores=tuple(stores(path)), **details)

    def _training(self, path: Path) -> dict[str, Any]:
        saved = _read(path / CONFIG) if (path / CONFIG).is_file() else {}
        settings = dict(saved.get("config") or {})
        metrics = latest(path / METRICS)
        step, steps = metrics.step, settings.get("steps")
        end = _read(path / END) if (path / END).is_file() else {}
        if is_taken(path / LOCK):
            state = State.RUNNING
        elif end.get("state") in set(State):
            state = State(end["state"])
        else:  # killed, or written by a version without the file
            all_steps = isinstance(steps, int) and (step or 0) >= steps
            over = (path / MODEL).is_dir() and (all_steps or not _resumed_since(path / MODEL, path / CONFIG))
            state = State.FINISHED if over else State.INTERRUPTED
        if metrics.problem:
            state = State.DAMAGED
        return {
            "state": state,
            "problem": metrics.problem or (str(end.get("error") or "") if state is State.FAILED else ""),
            "env": str(settings.get("env") or ""),
            "policy": str(saved.get("algorithm") or ""),
            "step": step,
            "steps": steps if isinstance(steps, int) else None,
            "numbers": metrics.numbers,
        }


def _resumed_since(model: Path, config: Path) -> bool:
    """Return whether a run was started again after it wrote its model; each start writes its settings."""
    try:
        written = max(file.stat().st_mtime for file in (model, *model.iterdir()))
        return config.stat().st_mtime > written
    except OSError:
        return False


def stores(path: Path) -> dict[str, Path]:
    """Return the episode stores of a run by name: its folder itself is ``"."``."""
    named = {name: path / name for name in (EPISODES, *TRAINING_STORES)}
    return {name: folder for name, folder in ({".": path} | named).items() if (folder / MANIFEST).is_file()}


def _evaluation(path: Path) -> dict[str, Any]:
    run = run_of(path / EPISODES)
    summary = _read(path / SUMMARY) if (path / SUMMARY).is_file() else {}
    about = {"env": str(run.get("env") or ""), "policy": str(run.get("policy") or run.get("endpoint") or "")}
    if is_taken(path / EPISODES / LOCK):
        return about | {"state": State.RUNNING}
    played, planned = summary.get("episodes"), summary.get("planned")
    if not summary:
        return about | {"state": State.STORED if "endpoint" in run else State.INTERRUPTED}
    early = isinstance(planned, int) and isinstance(played, int) and played < planned
    stale = _changed(path / EPISODES) > (path / SUMMARY).stat().st_mtime + 1  # resumed since, and killed
    state = State.INTERRUPTED if early or stale else State.FINISHED
    success = summary.get("success") or {}
    numbers = {"success": success["value"]} if isinstance(success.get("value"), int | float) else {}
    return about | {"state": state, "numbers": numbers}


def _store(path: Path) -> dict[str, Any]:
    run = run_of(path)
    state = State.RUNNING if is_taken(path / LOCK) else State.STORED
    return {"state": state, "env": str(run.get("env") or ""), "policy": str(run.get("policy") or "")}


def _found(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the folder if it is a run, or else the runs below it."""
    if _is_run(folder):
        yield folder
        if not _is_training(folder):
            return
    if depth == 0:
        return
    try:
        below = sorted(each for each in folder.iterdir() if each.is_dir() and not each.is_symlink())
    except OSError:
        return
    for each in below:
        if each.name not in NOT_SEARCHED and not each.name.startswith("."):
            yield from _found(each, depth - 1)


def _is_run(folder: Path) -> bool:
    return _is_training(folder) or (folder / MANIFEST).is_file() or (folder / EPISODES / MANIFEST).is_file()


def _is_training(folder: Path) -> bool:
    return (folder / METRICS).is_file() or ((folder / CONFIG).is_file() and (folder / LOCK).is_file())


def _name(path: Path, source: Path) -> str:
    return source.name if path == source else f"{source.name}/{path.relative_to(source)}"


@lru_cache(maxsize=10_000)
def key_of(path: Path) -> str:
    """Return the id of a run's folder, an absolute path."""
    return hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:12]


def _changed(path: Path) -> float:
    """Return when a run last changed, in seconds since the epoch."""
    newest = [path / name for name in FILES] + [part for store in _near(path) for part in parts(store)[-1:]]
    found = [0.0]
    for file in newest:
        try:
            found.append(file.stat().st_mtime)
        except OSError:
            continue
    return max(found)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _near(path: Path) -> list[Path]:
    return list(stores(path).values())


def _read(file: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        UsageError: It is none.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {file.name}: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{file.name} is not a JSON object")
    return found
