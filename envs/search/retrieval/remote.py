"""``Remote``: a search engine on another machine that speaks Search-R1's ``/retrieve``."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any, Self

import httpx

from ....errors import InfrastructureError, UsageError
from ....tasks.search.document import Document
from ....tasks.search.sources.lines import from_contents
from ....tasks.search.stored import storable
from .deadline import Deadline
from .retriever import Hit
from .tokenize import LONGEST

BATCH = 64
"""Most queries of one request."""
MOST = 100
"""The largest number of pages to request; some servers refuse more."""
REMEMBERED = 32_000_000
"""Characters of pages to cache, so that they can be opened if the server only searches."""
ANSWER = 64 * 1024 * 1024
"""Most bytes of a response."""
AGAIN = frozenset({429, 500, 502, 503, 504})
"""Status codes after which a retry may help; a search changes nothing, so it can be repeated."""
SEARCHES_ONLY = frozenset({404, 405})
"""Status codes of a server that cannot open pages."""
WAIT = 0.1
"""Seconds before the first retry, doubled each time."""


class Remote:
    """A client of ``POST /retrieve``.

    Their servers cannot open pages: those that were found can be opened all the same, from memory, and any other is a
    ``UsageError``. Our own (``turnwise retrieve``) opens them all. Blank queries are not sent.

    Args:
        url: of the server, with or without ``/retrieve``.
        timeout: seconds for one request, from the first byte to the last.
        retries: how often a request that failed is made again.
        batch: queries in one request.
    """

    def __init__(self, url: str, *, timeout: float = 30.0, retries: int = 3, batch: int = BATCH) -> None:
        self.url = url.rstrip("/").removesuffix("/retrieve")
        if not self.url.startswith(("http://", "https://")):
            raise UsageError(f"a retriever's URL must start with http:// or https://; got {url!r}")
        self._retries, self._batch, self._timeout = retries, batch, timeout
        self._deadline = Deadline()
        # Without the surroundings' proxy.
        self._client = httpx.Client(timeout=timeout, transport=self._deadline, trust_env=False)
        self._seen, self._held = OrderedDict[str, Document](), 0
        self._lock = Lock()
        self._opens: bool | None = None  # not known before the first request for a page

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best ``k`` pages for each query, in the server's order; see ``Retriever.search``."""
        asked = [place for place, query in enumerate(queries) if query.strip() and k > 0]
        found: list[list[Hit]] = [[] for _ in queries]
        for start in range(0, len(asked), self._batch):
            some = asked[start : start + self._batch]
            texts = [storable(queries[place][:LONGEST]) for place in some]
            for place, hits in zip(some, self._retrieve(texts, min(k, MOST)), strict=True):
                found[place] = hits
        return found

    def get(self, id: str) -> Document | None:
        """Return the page with an id, or ``None``.

        Raises:
            InfrastructureError: the server does not answer, or its answer is not a page.
            UsageError: the server only searches, and no search has found this page.
        """
        with self._lock:
            if id in self._seen:
                return self._seen[id]
        if self._opens is not False:
            if len(id) > LONGEST:
                return None
            status, said = self._ask("GET", "/document", params={"id": storable(id)})
            fields = said if isinstance(said, dict) else {}
            if status == 200 and all(isinstance(fields.get(name), str) for name in FIELDS):
                self._opens = True
                return Document(fields["id"], fields["title"], fields["text"])
            if status == 404 and fields.get("code") == "no_such_document":
                self._opens = True
                return None
            # From one that has opened pages, the 404 of whatever stands between us says nothing about a page.
            if fields.get("code") != "opens_nothing" and (self._opens or status not in SEARCHES_ONLY):
                raise InfrastructureError(f"{self.url}/document answered {status} without a page: {_short(said)}")
            self._opens = False
        raise UsageError(f"{self.url} only searches, and {id[:80]!r} was not among its results, so it cannot be opened")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # nothing that an episode does changes what is found

    def _retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        body = {"queries": list(queries), "topk": k, "return_scores": True}
        status, said = self._ask("POST", "/retrieve", content=json.dumps(body).encode("ascii"))
        if status == 413 and len(queries) > 1:  # the pages of so many are too much for one answer
            half = len(queries) // 2
            return [*self._retrieve(queries[:half], k), *self._retrieve(queries[half:], k)]
        if status != 200:
            raise InfrastructureError(f"{self.url}/retrieve answered {status}: {_short(said)}")
        lists = said.get("result") if isinstance(said, dict) else None
        if not isinstance(lists, list) or len(lists) != len(queries) or not all(isinstance(one, list) for one in lists):
            raise InfrastructureError(f"{self.url}/retrieve returned no list of pages for each query: {_short(said)}")
        found = [[self._hit(one, place) for place, one in enumerate(some[:k])] for some in lists]
        with self._lock:
            for hit in (hit for hits in found for hit in hits):
                self._remember(hit.document)
        return found

    def _remember(self, page: Document) -> None:
        """Cache of the pages found last. It keeps the newest whatever its length, since the agent may open it next."""
        if (before := self._seen.pop(page.id, None)) is not None:
            self._held -= before.characters
        self._seen[page.id] = page
        self._held += page.characters
        while self._held > REMEMBERED and len(self._seen) > 1:
            _, gone = self._seen.popitem(last=False)
            self._held -= gone.characters

    def _hit(self, said: Any, place: int) -> Hit:
        """Parse a hit: ``{"document": …, "score": …}``, or the page alone."""
        page = said.get("document", said) if isinstance(said, dict) else None
        if not isinstance(page, dict) or not isinstance(page.get("contents"), str):
            raise InfrastructureError(f"{self.url}/retrieve returned a page without 'contents': {_short(said)}")
        title, text = from_contents(page["contents"])
        id = page.get("id")
        if isinstance(id, bool) or not isinstance(id, str | int):  # their BM25 server does not tell ids
            id = f"{title}#{hashlib.sha256(page['contents'].encode('utf-8', 'replace')).hexdigest()[:8]}"
        return Hit(Document(str(id), title, text), _score(said.get("score"), place))

    def _ask(self, method: str, path: str, **words: Any) -> tuple[int, Any]:
        """Return the status and the JSON of a response, after retries if they may help."""
        problem = ""
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(WAIT * 2 ** (attempt - 1))
            try:
                status, said = self._once(method, path, **words)
            except httpx.HTTPError as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if status not in AGAIN:
                return status, said
            problem = f"answered {status}: {_short(said)}"
        raise InfrastructureError(f"{self.url}{path} failed {self._retries + 1} times: {problem}")

    def _once(self, method: str, path: str, **words: Any) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json"} if method == "POST" else {}
        if self._client.is_closed:
            raise InfrastructureError(f"the connection to {self.url} was closed; create another one to search")
        sent = self._client.stream(method, f"{self.url}{path}", headers=headers, **words)
        with self._deadline.within(self._timeout), sent as answer:
            body = bytearray()
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > ANSWER:
                    raise InfrastructureError(f"the answer of {self.url}{path} is longer than {ANSWER} bytes")
            try:
                return answer.status_code, json.loads(bytes(body))
            except (ValueError, RecursionError):
                return answer.status_code if answer.status_code != 200 else 0, bytes(body[:200]).decode(
                    "utf-8", "replace"
                )


FIELDS = ("id", "title", "text")


def _score(said: Any, place: int) -> float:
    """Return a score as the server gave it, or its negative rank if it is not a finite number."""
    try:
        known = isinstance(said, int | float) and not isinstance(said, bool) and math.isfinite(said)
    except OverflowError:
        known = False
    return float(said) if known else -float(place)


def _short(said: Any) -> str:
    return (said if isinstance(said, str) else json.dumps(said))[:200]
