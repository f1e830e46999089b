"""The pages that the oracle reads are among the first hits of its queries, with the engine that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from turnwise.envs.search.retrieval.fts5 import Fts5
from turnwise.tasks.search.document import Corpus
from turnwise.tasks.search.family import SEARCH_FAMILY
from turnwise.tasks.spec import Split, TaskSpec

from ...shifts import sampled


def ranks(specs: Iterable[TaskSpec]) -> list[int]:
    """The places of the oracle's pages among ten hits, 99 where they are not there."""
    engines: dict[Corpus, Fts5] = {}
    found = []
    for spec in specs:
        task = SEARCH_FAMILY.generate(spec)
        engine = engines.setdefault(task.corpus, Fts5(task.corpus))
        for lookup in task.lookups:
            [hits] = engine.search([lookup.query], 10)
            ids = [hit.document.id for hit in hits]
            found.append(ids.index(lookup.document) if lookup.document in ids else 99)
    for engine in engines.values():
        engine.close()
    return found


def specs(places: int, levels: Iterable[int]) -> list[TaskSpec]:
    return [
        SEARCH_FAMILY.spec(64 * place + 7, split=split, level=level, template=name)
        for split in (Split.TRAIN, Split.CHALLENGE)
        for level in levels
        for name in SEARCH_FAMILY.templates(split)
        for place in range(places)
    ]


def held(found: list[int]) -> None:
    assert len(found) > 300
    assert sum(one < 5 for one in found) >= 0.99 * len(found), "in the first five hits of 99 in 100 queries"
    assert max(found) < 10, "always in the first ten"


@pytest.mark.slow
def test_the_oracle_finds_its_pages() -> None:
    held(ranks(specs(3, (1, 2))))


@pytest.mark.shift
def test_the_oracle_finds_its_pages_at_every_level() -> None:
    held(ranks(sampled(specs(12, SEARCH_FAMILY.levels), 1_000, key="lookups")))
