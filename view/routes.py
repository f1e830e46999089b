"""Answers of the viewer: runs, episodes and comparisons as JSON, images, and events."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import HTTPException, Request
from fastapi import Query as Parameter
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from ..errors import StoreError, UsageError
from ..evals.curves import read_run
from ..rollouts.annotations import read_annotations
from ..rollouts.episode import Episode
from ..rollouts.store import TEXT_INDEX, run_of
from . import live
from .comparison import Side, comparison
from .episode import image_at, load, place_of, text_at, to_json, token_texts
from .episode_index import EpisodeIndex, Snapshot
from .learned import learned
from .metrics import over_seeds
from .queries import Query, page
from .recordings import shots_of
from .relatives import group, tree
from .runs import Runs
from .text_search.background_index import BackgroundIndexer
from .text_search.searcher import Searcher

OPENING = 0.7
"""Seconds that one request for a page of episodes reads files of a store; the next request continues."""
CHUNK = 100_000
"""Characters of a long text that one request returns."""
Step = Annotated[int | None, Parameter(ge=0, lt=2**53)]
"""Bound of a range of training steps; ``None`` for no bound."""
SEEDS = 32
"""Most runs whose curves are averaged."""
PARTS = ("live", "episodes", "indexing", "episode", "tree", "group", "text", "image", "seeds", "difference")
"""Last words of the addresses below a run."""


def as_json(value: Any) -> Response:
    """Answer with JSON."""
    return Response(live.encoded(value), media_type="application/json")


def _stream(events: AsyncIterator[str]) -> Response:
    return StreamingResponse(events, media_type="text/event-stream")


class Routes:
    """Handlers of the viewer's addresses; each answers with JSON, an image or events.

    Args:
        runs: the runs to show.
        index: whether to keep the index of texts beside each store that is searched.
        indexer: indexes large stores before the first search; ``None`` to leave that to searches.
    """

    def __init__(self, runs: Runs, *, index: bool = False, indexer: BackgroundIndexer | None = None) -> None:
        self._runs, self._index, self._indexer = runs, index, indexer
        self._stores: dict[Path, tuple[EpisodeIndex, Searcher]] = {}
        self._lock = threading.Lock()

    async def live(self) -> Response:
        """Follow the list of runs."""
        return _stream(live.changes(live.look_at_list(self._runs), seconds=1.0))

    async def live_run(self, id: str) -> Response:
        """Follow a run's state and metrics."""
        return _stream(live.changes(live.look_at_run(self._runs, id)))

    def list(self) -> Response:
        """List the runs."""
        return as_json([each.to_json() for each in self._runs.list()])

    def run(self, id: str) -> Response:
        """Show a run and its settings."""
        info = self._runs.info(id)
        if info is None:
            raise HTTPException(404, "there is no such run; it may have been moved")
        try:
            about = self._runs.config(self._path(id))
        except (UsageError, StoreError) as error:
            about = {"problem": str(error)}
        return as_json(info.to_json() | {"about": exact(about)})

    def difference(self, id: str, other: str) -> Response:
        """List the settings in which two runs differ."""
        mine, theirs = (_flat(self._runs.config(self._path(each)).get("config") or {}) for each in (id, other))
        keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
        found = [{"key": key, "this": mine.get(key), "other": theirs.get(key)} for key in sorted(keys)]
        return as_json(exact(found))

    def compare(
        self,
        a: str,
        b: str,
        a_store: str,
        b_store: str,
        a_from: Step = None,
        a_to: Step = None,
        b_from: Step = None,
        b_to: Step = None,
    ) -> Response:
        """Compare two stores, or some steps of them, on the tasks that both played."""
        one = self._side(a, a_store, (a_from, a_to))
        other = self._side(b, b_store, (b_from, b_to))
        try:
            return as_json(exact(comparison(one, other)))
        except UsageError as error:  # an answer, not a failure: most pairs of runs share no task
            return as_json({"problem": str(error)})

    def _side(self, id: str, store: str, steps: tuple[int | None, int | None]) -> Side:
        index, info = self._store(id, store)[0], self._runs.info(id)
        return Side(info.name if info is not None else id, index.path, index.snapshot(), steps)

    def seeds(self, id: str) -> Response:
        """Average a run's curves with those of runs that differ only in their seed, one run for each seed."""
        path = self._path(id)
        this, info = read_run(path), self._runs.info(id)
        same = {self._seed(path): path}
        for other in self._runs.list():
            like = info is not None and (other.kind, other.env, other.policy) == (info.kind, info.env, info.policy)
            there = self._path(other.id)
            if like and this.kind and len(same) < SEEDS and self._seed(there) not in same:
                with suppress(UsageError):
                    same |= {self._seed(there): there} if read_run(there).kind == this.kind else {}
        names = sorted({name for record in this.records for name in record} - {"step"})
        series = over_seeds([*same.values()], names) if len(same) > 1 else {}
        return as_json({"runs": [each.name for each in same.values()], "series": series})

    def _seed(self, path: Path) -> Any:
        try:
            return (self._runs.config(path).get("config") or {}).get("seed")
        except (UsageError, StoreError):
            return None

    def episodes(self, request: Request, id: str, store: str) -> Response:
        """Show a page of episodes; the other parameters are its query."""
        named = request.query_params
        given = {name: [each for each in named.getlist(name) if each] for name in named if name != "store"}
        index, searcher = self._store(id, store)
        found = page(index.snapshot(OPENING), Query.read(given), searcher)
        return as_json(asdict(replace(found, rows=exact(found.rows))))

    def indexing(self, id: str, store: str) -> Response:
        """Index the texts of a large store in the background, and say how far that is."""
        index, searcher = self._store(id, store)
        snapshot = index.snapshot(OPENING)
        share = self._indexer.offer(searcher, snapshot) if self._indexer is not None and not snapshot.unread else None
        return as_json({"indexed": share})

    def episode(self, id: str, store: str, episode: str) -> Response:
        """Show an episode."""
        recorded, folder = self._episode(id, store, episode), self._store(id, store)[0].path
        found = to_json(recorded, self._tokens(id, store), shots_of(recorded, folder), learned(folder, recorded))
        noted = read_annotations(folder).get(episode)
        return as_json(found | {"task": exact(found["task"]), "annotation": noted and noted.to_json()})

    def tree(self, id: str, store: str, episode: str) -> Response:
        """Show the forks around an episode."""
        return as_json(tree(self.snapshot(id, store), episode))

    def group(self, id: str, store: str, group_id: str, first: str = "") -> Response:
        """Show the attempts at one task."""
        return as_json(group(self.snapshot(id, store), group_id, first))

    def text(self, id: str, store: str, episode: str, at: str, offset: int = 0) -> Response:
        """Return more of a long text."""
        text = text_at(self._episode(id, store, episode), at)
        if text is None or offset < 0:
            raise HTTPException(404, "there is no such text in this episode")
        return as_json({"text": text[offset : offset + CHUNK], "more": max(0, len(text) - offset - CHUNK)})

    def image(self, id: str, store: str, episode: str, at: str) -> Response:
        """Return an image of an episode, or a screenshot of its recording."""
        found = self.picture(id, store, episode, at)
        if found is None:
            return PlainTextResponse("there is no such image in this episode\n", 404)
        return Response(found[0], media_type=found[1])

    def picture(self, id: str, store: str, episode: str, at: str) -> tuple[bytes, str] | None:
        """Return an image of an episode, or a screenshot of its recording, with its type; ``None`` if there is none."""
        recorded = self._episode(id, store, episode)
        if at.startswith("shot."):
            shots = shots_of(recorded, self._store(id, store)[0].path)
            shot = shots[int(at[5:])] if at[5:].isdecimal() and len(at) < 12 and int(at[5:]) < len(shots) else None
            return (shot.read_bytes(), "image/png") if shot is not None else None
        image = image_at(recorded, at)
        return (image.data, image.mime) if image is not None else None

    def _path(self, id: str) -> Path:
        path = self._runs.path(id)
        if path is None:
            raise HTTPException(404, "there is no such run; it may have been moved")
        return path

    def _store(self, id: str, name: str) -> tuple[EpisodeIndex, Searcher]:
        self._path(id)
        path = self._runs.store(id, name)
        if path is None:
            raise HTTPException(404, "this run has no such episodes")
        with self._lock:
            if path not in self._stores:
                self._stores[path] = EpisodeIndex(path), Searcher(path / TEXT_INDEX if self._index else None)
            return self._stores[path]

    def store_of(self, id: str, store: str, episode: str) -> Path:
        """Return the folder of the store that has an episode."""
        self._episode(id, store, episode)
        return self._store(id, store)[0].path

    def snapshot(self, id: str, store: str) -> Snapshot:
        """Return the episodes of a run's store."""
        return self._store(id, store)[0].snapshot()

    def _episode(self, id: str, store: str, episode: str) -> Episode:
        place = place_of(self.snapshot(id, store), episode)
        if place is None:
            raise HTTPException(404, "there is no such episode in this store; it may have been played again since")
        return load(place)

    def _tokens(self, id: str, store: str) -> Any:
        """Return the texts of token ids, if the run or its settings lead to a tokenizer on this machine."""
        path = self._path(id)
        about = self._runs.config(path).get("config") or {}
        stored = self._runs.store(id, store)
        named = [path / "model", *sorted(path.glob("checkpoints/step-*/model"))[-1:]]
        settings = {**about, **(run_of(stored) if stored else {})}
        named += [Path(settings[key]) for key in ("tokenizer", "policy", "model") if isinstance(settings.get(key), str)]
        for folder in named:
            file = folder / "tokenizer.json"
            if file.is_file() and (texts := token_texts(folder, file.stat().st_mtime_ns)) is not None:
                return texts
        return None


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return settings by dotted name."""
    if not isinstance(value, dict) or not value:
        return {prefix: value} if prefix else {}
    return {
        name: inner for key, each in value.items() for name, inner in _flat(each, f"{prefix}.{key}".strip(".")).items()
    }


def exact(value: Any) -> Any:
    """Write integers that JavaScript would round as text, also inside lists and objects."""
    if isinstance(value, dict):
        return {name: exact(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [exact(inner) for inner in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53 else value
