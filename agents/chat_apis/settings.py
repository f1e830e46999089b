"""How Turnwise talks to a model behind a chat API: one documented configuration."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, Literal, Self

import pydantic

from ...config import Config

TIMEOUT, PATIENCE = 300.0, 900.0
DEFAULT_MAX_TOKENS = 8192
"""The longest answer where no ``max_tokens`` is given; a reasoning model's thoughts count too."""


def _two_prices(value: Any) -> Any:
    """``"2.5,10"``, as typed on a command line, as two numbers."""
    if not isinstance(value, str | int | float):
        return value
    parts = [part.strip() for part in str(value).split(",")]
    if len(parts) != 2:
        raise ValueError("a price must be IN,OUT in dollars per million tokens, such as 2.5,10")
    return parts


Price = Annotated[float, pydantic.Field(ge=0)]


class ApiSettings(Config):
    """Settings of a policy behind a chat API. Other policies ignore them."""

    endpoint: Literal["auto", "chat", "responses"] = "auto"
    """OpenAI's Chat Completions (``chat``) or Responses API; ``auto`` takes Responses at api.openai.com only."""
    tools: Literal["native", "text"] = "native"
    """How the model calls tools: by the API's own tool calls, or as ``<tool_call>`` in its text, for a server or model
    without tool calls."""
    body: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Further fields of every request, as the provider names them, such as ``reasoning_effort`` or ``top_p``."""
    key_variable: str | None = None
    """The environment variable that holds the key; omitted: ``OPENAI_API_KEY``, ``ANTHROPIC_API_KEY``, or
    ``CHAT_API_KEY`` for ``chat:``."""
    timeout: float = pydantic.Field(default=TIMEOUT, gt=0)
    """Seconds that one request may take, from the first byte sent to the last byte received; below ``patience``.
    Where only ``patience`` is set: nine tenths of it, 300 at most."""
    patience: float = pydantic.Field(default=PATIENCE, gt=0)
    """Seconds that the server may keep failing or refusing before an episode counts as an infrastructure failure.
    Where only ``timeout`` is set: three times it, 900 at least."""
    max_bytes: int = pydantic.Field(default=8 * 2**20, ge=1024)
    """The longest answer, in bytes."""
    price: Annotated[tuple[Price, Price] | None, pydantic.BeforeValidator(_two_prices)] = None
    """Dollars per million tokens read and written, ``IN,OUT``; omitted: from the table of known prices."""
    max_cost: float | None = pydantic.Field(default=None, gt=0)
    """The most that a run may spend, in dollars, resumed runs included. A run stops before it would spend more."""
    cache: str | None = None
    """A folder of answers shared by several runs; omitted: a folder of the run's own."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _one_follows(cls, given: Any) -> Any:
        """Where only one of the two times is set, the other follows from it."""
        with contextlib.suppress(KeyError, TypeError, ValueError):
            if "patience" not in given:
                return {**given, "patience": max(PATIENCE, 3 * float(given["timeout"]))}
            if "timeout" not in given:
                return {**given, "timeout": min(TIMEOUT, 0.9 * float(given["patience"]))}
        return given

    @pydantic.model_validator(mode="after")
    def _nested(self) -> Self:
        if self.timeout >= self.patience:
            raise ValueError(
                f"api.timeout = {self.timeout:g} s is not below api.patience = {self.patience:g} s: a request that "
                "hangs would never be sent again; raise api.patience or lower api.timeout"
            )
        return self

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a resumed run must share with the run before it."""
        return self.model_dump(mode="json", include={"endpoint", "tools", "body"})
