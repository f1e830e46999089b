"""``Dense``: semantic search by a model's vectors; an extra: ``pip install 'turnwise[search-dense]'``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from threading import Lock
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ....errors import ContractError, InfrastructureError, UsageError
from ....tasks.search.document import Corpus, Document
from ....tasks.search.stored import storable
from .retriever import Hit
from .tokenize import LONGEST

try:
    import faiss
except ImportError as error:
    raise UsageError(f"faiss is not installed: pip install 'turnwise[search-dense]' ({error})") from error

Vectors = npt.NDArray[np.float32]
Encode = Callable[[Sequence[str]], Any]
"""Function from texts to an array with one row per text, such as a model's ``encode``."""

AT_ONCE = 256
"""Pages to encode in one batch."""


class Dense:
    """The pages whose vectors have the largest inner product with the query's; exact, by faiss.

    Vectors are made as long as 1, so that the product is the cosine. With a model of sentence-transformers::

        model = SentenceTransformer("intfloat/e5-base-v2")
        found = Dense(corpus, model.encode, query="query: ", page="passage: ")

    Args:
        corpus: the pages.
        encode: texts to vectors; called with some hundred pages at a time, and by one thread at a time.
        query: the text that the model expects before a query.
        page: the text that it expects before a page.

    Raises:
        ContractError: ``encode`` does not give a finite vector for each text.
    """

    def __init__(self, corpus: Corpus, encode: Encode, *, query: str = "", page: str = "") -> None:
        self._corpus, self._encode, self._query = corpus, encode, query
        self._lock = Lock()
        self._index: Any = None
        self._closed = False
        for some in _batches(corpus):
            found = self._vectors([f"{page}{storable(one.title)}\n{storable(one.text)}".strip() for one in some])
            if self._index is None:
                self._index = faiss.IndexFlatIP(found.shape[1])
            elif self._index.d != found.shape[1]:
                raise ContractError(f"encode returned vectors of {self._index.d} numbers, and then of {found.shape[1]}")
            self._index.add(found)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best ``k`` pages for each query, best first; none for a blank query. See ``Retriever.search``."""
        if self._closed:
            raise InfrastructureError(f"the index of {self._corpus.name!r} was closed; create another one to search")
        asked = [place for place, query in enumerate(queries) if query.strip()]
        found: list[list[Hit]] = [[] for _ in queries]
        most = min(k, len(self._corpus))
        if self._index is None or most < 1 or not asked:
            return found
        with self._lock:
            vectors = self._vectors([self._query + storable(queries[place][:LONGEST]) for place in asked])
        for place, vector in zip(asked, vectors, strict=True):
            found[place] = self._best(vector[None], most)  # alone: faiss adds in another order for many
        return found

    def get(self, id: str) -> Document | None:
        """Return the page with an id, or ``None``."""
        return self._corpus.get(id)

    def close(self) -> None:
        """Release the index."""
        self._closed, self._index = True, None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # an index never changes: copies of an environment share it

    def _best(self, vector: Vectors, k: int) -> list[Hit]:
        # Equal products come in faiss' order: look on until the last one is worse than the k-th.
        asked = k + 1
        while True:
            scores, places = self._index.search(vector, min(asked, len(self._corpus)))
            if asked >= len(self._corpus) or scores[0, -1] < scores[0, k - 1]:
                break
            asked *= 4
        best = sorted(zip((-scores[0]).tolist(), places[0].tolist(), strict=True))[:k]
        return [Hit(self._corpus.at(place), -score) for score, place in best]

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        made = np.array(self._encode(list(texts)), dtype=np.float32)
        if made.ndim != 2 or len(made) != len(texts) or not np.isfinite(made).all():
            raise ContractError(f"encode must return a finite vector for each of {len(texts)} texts; got {made.shape}")
        lengths = np.linalg.norm(made, axis=1, keepdims=True)
        unit: Vectors = np.divide(made, lengths, out=np.zeros_like(made), where=lengths > 0)
        return unit


def _batches(corpus: Iterable[Document]) -> Iterator[list[Document]]:
    rest = iter(corpus)
    while some := list(islice(rest, AT_ONCE)):
        yield some
