"""All routes of vLLM that Turnwise uses, and their requests; code that depends on vLLM's version goes here.

Nothing here uses the network: a ``Call`` describes a request, and ``reading`` parses the answer. From the sources of
vLLM 0.32:

- ``/inference/v1/generate`` takes and returns ids alone, if the server has ``--enable-scale-out``. Its answers have
  weight versions since 0.32.
- ``/v1/completions`` returns ids beside the text on request.
- Closing the connection aborts a request.
- The routes below ``DEVELOPMENT`` need ``VLLM_SERVER_DEV_MODE=1``.
- Both sampling routes fill omitted fields with the server's own defaults, from the model's generation_config.json or
  the command line. That is why requests set every field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...policy import Sampling
from ..server import Pause

START = (
    "VLLM_SERVER_DEV_MODE=1 python -m vllm.entrypoints.openai.api_server --model FOLDER "
    "--logprobs-mode processed_logprobs --enable-scale-out"
)
"""Command that starts a server for Turnwise; training needs the development mode, evaluation does not."""
ABSENT = (403, 404, 405, 501)
"""Statuses for a route that the server does not have or has disabled."""

BYTES_READ, BYTES_SAMPLED = 32, 512
"""Maximum bytes of an answer per prompt id and per id that may be sampled: twice what vLLM needs."""
VERSION, MODELS, METRICS, TOKENIZE = "/version", "/v1/models", "/metrics", "/tokenize"
NATIVE, COMPLETIONS = "/inference/v1/generate", "/v1/completions"
LOAD_ADAPTER, UNLOAD_ADAPTER = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
# DEVELOPMENT
PAUSE, RESUME, IS_PAUSED, INFO = "/pause", "/resume", "/is_paused", "/server_info?config_format=json"
SLEEP, WAKE, IS_SLEEPING = "/sleep", "/wake_up", "/is_sleeping"
RESET, REMOTE = "/reset_prefix_cache", "/collective_rpc"
INIT, START_UPDATE, UPDATE = "/init_weight_transfer_engine", "/start_weight_update", "/update_weights"
FINISH_UPDATE, NAME_VERSION = "/finish_weight_update", "/update_weight_version"
LEAVE_TRANSFER = "/shutdown_weight_transfer_engine"


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    Args:
        path: path and query.
        body: JSON body of a POST; ``None`` for a GET.
        headers: headers besides those of every request.
        most_bytes: maximum length of the answer in bytes; ``None`` for the default.
    """

    path: str
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = None
    most_bytes: int | None = None


# -- sampling ---------------------------------------------------------------------------------------------------


def generate(
    prompt_ids: Sequence[int], sampling: Sampling, *, model: str, native: bool, session: str = "", top: int = 0
) -> Call:
    """Sample one continuation: ids in, ids and log-probabilities out.

    Every field that could change the distribution from the trainer's softmax at this temperature has its neutral
    value. Only the requested stop ids end the action: ``ignore_eos`` disables those of tokenizer and model.

    Args:
        prompt_ids: token ids, exactly as the model reads them.
        sampling: sampling options; ``max_tokens`` must fit the context.
        model: served name of the base model or of an adapter.
        native: whether to use the route that takes and returns ids alone.
        session: session id, for a router in front of several engines.
        top: number of alternatives to return with each sampled id.
    """
    how: dict[str, Any] = {
        "n": 1,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "max_tokens": sampling.max_tokens,
        "min_tokens": 0,
        "stop": [],
        "stop_token_ids": list(sampling.stop_ids),
        "ignore_eos": True,
        "bad_words": [],
        "logit_bias": None,
        "allowed_token_ids": None,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "seed": sampling.seed,
        "logprobs": top,
        "watermarking": False,
        "thinking_token_budget": None,
    }
    body: dict[str, Any] = {"model": model, "stream": False, "return_token_ids": True}
    if native:
        body |= {"token_ids": list(prompt_ids), "sampling_params": how | {"detokenize": False}}
    else:
        body |= how | {
            "prompt": list(prompt_ids),
            "add_special_tokens": False,
            "truncate_prompt_tokens": None,
            "echo": False,
            "return_tokens_as_token_ids": True,
        }
    most_bytes = 2**20 + BYTES_READ * len(prompt_ids) + BYTES_SAMPLED * sampling.max_tokens
    return Call(NATIVE if native else COMPLETIONS, body, {"X-Session-ID": session} if session else None, most_bytes)


# -- control ----------------------------------------------------------------------------------------------------


def pause(mode: Pause) -> Call:
    """Stop generating; ``reset_prefix_cache`` clears the cache separately, in every mode."""
    return Call(f"{PAUSE}?mode={mode.value}", {})


def resume() -> Call:
    """Continue to generate."""
    return Call(RESUME, {})


def sleep(level: int) -> Call:
    """Free memory; requests in progress would end, but the policy lets none be."""
    return Call(f"{SLEEP}?level={level}&mode=abort", {})


def wake(tags: Sequence[str]) -> Call:
    """Take memory back: that of these tags, or all."""
    return Call(WAKE + "".join(f"{'&' if place else '?'}tags={tag}" for place, tag in enumerate(tags)), {})


def restore() -> Call:
    """Reload the weights that the server was started with."""
    return Call(REMOTE, {"method": "reload_weights"})


def reset_prefix_cache() -> Call:
    """Drop all keys and values, including those of frozen requests, which then read their tokens again."""
    return Call(f"{RESET}?reset_running_requests=true", {})


def load_adapter(name: str, folder: Path) -> Call:
    """Load an adapter in PEFT's format."""
    return Call(LOAD_ADAPTER, {"lora_name": name, "lora_path": str(folder.absolute())})


def unload_adapter(name: str) -> Call:
    """Unload an adapter."""
    return Call(UNLOAD_ADAPTER, {"lora_name": name})


def reload(folder: Path) -> Call:
    """Reload all weights from safetensors."""
    return Call(REMOTE, {"method": "reload_weights", "kwargs": {"weights_path": str(folder.absolute())}})


def leave_transfer() -> Call:
    """Make the workers leave the group of an earlier first phase."""
    return Call(LEAVE_TRANSFER, {})


def init_transfer(info: Mapping[str, Any]) -> Call:
    """Phase 1 of native weight transfer."""
    return Call(INIT, {"init_info": dict(info)})


def start_update() -> Call:
    """Phase 2 of native weight transfer."""
    return Call(START_UPDATE, {})


def update(info: Mapping[str, Any]) -> Call:
    """Phase 3 of native weight transfer, once per chunk."""
    return Call(UPDATE, {"update_info": dict(info)})


def finish_update(version: int, owner: str) -> Call:
    """Phase 4 of native weight transfer; servers that keep versions give the new weights this name."""
    return Call(FINISH_UPDATE, {"weight_version": f"{owner}:{version}"})


def name_version(version: int, owner: str) -> Call:
    """Name the current weights by their trainer and version."""
    return Call(NAME_VERSION, {"new_version": f"{owner}:{version}"})


def tokenize(text: str, model: str) -> Call:
    """Return the server's ids of a text."""
    return Call(TOKENIZE, {"model": model, "prompt": text, "add_special_tokens": False})
