"""Parse the answers of vLLM's routes: pure functions that trust nothing a server sends.

An answer with unexpected structure or impossible numbers raises a ``PolicyServerError`` of one line.
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

OLDEST, NEWEST = (0, 26), (0, 32)
"""Oldest and newest supported series of vLLM, inclusive."""
PARALLEL = ("tensor", "pipeline", "data")
"""Ways in which one server uses several GPUs."""
TESTED = ("0.32.0",)
"""Versions that the tests marked ``vllm`` have run against."""
MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)
"""Exceptions that parsing raises if an answer has unexpected structure."""


def read_served(
    content: Any,
    prompt_ids: Sequence[int],
    sampling: Sampling,
    *,
    native: bool,
    owner: str = "",
    vocabulary: int | None = None,
) -> ServerResponse:
    """Parse the answer to ``generate``, and compare it with the request.

    Args:
        content: parsed JSON of the answer.
        prompt_ids: token ids of the prompt that was sent.
        sampling: sampling options of the request.
        native: whether the request went to the native route.
        owner: name of this trainer, if it named the weights; see ``read_spans``.
        vocabulary: number of ids of the model, if known.

    Raises:
        PolicyServerError: the server read another prompt, does not give the sampled tokens exactly, or ended for a
            reason that was not requested. Also if numbers are out of range, or another trainer named the weights.
    """
    with _parsing(content):
        (choice,) = content["choices"]
        sampled, logprobs, reason = choice["token_ids"], choice["logprobs"], choice["finish_reason"]
        read = choice.get("prompt_token_ids") or content.get("prompt_token_ids")
        ids = token_ids(sampled, vocabulary)
        scored, values = _scored(logprobs, native=native)
        spans = read_spans(choice.get("weight_versions"), len(ids), owner)
        if read is None:
            raise PolicyServerError(
                "it does not return the prompt ids; Turnwise needs a server that supports return_token_ids"
            )
        read = token_ids(read)
    check_prompt(read, prompt_ids)
    completion = Completion(ids, check_sampled(ids, scored, values), (0,) * len(ids), finish_of(reason, ids, sampling))
    return ServerResponse(completion, read, spans, _cached(content, len(read)))


@contextmanager
def _parsing(content: Any) -> Iterator[None]:
    """Convert errors of parsing an answer into one line.

    Raises:
        PolicyServerError: the answer does not have the structure that vLLM sends.
    """
    try:
        yield
    except MALFORMED as error:
        what = "not JSON, or cut short" if isinstance(content, str) else f"{type(error).__name__}: {shortened(error)}"
        raise PolicyServerError(
            f"its answer is not what vLLM {supported()} sends ({what}): {shortened(content)}"
        ) from None


def _cached(content: Mapping[str, Any], length: int) -> int:
    """Return the number of prompt ids from the prefix cache; 0 if the answer has no plausible number."""
    with contextlib.suppress(*MALFORMED):
        cached = content["usage"]["prompt_tokens_details"]["cached_tokens"]
        return cached if type(cached) is int and 0 <= cached <= length else 0
    return 0


def read_top(content: Any, *, native: bool) -> dict[int, float]:
    """Return the alternatives at the first sampled position: id → log-probability.

    Raises:
        PolicyServerError: the answer has no alternatives.
    """
    with _parsing(content):
        logprobs = content["choices"][0]["logprobs"]
        if native:
            return {int(each["token_id"]): float(each["logprob"]) for each in logprobs["content"][0]["top_logprobs"]}
        return {_token_id(token): float(value) for token, value in logprobs["top_logprobs"][0].items()}


def read_tokens(content: Any) -> tuple[int, ...]:
    """Return the ids of a text from an answer of ``/tokenize``.

    Raises:
        PolicyServerError: the answer has no array of ids.
    """
    with _parsing(content):
        return token_ids(content["tokens"])


def read_spans(spans: Any, length: int, owner: str = "") -> tuple[tuple[int, int, int], ...]:
    """Return the version of the weights for each span of tokens; empty unless the server reports names from Turnwise.

    Args:
        spans: weight versions of an answer, as parsed from JSON.
        length: number of sampled tokens.
        owner: name of the only trainer that may have named the weights; empty for any.

    Raises:
        PolicyServerError: another trainer named the weights, or the spans do not cover exactly ``length`` tokens.
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


def _scored(logprobs: Any, *, native: bool) -> tuple[tuple[int, ...], Sequence[Any]]:
    """Return the ids that log-probabilities belong to, and these; a request that was aborted at once has none."""
    if not logprobs:
        return (), ()
    if native:
        entries = logprobs["content"] or ()
        return tuple(entry["token_id"] for entry in entries), [entry["logprob"] for entry in entries]
    return tuple(map(_token_id, logprobs["tokens"])), list(logprobs["token_logprobs"])


def _token_id(token: str) -> int:
    return int(token.removeprefix("token_id:"))


# -- information about the server ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Card:
    """One model of ``/v1/models``.

    Args:
        name: name of the model in requests.
        root: folder on the server's machine, or hub name, from which it was loaded.
        context_length: maximum tokens of prompt and action together.
        adapter: whether it is an adapter of another model.
    """

    name: str
    root: str
    context_length: int
    adapter: bool


def read_cards(content: Any) -> list[Card]:
    """Return the models in an answer of ``/v1/models``.

    Raises:
        UsageError: the answer is not a list of models.
    """
    try:
        return [_card(each) for each in content["data"]]
    except UsageError:
        raise
    except MALFORMED:
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
    """Return the version in an answer of ``/version``.

    Raises:
        UsageError: it is not a supported version.
    """
    version = str(content.get("version", "")) if isinstance(content, Mapping) else ""
    found = re.match(r"(\d+)\.(\d+)", version)
    if not found:
        raise UsageError(f"reports the version {shortened(content)}, which is not a version of vLLM")
    if not OLDEST <= (int(found[1]), int(found[2])) <= NEWEST:
        older = (int(found[1]), int(found[2])) < OLDEST
        raise UsageError(
            f"runs vLLM {version}, but Turnwise supports {supported()} (tested: {', '.join(TESTED)}); "
            f"{'upgrade it' if older else 'use an older one, or a newer Turnwise'}"
        )
    return version


@dataclass(frozen=True, slots=True)
class Info:
    """The settings that a server was started with, as far as they matter here.

    Args:
        backend: backend of weight transfer; ``None`` without one.
        max_rank: largest rank of adapters.
        mode: mode of log-probabilities; ``None`` if it does not say.
        sleeps: whether it can free its memory.
        workers: number of its GPUs.
    """

    backend: str | None = None
    max_rank: int = 0
    mode: str | None = None
    sleeps: bool = False
    workers: int = 1


def read_info(content: Any) -> Info:
    """Return the settings in an answer of ``/server_info``."""
    config = content.get("vllm_config") if isinstance(content, Mapping) else None
    if not isinstance(config, Mapping):
        return Info()
    with _parsing(content):
        transfer, lora = config.get("weight_transfer_config") or {}, config.get("lora_config") or {}
        model, parallel = config.get("model_config") or {}, config.get("parallel_config") or {}
        backend, mode = transfer.get("backend"), model.get("logprobs_mode")
        return Info(
            str(backend) if backend else None,
            int(lora.get("max_lora_rank") or 0),
            str(mode) if mode else None,
            bool(model.get("enable_sleep_mode")),
            math.prod(max(1, int(parallel.get(f"{kind}_parallel_size") or 1)) for kind in PARALLEL),
        )


def read_paused(content: Any) -> bool:
    """Return whether the server is paused, from an answer of ``/is_paused``."""
    return isinstance(content, Mapping) and bool(content.get("is_paused"))


def read_started(metrics: Any) -> float | None:
    """Return the start time of the server's process from an answer of ``/metrics``, in seconds since 1970."""
    found = re.search(r"^process_start_time_seconds\s+(\S+)", str(metrics), re.MULTILINE)
    with contextlib.suppress(ValueError):
        return float(found[1]) if found and math.isfinite(float(found[1])) else None
    return None


def supported() -> str:
    return f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
