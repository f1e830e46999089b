"""The family: which tasks there are, that they are the same everywhere, and that none comes twice."""

from __future__ import annotations

import pickle
import re
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from turnwise.errors import TaskError, UsageError
from turnwise.tasks.search.family import PLACES, SEARCH_FAMILY, SearchFamily
from turnwise.tasks.search.matching import contained, normalised
from turnwise.tasks.search.templates.catalogue import TEMPLATES
from turnwise.tasks.search.templates.levels import LEVELS
from turnwise.tasks.search.templates.scene import NOBODY, UNKNOWN
from turnwise.tasks.search.wiki.names import words
from turnwise.tasks.search.wiki.pages import WIKIS, wiki
from turnwise.tasks.spec import Split, TaskSpec

KINDS = {"one-hop", "chain", "comparison", "intersection", "count", "as-of", "unanswerable", "disambiguation"}
EASY = SearchFamily(pages=60)


def split_of(name: str) -> Split:
    return next(split for split in Split if name in SEARCH_FAMILY.templates(split))


def test_templates_of_every_kind_are_held_out_or_not() -> None:
    assert len(TEMPLATES) >= 25
    assert len(SEARCH_FAMILY.templates(Split.TRAIN)) >= 20
    assert SEARCH_FAMILY.splits == tuple(Split)
    seen = set(SEARCH_FAMILY.templates(Split.TRAIN))
    for split in (Split.DEV, Split.TEST_IID, Split.TEST_ENTITY):
        assert set(SEARCH_FAMILY.templates(split)) == seen
    for split in (Split.TEST_TEMPLATE, Split.CHALLENGE):
        assert not set(SEARCH_FAMILY.templates(split)) & seen
    assert set(SEARCH_FAMILY.templates(Split.CHALLENGE)) > set(SEARCH_FAMILY.templates(Split.TEST_TEMPLATE))


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_makes_tasks_at_every_level(name: str) -> None:
    for level in SEARCH_FAMILY.levels:
        spec = SEARCH_FAMILY.spec(5, split=split_of(name), level=level, template=name)
        task = SEARCH_FAMILY.generate(spec)
        assert task.template == name
        assert task.kind in KINDS
        assert task.question.endswith(("?", "."))
        assert "{" not in task.question
        assert len(task.corpus) == LEVELS[level].pages
        assert len(task.evidence) >= task.hops >= min(level, 1)
        assert task.answers
        assert not any(contained(one, task.question) for one in task.answers), "the answer is in the question"
        looked = {one.document for one in task.lookups}
        assert all(looked & set(ids) for ids in task.evidence), "the oracle reads evidence for every fact"
        assert all(task.corpus.get(id) for ids in task.evidence for id in ids)
        assert task == SEARCH_FAMILY.generate(spec)


@pytest.mark.slow
def test_the_oracle_knows_every_word_that_it_searches_for() -> None:
    for split in (Split.TRAIN, Split.CHALLENGE):
        for spec in SEARCH_FAMILY.sample(80, split=split, level=2):
            task = SEARCH_FAMILY.generate(spec)
            known = set(re.findall(r"[a-z0-9]+", task.question.lower()))
            for lookup in task.lookups:
                assert lookup.query
                assert set(re.findall(r"[a-z0-9]+", lookup.query.lower())) <= known, (task.question, lookup)
                page = task.corpus.get(lookup.document)
                assert page is not None
                known |= set(re.findall(r"[a-z0-9]+", f"{page.title} {page.text}".lower()))


@pytest.mark.slow
@pytest.mark.shift
def test_levels_ask_for_more_facts_of_more_pages() -> None:
    mean = []
    for level in SEARCH_FAMILY.levels:
        tasks = [SEARCH_FAMILY.generate(one) for one in SEARCH_FAMILY.sample(20, level=level)]
        mean.append(sum(one.hops for one in tasks) / len(tasks))
    assert all(more - less > 0.7 for less, more in pairwise(mean)), mean
    assert [level.pages for level in LEVELS.values()] == sorted({level.pages for level in LEVELS.values()})


def test_no_two_tasks_of_a_split_ask_the_same_of_the_same_pages() -> None:
    """For every template and level: a small wiki is soon exhausted, and then others are made."""
    seen: dict[tuple[str, str], TaskSpec] = {}
    for name in ("count-things", "second-name", "fact-number", "which-person", "holder-now", "twin-fact"):
        for place in range(PLACES + 2):
            spec = EASY.spec(64 * place + 9, level=1, template=name)
            task = EASY.generate(spec)
            key = (task.corpus.name, normalised(task.question))
            assert key not in seen, (spec, seen.get(key))
            seen[key] = spec


@pytest.mark.shift
def test_thousands_of_tasks_are_all_different() -> None:
    count = 2_000
    seen = set()
    for spec in SEARCH_FAMILY.sample(count, level=1):
        task = SEARCH_FAMILY.generate(spec)
        seen.add((task.corpus.name, normalised(task.question)))
    assert len(seen) == count


def test_a_task_is_the_same_whatever_was_made_before() -> None:
    specs = [SEARCH_FAMILY.spec(seed, level=1, template="fact-year") for seed in (3, 67, 131, 10**12, 2**64)]
    forward = [SEARCH_FAMILY.generate(spec) for spec in specs]
    wiki.cache_clear()
    backward = [SEARCH_FAMILY.generate(spec) for spec in reversed(specs)]
    assert forward == backward[::-1]


@pytest.mark.slow
def test_the_first_seeds_share_wikis() -> None:
    names = {SEARCH_FAMILY.generate(spec).corpus.name for spec in SEARCH_FAMILY.sample(200, level=1)}
    assert len(names) <= WIKIS + 20, "few tasks need a wiki of their own"


@pytest.mark.slow
@pytest.mark.shift
def test_no_constant_answers_many_questions() -> None:
    """Except where the answer is that there is none, and counts, which is why evidence has to be read."""
    said: dict[str, Counter[str]] = defaultdict(Counter)
    for name in SEARCH_FAMILY.templates(Split.TRAIN):
        for seed in range(60):
            task = EASY.generate(EASY.spec(seed, level=1, template=name))
            said[name][normalised(task.answers[0])] += 1
    for name, some in said.items():
        best = some.most_common(1)[0][1] / 60
        if TEMPLATES[name].kind == "unanswerable":
            assert set(some) <= {normalised(one) for one in (*NOBODY, *UNKNOWN)}
        elif TEMPLATES[name].kind == "count":
            assert best < 0.8
        else:
            assert best <= 0.17, (name, some.most_common(2))


def test_answers_have_their_natural_forms_and_none_means_two_things() -> None:
    said: dict[str, tuple[str, ...]] = {}
    for seed in range(300):
        for name in ("fact-thing", "fact-word"):
            task = EASY.generate(EASY.spec(seed, level=1, template=name))
            said[task.answers[0]] = task.answers
    rivers = {first: some for first, some in said.items() if first.startswith("River ")}
    woods = {first: some for first, some in said.items() if first.endswith(" wood")}
    assert rivers
    assert all(first.removeprefix("River ") in some for first, some in rivers.items())
    assert woods
    assert all(first.removesuffix(" wood") in some for first, some in woods.items())
    for split in (Split.TRAIN, Split.CHALLENGE):
        world = wiki(split, 2, 500).world
        known = Counter(word for one in world.entities for word in {*one.title.split(), *one.alias.split()})
        assert all(known[one.name.split()[-1]] == 1 for one in world.of_kind("river")), "its word is no other's"
    timbers = words()["always"]["timber"]
    assert len({one.removesuffix(" wood") for one in timbers}) == len(timbers)


def test_only_some_templates_and_pages_of_ones_own_choice() -> None:
    family = SearchFamily.only(("fact-town", "since"), 80)
    assert family is SearchFamily.only(("fact-town", "since"), 80)
    assert family.templates(Split.TRAIN) == ("fact-town",)
    assert family.templates(Split.TEST_TEMPLATE) == ("since",)
    assert len(family.generate(family.spec(0)).corpus) == 80
    again = pickle.loads(pickle.dumps(family))
    assert again.generate(family.spec(1)) == family.generate(family.spec(1))


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(TaskError, match=r"no template 'fact-twon'.*fact-town"):
        SearchFamily(("fact-twon",))
    with pytest.raises(UsageError, match="no template"):
        SearchFamily.only(("nothing",))
    with pytest.raises(TaskError, match="no level 6"):
        SEARCH_FAMILY.spec(0, level=6)
    with pytest.raises(TaskError, match="no template 'since' in split 'train'"):
        SEARCH_FAMILY.spec(0, template="since")
