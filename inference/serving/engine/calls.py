"""All calls of vLLM's Python API, for the engine in this process; code that depends on vLLM's version goes here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...policy import Sampling
from ..http.reading import read_version
from ..launch.process import UNCOMPILED, ServerOptions
from .thread import StepOutput

SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
"""Environment variables of vLLM that are set while the engine is created."""


class VllmEngine:
    """vLLM's engine with its worker in this process, for an ``EngineThread``.

    Args:
        model: folder of a model.
        options: options of the engine.

    Raises:
        ModuleNotFoundError: vLLM is not installed.
        UsageError: its version is not supported.
    """

    def __init__(self, model: Path, options: ServerOptions) -> None:
        self._model = model
        self._adapters: dict[str, Any] = {}
        self._loaded = 0
        with _environment(SETTINGS | (UNCOMPILED if options.eager else {}) | options.environment):
            import torch
            import vllm

            read_version({"version": str(vllm.__version__)})
            set_threads = torch.set_num_threads  # vLLM replaces it with a function that does nothing
            try:
                from vllm.engine.arg_utils import EngineArgs
                from vllm.v1.engine.llm_engine import LLMEngine

                self._engine: Any = LLMEngine.from_engine_args(EngineArgs(**_arguments(model, options)))
            finally:
                torch.set_num_threads = set_threads

    def add(self, name: str, prompt: Sequence[int], sampling: Sampling, adapter: str | None) -> None:
        """Start a request.

        Raises:
            ValueError: the prompt is not valid.
            LookupError: no adapter of this name is loaded.
        """
        if adapter is not None and adapter not in self._adapters:
            raise LookupError(f"there is no adapter {adapter!r}")
        lora = None if adapter is None else self._adapters[adapter]
        try:
            from vllm.exceptions import VLLMClientError
        except ImportError:  # vLLM 0.26, whose errors of this kind are ValueErrors
            VLLMClientError = ValueError

        size = self._engine.model_config.get_vocab_size()
        if any(not 0 <= token < size for token in prompt):  # without a tokenizer vLLM does not check, and would crash
            raise ValueError(f"ids must be from 0 to {size - 1}")
        ids = {"prompt_token_ids": list(prompt)}
        try:
            self._engine.add_request(name, ids, _parameters(sampling), lora_request=lora)
        except VLLMClientError as error:
            raise ValueError(str(error)) from error

    def step(self) -> list[StepOutput]:
        """Sample one token for every running request."""
        found = []
        for output in self._engine.step():
            new = output.outputs[0]
            logprobs = [entry[token].logprob for token, entry in zip(new.token_ids, new.logprobs, strict=True)]
            reason = (new.finish_reason or "abort") if output.finished else None
            found.append(
                StepOutput(output.request_id, tuple(new.token_ids), logprobs, output.num_cached_tokens or 0, reason)
            )
        return found

    def abort(self, name: str) -> None:
        """Abort a request."""
        self._engine.abort_request([name])

    def reset_prefix_cache(self) -> bool:
        """Drop all keys and values, including those of running requests; return whether it succeeded."""
        return bool(self._engine.reset_prefix_cache(reset_running_requests=True))

    def sleep(self, level: int) -> None:
        """Free memory; requests in progress end."""
        self._engine.sleep(level, "abort")

    def wake(self, tags: Sequence[str], *, restore: bool) -> None:
        """Take memory back, and load the weights of the folder again on request."""
        self._engine.wake_up(list(tags) or None)
        if restore:
            self._engine.collective_rpc("reload_weights")

    def asleep(self) -> bool:
        """Return whether memory is freed."""
        return bool(self._engine.is_sleeping())

    def load_adapter(self, name: str, folder: Path) -> None:
        """Load an adapter; it replaces one of the same name."""
        from vllm.lora.request import LoRARequest

        self._loaded += 1
        adapter = LoRARequest(name, self._loaded, str(folder.absolute()))
        self._engine.add_lora(adapter)
        self._adapters[name] = adapter

    def unload_adapter(self, name: str) -> None:
        """Unload an adapter.

        Raises:
            LookupError: no adapter of this name is loaded.
        """
        if name not in self._adapters:
            raise LookupError(f"there is no adapter {name!r}, only {', '.join(self._adapters) or 'none'}")
        self._engine.remove_lora(self._adapters.pop(name).lora_int_id)

    def checked(self, info: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the weights of an update, after the same checks as in a server (``turnwise_vllm_worker``).

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
        """Load checked weights into the model."""
        self._engine.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights.items())})

    def close(self) -> None:
        """Free its memory."""
        self._engine.engine_core.shutdown()


def version() -> str:
    """Return the version of vLLM."""
    import vllm

    return str(vllm.__version__)


def _arguments(model: Path, options: ServerOptions) -> dict[str, Any]:
    """Return the engine arguments that correspond to ``ServerOptions.command``."""
    return {
        "model": str(model),
        "served_model_name": options.name,
        "dtype": options.dtype,
        "seed": options.seed,
        "max_model_len": options.context_length,
        "max_num_seqs": options.max_seqs,
        "max_num_batched_tokens": options.most_tokens,
        **_memory(options),
        "block_size": options.block,
        "enforce_eager": options.eager,
        "enable_sleep_mode": options.sleep,
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


def _memory(options: ServerOptions) -> dict[str, Any]:
    """Return how much memory the engine may use."""
    megabytes, share = options.cache_megabytes, options.memory_share
    cache = {} if megabytes is None else {"kv_cache_memory_bytes": megabytes * 1_000_000}
    return cache if share is None else {**cache, "gpu_memory_utilization": share}


def _parameters(sampling: Sampling) -> Any:
    """Return the sampling parameters that correspond to ``routes.generate``."""
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
    """Set environment variables, and restore all at the end: vLLM sets more, such as LD_PRELOAD, for its children."""
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
