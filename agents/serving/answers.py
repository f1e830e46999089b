"""What a server answered, held against what was asked; and what its refusals mean."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ContractError, InfrastructureError, PolicyError, PromptTooLongError, TurnwiseError, UsageError
from ..policy import Finish, Sampling

IMPOSSIBLE = -9999.0
"""What vLLM sends in place of a log-probability that is not finite."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and the JSON, or the text, that came with it."""

    status: int
    content: Any


def check_prompt(read: Any, sent: Sequence[int]) -> None:
    """What was read must be what was sent.

    Raises:
        ContractError: it is not, or is not told.
    """
    if read is None:
        raise ContractError("it does not say which ids it read; Turnwise needs an answer to return_token_ids")
    if list(read) == list(sent):
        return
    what = "truncated the prompt" if len(read) < len(sent) else "did not read the prompt as it was sent"
    first = next((i for i, (a, b) in enumerate(zip(read, sent, strict=False)) if a != b), min(len(read), len(sent)))
    raise ContractError(
        f"it {what}: sent were {len(sent)} ids {shortened(sent)}, read were {len(read)} ids {shortened(read)}; they "
        f"differ from place {first} on. A proxy between, or the server, decodes and encodes again or cuts"
    )


def check_sampled(ids: tuple[int, ...], told: tuple[int, ...], logprobs: tuple[float, ...]) -> None:
    """Each id that was sampled has its own log-probability.

    Raises:
        ContractError: the log-probabilities are of other ids.
        PolicyError: one is not finite.
    """
    if told != ids or len(logprobs) != len(ids):
        raise ContractError(
            f"it sampled the ids {shortened(ids)} and gives log-probabilities for {shortened(told)}: what came back "
            "was rewritten on its way"
        )
    if any(not math.isfinite(value) or value <= IMPOSSIBLE for value in logprobs):
        raise PolicyError("the model gave a log-probability that is not finite: its weights or its numerics are broken")


def finish_of(reason: Any, ids: tuple[int, ...], sampling: Sampling) -> Finish:
    """Why a request ended, in our words.

    Raises:
        ContractError: something ended it that nobody asked for.
    """
    if reason == "stop":
        if not ids or ids[-1] not in sampling.stop_ids:
            raise ContractError(
                f"it stopped after {shortened(ids[-4:])}, and none of the stop ids {list(sampling.stop_ids)} ends "
                "that: a stop of the server's own (stop_token_ids in its generation config?) cuts actions short, or "
                "stop tokens are stripped; start it with --generation-config vllm"
            )
        return Finish.STOP
    if reason == "length":
        if len(ids) != sampling.max_tokens:
            raise ContractError(
                f"it ended after {len(ids)} tokens by a limit of its own, and {sampling.max_tokens} were asked for "
                "(max_new_tokens in its generation config?); start it with --generation-config vllm"
            )
        return Finish.LENGTH
    if reason == "abort":
        return Finish.ABORT
    raise ContractError(f"it ended a request for the reason {reason!r}, which nothing asked for")


def refusal(answer: Answer) -> TurnwiseError:
    """The error that a status other than success stands for."""
    said = reason(answer.content)
    if answer.status == 400 and re.search(r"maximum (model|context) length|max_model_len", said):
        return PromptTooLongError(said)
    if answer.status in (401, 403):
        return UsageError(f"refuses the request ({answer.status}: {said}); set VLLM_API_KEY to its key")
    if answer.status in (408, 429) or answer.status >= 500:
        return InfrastructureError(f"failed ({answer.status}): {said}")
    if answer.status == 404:  # e.g. an adapter that went with a restart: another replica may have it
        return InfrastructureError(f"does not have what was asked for (404): {said}")
    return ContractError(f"refuses the request ({answer.status}): {said}")


def reason(content: Any) -> str:
    """What an error's body says, in one line."""
    said = content
    for key in ("error", "detail", "message"):
        if isinstance(said, Mapping) and key in said:
            said = said[key]
    if isinstance(said, Mapping) and "message" in said:
        said = said["message"]
    return shortened(said, 300) or "no reason given"


def shortened(value: Any, longest: int = 120) -> str:
    """A value in an error message, which is one line."""
    text = " ".join(str(list(value) if isinstance(value, tuple) else value).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def too_long(length: int, context_length: int) -> PromptTooLongError:
    """The error of a prompt that leaves no room for an action."""
    return PromptTooLongError(
        f"the prompt has {length} tokens and the context holds {context_length}, which leaves no room for an action: "
        "use a shorter context strategy (last:k, summary), or start the server with a larger --max-model-len"
    )
