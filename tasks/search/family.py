"""The family of questions about fictional wikis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from ...errors import TaskError, UsageError
from ..family import TaskFamily, listed, named
from ..rng import Rng
from ..spec import Split, TaskSpec
from .matching import normalised
from .task import Lookup, SearchTask
from .templates.catalogue import TEMPLATES
from .templates.findable import findable
from .templates.levels import LEVELS
from .templates.scene import Scene, TaskDraft, Unsuitable
from .templates.template import Template
from .templates.wording import worded
from .wiki.pages import LEAST, WIKIS, Wiki, wiki

HELD_OUT = (Split.TEST_TEMPLATE, Split.CHALLENGE)
"""Splits with templates that training never uses."""
WORD = re.compile(r"[^\W_]+")
DRAWS = 300
"""Draws in a row without a new question after which a wiki counts as exhausted."""
PLACES = 16
"""Tasks of one template and level in one wiki."""
OWN = 40
"""Most wikis of its own that a task may find unsuitable."""


class SearchFamily(TaskFamily[SearchTask]):
    """Questions about fictional wikis, each with its answers and the pages that show it.

    The first 1,024 seeds are about 64 wikis of their split, 16 tasks of every template and level in each, the next
    1,024 about the next 64. Where a wiki has fewer to ask, a task has one of its own. So no two tasks of a split ask
    the same of the same pages, whatever their seeds.

    Args:
        templates: names of the templates to use; all, if left out.
        pages: number of pages of every wiki, at least 60; set by the level, if left out.
        name: name of the family; the class's, if left out.

    Raises:
        TaskError: there is no such template.
    """

    name = "search"
    levels = tuple(LEVELS)

    def __init__(
        self, templates: tuple[str, ...] | None = None, *, pages: int | None = None, name: str | None = None
    ) -> None:
        self.name = name or type(self).name
        self.pages = pages
        self._chosen = named(templates, TEMPLATES, self.name)
        self._by_split = {
            split: tuple(name for name, one in self._chosen.items() if _belongs(one, split)) for split in Split
        }
        self.splits = tuple(split for split in Split if self._by_split[split])

    @classmethod
    def chosen(cls, templates: Sequence[str] | None = None, pages: int | None = None) -> SearchFamily:
        """Return the family of some templates, or of wikis of another size, for a caller's arguments.

        Raises:
            UsageError: there is no such template, none is named, or no wiki has so few pages.
        """
        if pages is not None and (type(pages) is not int or pages < LEAST):
            raise UsageError(f"a wiki must have at least {LEAST} pages; got pages={pages!r}")
        return cls.only(None if templates is None else listed(templates, TEMPLATES), pages)

    @classmethod
    @lru_cache(maxsize=64)
    def only(cls, templates: tuple[str, ...] | None = None, pages: int | None = None) -> SearchFamily:
        """Return the family of some templates, the same object for the same templates.

        Raises:
            UsageError: there is no such template.
        """
        try:
            return cls(templates, pages=pages)
        except TaskError as error:
            raise UsageError(str(error)) from None

    def __reduce__(self) -> Any:
        return (_again, (tuple(self._chosen), self.pages, self.name))

    def templates(self, split: Split) -> tuple[str, ...]:
        """Return the names of the split's templates."""
        return self._by_split[split]

    def build(self, spec: TaskSpec, rng: Rng) -> SearchTask:
        """Return the task.

        Raises:
            TaskError: the template finds nothing to ask.
        """
        round_, place = divmod(spec.seed // WIKIS, PLACES)
        found = self._asked(spec, round_ * WIKIS + spec.seed % WIKIS, place)
        for again in range(OWN):
            if found is None:
                found = self._asked(spec, -(spec.seed * OWN + again + 1), 0)
        if found is not None:
            return found
        raise TaskError(f"template {spec.template!r} finds no question at level {spec.level} with seed {spec.seed}")

    def _asked(self, spec: TaskSpec, number: int, place: int) -> SearchTask | None:
        """Return the task at an index among those of a template in a wiki, or the next one of the same remainder."""
        about = wiki(spec.split, number, self.pages or LEVELS[spec.level].pages)
        key = (spec.template, spec.level)
        with about.lock:
            if key not in about.remembered:
                about.remembered[key] = ([], _drawn(about, TEMPLATES[spec.template], spec.level))
            found, more = about.remembered[key]
            while True:
                found.extend(islice(more, max(0, place + 1 - len(found))))
                if place >= len(found):
                    return None
                task = _task(about, TEMPLATES[spec.template], *found[place])
                if all(findable(about, one) for one in task.lookups):
                    return task
                place += PLACES  # another place that no other seed has


def _drawn(about: Wiki, template: Template, level: int) -> Iterator[tuple[TaskDraft, str]]:
    """Yield different questions of a template about a wiki, with their wording, until it finds no more."""
    seen: set[str] = set()
    draw = last = 0
    while draw - last < DRAWS:
        rng = Rng("search", about.corpus.name, template.name, level, draw)
        draw += 1
        try:
            asked = template.make(Scene(about, rng, LEVELS[level].extra))
        except Unsuitable:
            continue
        question = worded(asked.query, rng)
        text = normalised(question)
        if text in seen or any(f" {normalised(one)} " in f" {text} " for one in asked.answers):
            continue  # a repetition, or a question that contains its answer
        seen.add(text)
        last = draw
        yield asked, question


def _task(about: Wiki, template: Template, asked: TaskDraft, question: str) -> SearchTask:
    return SearchTask(
        question=question,
        answers=asked.answers,
        evidence=tuple(one.pages for one in asked.rests),
        lookups=tuple(_known(asked, question, about)),
        corpus=about.corpus,
        template=template.name,
        kind="one-hop" if template.kind == "chain" and asked.hops == 1 else template.kind,
        hops=asked.hops,
    )


def _known(asked: TaskDraft, question: str, about: Wiki) -> Iterator[Lookup]:
    """Return the searches to make, one per page, in words from the question or an earlier page."""
    known, seen = set(WORD.findall(question.lower())), set[str]()
    for lookup in (one.lookup for one in asked.rests):
        if lookup.document in seen:
            continue
        seen.add(lookup.document)
        said = [word for word in lookup.query.split() if known.issuperset(WORD.findall(word.lower()))]
        yield Lookup(" ".join(said), lookup.document)
        page = about.corpus.get(lookup.document)
        assert page is not None
        known |= {*WORD.findall(page.title.lower()), *WORD.findall(page.text.lower())}


def _belongs(one: Template, split: Split) -> bool:
    if one.hard:
        return split is Split.CHALLENGE
    return one.held_out == (split in HELD_OUT)


def _again(templates: tuple[str, ...], pages: int | None, name: str) -> SearchFamily:
    return SearchFamily(templates, pages=pages, name=name)


SEARCH_FAMILY = SearchFamily()
"""All templates."""
