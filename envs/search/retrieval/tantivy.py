"""``Tantivy``: the fast engine, an extra: ``pip install 'turnwise[search]'``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from ....errors import InfrastructureError, UsageError
from ....tasks.search.document import Corpus, Document
from ....tasks.search.stored import storable
from .retriever import Hit
from .tokenize import query_words

try:
    import tantivy
except ImportError as error:
    raise UsageError(f"tantivy is not installed: pip install 'turnwise[search]' ({error})") from error

TITLE = 2.0
"""Weight of a word in the title relative to one in the text."""
WRITER = 64_000_000
"""Memory of the index writer, in bytes."""
FIELDS = ["title", "text"]


class Tantivy:
    """The pages that have any of a query's words, by BM25 of title and text; the index is in memory.

    Args:
        corpus: the pages.
        title: how much more a word in the title counts than one in the text.
    """

    def __init__(self, corpus: Corpus, *, title: float = TITLE) -> None:
        self._corpus, self._boosts, self._closed = corpus, {"title": title}, False
        self._index = _index(corpus)
        self._searcher = self._index.searcher()

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best ``k`` pages for each query, best first; see ``Retriever.search``."""
        if self._closed:
            raise InfrastructureError(f"the index of {self._corpus.name!r} was closed; create another one to search")
        return [self._search(query, min(k, len(self._corpus))) for query in queries]

    def get(self, id: str) -> Document | None:
        """Return the page with an id, or ``None``."""
        return self._corpus.get(id)

    def close(self) -> None:
        """Release the index."""
        self._closed = True
        self._index = self._searcher = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # an index never changes: copies of an environment share it

    def _search(self, query: str, k: int) -> list[Hit]:
        wanted = query_words(query)
        if not wanted or k < 1:
            return []
        parsed = self._index.parse_query(" ".join(f'"{word}"' for word in wanted), FIELDS, self._boosts)
        # Equal scores come in the order of tantivy's segments: look on until the last one is worse than the k-th.
        asked = k + 1
        while True:
            found = self._searcher.search(parsed, asked, count=False).hits
            if len(found) < asked or found[-1][0] < found[k - 1][0] or asked > len(self._corpus):
                break
            asked *= 4
        places = self._searcher.fast_field_values("place", [at for _, at in found])
        placed = sorted((-score, place) for (score, _), place in zip(found, places, strict=True))
        return [Hit(self._corpus.at(place), -score) for score, place in placed[:k]]


def _index(corpus: Corpus) -> Any:
    schema = tantivy.SchemaBuilder()
    for name in FIELDS:
        schema.add_text_field(name, stored=False, tokenizer_name="words")
    schema.add_integer_field("place", stored=False, fast=True)
    made = tantivy.Index(schema.build())
    parts = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase())
    parts = parts.filter(tantivy.Filter.ascii_fold()).filter(tantivy.Filter.stemmer("english"))
    made.register_tokenizer("words", parts.build())
    writer = made.writer(WRITER, num_threads=1)
    for place, one in enumerate(corpus):
        writer.add_document(tantivy.Document(place=place, title=storable(one.title), text=storable(one.text)))
    writer.commit()
    writer.wait_merging_threads()
    made.reload()
    return made
