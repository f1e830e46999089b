"""The contract of every ``Retriever``, as checks for its author: as a function, or as a pytest class.

::

    class TestMyEngine(RetrieverContract):
        def engine(self, corpus: Corpus) -> Retriever:
            return MyEngine(corpus)

    failures = self_check(MyEngine)      # law → what was seen; empty when all hold
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ....errors import UsageError
from ....tasks.search.document import Corpus, Document
from .retriever import Hit, Retriever

PAGES = (
    Document("lighthouse", "Veshaven lighthouse", "A tower on the rocks north of Veshaven, built by Oda Brandt."),
    Document("brandt", "Oda Brandt", "Brandt, an engineer from Tellmar, drew bridges and towers."),
    Document("tellmar", "Tellmar", "A town of millers on the river Ister; the market is held on Thursdays."),
    Document("bridge", "Ister bridge", "An iron bridge over the Ister. Two towers carry its chains."),
    Document("cafe", "Café Zoë", "A coffee house in Tellmar, known for its Ístrian cakes."),
    Document("empty", "", ""),
    *(Document(f"twin {number}", "Twin page", "Ten pages say exactly the same about quartz.") for number in range(10)),
)
"""A corpus with pages for all laws: rare and shared words, accents, empty text, and ten equal pages."""
ODD = (
    "", " ", "\n\t", "\x00", "tower\x00bridge", "\ud800", "tower \udfff", '"', '""', '"tower', "tower*", "*", "^tower",
    "title:tower", "tower AND", "AND OR NOT", "NEAR(tower bridge, 2)", "(", ")", "tower -bridge", "{title}: tower", "+",
    "'; DROP TABLE found; --", "a" * 100_000, "tower " * 20_000, " ".join(f"w{n}" for n in range(20_000)), "🗼", "塔",
    "the of and", "[1 TO 5]", "tower~2", "tower^9", "\\", "/tower/", "\u202etower", "e\u0301" * 50, "_", "%", "NULL",
)  # fmt: skip
"""Queries that an agent may write; none has a special meaning, and none may raise."""


class RetrieverContract:
    """The laws as tests: inherit, name the class ``Test…``, and define ``engine``."""

    lexical = True
    """Whether the engine finds nothing without a common word; set False for learned engines."""
    opens = True
    """Whether the engine can open pages by their ids."""

    def engine(self, corpus: Corpus) -> Retriever:
        """The engine under test over a corpus; called once or twice per law."""
        raise TypeError(f"{type(self).__name__} must define engine()")

    def _over(self, *pages: Document) -> Retriever:
        return self.engine(Corpus("checks", pages or PAGES))

    def test_a_page_is_found_by_its_words(self) -> None:
        """Words of a page's text or title bring it to the top, in any case and order."""
        found = self._over()
        for query, wanted in (
            ("Veshaven lighthouse", "lighthouse"),
            ("BRANDT oda", "brandt"),
            ("iron chains bridge Ister", "bridge"),
            ("market millers Thursdays", "tellmar"),
        ):
            first = _ids(found, query, 1)
            assert first == [wanted], f"{query!r} should bring {wanted!r} first, not {first}"

    def test_hits_are_whole_and_in_order(self) -> None:
        """A search returns at most ``k`` pages, the best first, without repetition, each as in the corpus."""
        pages, found = {page.id: page for page in PAGES}, self._over()
        for k in (1, 2, 3, 100, 10**12):
            (hits,) = found.search(["towers Tellmar quartz"], k)
            assert len(hits) <= k, f"asked for {k} pages, got {len(hits)}"
            assert all(hit.document == pages.get(hit.document.id) for hit in hits), "a hit is not the corpus' page"
            assert len({hit.document.id for hit in hits}) == len(hits), "a page was found twice"
            scores = [hit.score for hit in hits]
            assert scores == sorted(scores, reverse=True), f"scores must not rise: {scores}"
        assert [found.search(["towers"], k) for k in (0, -1)] == [[[]], [[]]], "no pages were asked for"

    def test_fewer_are_the_first_of_more(self) -> None:
        """The best three pages are the first three of the best ten."""
        found = self._over()
        for query in ("towers Tellmar", "twin quartz", "Ister river bridge"):
            many = _ids(found, query, 10)
            assert _ids(found, query, 3) == many[:3], f"{query!r}: the best three are not the first of the best ten"

    def test_ties_are_in_the_order_of_the_corpus(self) -> None:
        """Equal pages come in the order of the corpus, wherever the list is cut."""
        found, backwards = self._over(), self._over(*reversed(PAGES))
        for k in (1, 4, 10):
            wanted = [f"twin {number}" for number in range(10)]
            assert _ids(found, "twin quartz", k) == wanted[:k], "ties are not in the order of the corpus"
            assert _ids(backwards, "twin quartz", k) == wanted[::-1][:k], "ties are not in the order of the corpus"

    def test_the_same_query_has_the_same_hits(self) -> None:
        """A query gives the same hits again, in a batch, among others, and in a new engine."""
        queries = ["tower", "Oda Brandt bridges", "quartz", "nothing of the kind", "tower"]
        found, again = self._over(), self._over()
        alone = [found.search([query], 5)[0] for query in queries]
        assert found.search(queries, 5) == alone, "a query in a batch has other hits than alone, or in another place"
        assert [_names(hits) for hits in again.search(queries, 5)] == [_names(hits) for hits in alone], (
            "an engine made anew over the same pages finds others"
        )
        assert found.search([], 5) == [], "no queries have no answers"

    def test_no_query_raises(self) -> None:
        """Operators, empty texts, NUL, lone surrogates and a hundred thousand characters are plain words or nothing."""
        found = self._over()
        for query in ODD:
            try:
                (hits,) = found.search([query], 3)
            except Exception as error:
                raise AssertionError(f"the query {query[:40]!r} raised {type(error).__name__}: {error}") from error
            assert len(hits) <= 3
        assert len(found.search(ODD, 3)) == len(ODD), "each query needs a list of its own, also where it is odd"

    def test_without_a_word_nothing_is_found(self) -> None:
        """A lexical engine finds nothing for no words, or for words that no page has."""
        if self.lexical:
            for query in ("", "  ", '"*"', "xylophone", "\x00"):
                found = _ids(self._over(), query, 5)
                assert not found, f"{query!r} has no word of any page, but found {found}"

    def test_operators_are_words(self) -> None:
        """``AND``, ``NOT``, ``title:`` and quotation marks neither widen nor narrow what is found."""
        if self.lexical:
            found = self._over()
            for query in ('"iron" "chains"', "iron* chains*", "iron -chains", "NEAR(iron chains)", "^iron; chains:"):
                assert _ids(found, query, 1) == ["bridge"], f"{query!r} is two words, and a page has both"
            assert _ids(found, "cafe", 1) == _ids(found, "CAFÉ", 1), "capitals or accents matter"

    def test_pages_are_opened(self) -> None:
        """Pages open completely by their ids; any other text opens nothing."""
        found = self._over()
        if self.opens:
            assert [found.get(page.id) for page in PAGES] == list(PAGES), "a page that was opened is not the corpus'"
            assert [found.get(id) for id in ("no such", "", "\x00", "\ud800", "a" * 100_000)] == [None] * 5
        else:
            try:
                found.get("brandt")
            except UsageError:
                return
            raise AssertionError("opens is False, so that get must raise UsageError")

    def test_threads_do_not_disturb_each_other(self) -> None:
        """Eight threads find the same as one."""
        found, queries = self._over(), ["tower", "Brandt", "quartz twin", "Ister market"] * 8
        alone = [found.search([query], 4) for query in queries]
        with ThreadPoolExecutor(8) as threads:
            together = list(threads.map(lambda query: found.search([query], 4), queries))
        assert together == alone, "several threads at a time find other pages than one"

    def test_any_page_can_be_indexed(self) -> None:
        """Pages may be empty, huge, or contain NUL and lone surrogates; a corpus may be empty."""
        (none,) = self.engine(Corpus("none", ())).search(["tower"], 3)
        assert none == [], "a corpus without pages has no hits"
        odd = (
            Document("huge", "Huge", "marble " * 30_000 + "needle"),
            Document("nul", "Nul\x00title", "before\x00after granite"),
            Document("half", "Half \ud800", "basalt \udc80 stone"),
            Document("long", "word " * 2_000, "x" * 200_000),
        )
        found = self._over(*odd)
        for query, wanted in (("needle", "huge"), ("granite", "nul"), ("basalt stone", "half")):
            (hits,) = found.search([query], 1)
            assert _names(hits) == [wanted], f"{query!r} should find the odd page {wanted!r}, not {_names(hits)}"

    def test_it_is_closed_twice(self) -> None:
        """Closing again has no effect."""
        found = self._over()
        found.close()
        found.close()


def self_check(engine: Callable[[Corpus], Retriever], *, lexical: bool = True, opens: bool = True) -> dict[str, str]:
    """Run every law on one engine.

    Returns:
        what was broken: the law's name with what was seen. Empty when all hold.
    """

    class Fixed(RetrieverContract):
        def engine(self, corpus: Corpus) -> Retriever:
            return engine(corpus)

    subject = Fixed()
    subject.lexical, subject.opens = lexical, opens
    broken: dict[str, str] = {}
    for name in [name for name in vars(RetrieverContract) if name.startswith("test_")]:
        try:
            getattr(subject, name)()
        except Exception as error:
            law = name.removeprefix("test_").replace("_", " ")
            broken[law] = str(error) or type(error).__name__
    return broken


def _ids(found: Retriever, query: str, k: int) -> list[str]:
    (hits,) = found.search([query], k)
    return _names(hits)


def _names(hits: list[Hit]) -> list[str]:
    return [hit.document.id for hit in hits]
