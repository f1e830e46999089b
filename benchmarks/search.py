"""Measure search engines: their speed, results and memory.

    python benchmarks/search.py [--sizes 1000 100000 1000000] [--queries 300] [--wiki 300] [--json FILE]

Pages are generated: 60 to 120 words by Zipf's law, the most common ones those of English, and a title of two names. A
query is a question with four words of the text of a page, which is the evidence. ``--wiki`` sends the queries of the
oracle for so many questions of the fictional wiki, each in its own world. Each engine runs in a process of its own, one
query at a time; memory is the growth of the process.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from turnwise.envs.search.retrieval.batched import Batched
from turnwise.envs.search.retrieval.fts5 import Fts5
from turnwise.envs.search.retrieval.retriever import Retriever
from turnwise.envs.search.retrieval.tokenize import STOP_WORDS, query_words
from turnwise.tasks.search.build import build
from turnwise.tasks.search.document import Corpus, Document
from turnwise.tasks.search.stored import StoredCorpus

DIFFERENT = 500_000
"""Number of words in the language."""
ENGINES = ("fts5 file", "fts5 memory", "fts5 unbounded", "tantivy", "bm25s")
EPISODES, TURNS, ATTEMPTS = 256, 20, 8
DEPTHS = (1, 5, 10)
EVERYTHING = 10**12


def spelt(number: int) -> str:
    """Return an invented word."""
    said = ""
    number += 81
    while number:
        number, syllable = divmod(number, 80)
        said += "bdfgklmnprstvwzh"[syllable % 16] + "aeiou"[syllable // 16]
    return said


def pages(n: int) -> Iterator[Document]:
    """The generated corpus."""
    rng = np.random.default_rng(8)
    known = [*sorted(STOP_WORDS), *(spelt(number) for number in range(DIFFERENT - len(STOP_WORDS)))]
    shares = 1 / np.arange(2.7, DIFFERENT + 2.7) ** 1.07
    heights = np.cumsum(shares / shares.sum())
    heights[-1] = 1
    for start in range(0, n, 1000):
        lengths = rng.integers(60, 121, 1000)
        drawn = np.searchsorted(heights, rng.random(lengths.sum()))
        names = rng.integers(0, max(n // 4, 100), (1000, 2))
        ends = np.cumsum(lengths)
        for place in range(min(1000, n - start)):
            text = " ".join(known[at] for at in drawn[ends[place] - lengths[place] : ends[place]])
            title = " ".join(spelt(10**7 + int(name)) for name in names[place])
            yield Document(str(start + place), title.title(), f"{title.title()} {text}.")


def asked(corpus: Corpus, n: int) -> list[tuple[str, str]]:
    """Queries, with the page that each is made from."""
    rng = np.random.default_rng(9)
    made = []
    for place in rng.integers(0, len(corpus), n):
        page = corpus.at(int(place))
        words = [word for word in page.text.rstrip(".").split()[2:] if word not in STOP_WORDS]
        some = [words[at] for at in rng.choice(len(words), 4, replace=False)]
        made.append((f"what is the {some[0]} {some[1]} of the {some[2]} in {some[3]}?", page.id))
    return made


class Bm25s:
    """bm25s behind our contract, as far as this needs it."""

    def __init__(self, corpus: Corpus) -> None:
        import bm25s

        texts = [f"{page.title} {page.text}" for page in corpus]
        tokens = bm25s.tokenize(texts, stopwords=list(STOP_WORDS), show_progress=False)
        self._corpus, self._made = corpus, bm25s.BM25()
        self._made.index(tokens, show_progress=False)

    def search(self, queries: Sequence[str], k: int) -> list[list[str]]:
        """Ids of pages."""
        most = min(k, len(self._corpus))
        tokens = [query_words(query) for query in queries]
        places, scores = self._made.retrieve(tokens, k=most, show_progress=False)
        return [
            [self._corpus.at(int(place)).id for place, score in zip(*one, strict=True) if score > 0]
            for one in zip(places, scores, strict=True)
        ]


def tantivy(corpus: Corpus) -> Retriever:
    """The extra."""
    from turnwise.envs.search.retrieval.tantivy import Tantivy

    return Tantivy(corpus)


def searching(engine: str, corpus: StoredCorpus) -> Callable[[str, int], list[str]]:
    """Make an index; a function from a query to ids."""
    if engine == "bm25s":
        made = Bm25s(corpus)
        return lambda query, k: made.search([query], k)[0]
    found = open_engine(engine, corpus)
    return lambda query, k: [hit.document.id for hit in found.search([query], k)[0]]


def open_engine(engine: str, corpus: Corpus) -> Retriever:
    """Open one of this package's engines."""
    if engine == "tantivy":
        return tantivy(corpus)
    if engine == "fts5 unbounded":
        return Fts5(corpus, ranked=EVERYTHING)
    return Fts5(Corpus(corpus.name, corpus) if engine == "fts5 memory" else corpus)


def one(engine: str, path: Path, queries: int) -> dict[str, Any]:
    """Everything about one engine over one corpus; in a process of its own."""
    corpus = StoredCorpus(path)
    questions = asked(corpus, queries)
    before, began = psutil.Process().memory_info().rss, time.perf_counter()
    search = searching(engine, corpus)
    index = time.perf_counter() - began
    for query, _ in questions[:10]:
        search(query, 10)
    times, ranks = [], []
    for query, wanted in questions:
        began = time.perf_counter()
        found = search(query, max(DEPTHS))
        times.append(1000 * (time.perf_counter() - began))
        ranks.append(found.index(wanted) if wanted in found else max(DEPTHS))
    return {
        "index_s": index,
        "ms": statistics.fmean(times),
        "median_ms": statistics.median(times),
        "p99_ms": statistics.quantiles(times, n=100)[-1],
        "mib": (psutil.Process().memory_info().rss - before) / 2**20,
        "recall": {str(k): sum(rank < k for rank in ranks) / len(ranks) for k in DEPTHS},
    }


def concurrent(engine: str, path: Path) -> dict[str, Any]:
    """Searches a second of many episodes through ``Batched``: each its own questions, and as attempts at the same."""
    corpus = StoredCorpus(path)
    found = open_engine(engine, corpus)
    own = asked(corpus, EPISODES * TURNS)

    async def play(share: int) -> dict[str, Any]:
        async with Batched(found) as front:

            async def episode(number: int) -> None:
                for turn in range(TURNS):
                    await front.search([own[number // share * TURNS + turn][0]], 5)

            began = time.perf_counter()
            await asyncio.gather(*(episode(number) for number in range(EPISODES)))
            seconds = time.perf_counter() - began
            return {"per_s": EPISODES * TURNS / seconds, "calls": front.counts.searches, "asked": front.counts.asked}

    return {"alone": asyncio.run(play(1)), "attempts": asyncio.run(play(ATTEMPTS))}


def wiki(engine: str, n: int) -> dict[str, Any]:
    """Measure the results of the oracle's queries in the fictional wiki, against the page that each was made for."""
    from turnwise.envs.search.retrieval.engines import Shelf
    from turnwise.tasks.search.family import SEARCH_FAMILY

    shelf, times, ranks, sizes = Shelf(64), [], [], []
    for spec in SEARCH_FAMILY.sample(n):
        task = SEARCH_FAMILY.generate(spec)
        found = shelf.take((engine, task.corpus.name), lambda task=task: open_engine(engine, task.corpus))  # type: ignore[misc]
        sizes.append(len(task.corpus))
        for lookup in task.lookups:
            began = time.perf_counter()
            hits = found.search([lookup.query], max(DEPTHS))[0]
            times.append(1000 * (time.perf_counter() - began))
            ids = [hit.document.id for hit in hits]
            ranks.append(ids.index(lookup.document) if lookup.document in ids else max(DEPTHS))
    return {
        "pages": statistics.fmean(sizes),
        "lookups": len(ranks),
        "ms": statistics.fmean(times),
        "recall": {str(k): sum(rank < k for rank in ranks) / len(ranks) for k in DEPTHS},
    }


def apart(*task: str) -> Any:
    """Run one of the functions above in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--task", *task], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


TASKS: dict[str, Callable[..., Any]] = {
    "one": lambda engine, path, queries: one(engine, Path(path), int(queries)),
    "concurrent": lambda engine, path: concurrent(engine, Path(path)),
    "wiki": lambda engine, n: wiki(engine, int(n)),
    "build": lambda path, n: built(Path(path), int(n)),
}


def built(path: Path, n: int) -> dict[str, float]:
    """Write a corpus of so many pages."""
    held = list(pages(n)) if n <= 10**5 else pages(n)  # to time the index alone, where they fit
    began = time.perf_counter()
    build(path, "generated", held)
    seconds = time.perf_counter() - began
    return {"build_s": seconds, "mb": path.stat().st_size / 1e6, "mib": psutil.Process().memory_info().rss / 2**20}


def report(console: Console, size: int, found: dict[str, Any]) -> None:
    """The table of one size."""
    table = Table("engine", "index s", "ms/query", "median", "99 %", "MiB", *(f"recall@{k}" for k in DEPTHS))
    for engine, row in found.items():
        numbers = (row["index_s"], row["ms"], row["median_ms"], row["p99_ms"], row["mib"])
        table.add_row(
            engine, *(f"{number:.2f}" for number in numbers), *(f"{row['recall'][str(k)]:.3f}" for k in DEPTHS)
        )
    console.print(f"{size:,} pages")
    console.print(table)


def main() -> None:
    """Measure, and print."""
    said = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    said.add_argument("--sizes", type=int, nargs="+", default=[10**3, 10**5, 10**6])
    said.add_argument("--engines", nargs="+", default=list(ENGINES))
    said.add_argument("--queries", type=int, default=300)
    said.add_argument("--wiki", type=int, default=300, help="questions of the fictional wiki; 0 leaves it out")
    said.add_argument("--json", type=Path, help="file to write the figures to")
    said.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    args = said.parse_args()
    if args.task:
        print(json.dumps(TASKS[args.task[0]](*args.task[1:])))
        return
    console = Console(width=120)
    engines = [name for name in args.engines if name.startswith("fts5") or importlib.util.find_spec(name)]
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in args.sizes:
            path = Path(folder) / f"{size}.corpus"
            figures[f"build {size}"] = made = apart("build", str(path), str(size))
            console.print(
                f"a file of {size:,} pages: {made['build_s']:.1f} s, {made['mb']:.0f} MB; {made['mib']:.0f} MiB"
            )
            rows = figures[str(size)] = {}
            for engine in engines:
                if engine != "fts5 memory" or size <= 10**5:
                    rows[engine] = apart("one", engine, str(path), str(args.queries))
            report(console, size, rows)
            if size == 10**5:
                for engine in ("fts5 file", "tantivy"):
                    figures[f"concurrent {engine}"] = row = apart("concurrent", engine, str(path))
                    console.print(f"{EPISODES} episodes, {engine}: {row['alone']['per_s']:.0f} searches/s; ", end="")
                    console.print(f"as {ATTEMPTS} attempts at each question {row['attempts']['per_s']:.0f}")
    for engine in [name for name in ("fts5 memory", "tantivy") if name in engines and args.wiki]:
        figures[f"wiki {engine}"] = row = apart("wiki", engine, str(args.wiki))
        console.print(f"the wiki's oracle, {engine}: {row}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
