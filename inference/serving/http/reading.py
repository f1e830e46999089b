"""Read the answers of vLLM's routes: pure functions that trust nothing a server sends.

An answer of another shape, or with numbers that cannot be, is a ``PolicyServerError`` of one line.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ....errors import PolicyServerError, UsageError
from ...policy import Completion, Sampling
from ..answers import LARGEST_ID, check_prompt, check_sampled, finish_of, shortened, token_ids
from ..server import ServerResponse
from .routes import MODELS

OLDEST, NEWEST = (0, 26), (0, 33)
"""The series of vLLM that are supported, both included."""
TESTED = ("0.32.0",)
"""The versions that the tests marked ``vllm`` have been run against."""
NOT_AS_PROMISED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)
"""What reading an answer of another shape raises."""


def read_served(
    content: Any,
    prompt_ids: Sequence[int],
    sampling: Sampling,
    *,
    native: bool,
    owner: str = "",
    vocabulary: int | None = None,
) -> ServerResponse:
    """What a server answered to ``generate``, held against what was asked.

    Args:
        content: the answer.
        prompt_ids: what was sent.
        sampling: what was asked for.
        native: by which route.
        owner: who named the weights, if they were named here; see ``read_spans``.
        vocabulary: how many ids the model has, where that is known.

    Raises:
        PolicyServerError: the prompt read is not the one that was sent, the sampled tokens are not given exactly, the
            request does not explain why it ended, numbers are out of range, or the weights are another trainer's.
    """
    with _reading(content):
        (choice,) = content["choices"]
        sampled, logprobs, reason = choice["token_ids"], choice["logprobs"], choice["finish_reason"]
        read = choice.get("prompt_token_ids") or content.get("prompt_token_ids")
        ids = token_ids(sampled, vocabulary)
        told, values = _told(logprobs, native=native)
        spans = read_spans(choice.get("weight_versions"), len(ids), owner)
        if read is None:
            raise PolicyServerError(
                "it does not return the prompt ids; Turnwise needs a server that supports return_token_ids"
            )
        read = token_ids(read)
    check_prompt(read, prompt_ids)
    completion = Completion(ids, check_sampled(ids, told, values), (0,) * len(ids), finish_of(reason, ids, sampling))
    return ServerResponse(completion, read, spans, _cached(content, len(read)))


@contextmanager
def _reading(content: Any) -> Iterator[None]:
    """Turn what reading an answer of another shape raises into one line.

    Raises:
        PolicyServerError: it is not what vLLM sends.
    """
    try:
        yield
    except NOT_AS_PROMISED as error:
        what = "not JSON, or cut short" if isinstance(content, str) else f"{type(error).__name__}: {shortened(error)}"
        raise PolicyServerError(f"its answer is not what vLLM {_span()} sends ({what}): {shortened(content)}") from None


def _cached(content: Mapping[str, Any], length: int) -> int:
    """How many ids of the prompt came from the prefix cache; 0 where it says nothing that makes sense."""
    with contextlib.suppress(*NOT_AS_PROMISED):
        cached = content["usage"]["prompt_tokens_details"]["cached_tokens"]
        return cached if type(cached) is int and 0 <= cached <= length else 0
    return 0


def read_top(content: Any, *, native: bool) -> dict[int, float]:
    """The alternatives at the first sampled position: id → log-probability.

    Raises:
        PolicyServerError: the answer tells none.
    """
    with _reading(content):
        logprobs = content["choices"][0]["logprobs"]
        if native:
            return {int(each["token_id"]): float(each["logprob"]) for each in logprobs["content"][0]["top_logprobs"]}
        return {_token_id(token): float(value) for token, value in logprobs["top_logprobs"][0].items()}


def read_tokens(content: Any) -> tuple[int, ...]:
    """The ids of a text, of ``/tokenize``.

    Raises:
        PolicyServerError: they are none.
    """
    with _reading(content):
        return token_ids(content["tokens"])


def read_spans(spans: Any, length: int, owner: str = "") -> tuple[tuple[int, int, int], ...]:
    """Which weights sampled which tokens, where the server tells it by names that Turnwise gave; empty otherwise.

    Args:
        spans: of an answer.
        length: how many tokens were sampled.
        owner: the only trainer that may have named them; empty for any.

    Raises:
        PolicyServerError: another trainer named them, or they do not cover exactly ``length`` tokens.
    """
    if not spans:
        return ()
    found = []
    for span in spans:
        name = re.fullmatch(r"(\w+):(\d+)", str(span["version"]), re.ASCII)
        if not name:
            return ()  # "default": these weights have no name yet
        if len(name[2]) > 15:
            raise PolicyServerError(f"it names its weights {shortened(name[0])}, which is not a version")
        if owner and name[1] != owner:
            raise PolicyServerError(
                f"another run named its weights {name[0]!r}, while this one names them {owner}:…: two trainers send it "
                "weights, and each samples from the other's; give every run its own servers"
            )
        found.append((int(name[2]), int(span["start"]), int(span["end"])))
    edges = [0, *(end for _, _, end in found)]
    if [start for _, start, _ in found] != edges[:-1] or edges[-1] != length or edges != sorted(edges):
        raise PolicyServerError(f"its weight versions {shortened(found)} do not cover the {length} tokens it sampled")
    return tuple(found)


def _told(logprobs: Any, *, native: bool) -> tuple[tuple[int, ...], Sequence[Any]]:
    """The ids that log-probabilities are given for, and these as they came; a request aborted at once has none."""
    if not logprobs:
        return (), ()
    if native:
        entries = logprobs["content"] or ()
        return tuple(entry["token_id"] for entry in entries), [entry["logprob"] for entry in entries]
    return tuple(map(_token_id, logprobs["tokens"])), list(logprobs["token_logprobs"])


def _token_id(token: str) -> int:
    return int(token.removeprefix("token_id:"))


# -- what a server says of itself ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Card:
    """One model of ``/v1/models``.

    Args:
        name: what requests call it.
        root: where it was loaded from; a folder on the server's machine, or a hub name.
        context_length: the most tokens of prompt and action together.
        adapter: it is an adapter of another one.
    """

    name: str
    root: str
    context_length: int
    adapter: bool


def read_cards(content: Any) -> list[Card]:
    """The models of ``/v1/models``.

    Raises:
        UsageError: they are something else.
    """
    try:
        return [_card(each) for each in content["data"]]
    except UsageError:
        raise
    except NOT_AS_PROMISED:
        raise UsageError(f"answers {MODELS} with {shortened(content)}, which is not a list of models") from None


def _card(given: Mapping[str, Any]) -> Card:
    name, root, length = str(given["id"]), str(given.get("root") or ""), given.get("max_model_len")
    if given.get("parent"):
        return Card(name, root, 0, adapter=True)
    if type(length) is not int or not 1 < length <= LARGEST_ID:
        raise UsageError(
            f"answers {MODELS} with an invalid context of {shortened(length)} tokens for {shortened(name)}"
        )
    return Card(name, root, length, adapter=False)


def read_version(content: Any) -> str:
    """The version of ``/version``, if it is one that is supported.

    Raises:
        UsageError: it is not.
    """
    version = str(content.get("version", "")) if isinstance(content, Mapping) else ""
    found = re.match(r"(\d+)\.(\d+)", version)
    if not found:
        raise UsageError(f"reports the version {shortened(content)}, which is not a version of vLLM")
    if not OLDEST <= (int(found[1]), int(found[2])) <= NEWEST:
        older = (int(found[1]), int(found[2])) < OLDEST
        raise UsageError(
            f"runs vLLM {version}, but Turnwise supports {_span()} (tested: {', '.join(TESTED)}); "
            f"{'upgrade it' if older else 'use an older one, or a newer Turnwise'}"
        )
    return version


def read_info(content: Any) -> tuple[str | None, int, str | None]:
    """The transfer backend, the largest rank of an adapter, and the mode of log-probabilities of ``/server_info``."""
    config = content.get("vllm_config") if isinstance(content, Mapping) else None
    if not isinstance(config, Mapping):
        return None, 0, None
    with _reading(content):
        transfer, lora = config.get("weight_transfer_config") or {}, config.get("lora_config") or {}
        backend = transfer.get("backend")
        mode = (config.get("model_config") or {}).get("logprobs_mode")
        return (str(backend) if backend else None), int(lora.get("max_lora_rank") or 0), str(mode) if mode else None


def read_paused(content: Any) -> bool:
    """Whether it is paused, of ``/is_paused``."""
    return isinstance(content, Mapping) and bool(content.get("is_paused"))


def read_started(metrics: Any) -> float | None:
    """When the server's process began, of ``/metrics``."""
    found = re.search(r"^process_start_time_seconds\s+(\S+)", str(metrics), re.MULTILINE)
    with contextlib.suppress(ValueError):
        return float(found[1]) if found and math.isfinite(float(found[1])) else None
    return None


def _span() -> str:
    return f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
