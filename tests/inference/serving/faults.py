"""A server whose answers are wrong in a hundred ways, none of them the policy's doing."""

from __future__ import annotations

import asyncio
import copy
import gzip
import itertools
import json
import random
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from .fake_server import FakeServer, ReceivedRequest

SAMPLING = ("/inference/v1/generate", "/v1/completions")
Send = Callable[[asyncio.StreamWriter, Any], Awaitable[None]]
"""Sends something in place of a good answer."""
Draw = Callable[[ReceivedRequest], str | None]
"""The fault that a request meets."""
FAULTS: dict[str, Send] = {}
SLOW = ("hang", "silence after", "drip", "endless continue")
"""How the names of faults begin that last until the client's time is up."""
SETTINGS = ("ids one too few", "stopped by itself")
"""Faults of a server that come from a setting of its own."""


class FaultyServer(FakeServer):
    """A ``FakeServer`` some of whose answers are wrong."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.rng, self.sent = random.Random(0), Counter[str]()
        self.draw: Draw = lambda asked: None

    def fail(self, *faults: str, share: float = 1.0) -> None:
        """From now on, this share of what is sampled is answered with one fault after another."""
        turns = itertools.cycle(faults)
        self.draw = lambda asked: next(turns) if self.rng.random() < share else None

    def fail_by_session(self, *faults: str, first: bool = False) -> None:
        """From now on, each episode meets one fault in all of its requests, or in its first; the first ones first."""
        mine: dict[str, Iterator[str]] = {}
        left = iter(faults)

        def draw(asked: ReceivedRequest) -> str | None:
            session = asked.headers.get("x-session-id", "")
            if session and session not in mine and (name := next(left, None)):
                mine[session] = iter((name,) if first else itertools.repeat(name))
            return next(mine.get(session, iter(())), None)

        self.draw = draw

    async def _reply(self, writer: asyncio.StreamWriter, asked: ReceivedRequest, status: int, content: Any) -> None:
        name = self.draw(asked) if urlsplit(asked.path).path in SAMPLING and status == 200 else None
        if name is None:
            await super()._reply(writer, asked, status, content)
            return
        self.sent[name] += 1
        await FAULTS[name](writer, copy.deepcopy(content))


# -- what can be sent -----------------------------------------------------------------------------------------------


def written(body: bytes, status: str = "200 OK", length: int | None = None, **headers: str) -> bytes:
    """A whole response."""
    usual = {"content-type": "application/json", "content-length": str(len(body) if length is None else length)}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in {**usual, **headers}.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def raw(name: str, answer: Callable[[bytes], bytes], *, close: bool = False) -> None:
    """A fault that sends other bytes, made of the good answer's body."""

    async def send(writer: asyncio.StreamWriter, content: Any) -> None:
        writer.write(answer(json.dumps(content).encode()))
        await writer.drain()
        if close:
            writer.close()

    FAULTS[name] = send


def body(name: str, change: Callable[[bytes], bytes]) -> None:
    """A fault that sends another body."""
    raw(name, lambda good: written(change(good)))


def status(code: str, text: str, **headers: str) -> None:
    """A fault that is a status of HTTP."""
    raw(f"status {code.split()[0]}: {text[:24]!r}", lambda good: written(text.encode(), code, None, **headers))


def change(name: str, edit: Callable[[Any], Any]) -> None:
    """A fault in the parsed answer, which ``edit`` changes."""

    def edited(good: bytes) -> bytes:
        content = json.loads(good)
        edit(content)
        return json.dumps(content).encode()

    body(name, edited)


def whole(name: str, text: bytes) -> None:
    """A fault that sends this body, whatever the good one is."""
    body(name, lambda good: text)


def top(name: str, **fields: Any) -> None:
    """A fault in fields of the answer."""
    change(name, lambda content: content.update(fields))


def choice(name: str, **fields: Any) -> None:
    """A fault in fields of the choice."""
    change(name, lambda content: content["choices"][0].update(fields))


def logprob(name: str, value: Any) -> None:
    """A fault in the last log-probability."""
    change(f"log-probability {name}", lambda content: _entries(content)[-1].update(logprob=value))


def token(name: str, value: Any) -> None:
    """A fault in the last id, sent twice."""

    def edit(content: Any) -> None:
        content["choices"][0]["token_ids"][-1] = _entries(content)[-1]["token_id"] = value

    change(f"id {name}", edit)


def _entries(content: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = content["choices"][0]["logprobs"]["content"]
    return found


@lru_cache
def bomb(bits: int) -> bytes:
    """A few hundred kilobytes that are 300 MiB."""
    packer = zlib.compressobj(9, wbits=bits)
    return b"".join([*(packer.compress(b" " * 2**20) for _ in range(300)), packer.flush()])


def many(name: str, head: bytes, piece: bytes, pause: float | None = None) -> None:
    """A fault that sends a piece again and again, until the client closes the connection."""

    async def send(writer: asyncio.StreamWriter, content: Any) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0 if pause is None else pause)

    FAULTS[name] = send


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"

name: str
value: Any
for name, value in {
    "not a number": float("nan"),
    "infinite": float("inf"),
    "minus infinite": float("-inf"),
    "of vLLM for none": -9999.0,
    "positive": 0.5,
    "huge": 1e300,
    "absurd": -1e6,
    "null": None,
    "text": "-0.1",
    "true": True,
    "list": [-0.1],
    "object": {},
}.items():
    logprob(name, value)
body("log-probability 1e999", lambda good: good.replace(b'"logprob": -', b'"logprob": -1e999, "x": -'))
body(
    "log-probability of 5,000 digits",
    lambda good: good.replace(b'"logprob": -', b'"logprob": -' + b"9" * 5000 + b'.0, "x": -'),
)
change("log-probability missing", lambda content: _entries(content)[-1].pop("logprob"))
change("one log-probability too few", lambda content: _entries(content).pop())
change("one log-probability too many", lambda content: _entries(content).append(_entries(content)[0]))
change(
    "log-probabilities of other ids",
    lambda content: _entries(content)[0].update(token_id=_entries(content)[0]["token_id"] ^ 1),
)
choice("log-probabilities null", logprobs=None)
choice("log-probabilities a list", logprobs=[1, 2])
choice("log-probabilities text", logprobs="none")

for name, value in {
    "negative": -1,
    "beyond the vocabulary": 100_000,
    "of 41 bits": 2**40,
    "of 4,000 digits": 10**3999,
    "a float": 5.0,
    "text": "5",
    "true": True,
    "null": None,
    "a list": [5],
}.items():
    token(name, value)
choice("ids null", token_ids=None)
choice("ids text", token_ids="1 2 3")
choice("ids an object", token_ids={"0": 1})
change("ids missing", lambda content: content["choices"][0].pop("token_ids"))
choice("no ids, stopped", token_ids=[], logprobs={"content": []}, finish_reason="stop")
choice("no ids, full length", token_ids=[], logprobs={"content": []}, finish_reason="length")
choice("no ids, aborted", token_ids=[], logprobs={"content": []}, finish_reason="abort")
change(
    "ids one too few",
    lambda c: c["choices"][0].update(
        token_ids=c["choices"][0]["token_ids"][1:], logprobs={"content": _entries(c)[1:]}, finish_reason="length"
    ),
)
change(
    "ids twice",
    lambda c: c["choices"][0].update(token_ids=c["choices"][0]["token_ids"] * 2, logprobs={"content": _entries(c) * 2}),
)
choice("stopped by itself", token_ids=[7], logprobs={"content": [{"token_id": 7, "logprob": -1}]}, finish_reason="stop")

for name, value in {
    "null": None,
    "other": [1, 2, 3],
    "text": "abc",
    "strings": ["1"],
    "empty": [],
    "object": {},
}.items():
    top(f"prompt {name}", prompt_token_ids=value)
change("prompt cut", lambda content: content.update(prompt_token_ids=content["prompt_token_ids"][1:]))
change("prompt of a million ids", lambda content: content.update(prompt_token_ids=[0] * 1_000_000))

for name, value in {
    "empty": [],
    "null": None,
    "object": {},
    "of null": [None],
    "of text": ["yes"],
    "number": 3,
}.items():
    top(f"choices {name}", choices=value)
change("choices missing", lambda content: content.pop("choices"))
change("two choices", lambda content: content.update(choices=content["choices"] * 2))

for value in ("content_filter", None, 3, ["stop"], {}):
    choice(f"finish {value!r}", finish_reason=value)
SPAN = {"version": "run:0", "start": 0, "end": 1}
for name, value in {
    "that cover too little": [{**SPAN, "end": 0}],
    "that run backwards": [{**SPAN, "end": 5}, {**SPAN, "start": 5, "end": 1}],
    "of 30 digits": [{**SPAN, "version": "run:" + "9" * 30}],
    "of text": ["run:0"],
    "without a start": [{"version": "run:0"}],
    "a number": 7,
}.items():
    choice(f"weight versions {name}", weight_versions=value)

for name, text in {
    "null": b"null",
    "list": b"[]",
    "number": b"12",
    "text": b'"fine"',
    "empty": b"",
    "page": b"<html>Please log in</html>",
    "not UTF-8": b'{"choices": "\xff\xfe"}',
    "NaN": b"NaN",
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"choices":' * 20_000 + b"1" + b"}" * 20_000,
    "huge number": b"9" * 100_000,
    "error in 200": b'{"error": {"message": "upstream failed", "code": 502}}',
    "control characters": b'{"error": {"message": "\\u001b[2J\\u0007 boo \\ud800"}}',
    "a hundred thousand commas": b"[" + b"0," * 100_000 + b"0]",
    "longer than it may be": b" " * (8 * 2**20) + b"{}",
}.items():
    whole(f"body {name}", text)
body("body twice", lambda good: good * 2)
body("body cut", lambda good: good[: len(good) // 2])

for code in ("500 X", "502 X", "503 X", "429 X", "404 X", "401 X", "403 X", "413 X", "418 X", "422 X", "409 X"):
    status(code, '{"error": {"message": "try later"}}')
status("400 X", '{"error": {"message": "The prompt is longer than the maximum model length of 16."}}')
status("400 X", "This model's maximum context length is 16 tokens")
status("500 X", "x" * 1_000_000)
status("301 X", "", location="http://login.example/")
status("307 X", "", location="/inference/v1/generate")
raw("status 204", lambda good: b"HTTP/1.1 204 No Content\r\n\r\n")
raw("status line of garbage", lambda good: b"hello there\r\n\r\n", close=True)
raw("status of six digits", lambda good: b"HTTP/1.1 200000 OK\r\n\r\n" + good, close=True)
raw("no answer", lambda good: b"", close=True)
raw("connection cut", lambda good: written(good)[:-9], close=True)
raw("length negative", lambda good: written(good, length=-5), close=True)
raw("length of a terabyte", lambda good: written(good, length=10**12), close=True)
raw(
    "lengths that differ",
    lambda good: written(good).replace(b"content-length", b"content-length: 3\r\ncontent-length"),
    close=True,
)
raw("chunks of garbage", lambda good: CHUNKED + b"zz\r\n" + good, close=True)
raw("gzip that is none", lambda good: written(good, content_encoding="gzip"))
raw("gzip cut", lambda good: written(gzip.compress(good)[:-12], content_encoding="gzip"))
raw("gzip bomb", lambda good: written(bomb(31), content_encoding="gzip"))
raw("deflate bomb", lambda good: written(bomb(15), content_encoding="deflate"))
raw("unknown encoding", lambda good: written(good, content_encoding="br, gzip"))

many("hang", b"", b"", 0.05)
many("silence after the headers", HEAD + b"content-length: 9\r\n\r\n", b"", 0.05)
many("drip of the body", CHUNKED, b"1\r\n \r\n", 0.05)
many("drip of the headers", HEAD, b"x: y\r\n", 0.05)
many("endless continue", b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.001)
many("endless body", CHUNKED, b"10000\r\n" + b" " * 65536 + b"\r\n")
many("endless headers", HEAD, b"x: " + b"y" * 65536 + b"\r\n")
