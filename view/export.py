"""Write runs as a folder of pages that any web server serves, or a browser opens as a file."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from itertools import permutations
from pathlib import Path
from typing import Any

from ..errors import StoreError, UsageError
from ..evals.report import report
from . import live
from .app import STATIC
from .episode import load, place_of, text_at
from .episode_index import Snapshot
from .queries import Query, page
from .relatives import group
from .routes import Routes, exact
from .runs import RunInfo, Runs
from .text_search.searcher import Searcher

EPISODES = 1000
"""Episodes of a store whose conversations are exported; the table has all of them."""
COMPARED = 12
"""Most stores of which every pair is compared."""
COPIED = ("theme.js", "uplot.js", "uplot.css", "style.css", "icon.svg", "uplot-LICENSE.txt")
ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types turnwise"
)
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?function|const) (\w+)", re.MULTILINE)


def export(runs: Runs, folder: Path, *, episodes: int = EPISODES) -> Path:
    """Write the pages of the viewer and what they show, and the report of the runs as one more page.

    Args:
        runs: the runs to export.
        folder: folder to write; it must be new or empty, and outside the runs.
        episodes: number of episodes of each store whose conversations are written, from the first one on.

    Returns:
        The page to open.

    Raises:
        UsageError: The folder is not empty, or lies in a run.
    """
    paths = [path.resolve() for path, _ in runs.folders().values()]
    if any(folder.resolve().is_relative_to(path) for path in paths):
        raise UsageError(f"{folder} lies in the folder of a run, where the viewer writes nothing; name another folder")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists already; name a new folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    _Export(runs, folder, episodes).write()
    for name in COPIED:
        shutil.copy(STATIC / name, folder / name)
    (folder / "app.js").write_text(bundle(), encoding="utf-8")
    with suppress(UsageError, StoreError):  # such as runs without a scored episode; the pages show them nevertheless
        report(list(runs.sources), folder)
    page = folder / "index.html"  # the last file, so that an export that was cut short does not look whole
    page.write_text(_index((folder / "report.html").is_file()), encoding="utf-8")
    return page


class _Export:
    """Writes the answers that the viewer would give."""

    def __init__(self, runs: Runs, folder: Path, episodes: int) -> None:
        self._runs, self._routes, self._folder, self._episodes = runs, Routes(runs), folder / "data", episodes
        self._files: dict[str, str] = {}
        self._stores: dict[str, str] = {}

    def write(self) -> None:
        """Write everything."""
        infos = self._runs.list()
        self._answer("runs", "api/runs", self._routes.list().body)
        for info in infos:
            self._run(info, infos)
        stores = [(info.id, store) for info in infos for store in info.stores]
        for (a, a_store), (b, b_store) in permutations(stores[:COMPARED], 2):
            name = f"compare/{self._stores[f'{a}/{a_store}']}-{self._stores[f'{b}/{b_store}']}".replace("/s", "-s")
            given = {"a": a, "b": b, "a_store": a_store, "b_store": b_store}
            self._answer(name, key("api/compare", given), self._routes.compare(a, b, a_store, b_store).body)
        whole = f"This export has comparisons of whole runs only, of the newest {COMPARED} stores."
        about = {
            "files": self._files,
            "stores": self._stores,
            "episodes": self._episodes,
            "compared": f"{whole} `turnwise view` compares others, and steps of a run.",
            "left_out": f"This export has the conversations of the first {self._episodes:,} episodes of each store.",
        }
        self._save("index", live.encoded(about))

    def _run(self, info: RunInfo, others: Iterable[RunInfo]) -> None:
        path, run = f"api/runs/{info.id}", f"run-{info.id}"
        self._answer(f"{run}/run", path, self._routes.run(info.id).body)
        with suppress(UsageError):  # an evaluation, or damaged metrics, which the run's page names
            self._answer(f"{run}/seeds", f"{path}/seeds", self._routes.seeds(info.id).body)
        self._answer(f"{run}/live", f"{path}/live", live.encoded(live.look_at_run(self._runs, info.id)()))
        for other in others:
            if other.id != info.id:
                answer = self._difference(info.id, other.id)
                self._answer(f"{run}/difference-{other.id}", key(f"{path}/difference", {"other": other.id}), answer)
        for number, store in enumerate(info.stores):
            self._stores[f"{info.id}/{store}"] = f"{run}/s{number}"
            self._store(info.id, store, f"{run}/s{number}")

    def _difference(self, id: str, other: str) -> bytes | memoryview:
        try:
            return self._routes.difference(id, other).body
        except UsageError:  # settings that cannot be read; the run's page says so
            return b"[]"

    def _store(self, id: str, store: str, name: str) -> None:
        try:
            snapshot = self._routes.snapshot(id, store)
        except StoreError as error:
            snapshot, problems = None, [str(error)]
        if snapshot is None:
            self._save(f"{name}/episodes", live.encoded({"rows": [], "choices": {}, "problems": problems}))
            return
        found = asdict(page(snapshot, Query({}, {}, limit=max(1, snapshot.table.num_rows)), Searcher()))
        groups: dict[str, int] = {}
        for number, row in enumerate(found["rows"]):
            if number < self._episodes:
                self._episode(id, store, row["episode_id"], f"{name}/{number}", snapshot)
                groups.setdefault(row["group_id"], len(groups))
            row["group_file"] = groups.get(row["group_id"])
        for group_id, number in groups.items():
            self._save(f"{name}/group-{number}", live.encoded(group(snapshot, group_id)))
        self._save(f"{name}/episodes", live.encoded(exact({n: found[n] for n in ("rows", "choices", "problems")})))

    def _episode(self, id: str, store: str, episode: str, name: str, snapshot: Snapshot) -> None:
        """Write an episode with its forks, with whole texts, and with images as files beside it."""
        place = place_of(snapshot, episode)
        try:
            shown = json.loads(bytes(self._routes.episode(id, store, episode).body))
        except StoreError:  # a torn part, which the table of episodes names
            return
        assert place is not None, "the table has the episode"
        recorded = load(place)

        def complete(value: Any) -> Any:
            if isinstance(value, list):
                return [complete(each) for each in value]
            if not isinstance(value, dict):
                return value
            if value.get("more") and "at" in value:
                return {**value, "text": text_at(recorded, value["at"]), "more": 0}
            for kind in ("image", "shot"):
                if isinstance(at := value.get(kind), str) and (found := self._routes.picture(id, store, episode, at)):
                    file = f"{name}-{at.replace('.', '-')}.{ENDINGS.get(found[1], 'png')}"
                    (self._folder / file).parent.mkdir(parents=True, exist_ok=True)
                    (self._folder / file).write_bytes(found[0])
                    value = {**value, "src": f"data/{file}"}
            return {name: complete(each) for name, each in value.items()}

        tree = json.loads(bytes(self._routes.tree(id, store, episode).body))
        self._save(name, live.encoded({"episode": complete(shown), "tree": tree}))

    def _answer(self, name: str, request: str, content: bytes | memoryview | str) -> None:
        self._files[request] = name
        self._save(name, content)

    def _save(self, name: str, content: bytes | memoryview | str) -> None:
        """Write JSON as a script that hands it to the pages as text, since an object's literal is not always JSON."""
        file = self._folder / f"{name}.js"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else bytes(content).decode()
        file.write_text(f"turnwiseData({json.dumps(name)},{json.dumps(text)});\n", encoding="ascii")


def key(path: str, given: dict[str, str]) -> str:
    """Return the name of a request, as ``exported.js`` makes it."""
    return "&".join([path, *sorted(f"{name}={value}" for name, value in given.items())])


def bundle() -> str:
    """Join the modules of the pages into one script, because a browser loads no modules from files.

    Each module becomes a function that returns what it exports. Modules follow those that they import.
    """
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        done[name] = ""
        text = (STATIC / f"{'exported' if name == 'source' else name}.js").read_text(encoding="utf-8")
        for found in IMPORT.finditer(text):
            add(found[2])
        names = ", ".join(found[2] for found in EXPORT.finditer(text))
        text = IMPORT.sub(r"const {\1} = module_\2;", EXPORT.sub(r"\1 \2", text))
        del done[name]  # after those that it imports
        done[name] = f"const module_{name} = (() => {{\n{text}\nreturn {{{names}}};\n}})();\n"

    add("app")
    return '"use strict";\n' + "\n".join(done.values())


def _index(has_report: bool) -> str:
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    link = '<a class="button" href="report.html">Report</a>' if has_report else ""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    theme = '  <button id="theme"'
    changes = {
        '<meta charset="utf-8">': f'<meta charset="utf-8">\n{policy}',
        '<script src="app.js" type="module"></script>': '<script src="app.js" defer></script>',
        theme: f'  <span class="quiet small">exported {when}</span>\n  {link}\n{theme}',
    }
    for old, new in changes.items():
        assert old in text, f"index.html has {old}"
        text = text.replace(old, new)
    return text
