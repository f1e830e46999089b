"""The interface to everything that samples tokens: ids in, ids and their log-probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from ..errors import UsageError


class Finish(StrEnum):
    """Why sampling ended. Every limit that can end a completion has a value here."""

    STOP = "stop"
    """A stop token was sampled; it is the last of ``token_ids``."""
    LENGTH = "length"
    """``max_tokens`` or the context ran out; the last token is not a stop token."""
    ABORT = "abort"
    """The request was cancelled; ``token_ids`` has what was sampled until then."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample.

    Top-k and min-p are missing on purpose, and ``top_p`` is for evaluation only: the trainer does not score a filtered
    distribution (trap 17), so training refuses it.

    Args:
        temperature: sampling temperature; 0 is greedy, and then the recorded log-probabilities are those at
            temperature 1.
        top_p: draw from the most likely tokens that together have this probability; the recorded log-probabilities are
            those of the filtered distribution.
        max_tokens: maximum length of the action, in tokens.
        stop_ids: token ids that end the action; the sampled one is kept.
        seed: seed that makes this request reproducible; ``None`` draws from the policy's own generator.
    """

    temperature: float = 1.0
    max_tokens: int = 64
    stop_ids: tuple[int, ...] = ()
    seed: int | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise UsageError(f"sampling temperature must not be negative; got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"sampling top_p must be above 0 and at most 1; got {self.top_p}")
        if self.max_tokens < 1:
            raise UsageError(f"max_tokens must be at least 1; got {self.max_tokens}")


@dataclass(frozen=True, slots=True)
class Completion:
    """The sampled tokens, exactly.

    Args:
        token_ids: sampled ids, including the stop id if one was sampled.
        logprobs: log-probability of each id under the distribution it was drawn from; same length.
        versions: policy version that sampled each id; same length.
        finish: reason why sampling ended.
        seconds: wall time from request to answer.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    finish: Finish
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.token_ids) == len(self.logprobs) == len(self.versions):
            raise ValueError(
                f"each token needs an id, a log-probability and a version; got {len(self.token_ids)} token ids, "
                f"{len(self.logprobs)} log-probabilities and {len(self.versions)} versions"
            )


@runtime_checkable
class Policy(Protocol):
    """Anything that samples tokens."""

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
        """Sample one continuation of ``prompt_ids``.

        Args:
            prompt_ids: token ids, exactly as the model reads them.
            sampling: sampling options.
            session: id that the requests of an episode share, so that a server can reuse its prefix cache.

        Raises:
            PromptTooLongError: the prompt leaves no room for a single token.
            InfrastructureError: the server is not available.
        """
        ...
