"""Every route of vLLM that Turnwise speaks, and what goes over it: what differs between versions stands here.

Nothing here reaches a network: a ``Call`` is what to send; ``reading`` has what comes back. What was
read from the sources of 0.32: ``/inference/v1/generate`` takes and gives ids alone (started with
``--enable-scale-out``; its answers carry weight versions since 0.32), ``/v1/completions`` gives them beside the text
on request; a request that its client drops is aborted; the routes below ``DEVELOPMENT`` exist with
``VLLM_SERVER_DEV_MODE=1`` only. Both routes put the server's own defaults, from the model's generation_config.json
or the command line, wherever a request is silent: so a request is never silent.
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
"""How a server is started for Turnwise; training needs the development mode, evaluation does not."""
ABSENT = (403, 404, 405, 501)
"""Statuses of a route that a server does not have, or was started without."""

BYTES_READ, BYTES_SAMPLED = 32, 512
"""What an answer may take for each id that was read, and for each that may be sampled; twice what vLLM needs."""
VERSION, MODELS, METRICS, TOKENIZE = "/version", "/v1/models", "/metrics", "/tokenize"
NATIVE, COMPLETIONS = "/inference/v1/generate", "/v1/completions"
LOAD_ADAPTER, UNLOAD_ADAPTER = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
# DEVELOPMENT
PAUSE, RESUME, IS_PAUSED, INFO = "/pause", "/resume", "/is_paused", "/server_info?config_format=json"
RESET, REMOTE = "/reset_prefix_cache", "/collective_rpc"
INIT, START_UPDATE, UPDATE = "/init_weight_transfer_engine", "/start_weight_update", "/update_weights"
FINISH_UPDATE, NAME_VERSION = "/finish_weight_update", "/update_weight_version"


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    Args:
        path: with its query.
        body: sent as JSON by POST; ``None`` is a GET.
        headers: beside those of every request.
        most_bytes: the longest answer that makes sense; ``None`` for that of every request.
    """

    path: str
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = None
    most_bytes: int | None = None


# -- sampling ---------------------------------------------------------------------------------------------------


def generate(
    prompt_ids: Sequence[int], sampling: Sampling, *, model: str, native: bool, session: str = "", top: int = 0
) -> Call:
    """Ask for one continuation: ids in, ids and log-probabilities out.

    Whatever could make the distribution another one than the trainer's softmax at this temperature is named with the
    value that does nothing, and only the stop ids asked for stop it: ``ignore_eos`` silences the tokenizer's and the
    model's own.

    Args:
        prompt_ids: exactly what the model reads.
        sampling: how; ``max_tokens`` must fit the context.
        model: the served name of the base model or an adapter.
        native: by the route that knows no text.
        session: for a router in front of several engines.
        top: how many alternatives to return beside each sampled id.
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
    """Stop generating. What the cache holds is forgotten by ``reset_prefix_cache``, in every mode."""
    return Call(f"{PAUSE}?mode={mode.value}", {})


def resume() -> Call:
    """Go on."""
    return Call(RESUME, {})


def reset_prefix_cache() -> Call:
    """Forget all keys and values, those of requests that are frozen too: they read their tokens anew."""
    return Call(f"{RESET}?reset_running_requests=true", {})


def load_adapter(name: str, folder: Path) -> Call:
    """Load an adapter in PEFT's format."""
    return Call(LOAD_ADAPTER, {"lora_name": name, "lora_path": str(folder.absolute())})


def unload_adapter(name: str) -> Call:
    """Forget an adapter."""
    return Call(UNLOAD_ADAPTER, {"lora_name": name})


def reload(folder: Path) -> Call:
    """Read all weights anew from safetensors."""
    return Call(REMOTE, {"method": "reload_weights", "kwargs": {"weights_path": str(folder.absolute())}})


def init_transfer(info: Mapping[str, Any]) -> Call:
    """The first phase of native weight transfer."""
    return Call(INIT, {"init_info": dict(info)})


def start_update() -> Call:
    """The second."""
    return Call(START_UPDATE, {})


def update(info: Mapping[str, Any]) -> Call:
    """The third, once per chunk."""
    return Call(UPDATE, {"update_info": dict(info)})


def finish_update(version: int, owner: str) -> Call:
    """The fourth; servers that keep versions give the new weights this name."""
    return Call(FINISH_UPDATE, {"weight_version": f"{owner}:{version}"})


def name_version(version: int, owner: str) -> Call:
    """Call the weights that are there by this number, of this trainer."""
    return Call(NAME_VERSION, {"new_version": f"{owner}:{version}"})


def tokenize(text: str, model: str) -> Call:
    """The server's own ids of a text."""
    return Call(TOKENIZE, {"model": model, "prompt": text, "add_special_tokens": False})
