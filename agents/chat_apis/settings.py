"""Settings for a model behind a chat API."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, Literal, Self

import pydantic

from ...config import Config

TIMEOUT, PATIENCE = 300.0, 900.0
DEFAULT_MAX_TOKENS = 8192
"""Default limit of an answer in tokens, including a model's reasoning."""


def _two_prices(value: Any) -> Any:
    """Parse ``"2.5,10"`` from a command line as two numbers."""
    if not isinstance(value, str | int | float):
        return value
    parts = [part.strip() for part in str(value).split(",")]
    if len(parts) != 2:
        raise ValueError("a price must be IN,OUT in dollars per million tokens, such as 2.5,10")
    return parts


Price = Annotated[float, pydantic.Field(ge=0)]


class ApiSettings(Config):
    """Settings of a policy behind a chat API. They are refused for other policies."""

    endpoint: Literal["auto", "chat", "responses"] = "auto"
    """OpenAI's Chat Completions (``chat``) or Responses API; ``auto`` uses Responses only at api.openai.com."""
    tools: Literal["native", "text"] = "native"
    """Form of tool calls: the API's own, or ``<tool_call>`` in the text, for a server or model without tool calls."""
    body: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Further fields of every request by their names in the API, such as ``reasoning_effort`` or ``top_p``."""
    key_variable: str | None = None
    """Environment variable with the key (default: ``OPENAI_API_KEY``, ``ANTHROPIC_API_KEY``, or ``CHAT_API_KEY`` for
    ``chat:``)."""
    timeout: float = pydantic.Field(default=TIMEOUT, gt=0)
    """Seconds for one request, from the first byte sent to the last byte received; must be below ``patience``. If only
    ``patience`` is set: nine tenths of it, at most 300."""
    patience: float = pydantic.Field(default=PATIENCE, gt=0)
    """Seconds for which the server may keep failing or refusing before an episode counts as an infrastructure failure.
    If only ``timeout`` is set: three times it, at least 900."""
    max_bytes: int = pydantic.Field(default=8 * 2**20, ge=1024)
    """Maximum size of an answer, in bytes."""
    price: Annotated[tuple[Price, Price] | None, pydantic.BeforeValidator(_two_prices)] = None
    """Dollars per million input and output tokens, ``IN,OUT`` (default: from the table of known prices)."""
    max_cost: float | None = pydantic.Field(default=None, gt=0)
    """Spending limit of a run in dollars, including resumed runs. A run stops before it would exceed the limit."""
    cache: str | None = None
    """Folder for cached answers that several runs share (default: a folder of this run)."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _one_follows(cls, given: Any) -> Any:
        """Derive one of the two times from the other if only one is set."""
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
