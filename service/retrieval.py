"""``RetrievalService``: a search engine behind Search-R1's ``/retrieve`` protocol."""

from __future__ import annotations

import json
from typing import Annotated, Any, Self

import pydantic
from fastapi import FastAPI, Request
from fastapi.responses import Response

from ..envs.search.retrieval.batched import Batched
from ..envs.search.retrieval.retriever import Hit, Retriever
from ..envs.search.retrieval.tokenize import LONGEST
from ..errors import InfrastructureError, RequestError, UsageError
from ..tasks.search.document import Document
from ..tasks.search.sources.lines import to_contents
from .incoming import GONE, ClientGone, read_json, unless_gone
from .server import LoopServer

TOPK = 3
"""Default number of pages, as in Search-R1's server."""
MOST_QUERIES, MOST_PAGES, MOST_BYTES = 1024, 100, 8 * 1024 * 1024
"""Maximum queries, pages per query, and bytes of a request."""
MOST_ANSWERED = 32 * 1024 * 1024
"""Maximum bytes of an answer."""
AT_ONCE = 256
"""Pages to fetch before checking the size of the answer."""


class SearchRequest(pydantic.BaseModel):
    """Body of ``POST /retrieve``; other fields are ignored.

    Args:
        queries: search queries.
        topk: pages per query; missing or 0 means the server's default.
        return_scores: whether to return scores with the pages.
    """

    model_config = pydantic.ConfigDict(strict=True)

    queries: Annotated[list[str], pydantic.Field(max_length=MOST_QUERIES)]
    topk: Annotated[int, pydantic.Field(ge=0, le=MOST_PAGES)] | None = None
    return_scores: bool = False


class RetrievalService:
    """HTTP server for one engine, in the event loop that opens it.

    ``POST /retrieve`` is Search-R1's. ``GET /document?id=…`` opens a page and ``GET /health`` describes the corpus;
    these two are additions. An unreadable request gets 400 or 413, an unanswerable one 422, each with the reason in
    ``detail``, and a failing engine 503. An answer that would be too large is a 413 as well: request fewer pages.

    Args:
        engine: engine that searches; it stays open.
        name: name of the corpus, for ``/health``.
        host: address to listen on; this machine only, by default.
        port: port to listen on; 0 picks a free one.
        topk: number of pages if a client does not say.
        max_body: maximum bytes of a request.
        max_answer: maximum bytes of an answer.
        concurrent: maximum number of searches at a time.
    """

    def __init__(
        self,
        engine: Retriever,
        *,
        name: str = "",
        host: str = "127.0.0.1",
        port: int = 0,
        topk: int = TOPK,
        max_body: int = MOST_BYTES,
        max_answer: int = MOST_ANSWERED,
        concurrent: int = 4,
    ) -> None:
        self._engine, self._name, self._host, self._port = engine, name, host, port
        self._topk, self._max_body, self._max_answer, self._concurrent = topk, max_body, max_answer, concurrent
        self._front: Batched | None = None
        self._server: LoopServer | None = None
        self.app = FastAPI(title="Turnwise retrieval", docs_url=None, redoc_url=None, openapi_url=None)
        self.app.add_api_route("/retrieve", self._retrieve, methods=["POST"])
        self.app.add_api_route("/document", self._document, methods=["GET"])
        self.app.add_api_route("/health", self._health, methods=["GET"])
        for kind in (RequestError, InfrastructureError, ClientGone):
            self.app.add_exception_handler(kind, _explained)

    async def start(self) -> str:
        """Start serving, and return the base URL.

        Raises:
            UsageError: the server cannot listen on the address.
        """
        self._server = await LoopServer.open(self.app, host=self._host, port=self._port)
        self._front = Batched(self._engine, concurrent=self._concurrent)
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.port}"

    async def aclose(self) -> None:
        """Stop serving."""
        server, front, self._server, self._front = self._server, self._front, None, None
        if server is not None:
            await server.close()
        if front is not None:
            await front.aclose()

    async def __aenter__(self) -> Self:
        self.address = await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def _retrieve(self, request: Request) -> Response:
        try:
            asked = SearchRequest.model_validate(await read_json(request, self._max_body))
        except pydantic.ValidationError as error:
            return _json({"detail": _complaints(error)}, 422)
        return await unless_gone(request, self._answer(asked))

    async def _answer(self, asked: SearchRequest) -> Response:
        lists, size, k = list[str](), 0, asked.topk or self._topk
        for start in range(0, len(asked.queries), max(1, AT_ONCE // k)):
            some = [query[:LONGEST] for query in asked.queries[start : start + max(1, AT_ONCE // k)]]
            for hits in await self._open().search(some, k):
                rendered = []
                for hit in hits:
                    rendered.append(json.dumps(_told(hit, asked.return_scores)))
                    size += len(rendered[-1])
                    if size > self._max_answer:
                        return _json({"detail": self._too_much(len(asked.queries), k)}, 413)
                lists.append(f"[{', '.join(rendered)}]")
        return Response(f'{{"result": [{", ".join(lists)}]}}', media_type="application/json")

    def _too_much(self, queries: int, k: int) -> str:
        return (
            f"the answer to {queries} queries with {k} pages each would have more than {self._max_answer} bytes; "
            "ask for fewer pages (topk) or fewer queries at a time"
        )

    async def _document(self, request: Request) -> Response:
        id = request.query_params.get("id")
        if id is None:
            return _json({"detail": "say which page: /document?id=…"}, 422)
        try:
            page = await self._open().get(id)
        except UsageError as error:
            return _json({"detail": str(error), "code": "opens_nothing"}, 501)
        if page is None:
            return _json({"detail": f"there is no page {id[:200]!r}", "code": "no_such_document"}, 404)
        return _json({**_page(page), "title": page.title, "text": page.text})

    async def _health(self) -> Response:
        return _json({"status": "ok", "corpus": self._name})

    def _open(self) -> Batched:
        if self._front is None:
            raise InfrastructureError("this server is closing")
        return self._front


def _told(hit: Hit, scored: bool) -> dict[str, Any]:
    page = _page(hit.document)
    return {"document": page, "score": hit.score} if scored else page


def _page(page: Document) -> dict[str, Any]:
    return {"id": page.id, "contents": to_contents(page)}


def _complaints(error: pydantic.ValidationError) -> list[dict[str, Any]]:
    """Return validation errors in FastAPI's format, which Search-R1's server uses."""
    return [{"loc": ["body", *each["loc"]], "msg": each["msg"], "type": each["type"]} for each in error.errors()]


def _json(content: Any, status: int = 200) -> Response:
    """Encode JSON in ASCII; a lone surrogate in a page could not be sent otherwise."""
    return Response(json.dumps(content), status, media_type="application/json")


async def _explained(request: Request, error: Exception) -> Response:
    if isinstance(error, ClientGone):
        return Response(status_code=GONE)
    return _json({"detail": str(error)}, error.status if isinstance(error, RequestError) else 503)
