"""The fictional wiki: what it is made of, and that it is the same everywhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from itertools import islice

import pytest

from turnwise.errors import TaskError
from turnwise.tasks.rng import stable_hash
from turnwise.tasks.search.document import Corpus
from turnwise.tasks.search.wiki.names import TAILS, Names, words
from turnwise.tasks.search.wiki.pages import BLOCK, LEAST, WIKIS, pages, wiki
from turnwise.tasks.search.wiki.relations import KINDS, relations, relations_of
from turnwise.tasks.search.wiki.world import Entity, made
from turnwise.tasks.spec import Split


def digest(corpus: Corpus) -> str:
    return stable_hash([[one.id, one.title, one.text] for one in corpus]).hex()


def invented(names: Iterable[str]) -> set[str]:
    """Return the words of names that are not English words."""
    texts = [*words()["always"].values(), *words()["sorts"].values(), *TAILS.values()]
    common = {word for some in texts for text in some for word in re.findall(r"\w+", text)}
    for relation in relations().values():
        common |= set(relation.list.split())
    common |= {"The", "Guild", "of", "Almanac", "Register", "About", "this", "wiki", "copy", "revision", "in"}
    return {word for name in names for word in re.findall(r"[^\W\d]+", name)} - common


@pytest.mark.parametrize("size", [LEAST, 61, 100, 317, 800])
def test_a_wiki_has_as_many_pages_as_it_should(size: int) -> None:
    corpus = wiki(Split.TRAIN, 0, size).corpus
    assert len(corpus) == size
    assert len({one.title for one in corpus}) == size, "no two pages have one title"


def test_it_is_a_pure_function_of_its_arguments() -> None:
    code = (
        "from turnwise.tasks.search.wiki.pages import wiki; from turnwise.tasks.spec import Split;"
        "from turnwise.tasks.rng import stable_hash;"
        "print(stable_hash([[d.id, d.title, d.text] for d in wiki(Split.DEV, 7, 120).corpus]).hex())"
    )
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert elsewhere == digest(wiki(Split.DEV, 7, 120).corpus)
    others = [wiki(Split.DEV, 8, 120), wiki(Split.TRAIN, 7, 120), wiki(Split.DEV, 7, 121)]
    assert len({elsewhere, *(digest(one.corpus) for one in others)}) == 4


def test_it_is_remembered() -> None:
    assert wiki(Split.TRAIN, 1, 100) is wiki(Split.TRAIN, 1, 100)


def test_too_few_pages_are_refused() -> None:
    with pytest.raises(TaskError, match="at least 60 pages; got 59"):
        wiki(Split.TRAIN, 0, LEAST - 1)


@pytest.mark.slow
def test_held_out_splits_share_no_name_with_the_others() -> None:
    def named(split: Split) -> set[str]:
        worlds = [wiki(split, number, 200).world for number in range(8)]
        return invented(name for world in worlds for one in world.entities for name in one.spellings)

    for unseen in (Split.TEST_ENTITY, Split.CHALLENGE):
        for seen in (Split.TRAIN, Split.DEV, Split.TEST_IID, Split.TEST_TEMPLATE):
            assert len(named(unseen)) > 1000
            assert not named(unseen) & named(seen)


def test_no_name_is_given_out_twice() -> None:
    names = [Names(Split.TRAIN, 3, block) for block in range(4)]
    given = [one.root() for one in names for _ in range(3000)]
    assert len(set(given)) == len(given)


def test_every_kind_and_most_relations_are_told() -> None:
    world = wiki(Split.TRAIN, 2, 300).world
    assert {one.kind for one in world.entities} == set(KINDS)
    assert len(relations()) >= 40
    relation_names = {name for _, name in (*world.facts, *world.terms)}
    assert len(relation_names) == len(relations())
    assert all(relations_of(kind) for kind in KINDS)


def test_there_are_pages_of_every_trouble() -> None:
    found = wiki(Split.TRAIN, 2, 300)
    for what in (found.copies, found.revisions, found.quotes, found.lists, found.world.gaps):
        assert len(what) >= 5
    assert any(one.shared for one in found.world.entities)
    assert any(one.alias for one in found.world.entities)


@pytest.mark.slow
@pytest.mark.shift
def test_at_most_two_have_one_name_and_their_sorts_differ() -> None:
    for number in range(40):
        shared: dict[tuple[str, str], set[str]] = {}
        for one in made(Split.TRAIN, number, 600).entities:
            shared.setdefault((one.kind, one.name), set()).add(one.title)
        assert max(map(len, shared.values())) == 2


def test_pages_tell_no_long_stories_and_name_nothing_that_is_not_there() -> None:
    found = wiki(Split.TRAIN, 4, 300)
    lengths = sorted(len(one.text.split()) for one in found.corpus)
    assert lengths[-1] <= 200
    assert 40 <= lengths[len(lengths) // 2] <= 110


def test_terms_of_office_follow_one_another() -> None:
    world = wiki(Split.TRAIN, 5, 300).world
    for terms in world.terms.values():
        assert len({term.holder.number for term in terms}) == len(terms), "nobody holds one office twice"
        assert [term.end for term in terms] == [*(term.start for term in terms[1:]), None]


def test_poor_sources_say_what_is_not_so_and_are_said_to_be_poor() -> None:
    found = wiki(Split.TRAIN, 6, 300)
    texts = {one.title: one.text for one in found.corpus}
    for source in found.sources:
        assert "the other pages are right" in texts[f"The {source}"]
    for number, id in found.quotes.items():
        page = found.corpus.get(id)
        assert page is not None
        assert any(source in page.title and source in page.text for source in found.sources)
        assert page.text != texts[found.world.entities[number].title]


def test_earlier_revisions_tell_other_numbers() -> None:
    world = wiki(Split.TRAIN, 6, 300).world
    for key, value in world.earlier.items():
        assert world.facts[key] != value


def test_a_corpus_of_any_size_comes_in_blocks() -> None:
    some = list(islice(pages(3, 10**6), BLOCK + 700))
    assert some[:BLOCK] == list(wiki(Split.TRAIN, 3, BLOCK).corpus), "its first block is a wiki with tasks"
    assert len({one.id for one in some}) == len(some)
    first, second = (invented(one.title for one in some[i:j]) for i, j in ((0, BLOCK), (BLOCK, len(some))))
    # First names are few, as among people.
    assert not {one for one in first & second if len(one) > 7}, "blocks share no invented name"
    assert [len(list(pages(3, n))) for n in (0, 1, BLOCK)] == [0, 1, BLOCK]


def test_wikis_of_one_split_differ_in_what_is_so() -> None:
    def links(number: int) -> set[tuple[str, str]]:
        world = wiki(Split.TRAIN, number, 100).world
        return {
            (world.entities[one].title, value.title)
            for (one, _), value in world.facts.items()
            if isinstance(value, Entity)
        }

    assert not links(0) & links(1)
    assert WIKIS == 64
