"""What the engine in this process asks of vLLM's Python interface: what differs between versions stands here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...policy import Sampling
from ..launch.process import UNCOMPILED, ServerOptions
from .thread import Part

SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
"""Of vLLM's, while the engine is made; it reads them from the environment."""


class VllmEngine:
    """vLLM's engine with its worker in this process, as ``EngineThread`` drives it.

    Args:
        model: the folder of a model.
        options: how to start it.

    Raises:
        ModuleNotFoundError: vLLM is not installed.
    """

    def __init__(self, model: Path, options: ServerOptions) -> None:
        self._model = model
        self._adapters: dict[str, Any] = {}
        self._loaded = 0
        with _environment(SETTINGS | (UNCOMPILED if options.eager else {}) | options.environment):
            import torch

            set_threads = torch.set_num_threads  # vLLM replaces it by one that does nothing
            try:
                from vllm.engine.arg_utils import EngineArgs
                from vllm.v1.engine.llm_engine import LLMEngine

                self._engine: Any = LLMEngine.from_engine_args(EngineArgs(**_arguments(model, options)))
            finally:
                torch.set_num_threads = set_threads

    def add(self, name: str, prompt: Sequence[int], sampling: Sampling, adapter: str | None) -> None:
        """Begin a request.

        Raises:
            ValueError: the prompt is none.
            LookupError: there is no such adapter.
        """
        if adapter is not None and adapter not in self._adapters:
            raise LookupError(f"there is no adapter {adapter!r}")
        lora = None if adapter is None else self._adapters[adapter]
        from vllm.exceptions import VLLMClientError

        size = self._engine.model_config.get_vocab_size()
        if any(not 0 <= token < size for token in prompt):  # without a tokenizer vLLM does not look, and would crash
            raise ValueError(f"ids must be from 0 to {size - 1}")
        ids = {"prompt_token_ids": list(prompt)}
        try:
            self._engine.add_request(name, ids, _parameters(sampling), lora_request=lora)
        except VLLMClientError as error:
            raise ValueError(str(error)) from error

    def step(self) -> list[Part]:
        """One token for every request that is running."""
        found = []
        for output in self._engine.step():
            new = output.outputs[0]
            logprobs = [entry[token].logprob for token, entry in zip(new.token_ids, new.logprobs, strict=True)]
            reason = (new.finish_reason or "abort") if output.finished else None
            found.append(Part(output.request_id, tuple(new.token_ids), logprobs, output.num_cached_tokens or 0, reason))
        return found

    def abort(self, name: str) -> None:
        """Forget a request."""
        self._engine.abort_request([name])

    def reset_prefix_cache(self) -> bool:
        """Forget all keys and values, those of running requests too; whether it could."""
        return bool(self._engine.reset_prefix_cache(reset_running_requests=True))

    def load_adapter(self, name: str, folder: Path) -> None:
        """Load an adapter, or another one under the same name."""
        from vllm.lora.request import LoRARequest

        self._loaded += 1
        adapter = LoRARequest(name, self._loaded, str(folder.absolute()))
        self._engine.add_lora(adapter)
        self._adapters[name] = adapter

    def unload_adapter(self, name: str) -> None:
        """Forget an adapter.

        Raises:
            LookupError: there is none of that name.
        """
        if name not in self._adapters:
            raise LookupError(f"there is no adapter {name!r}, only {', '.join(self._adapters) or 'none'}")
        self._engine.remove_lora(self._adapters.pop(name).lora_int_id)

    def checked(self, info: Mapping[str, Any]) -> Mapping[str, Any]:
        """The weights of an update, held to the same checks as in a server: ``turnwise_vllm_worker``.

        Args:
            info: ``{"path": file or folder}`` or ``{"weights": name → tensor}``.

        Raises:
            ValueError: they are not a whole model of the kind that is served.
        """
        from ..worker import turnwise_vllm_worker as worker

        if "weights" in info:
            where, weights = "what came", {name: tensor.detach() for name, tensor in info["weights"].items()}
        else:
            where = str(info["path"])
            weights, _ = worker.read(worker.files_at(where))
        wanted = worker.shapes_of(worker.files_at(str(self._model)))
        return worker.completed(weights, wanted, tied=worker.ties(self._engine.model_config), where=where)

    def apply(self, weights: Mapping[str, Any]) -> None:
        """Put weights that were checked into the model."""
        self._engine.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights.items())})

    def close(self) -> None:
        """Free its memory."""
        self._engine.engine_core.shutdown()


def version() -> str:
    """Of vLLM."""
    import vllm

    return str(vllm.__version__)


def _arguments(model: Path, options: ServerOptions) -> dict[str, Any]:
    """As ``ServerOptions.command`` starts a server."""
    return {
        "model": str(model),
        "served_model_name": options.name,
        "dtype": options.dtype,
        "seed": options.seed,
        "max_model_len": options.context_length,
        "max_num_seqs": options.max_seqs,
        "max_num_batched_tokens": options.most_tokens,
        "kv_cache_memory_bytes": options.kv_megabytes * 1_000_000,
        "block_size": options.block,
        "enforce_eager": options.eager,
        "logprobs_mode": "processed_logprobs",
        "generation_config": "vllm",
        "skip_tokenizer_init": True,
        "distributed_executor_backend": "uni",
        "enable_lora": options.max_rank > 0,
        "max_lora_rank": options.max_rank or 16,
        "max_loras": options.max_adapters,
        "max_cpu_loras": options.max_adapters,
        "disable_log_stats": True,
    }


def _parameters(sampling: Sampling) -> Any:
    """As ``routes.generate`` asks a server."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
        stop_token_ids=list(sampling.stop_ids),
        ignore_eos=True,
        seed=sampling.seed,
        logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )


@contextlib.contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Variables for a while; what vLLM sets besides, such as LD_PRELOAD, does not reach other children either."""
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
