"""Settings of vLLM servers and engines that Turnwise starts itself; nothing here imports torch."""

from __future__ import annotations

from typing import Any, Self

import pydantic

from ...config import Config
from ...inference.serving.launch.process import ServerOptions
from ...rollouts.options import Resources, RolloutsConfig


class EngineConfig(Config):
    """An engine in this process, which takes weights from memory: for one trainer on one machine."""

    context_length: int | None = pydantic.Field(default=None, ge=2)
    """Longest prompt plus action, in tokens (default: the context length of the model)."""
    max_seqs: int = pydantic.Field(default=64, ge=1)
    """Requests that are decoded together; others wait."""
    batched_tokens: int | None = pydantic.Field(default=None, ge=1)
    """Tokens of one step; see ``ServerOptions.batched_tokens``."""
    kv_megabytes: int | None = pydantic.Field(default=None, ge=1)
    """Memory in megabytes for cached keys and values, beside the learner's own (default: 100, or what is left of
    ``memory_share``)."""
    memory_share: float | None = pydantic.Field(default=None, gt=0, lt=1)
    """Share of the GPU's memory for the engine: weights, activations, and keys and values."""
    block: int | None = pydantic.Field(default=None, ge=1)
    """Tokens per block of the cache (default: vLLM's)."""
    eager: bool = True
    """Start immediately, without compiling; on a GPU ``false`` is faster after the start."""

    def options(self, *, longest: int, dtype: str, sleep: bool = False) -> ServerOptions:
        """Return the options to start it with.

        Args:
            longest: context length of the model, in tokens.
            dtype: data type of its weights.
            sleep: whether it is to free its memory between two steps.
        """
        given = self.model_dump(include=set(EngineConfig.model_fields) - {"context_length"})
        return ServerOptions.model_validate(
            given | {"context_length": min(self.context_length or longest, longest), "dtype": dtype, "sleep": sleep}
        )


class RayServersConfig(EngineConfig):
    """Servers that Ray places on a cluster, starts, watches and starts again."""

    replicas: int = pydantic.Field(default=1, ge=1)
    """Number of servers."""
    resources: Resources = pydantic.Field(default_factory=lambda: {"GPU": 1.0})
    """Resources that a server occupies: ``GPU``, ``CPU`` (for vLLM's CPU build), ``memory`` (bytes), or names that your
    cluster declares. With several GPUs, say in ``extra`` how to use them."""
    address: str = "local"
    """Address of the cluster, as in ``rollouts.address``, with which it must agree if workers play there."""
    python: str = ""
    """Interpreter on the nodes that has vLLM (default: the one that Ray runs there)."""
    runtime_env: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Ray's ``runtime_env`` of the processes that start the servers."""
    wait_for: int | None = pydantic.Field(default=None, ge=1)
    """Number of servers that must be ready before the run begins (default: all). The others join later, each once it
    has received the weights of the last transfer."""
    start_timeout: float = pydantic.Field(default=600.0, gt=0)
    """Seconds for a server to become ready, and for the run to wait for them."""
    health_timeout: float = pydantic.Field(default=120.0, gt=0)
    """Seconds without a healthy answer after which a server is started again."""
    delivery: str = pydantic.Field(default="auto", pattern="^(auto|push)$")
    """Way of files to the nodes: ``auto`` uses the exchange folder where a node sees it, and otherwise sends files over
    HTTP, in chunks with checksums; ``push`` always sends them."""
    threads: int = pydantic.Field(default=1, ge=1)
    """OpenMP threads of a server on a CPU."""
    extra: tuple[str, ...] = ()
    """More arguments of vLLM, as on its command line."""

    @pydantic.model_validator(mode="after")
    def _enough(self) -> Self:
        if self.wait_for is not None and self.wait_for > self.replicas:
            raise ValueError(f"wait_for = {self.wait_for} waits for more servers than replicas = {self.replicas}")
        return self

    def agree_with(self, rollouts: RolloutsConfig, what: str) -> None:
        """Check that servers and workers are on one cluster.

        Args:
            rollouts: the settings of where episodes are played.
            what: the name of what both belong to, for the message, such as ``"a run"``.

        Raises:
            ValueError: they name two.
        """
        if rollouts.engine == "ray" and self.address != rollouts.address:
            raise ValueError(
                f"server.ray.address = {self.address!r} and rollouts.address = {rollouts.address!r} are two clusters, "
                f"and {what} is on one: name the same"
            )

    def options(self, *, longest: int, dtype: str, sleep: bool = False) -> ServerOptions:
        """Return the options of each server; see ``EngineConfig.options``."""
        found = super().options(longest=longest, dtype=dtype, sleep=sleep)
        return found.model_copy(update={"threads": self.threads, "extra": self.extra, "counts": True})
