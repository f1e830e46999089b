"""The reader extracts the facts of the pages, and the requests of the questions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields

import pytest

from turnwise.errors import TaskError
from turnwise.tasks.rng import Rng
from turnwise.tasks.search.document import Document
from turnwise.tasks.search.templates.catalogue import TEMPLATES
from turnwise.tasks.search.templates.query import Beside, Both, Count, Named, Of, Query, Since, Then
from turnwise.tasks.search.templates.scene import Scene, Unsuitable
from turnwise.tasks.search.templates.wording import worded
from turnwise.tasks.search.verifier.library import Library
from turnwise.tasks.search.verifier.questions import understood
from turnwise.tasks.search.verifier.reading import read
from turnwise.tasks.search.wiki.pages import wiki
from turnwise.tasks.search.wiki.prose import spoken
from turnwise.tasks.search.wiki.relations import relations
from turnwise.tasks.spec import Split

WIKI = wiki(Split.TRAIN, 11, 300)


@pytest.mark.parametrize("split", [Split.TRAIN, Split.CHALLENGE])
def test_pages_are_read_back_exactly(split: Split) -> None:
    found = wiki(split, 12, 300)
    world = found.world
    for one in world.entities:
        for id in found.pages_of(one):
            page = found.corpus.get(id)
            assert page is not None
            parsed = read(page)
            assert (parsed.about, parsed.kind, parsed.sort, parsed.alias) == (one.title, one.kind, one.sort, one.alias)
            facts = {name: spoken(value) for (number, name), value in world.facts.items() if number == one.number}
            assert parsed.facts == facts
            assert parsed.gaps == {name for number, name in world.gaps if number == one.number}
            terms = {name: some for (number, name), some in world.terms.items() if number == one.number}
            assert set(parsed.terms) == set(terms)
            for name, some in terms.items():
                expected = [(term.start, term.end, term.holder.title) for term in some]
                read_back = sorted(
                    ((held.start, held.end, held.holder) for held in parsed.terms[name]), key=lambda x: x[0]
                )
                assert read_back == expected
                assert parsed.none[name] == some[0].start


def test_lists_are_read_back_exactly() -> None:
    for (name, of), id in WIKI.lists.items():
        page = WIKI.corpus.get(id)
        assert page is not None
        listed = read(page).listed
        assert listed is not None
        assert listed[:2] == (name, WIKI.world.entities[of].title)
        assert set(listed[2]) == {one.title for one in WIKI.world.subjects[name, of]}


def test_every_wording_can_be_told_from_every_other() -> None:
    for relation in relations().values():
        assert len(set(relation.says)) == len(relation.says)
        assert relation.ask
        assert relation.gap
        if relation.linked:
            assert len(relation.np) >= 2


def drawn(n: int) -> Iterator[tuple[Query, str]]:
    for template in TEMPLATES.values():
        for extra in range(4):
            for draw in range(n):
                rng = Rng("reader", template.name, extra, draw)
                try:
                    query = template.make(Scene(WIKI, rng, extra)).query
                except Unsuitable:
                    continue
                yield query, worded(query, rng)


def test_questions_are_read_back_as_the_only_thing_that_they_can_mean() -> None:
    library = Library(WIKI.corpus)
    kinds = set()
    for query, question in drawn(6):
        kinds.add(type(query))
        assert understood(question, library.known) == [query], question
    assert len(kinds) == 9, "every form of query was drawn"


def described(query: Query) -> bool:
    """Whether something is described instead of being named."""
    return any(isinstance(value, Of) for value in (getattr(query, slot.name) for slot in fields(query)))


def test_no_year_and_no_name_stands_behind_a_description() -> None:
    """Reading "mayor of the town where X was born in 1897" must not take the year for that of the birth."""
    seen: Counter[str] = Counter()
    for query, question in drawn(12):
        if not described(query):
            continue
        if isinstance(query, Then | Since | Beside):
            form = f"{type(query).__name__} of {relations()[query.relation].to}"
            assert not re.search(r"\d{4}\W*$", question), question
            assert question.startswith(("In ", "According to ", "Since ", "Who followed ", "Whom did ")), question
            seen[form] += 1
        if isinstance(query, Both):
            assert isinstance(query.node, Named), "what is described stands last"
            seen["Both"] += 1
        if not isinstance(query, Count):
            assert not re.search(r"\b(in|before|after|by|of|since) \d{4}\W*$", question), question
    assert {"Then of person", "Then of number", "Since of person", "Beside of person", "Both"} <= set(seen), seen


def test_every_office_can_be_asked_about_by_a_description() -> None:
    for relation in relations().values():
        for forms in (relation.then, relation.since, relation.after, relation.ahead):
            assert not forms or any(form.endswith("{s}?") for form in forms), relation.name


def test_persons_are_not_called_it_or_which() -> None:
    asked = [
        text
        for query, text in drawn(12)
        if isinstance(query, Both | Count) and relations()[query.relation].of == "person"
    ]
    assert len(asked) > 20
    assert not [
        text
        for text in asked
        if re.search(r"\bit (was|played|died)\b|^Name the person of|(people|person) of which each", text)
    ]


def test_nonsense_means_nothing() -> None:
    library = Library(WIKI.corpus)
    for text in (
        "",
        "?",
        "Who?",
        "Who wrote ?",
        "Who wrote Nobody Anybody?",
        "Who wrote {s}?",
        "(",
        "\\",
        "the the the",
    ):
        assert understood(text, library.known) == []
        assert library.answers(text) == set()


def test_a_sentence_that_can_be_read_in_two_ways_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    from turnwise.tasks.search.verifier import reading

    wordings = reading._sentences("town")
    monkeypatch.setattr(reading, "_sentences", lambda kind: (*wordings, *wordings))
    with pytest.raises(TaskError, match="reword one of them"):
        read(Document("1", "Belmar", "Belmar is a port town. Belmar was founded by Jonas Kel."))


def test_a_poor_source_is_not_believed_and_an_earlier_revision_only_for_its_time() -> None:
    quoted = (
        "This page repeats what the Kor Almanac says about Belmar. Belmar is a port town. "
        "Belmar was founded by Jonas Kel."
    )
    quote = Document("1", "Belmar in the Kor Almanac", quoted)
    dated = (
        "This is the 1900 revision of the page Belmar; it was not updated after that year. "
        "Belmar is a port town. Since 1890 Anton Bel has been mayor of Belmar. Before 1890 Belmar had no mayor. "
        "Belmar has 900 inhabitants."
    )
    old = Document("2", "Belmar (revision of 1900)", dated)
    library = Library([quote, old])
    assert library.answers("Who founded Belmar?") == set()
    assert library.answers("Who is now mayor of Belmar?") == set()
    assert library.answers("How many inhabitants does Belmar have?") == set()
    assert library.answers("According to the revision of 1900, what was the population of Belmar?") == {"900"}
    assert library.answers("Who was mayor of Belmar in 1895?") == {"Anton Bel"}
    assert library.answers("Who was mayor of Belmar in 1905?") == set()
    assert library.answers("Who was mayor of Belmar in 1880?") == {"nobody"}


def test_pages_that_contradict_each_other_answer_nothing() -> None:
    one = Document("1", "Belmar", "Belmar is a port town. Belmar was founded by Jonas Kel.")
    copied = "This is a copy of the page Belmar, word for word or nearly so. Belmar is a port town."
    other = Document("2", "Belmar (copy)", f"{copied} Belmar was founded by Anton Bel.")
    assert Library([one]).answers("Who founded Belmar?") == {"Jonas Kel"}
    assert Library([one, other]).answers("Who founded Belmar?") == set()
    assert Library([one, other]).answers("Who founded Belmar?", without={"1"}) == {"Anton Bel"}
