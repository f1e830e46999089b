"""``api_agent``: create the agent for a policy such as ``openai:MODEL``."""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import UsageError
from ...inference.urls import http_url
from .agent import ApiAgent
from .anthropic_messages import Messages
from .cache import AnswerCache
from .client import ApiClient
from .costs import Spending, price_of, required_price
from .dialect import Dialect
from .faults import Server
from .openai_chat import ChatCompletions
from .openai_responses import Responses
from .settings import DEFAULT_MAX_TOKENS, ApiSettings

OPENAI, ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com"
ANSWERS, COSTS = "_answers", "_costs.jsonl"
"""Answers and costs in a run's folder. Parquet readers skip names that begin with ``_``."""


def meant(spec: str) -> str | None:
    """Guess the intended policy: ``openai:gpt-4o`` for ``openai/gpt-4o`` and for ``gpt-4o``."""
    maker, slash, model = spec.strip().partition("/")
    if slash and model and maker.lower() in ("openai", "anthropic"):
        return f"{maker.lower()}:{model}"
    if slash:
        return None
    if maker.startswith(("gpt-", "o1", "o3", "o4", "chatgpt-")):
        return f"openai:{maker}"
    return f"anthropic:{maker}" if maker.startswith("claude-") else None


def api_agent(
    spec: str,
    settings: ApiSettings | None = None,
    *,
    folder: Path | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    system: str | None = None,
) -> ApiAgent:
    """Create the agent of a specification, without sending any request.

    Args:
        spec: ``openai:MODEL``, ``anthropic:MODEL``, or ``chat:http://host/v1#MODEL``.
        settings: settings of the API.
        folder: the run's folder, for answers and costs; ``None`` keeps them in memory.
        temperature: sampling temperature (default: the provider's).
        max_tokens: length of the longest answer in tokens (default: 8192).
        system: text added to the system message.

    Raises:
        UsageError: the key is missing, the specification is incomplete, or a cap is set without a known price.
    """
    settings = settings or ApiSettings()
    server, dialect = server_of(spec, settings)
    price = price_of(server.model, settings.price)
    if settings.max_cost is not None:
        required_price(server.model, price)
    answers = Path(settings.cache) if settings.cache else folder and folder / ANSWERS
    cache = AnswerCache(answers)
    if settings.cache:
        cache.prepare()
    spending = Spending(folder and folder / COSTS, settings.max_cost)
    client = ApiClient(server, dialect, settings, cache=cache, spending=spending, price=price)
    return ApiAgent(client, max_tokens=max_tokens or DEFAULT_MAX_TOKENS, temperature=temperature, system=system)


def server_of(spec: str, settings: ApiSettings) -> tuple[Server, Dialect]:
    """Return the server and the wire format of a specification.

    Raises:
        UsageError: the key is missing, or the specification is incomplete.
    """
    kind, _, rest = spec.strip().partition(":")
    if kind == "chat":
        address, _, model = rest.partition("#")
        if not model:
            raise UsageError(f"policy {spec!r} names no model; write chat:URL#MODEL")
        variable = settings.key_variable or "CHAT_API_KEY"
        return _server(spec, address, model, variable, needed=False), _openai(address, settings)
    if not rest:
        raise UsageError(f"policy {spec!r} names no model; write {kind}:MODEL")
    if kind == "anthropic":
        address = os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC
        variable = settings.key_variable or "ANTHROPIC_API_KEY"
        return _server(spec, address.rstrip("/").removesuffix("/v1"), rest, variable), Messages()
    address = os.environ.get("OPENAI_BASE_URL") or OPENAI
    return _server(spec, address, rest, settings.key_variable or "OPENAI_API_KEY"), _openai(address, settings)


def _openai(address: str, settings: ApiSettings) -> Dialect:
    official = address.rstrip("/") == OPENAI
    if settings.endpoint == "responses" or (settings.endpoint == "auto" and official):
        return Responses()
    return ChatCompletions(limit="max_completion_tokens" if official else "max_tokens")


def _server(spec: str, address: str, model: str, variable: str, *, needed: bool = True) -> Server:
    url = http_url(address, what=f"policy {spec!r}: the server's URL {address!r}", example="http://host:port/v1")
    if url.userinfo:
        raise UsageError(f"policy {kind_of(spec)}: remove the key from the URL and put it into {variable}")
    key = os.environ.get(variable, "").strip() or None
    if key is None and needed:
        raise UsageError(f"policy {spec!r} needs an API key: set the environment variable {variable}")
    if key is not None and not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key in {variable} has characters that an HTTP header cannot carry")
    return Server(str(url).rstrip("/"), model, key, variable)


def kind_of(spec: str) -> str:
    """Return the part of a specification before its colon."""
    return spec.strip().partition(":")[0]
