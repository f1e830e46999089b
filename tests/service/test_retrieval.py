"""Search-R1's protocol, both ways: its clients get right answers here, and our client from servers like its own."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from turnwise.envs.search.retrieval.engines import retriever_for
from turnwise.envs.search.retrieval.fts5 import Fts5
from turnwise.envs.search.retrieval.remote import Remote
from turnwise.envs.search.retrieval.retriever import Hit, Retriever
from turnwise.envs.search.retrieval.retriever_checks import PAGES, RetrieverContract
from turnwise.envs.search.retrieval.tokenize import LONGEST
from turnwise.errors import InfrastructureError, UsageError
from turnwise.service.retrieval import MOST_PAGES, MOST_QUERIES, RetrievalService
from turnwise.tasks.search.document import Corpus, Document

ENGINE = Fts5(Corpus("service", PAGES))


@contextmanager
def serving(engine: Retriever, **words: Any) -> Iterator[str]:
    """A service in a loop of its own; its address."""
    loop, ready, stop, address = asyncio.new_event_loop(), threading.Event(), asyncio.Event(), ""

    async def serve() -> None:
        nonlocal address
        async with RetrievalService(engine, name="service", **words) as service:
            address = service.address
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(60)
    try:
        yield address
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(ENGINE, max_body=200_000) as url:
        yield url


def post(url: str, body: Any) -> httpx.Response:
    with httpx.Client(verify=False, trust_env=False) as client:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return client.post(f"{url}/retrieve", content=content)


def as_search_r1_reads(answer: Any) -> list[str]:
    """How Search-R1's agents read an answer: title and text of each page, from ``contents``."""
    shown = []
    for found in answer["result"]:
        text = ""
        for place, one in enumerate(found):
            title, *rest = one["document"]["contents"].split("\n")
            text += f"Doc {place + 1}(Title: {title}) " + "\n".join(rest) + "\n"
        shown.append(text)
    return shown


def test_a_client_of_search_r1_gets_right_answers(address: str) -> None:
    queries = ["Veshaven lighthouse", "who is the engineer that drew bridges?", "nothing like it xylophone"]
    answer = post(address, {"queries": queries, "topk": 3, "return_scores": True})
    assert answer.status_code == 200
    first, second, none = as_search_r1_reads(answer.json())
    assert first.startswith('Doc 1(Title: "Veshaven lighthouse") A tower on the rocks north of Veshaven')
    assert second.startswith('Doc 1(Title: "Oda Brandt") Brandt, an engineer from Tellmar')
    assert none == ""
    found = answer.json()["result"]
    assert all(len(hits) <= 3 for hits in found)
    assert [hit["document"]["id"] for hit in found[0]] == [hit.document.id for hit in ENGINE.search(queries[:1], 3)[0]]
    assert all(isinstance(hit["score"], float) for hits in found for hit in hits)


def test_without_scores_the_pages_stand_alone(address: str) -> None:
    for more in ({}, {"return_scores": False}, {"topk": None}, {"topk": 0}, {"something": "else"}):
        found = post(address, {"queries": ["quartz twin"], **more}).json()["result"]
        assert [page["id"] for page in found[0]] == ["twin 0", "twin 1", "twin 2"], "three, where nothing is said"
    assert post(address, {"queries": []}).json() == {"result": []}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 422, "queries"),
        ({"queries": "one"}, 422, "queries"),
        ({"queries": [3]}, 422, "queries"),
        ({"queries": ["a"] * (MOST_QUERIES + 1)}, 422, str(MOST_QUERIES)),
        ({"queries": ["a"], "topk": -1}, 422, "topk"),
        ({"queries": ["a"], "topk": MOST_PAGES + 1}, 422, str(MOST_PAGES)),
        ({"queries": ["a"], "topk": True}, 422, "topk"),
        ({"queries": ["a"], "topk": "3"}, 422, "topk"),
        ({"queries": ["a"], "return_scores": "yes"}, 422, "return_scores"),
        ([], 422, "body"),
        (b"{", 400, "not JSON"),
        (b"[" * 100_000, 400, "deeply"),
        ({"queries": ["a" * 300_000]}, 413, "200000 bytes"),
    ],
    ids=range(13),
)
def test_what_cannot_be_asked_is_refused_in_words(address: str, body: Any, status: int, message: str) -> None:
    answer = post(address, body)
    assert answer.status_code == status
    assert message in json.dumps(answer.json()["detail"])


def test_pages_are_opened_and_health_is_told(address: str) -> None:
    with httpx.Client(base_url=address, verify=False, trust_env=False) as client:
        page = client.get("/document", params={"id": "twin 3"}).json()
        assert (page["id"], page["title"]) == ("twin 3", "Twin page")
        assert client.get("/document", params={"id": "nobody"}).json()["code"] == "no_such_document"
        assert client.get("/document").status_code == 422
        assert client.get("/health").json() == {"status": "ok", "corpus": "service"}
        assert client.get("/elsewhere").status_code == 404


class Broken:
    """An engine that is down."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        raise InfrastructureError("the disk is lost")

    def get(self, id: str) -> Document | None:
        raise UsageError("this engine opens nothing")

    def close(self) -> None:
        pass


def test_an_engine_that_fails_is_503() -> None:
    with serving(Broken()) as url:
        answer = post(url, {"queries": ["x"]})
        assert (answer.status_code, answer.json()) == (503, {"detail": "the disk is lost"})
        remote = Remote(url, retries=0)
        with pytest.raises(InfrastructureError, match="failed 1 times: answered 503"):
            remote.search(["x"], 1)
        remote.close()


class TestRemote(RetrieverContract):
    """Our client and our server together are an engine like any other."""

    @pytest.fixture(autouse=True)
    def _services(self) -> Iterator[None]:
        self._open: list[Any] = []
        yield
        for one, remote in self._open:
            remote.close()
            one.__exit__(None, None, None)

    def engine(self, corpus: Corpus) -> Retriever:
        one = serving(Fts5(corpus))
        remote = Remote(one.__enter__())
        self._open.append((one, remote))
        return remote


class Theirs:
    """A small server that answers exactly as Search-R1's does, and can be made to fail."""

    def __init__(self, ids: bool = True) -> None:
        self.ids, self.asked, self.answers = ids, [], list[Callable[[BaseHTTPRequestHandler], None]]()
        theirs = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *words: object) -> None:
                pass

            def do_GET(self) -> None:
                if theirs.answers:
                    theirs.answers.pop(0)(self)
                else:
                    say(self, 404, {"detail": "Not Found"})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                theirs.asked.append(body)
                if theirs.answers:
                    theirs.answers.pop(0)(self)
                else:
                    say(self, 200, theirs.answer(body))

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/retrieve"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}).start()

    asked: list[dict[str, Any]]

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        found = []
        for query in body["queries"]:
            hits: list[dict[str, Any]] = []
            for page in PAGES[: body["topk"] or 3]:
                contents = f'"{page.title}"\n{page.text}'
                document = {"id": page.id, "contents": contents} if self.ids else {"contents": contents}
                if not self.ids:
                    document |= {"title": page.title, "text": page.text}
                hits.append({"document": document, "score": 9.0 - len(hits)} if body["return_scores"] else document)
            found.append(hits if query != "nothing" else [])
        return {"result": found}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def say(handler: BaseHTTPRequestHandler, status: int, body: Any) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


@pytest.fixture
def theirs() -> Iterator[Theirs]:
    server = Theirs()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.envs.search.retrieval.remote.WAIT", 0.001)


def test_our_client_reads_a_server_like_theirs(theirs: Theirs) -> None:
    remote = Remote(theirs.url)
    found = remote.search(["a", "nothing", "b"], 2)
    assert [[hit.document for hit in hits] for hits in found] == [list(PAGES[:2]), [], list(PAGES[:2])]
    assert [hit.score for hit in found[0]] == [9.0, 8.0]
    assert theirs.asked == [{"queries": ["a", "nothing", "b"], "topk": 2, "return_scores": True}]
    assert remote.get(PAGES[0].id) == PAGES[0], "what was found can be opened, although they cannot open pages"
    with pytest.raises(UsageError, match="only searches"):
        remote.get("never seen")
    remote.close()
    with pytest.raises(InfrastructureError, match="was closed"):
        remote.search(["a"], 1)


def test_pages_without_ids_get_ids_that_stay() -> None:
    server = Theirs(ids=False)
    try:
        remote, again = Remote(server.url), Remote(server.url)
        ids = [hit.document.id for hit in remote.search(["a"], 20)[0]]
        assert ids == [hit.document.id for hit in again.search(["a"], 20)[0]]
        assert ids[1].startswith("Oda Brandt#")
        assert len(set(ids)) == len({(page.title, page.text) for page in PAGES})
        remote.close()
        again.close()
    finally:
        server.close()


def test_many_queries_are_several_requests(theirs: Theirs) -> None:
    remote = Remote(theirs.url, batch=10)
    assert len(remote.search([f"q{n}" for n in range(25)] + ["", " \n"], 1)) == 27
    assert [len(body["queries"]) for body in theirs.asked] == [10, 10, 5], "blank queries are not sent"
    assert remote.search(["a"], 10**9)[0]
    assert theirs.asked[-1]["topk"] == 100
    remote.close()


def test_what_may_help_is_tried_again(theirs: Theirs) -> None:
    theirs.answers = [lambda handler: say(handler, 503, {"detail": "busy"}), lambda handler: handler.connection.close()]
    remote = Remote(theirs.url)
    assert remote.search(["a"], 1)[0][0].document == PAGES[0]
    assert len(theirs.asked) == 3
    remote.close()


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (404, {"detail": "Not Found"}, "answered 404"),
        (422, {"detail": [{"msg": "no"}]}, "answered 422"),
        (200, b"<html>", "answered 0: <html>"),
        (200, {}, "no list of pages"),
        (200, {"result": []}, "no list of pages"),
        (200, {"result": [3]}, "no list of pages"),
        (200, {"result": [[3]]}, "without 'contents'"),
        (200, {"result": [[{"document": {"id": "x"}}]]}, "without 'contents'"),
        (200, {"result": [[{"document": None, "score": 1}]]}, "without 'contents'"),
    ],
    ids=range(9),
)
def test_an_answer_that_is_none_is_the_machinerys_fault(theirs: Theirs, status: int, body: Any, message: str) -> None:
    theirs.answers = [lambda handler: say(handler, status, body)]
    remote = Remote(theirs.url)
    with pytest.raises(InfrastructureError, match=message):
        remote.search(["a"], 1)
    assert len(theirs.asked) == 1, "asking again would not help"
    remote.close()


def test_odd_scores_are_replaced_by_places(theirs: Theirs) -> None:
    odd = [
        {"document": {"id": n, "contents": '"T"\nx'}, "score": score}
        for n, score in enumerate(["9", None, True, 10**400])
    ]
    theirs.answers = [lambda handler: say(handler, 200, {"result": [[*odd, {"id": 4, "contents": "T"}]]})]
    remote = Remote(theirs.url)
    assert [(hit.document.id, hit.score) for hit in remote.search(["a"], 9)[0]] == [
        ("0", 0.0), ("1", -1.0), ("2", -2.0), ("3", -3.0), ("4", -4.0)
    ]  # fmt: skip
    remote.close()


def test_nobody_there_is_the_machinerys_fault() -> None:
    remote = Remote("http://127.0.0.1:9", retries=1)
    with pytest.raises(InfrastructureError, match="failed 2 times: ConnectError"):
        remote.search(["a"], 1)
    remote.close()
    with pytest.raises(UsageError, match="must start with http"):
        Remote("localhost:8000")


def test_an_address_is_an_engine() -> None:
    one = retriever_for(Corpus("x", PAGES), "http://127.0.0.1:9")
    assert isinstance(one, Remote)
    assert retriever_for(Corpus("y", PAGES), "http://127.0.0.1:9") is one


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"<html>"), (200, {"status": "ok"}), (403, {"detail": "no"}), (418, b"tea"), (302, b"")],
    ids=range(5),
)
def test_one_odd_answer_about_a_page_is_the_machinerys_fault_and_not_for_ever(
    theirs: Theirs, status: int, body: Any
) -> None:
    remote = Remote(theirs.url, retries=0)
    page = {"id": "x", "title": "T", "text": "y"}
    theirs.answers = [
        lambda handler: say(handler, status, body),
        lambda handler: say(handler, 404, {"detail": "gone", "code": "no_such_document"}),
        lambda handler: say(handler, 200, page),
    ]
    with pytest.raises(InfrastructureError, match="without a page"):
        remote.get("x")
    assert remote.get("x") is None
    assert remote.get("x") == Document("x", "T", "y"), "it is asked again"
    with pytest.raises(InfrastructureError, match="answered 404 without a page"):
        remote.get("x")  # it is known to open pages: this 404 is of something between us
    theirs.answers = [lambda handler: say(handler, 200, page)]
    assert remote.get("x") == Document("x", "T", "y")
    remote.close()


def test_a_server_that_opened_no_page_yet_and_knows_no_such_address_only_searches(theirs: Theirs) -> None:
    remote = Remote(theirs.url, retries=0)
    for _ in range(2):  # the first gets a 404, the second is never sent
        with pytest.raises(UsageError, match="only searches"):
            remote.get("x")
        theirs.answers = [lambda handler: say(handler, 200, {"id": "x", "title": "T", "text": "y"})]
    remote.close()


def test_our_server_may_only_search_too() -> None:
    with serving(Broken()) as url:
        remote = Remote(url)
        with pytest.raises(UsageError, match="only searches"):
            remote.get("x")
        remote.close()


def dripping(head: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer that comes letter by letter, and would take ten seconds."""

    def drip(handler: BaseHTTPRequestHandler) -> None:
        try:
            handler.wfile.write(head)
            for _ in range(100):
                handler.wfile.write(b"a")
                handler.wfile.flush()
                time.sleep(0.1)
        except OSError:
            pass  # the caller has gone

    return drip


@pytest.mark.parametrize(
    "head",
    [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"],
    ids=["status", "headers", "body"],
)
def test_a_request_has_a_deadline_however_slowly_its_answer_drips(theirs: Theirs, head: bytes) -> None:
    theirs.answers = [dripping(head)]
    remote = Remote(theirs.url, timeout=0.5, retries=0)
    began = time.monotonic()
    with pytest.raises(InfrastructureError, match="ReadTimeout"):
        remote.search(["a"], 1)
    assert time.monotonic() - began < 3
    assert remote.search(["a"], 1)[0], "the next request has a deadline of its own"
    remote.close()


LARGE = [Document(str(n), "Large", "word " * 20_000) for n in range(8)]


def test_an_answer_that_is_too_large_is_refused_in_words_and_asked_for_in_parts() -> None:
    with serving(Fts5(Corpus("large", LARGE)), max_answer=1_000_000) as url:
        answer = post(url, {"queries": ["word"] * 4, "topk": 8})
        assert answer.status_code == 413
        assert "4 queries with 8 pages each would have more than 1000000 bytes" in answer.json()["detail"]
        remote = Remote(url)
        found = remote.search(["word", "large", "words"], 8)
        assert [len(hits) for hits in found] == [8, 8, 8], "our client asks for fewer at a time"
        remote.close()
    with serving(Fts5(Corpus("large", LARGE)), max_answer=100_000) as url:
        remote = Remote(url)
        with pytest.raises(InfrastructureError, match=r"answered 413: .*ask for fewer pages"):
            remote.search(["word"], 8)
        remote.close()


def test_many_queries_are_answered_in_their_order(address: str) -> None:
    queries = [f"{page.title} {page.text}" for page in PAGES] * 10
    found = post(address, {"queries": queries, "topk": 9, "return_scores": True}).json()["result"]
    wanted = ENGINE.search(queries, 9)
    assert [[one["document"]["id"] for one in hits] for hits in found] == [
        [h.document.id for h in one] for one in wanted
    ]


class Gated(Fts5):
    """An engine that lets one search at a time through, on request."""

    def __init__(self, corpus: Corpus) -> None:
        super().__init__(corpus)
        self.asked, self.gate = list[str](), threading.Semaphore(0)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.asked.extend(queries)
        self.gate.acquire()
        return super().search(queries, k)


def test_nothing_is_searched_for_a_client_that_has_gone() -> None:
    engine = Gated(Corpus("gated", PAGES))
    with serving(engine, concurrent=1) as url:
        with httpx.Client(trust_env=False, timeout=0.3) as client, pytest.raises(httpx.ReadTimeout):
            client.post(f"{url}/retrieve", json={"queries": [f"gone {n}" for n in range(1000)], "topk": 100})
        engine.gate.release(1000)
        post(url, {"queries": ["tower"]})
    assert engine.asked[-1] == "tower"
    assert len(engine.asked) < 10, "what was begun is ended, and no more is begun"


def test_a_query_is_not_kept_longer_than_it_is_read() -> None:
    engine = Gated(Corpus("gated", PAGES))
    engine.gate.release(10)
    with serving(engine) as url:
        assert post(url, {"queries": ["tower " * 100_000]}).status_code == 200
    assert [len(query) for query in engine.asked] == [LONGEST]
