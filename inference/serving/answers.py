"""Compare the answer of a server with its request, and turn refusals into errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import (
    InfrastructureError,
    PolicyServerError,
    PromptTooLongError,
    ServerSettingsError,
    TurnwiseError,
    UsageError,
)
from ..policy import Finish, Sampling

LEAST, TOLERANCE = -100.0, 1e-3
"""Range of log-probabilities of sampled ids. A token with a smaller one is drawn less than once in 1e38 tokens of any
vocabulary, and vLLM sends -9999 instead of values that are not finite. Rounding may yield a little more than 0."""
LARGEST_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Answer:
    """HTTP status of an answer and its content: JSON, or text if it is not JSON."""

    status: int
    content: Any


def token_ids(value: Any, vocabulary: int | None = None) -> tuple[int, ...]:
    """Check and return token ids from a server.

    Args:
        value: array of integers, as parsed from JSON.
        vocabulary: number of ids of the model, if known.

    Raises:
        PolicyServerError: the value is not an array of integers, or an id is out of range.
    """
    if not isinstance(value, list) or any(type(each) is not int for each in value):
        raise PolicyServerError(f"its ids are not an array of integers: {shortened(value)}")
    largest = LARGEST_ID if vocabulary is None else vocabulary - 1
    if value and not (min(value) >= 0 and max(value) <= largest):
        wrong = next(each for each in value if not 0 <= each <= largest)
        raise PolicyServerError(f"it returned the id {wrong}, but the model's ids are from 0 to {largest}")
    return tuple(value)


def check_prompt(read: Sequence[int], sent: Sequence[int]) -> None:
    """Check that the server read exactly the ids that were sent.

    Raises:
        PolicyServerError: it read other ids.
    """
    if list(read) == list(sent):
        return
    what = "truncated the prompt" if len(read) < len(sent) else "did not read the prompt as it was sent"
    first = next((i for i, (a, b) in enumerate(zip(read, sent, strict=False)) if a != b), min(len(read), len(sent)))
    raise PolicyServerError(
        f"it {what}: {len(sent)} ids {shortened(sent)} were sent, and it read {len(read)} ids {shortened(read)}; "
        f"they differ from index {first} on. The server, or a proxy, tokenizes again or truncates"
    )


def check_sampled(ids: tuple[int, ...], scored: tuple[int, ...], logprobs: Sequence[Any]) -> tuple[float, ...]:
    """Check and return the log-probabilities of sampled ids, one for each.

    Args:
        ids: sampled token ids.
        scored: token ids that the log-probabilities belong to, according to the server.
        logprobs: values as parsed from JSON.

    Raises:
        PolicyServerError: the log-probabilities belong to other ids, or one of them is not a log-probability.
    """
    if scored != ids or len(logprobs) != len(ids):
        raise PolicyServerError(
            f"it sampled the ids {shortened(ids)} and returned log-probabilities for {shortened(scored)}: the answer "
            "was changed on its way"
        )
    for value in logprobs:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PolicyServerError(f"it returned {shortened(value)} as a log-probability, which is not a number")
        if not math.isfinite(value):
            raise PolicyServerError(
                f"it returned the log-probability {value}, which is not finite: the model's weights or numerics are "
                "broken"
            )
        if not LEAST < value <= TOLERANCE:
            raise PolicyServerError(
                f"it returned the log-probability {value:g}, but those of sampled ids are from {LEAST:g} to 0. It "
                "reports another distribution than it samples from, or its numbers are broken (vLLM writes -9999 for "
                "one that is not finite)"
            )
    return tuple(map(float, logprobs))


def finish_of(reason: Any, ids: tuple[int, ...], sampling: Sampling) -> Finish:
    """Return why a request ended, from vLLM's finish reason.

    Raises:
        PolicyServerError: something ended it that was not requested.
        ServerSettingsError: a setting of the server ended it.
    """
    if len(ids) > sampling.max_tokens or not set(ids[:-1]).isdisjoint(sampling.stop_ids):
        raise PolicyServerError(
            f"it sampled {shortened(ids)}, but the request allows at most {sampling.max_tokens} tokens, up to a stop "
            f"id of {list(sampling.stop_ids)}"
        )
    if reason == "stop":
        if not ids or ids[-1] not in sampling.stop_ids:
            raise (ServerSettingsError if ids else PolicyServerError)(
                f"it stopped after {shortened(ids[-4:])}, which ends with none of the stop ids "
                f"{list(sampling.stop_ids)}: a stop of the server's own (stop_token_ids in its generation config?) "
                "cuts actions short, or stop tokens are stripped; start it with --generation-config vllm"
            )
        return Finish.STOP
    if reason == "length":
        if len(ids) != sampling.max_tokens:
            raise (ServerSettingsError if 0 < len(ids) < sampling.max_tokens else PolicyServerError)(
                f"it ended after {len(ids)} tokens by a limit of its own, but the request allows {sampling.max_tokens} "
                "(max_new_tokens in its generation config?); start it with --generation-config vllm"
            )
        return Finish.LENGTH
    if reason == "abort":
        return Finish.ABORT
    raise PolicyServerError(f"it ended a request for the reason {reason!r}, which was not requested")


def refusal(answer: Answer) -> TurnwiseError:
    """Return the error for an answer whose status is not a success.

    Failures that may be temporary are infrastructure failures. A refusal of the request itself is the server's fault
    too, since prompts that are too long are never sent.
    """
    said = reason(answer.content)
    if answer.status in (401, 403):
        return UsageError(f"refuses the request ({answer.status}: {said}); set VLLM_API_KEY to its key")
    if answer.status == 404:  # e.g. an adapter lost in a restart: another replica may have it
        return InfrastructureError(f"does not have the requested model or adapter (404): {said}")
    if answer.status in (408, 429) or answer.status >= 500:
        return InfrastructureError(f"failed ({answer.status}): {said}")
    return PolicyServerError(f"refuses the request ({answer.status}): {said}")


def reason(content: Any) -> str:
    """Return the message in the body of an error, as one line."""
    said = content
    for key in ("error", "detail", "message"):
        if isinstance(said, Mapping) and key in said:
            said = said[key]
    if isinstance(said, Mapping) and "message" in said:
        said = said["message"]
    return shortened(said, 300) or "no reason given"


def shortened(value: Any, longest: int = 120) -> str:
    """Format a value for an error message: one line, without control characters."""
    shown = str(list(value) if isinstance(value, tuple) else value)[: 20 * longest]
    text = " ".join("".join(character if character.isprintable() else " " for character in shown).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def too_long(length: int, context_length: int) -> PromptTooLongError:
    """Return the error for a prompt that leaves no room for an action."""
    return PromptTooLongError(
        f"the prompt has {length} tokens and the context holds {context_length}, which leaves no room for an action: "
        "use a shorter context strategy (last:k, summary), or start the server with a larger --max-model-len"
    )
