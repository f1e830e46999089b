"""A chat API without a model: three dialects, rate limits, bills, and every fault that real ones show."""

from __future__ import annotations

import asyncio
import json
import random
import selectors
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import httpx

from turnwise.agents.chat_apis.agent import ApiAgent
from turnwise.agents.chat_apis.named import api_agent
from turnwise.agents.chat_apis.settings import ApiSettings

KEY = "sk-test-1234567890"
URLS = {
    "openai": "https://api.test/v1",
    "anthropic": "https://api.test",
    "responses": "https://api.test/v1",
}
SHOPS = ("Adler", "Blum", "Cole")
STATUSES = {"429": 429, "429 after": 429, "500": 500, "503": 503, "529": 529}
FAULTS = (*STATUSES, "cut JSON", "no choices", "reset", "endless", "stall", "deep", "error in 200")
"""Faults of one request, none of them the model's doing."""


class _Jumping(selectors.DefaultSelector):
    """A selector that never sleeps: where nothing is ready, the clock jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """Run everything that is ready now; waits only for threads, which have no timer."""
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which an hour passes at once. It serves coroutines of this process only."""

    def __init__(self) -> None:
        self._clock = _Jumping()
        super().__init__(self._clock)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._clock.now


def run(coroutine: Any) -> Any:
    """``asyncio.run`` on a virtual clock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


class _Body(httpx.AsyncByteStream):
    """A body that comes in pieces and may break off, stall or never end."""

    def __init__(self, content: bytes, manner: str) -> None:
        self._content, self._manner = content, manner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._manner == "endless":
            while True:
                yield b" " * 65536
        yield self._content[: len(self._content) // 2]
        if self._manner == "reset":
            raise httpx.ReadError("connection reset by peer")
        if self._manner == "stall":
            await asyncio.sleep(1e6)
        yield self._content[len(self._content) // 2 :]


Brain = Callable[[list[tuple[str, str]], bool], tuple[str, dict[str, Any] | None]]
"""Says text, or calls a tool with arguments, after a conversation of roles and texts."""


def shopper(conversation: list[tuple[str, str]], tools: bool) -> tuple[str, dict[str, Any] | None]:
    """Play ``demo/Bookshops-v0``: ask each shop, then buy at the lowest price."""
    prices = [int(text) for role, text in conversation if role == "tool" and text.isdigit()]
    if len(prices) < len(SHOPS):
        return "price", {"shop": SHOPS[len(prices)]}
    return "buy", {"price": min(prices)}


def guesser(conversation: list[tuple[str, str]], tools: bool) -> tuple[str, dict[str, Any] | None]:
    """Play ``demo/GuessNumber-v0`` by halving."""
    left, guess = list(range(1, 17)), None
    for role, text in conversation:
        if role == "assistant":
            guess = int(text)
        elif guess is not None:
            left = [n for n in left if (n > guess) == text.startswith("Too low") and n != guess]
    return str(left[len(left) // 2]), None


@dataclass
class FakeApi:
    """The server.

    Args:
        brain: decides what to say.
        faults: how likely each fault is, per request.
        seed: seed of the faults.
        per_minute: requests that are let through in a minute; the rest gets 429.
        price: dollars per million tokens in and out: what is billed.
        validate: checks each request's body by the rules of its dialect; raises what a strict server refuses.
        bad_arguments: probability that the model writes arguments that are not JSON.
        latency: seconds before an answer begins, at least and at most.
    """

    brain: Brain = shopper
    faults: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    per_minute: float = 1e9
    price: tuple[float, float] = (2.0, 10.0)
    validate: Callable[[str, dict[str, Any]], None] = lambda path, body: None
    bad_arguments: float = 0.0
    latency: tuple[float, float] = (0.5, 3.0)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.requests: list[dict[str, Any]] = []
        self.answered: list[bytes] = []
        self.said: Counter[str] = Counter()
        self.billed = Decimal(0)
        self.active = self.most_active = 0
        self._left, self._looked = self.per_minute, 0.0

    def client(self, address: str) -> httpx.AsyncClient:
        """A client that reaches this server and nothing else."""
        return httpx.AsyncClient(transport=httpx.MockTransport(self.handle))

    def agent(self, spec: str = "openai:gpt-4o", settings: ApiSettings | None = None, **more: Any) -> ApiAgent:
        """An agent that asks this server; the environment variables must be set."""
        agent = api_agent(spec, settings or ApiSettings(price=self.price), **more)
        agent.client._connect = self.client
        agent.client._rng = random.Random(self.seed)
        return agent

    async def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer one request, or fail as drawn."""
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            await asyncio.sleep(self.rng.uniform(*self.latency))
            return self._answer(request)
        finally:
            self.active -= 1

    def _answer(self, request: httpx.Request) -> httpx.Response:
        given = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        if given != KEY:
            return _error(401, f"Incorrect API key provided: {given}")
        body = json.loads(request.content)
        self.requests.append(body)
        now = asyncio.get_running_loop().time()
        rate = self.per_minute / 60
        if now < self._looked:  # another event loop, whose clock begins at 0
            self._looked = now
        self._left = min(self.per_minute, self._left + rate * (now - self._looked))
        self._looked = now
        if self._left < 1:
            self.said["over the limit"] += 1
            return _error(429, "slow down", {"retry-after": f"{(1 - self._left) / rate:.3f}"})
        self._left -= 1
        self.validate(request.url.path, body)
        fault = self._drawn()
        self.said[fault] += 1
        if fault in STATUSES:
            return _error(STATUSES[fault], "try later", {"retry-after": "7"} if "after" in fault else {})
        if fault == "error in 200":
            return httpx.Response(200, json={"error": {"message": "upstream failed", "code": 502}})
        content = json.dumps(self._reply(request.url.path, body)).encode()
        if fault == "cut JSON":
            content = content[: len(content) // 2]
        elif fault == "no choices":
            content = json.dumps({"choices": [], "content": None, "output": [], "status": "completed"}).encode()
        elif fault == "deep":
            content = b"[" * 5000 + b"]" * 5000
        elif fault == "":
            self.answered.append(request.content)
        headers = {
            "x-ratelimit-limit-requests": f"{self.per_minute:.0f}",
            "x-ratelimit-remaining-requests": f"{int(self._left)}",
            "x-ratelimit-reset-requests": f"{(self.per_minute - self._left) / rate:.3f}s",
        }
        return httpx.Response(200, headers=headers, stream=_Body(content, fault))

    def _drawn(self) -> str:
        draw = self.rng.random()
        for fault, share in self.faults.items():
            if (draw := draw - share) < 0:
                return fault
        return ""

    def _reply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        conversation = list(_conversation(path, body))
        said, arguments = self.brain(conversation, "tools" in body)
        read, written = len(json.dumps(body)) // 4, 20
        self.billed += (read * Decimal(str(self.price[0])) + written * Decimal(str(self.price[1]))) / 1_000_000
        if path.endswith("/messages"):
            return _anthropic(said, arguments, read, written, self.rng)
        source = None if arguments is None else json.dumps(arguments)
        if source is not None and self.rng.random() < self.bad_arguments:
            source = source[:-1]
        if path.endswith("/responses"):
            kept = "reasoning.encrypted_content" in body.get("include", ())
            return _responses(said, source, read, written, self.rng, kept=kept)
        return _chat(said, source, read, written, self.rng)


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": message, "code": None}}, headers=headers)


def _conversation(path: str, body: dict[str, Any]) -> Any:
    for each in body["messages"] if "messages" in body else body["input"]:
        content = each.get("content")
        if each.get("type") == "function_call_output":
            yield "tool", each["output"]
        elif isinstance(content, str):
            yield each["role"], content
        for part in content if isinstance(content, list) else ():
            if part["type"] == "tool_result":
                yield "tool", "".join(inner.get("text", "") for inner in part["content"])
            elif part["type"] in ("text", "output_text", "input_text"):
                yield each["role"], part["text"]


def _chat(said: str, arguments: str | None, read: int, written: int, rng: random.Random) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said, "reasoning_content": "Let me think."}
    if arguments is not None:
        call = {"id": f"call_{rng.getrandbits(40):x}", "type": "function"}
        message |= {"content": None, "tool_calls": [{**call, "function": {"name": said, "arguments": arguments}}]}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-2024-08-06",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    }


def _responses(
    said: str, arguments: str | None, read: int, written: int, rng: random.Random, *, kept: bool = True
) -> dict[str, Any]:
    id = f"{rng.getrandbits(40):x}"
    thought: dict[str, Any] = {
        "id": f"rs_{id}",
        "type": "reasoning",
        "summary": [],
        "encrypted_content": "gAAAA" if kept else None,
    }
    item: dict[str, Any] = {"id": f"msg_{id}", "type": "message", "role": "assistant", "status": "completed"}
    item["content"] = [{"type": "output_text", "text": said, "annotations": []}]
    if arguments is not None:
        item = {"id": f"fc_{id}", "type": "function_call", "call_id": f"call_{id}", "status": "completed"}
        item |= {"name": said, "arguments": arguments}
    usage: dict[str, Any] = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 5}}
    return {"id": f"resp_{id}", "status": "completed", "model": "gpt-5.4", "output": [thought, item], "usage": usage}


def _anthropic(
    said: str, arguments: dict[str, Any] | None, read: int, written: int, rng: random.Random
) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": said}
    if arguments is not None:
        block = {"type": "tool_use", "id": f"toolu_{rng.getrandbits(40):x}", "name": said, "input": arguments}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": [{"type": "thinking", "thinking": "Let me think.", "signature": "EqoB"}, block],
        "stop_reason": "tool_use" if arguments is not None else "end_turn",
        "usage": {"input_tokens": read, "output_tokens": written},
    }
