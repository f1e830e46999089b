"""Settings of the servers of a run, and what contradicts them."""

from __future__ import annotations

from typing import Literal, Self

import pydantic

from ...config import Config
from ...errors import UsageError
from ...inference.serving.limits import TimeLimits
from ...inference.serving.server import Pause
from ..learning.lora import LoraConfig
from .engine_settings import EngineConfig, RayServersConfig


class NcclConfig(Config):
    """Weights over NCCL, from GPU to GPU: written against vLLM's API, and not tested on GPUs."""

    host: str
    """This machine's address as the servers see it."""
    port: int = pydantic.Field(default=29600, ge=1, le=65535)
    """Port on which trainer and servers meet. If a server comes or goes, they meet again on the next one."""
    gpus: int | None = pydantic.Field(default=None, ge=1)
    """GPUs of each server: tensor times pipeline times data parallel size (default: what each server reports)."""


class ServerConfig(Config):
    """Servers that sample in the trainer's place; start them with ``scripts/serve`` or as ``docs/serving.md`` says.

    Or, with ``engine``, vLLM in this process; or, with ``ray``, servers that the run starts on a Ray cluster.
    """

    urls: list[str] = pydantic.Field(default_factory=list)
    """URLs of the replicas, e.g. ``["http://localhost:8000"]``; never that of a load balancer in front of several. If
    they need a key, it is read from the environment variable ``VLLM_API_KEY``."""
    model: str | None = None
    """The name under which they serve the base model (default: the only one that they serve)."""
    engine: EngineConfig | None = None
    """vLLM's engine in the trainer's process, instead of ``urls``; it needs vLLM in the same Python environment."""
    ray: RayServersConfig | None = None
    """Servers that the run starts on a Ray cluster, instead of ``urls`` (``docs/many_machines.md``)."""
    transfer: Literal["native", "adapter", "reload", "ipc", "memory"] | None = None
    """Transfer of weights: ``native`` (vLLM's four phases), ``adapter`` (with ``lora``: the adapters alone),
    ``reload`` (a whole checkpoint) or ``ipc`` (native, for servers on the learner's own GPU, which read its memory;
    never tried on a GPU). The default is ``adapter`` with ``lora``, else ``native``. An ``engine`` always
    uses ``memory``: the learner's tensors themselves."""
    sleep: Literal[0, 1, 2] = 0
    """Let servers on the learner's GPU free their memory while it learns: 1 moves their weights to the machine's
    memory, 2 drops them, since the next transfer sends new ones. Start them with sleep mode, which vLLM has on GPUs
    only. Never tried on a GPU."""
    pause: Pause = Pause.KEEP
    """Handling of running requests while weights change: ``keep`` (they continue with the new ones; needs a server that
    reports the version of each token), ``wait``, or ``abort`` (they are continued with the new ones)."""
    exchange: str | None = None
    """A folder that trainer and servers both see (default: ``exchange`` in the run's folder)."""
    exchange_there: str | None = None
    """The path of that folder on the servers, if it differs."""
    dtype: Literal["float32", "bfloat16"] | None = None
    """Precision of the weights on the servers (``--dtype``; default: the run's). Weights are sent in it, and the
    canary allows for the noise of the coarser side."""
    tolerance: float | None = pydantic.Field(default=None, gt=0)
    """Mean difference in nats between log-probabilities of servers and trainer beyond which the canary warns; the 99th
    percentile may be eight times as large. By default four times what is measured at the first sync."""
    concurrency: int = pydantic.Field(default=256, ge=1)
    """The most running requests at each replica; ``episodes.concurrency`` bounds their sum."""
    timeout: float = pydantic.Field(default=600.0, gt=0)
    """Seconds that a server has for one step of a weight transfer."""
    request_timeout: float | None = pydantic.Field(default=None, gt=0)
    """Seconds that a server has for one completion (default: fits ``episodes.turn_timeout``; 210 s). If a working
    server generates for longer, the policy has failed (``policy_failed``); if a server does not answer other requests
    either, it is an infrastructure failure."""
    patience: float | None = pydantic.Field(default=None, gt=0)
    """Seconds that a request waits for a replica to accept it, before its episode is retried. Pauses for new weights
    and queueing do not count (default: fits ``episodes.turn_timeout``; 60 s)."""
    nccl: NcclConfig | None = None
    """Send weights over NCCL instead of files, with ``native``."""

    @pydantic.model_validator(mode="after")
    def _one_way(self) -> Self:
        if [bool(self.urls), self.engine is not None, self.ray is not None].count(True) != 1:
            raise ValueError(
                "name one of urls, the addresses of servers, engine, for vLLM in this process, and ray, for servers "
                "that the run starts on a cluster"
            )
        others = self.transfer not in (None, "memory") or self.nccl is not None
        if others if self.engine is not None else self.transfer == "memory":
            raise ValueError(
                "an engine in this process is given weights from memory (transfer = memory, or nothing), and servers "
                "by any other way"
            )
        if self.ray is not None and (self.transfer == "ipc" or self.exchange_there is not None):
            raise ValueError(
                "servers on a cluster (server.ray) are on other GPUs than the learner's, and find the exchange folder "
                "by themselves: leave out transfer = ipc and exchange_there"
            )
        if self.nccl is not None and self.transfer not in (None, "native"):
            raise ValueError(f"nccl is a backend of transfer = native; got transfer = {self.transfer}")
        return self

    def limits(self, turn_timeout: float | None) -> TimeLimits:
        """Return the time limits of servers, within the time of a turn.

        Raises:
            UsageError: the limits do not nest.
        """
        return TimeLimits.within(turn_timeout, request=self.request_timeout, patience=self.patience)


def chosen_transfer(config: ServerConfig, lora: LoraConfig | None) -> str:
    """Return the transfer of weights to servers."""
    return config.transfer or ("adapter" if lora is not None and config.nccl is None else "native")


def refuse_sleep(config: ServerConfig | None, *, samples_always: str) -> None:
    """Refuse servers that would sleep while the policy is needed.

    Args:
        config: settings of the servers, if any.
        samples_always: reason why the policy samples while the learner learns; "" if it does not.

    Raises:
        UsageError: they would.
    """
    if config is not None and config.sleep and samples_always:
        raise UsageError(f"server.sleep = {config.sleep} stops sampling while the learner learns, but {samples_always}")


def refuse_dropping(config: ServerConfig, lora: LoraConfig | None) -> None:
    """Refuse servers that drop their weights and get adapters alone."""
    if config.sleep == 2 and config.engine is None and chosen_transfer(config, lora) == "adapter":
        raise UsageError(
            "server.sleep = 2 drops the weights of servers, and adapters bring none: set server.sleep = 1, or "
            "server.transfer = native"
        )
