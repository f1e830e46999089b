"""A run whose policy is served: its settings, and the policy and the weight transfer made from them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import pydantic
import torch

from ...config import Config
from ...errors import InfrastructureError, UsageError
from ...inference.serving.http.client import ServerClient
from ...inference.serving.http.vocabulary import check_tokenizer
from ...inference.serving.limits import TimeLimits
from ...inference.serving.remote_policy import RemotePolicy
from ...inference.serving.server import Pause
from ...inference.value_guided import ValueGuidedModel
from ..learning.lora import LoraConfig
from ..learning.main_process import run_on_main
from ..learning.scorer import Scorer
from ..weights.adapter import Adapter
from ..weights.canary_prompts import Questions
from ..weights.ipc import Ipc
from ..weights.nccl import Nccl
from ..weights.reload import Reload
from ..weights.shared_folder import SharedFolder
from ..weights.transfer import Transport
from ..weights.vllm_transfer import Files, Memory, Native
from ..weights.weight_sync import WeightSync
from .own_engine import EngineConfig, OwnEngine

API_KEY = "VLLM_API_KEY"


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

    Or, with ``engine``, vLLM in this process.
    """

    urls: list[str] = pydantic.Field(default_factory=list)
    """URLs of the replicas, e.g. ``["http://localhost:8000"]``; never that of a load balancer in front of several. If
    they need a key, it is read from the environment variable ``VLLM_API_KEY``."""
    model: str | None = None
    """The name under which they serve the base model (default: the only one that they serve)."""
    engine: EngineConfig | None = None
    """vLLM's engine in the trainer's process, instead of ``urls``; it needs vLLM in the same Python environment."""
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
        if bool(self.urls) == (self.engine is not None):
            raise ValueError("name either urls, the addresses of servers, or engine, for vLLM in this process")
        others = self.transfer not in (None, "memory") or self.nccl is not None
        if others if self.engine is not None else self.transfer == "memory":
            raise ValueError(
                "an engine in this process is given weights from memory (transfer = memory, or nothing), and servers "
                "by any other way"
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


class Serving:
    """The policy over servers, and the transfer of weights to them, of one run.

    Args:
        config: settings of the servers.
        model: the learner's model, sharded if several processes learn.
        tokenizer: tokenizer of the model.
        out: folder of the run.
        version: version of the weights at the start.
        dtype: precision of the learner's weights.
        lora: adapters, if only these are trained.
        base: source of the frozen part of an adapted model.
        scorer: how the learner computes, in which processes; only the main one talks to servers.
        turn_timeout: seconds of a turn, in which the servers' limits have to fit.

    Raises:
        UsageError: settings contradict each other, or no server can hold the model.
    """

    def __init__(
        self,
        config: ServerConfig,
        model: Any,
        tokenizer: Any,
        *,
        out: Path,
        version: int,
        dtype: str,
        lora: LoraConfig | None,
        base: Mapping[str, str],
        scorer: Scorer,
        turn_timeout: float | None = None,
    ) -> None:
        if isinstance(model, ValueGuidedModel):
            raise UsageError("a model that is guided by values of tokens cannot be served; leave server out")
        if config.transfer == "adapter" and lora is None:
            raise UsageError(
                "server.transfer = adapter sends adapters, and none are trained: set lora, or leave it out"
            )
        _refuse_dropping(config, lora)
        key = os.environ.get(API_KEY)
        self.tokenizer = tokenizer
        self.world = world = scorer.world
        theirs = config.dtype or dtype
        longest = int(getattr(model.config, "max_position_embeddings", 1 << 20))
        self.clients = [
            ServerClient(url, model=config.model, api_key=key, timeout=config.timeout) for url in config.urls
        ]
        for client in self.clients:
            client.vocabulary = getattr(model.config, "vocab_size", None)
        self.engine: OwnEngine | None = None
        if config.engine is not None:
            if world.size > 1:
                raise UsageError(
                    "server.engine is for one process, since vLLM takes torch.distributed for itself; start servers "
                    "(scripts/serve) and name them in server.urls"
                )
            options = config.engine.options(longest=longest, dtype=theirs, sleep=config.sleep > 0)
            self.engine = OwnEngine(options, model, tokenizer, out / "engine")
        limits = config.limits(turn_timeout)
        self.policy = RemotePolicy(
            [self.engine.server] if self.engine is not None else self.clients,
            max_in_flight=config.concurrency,
            patience=limits.patience,
            request_timeout=limits.request,
            version=version,
        )
        asked = Questions.of(
            tokenizer,
            context_length=longest,
            temperature=scorer.temperature,
            dtypes=[dtype, theirs, *([] if scorer.autocast is None else ["bfloat16"])],
            scorer=scorer,
            tolerance=config.tolerance,
        )
        transport = self._transport(config, model, out, theirs, lora, base) if world.is_main else None
        policy = self.policy if world.is_main else None
        self.weights = WeightSync(policy, transport, model, asked, world=world, sleep=config.sleep)

    def _transport(
        self,
        config: ServerConfig,
        model: Any,
        out: Path,
        dtype: str,
        lora: LoraConfig | None,
        base: Mapping[str, str],
    ) -> Transport:
        # Each of several runs that share a folder has a subfolder of its own.
        own = hashlib.sha256(str(out.absolute()).encode()).hexdigest()[:12]
        folder = Path(config.exchange or out / "exchange").expanduser() / own
        there = Path(config.exchange_there) / own if config.exchange_there else None
        exchange = SharedFolder(folder, there=there, dtype=getattr(torch, dtype))
        mode, timeout = config.pause, config.timeout
        if config.engine is not None:
            return Native(self.policy, Memory(getattr(torch, dtype)), mode=mode, timeout=timeout)
        chosen, device = _chosen(config, lora), next(model.parameters()).device
        if chosen == "adapter" and lora is not None:
            return Adapter(self.policy, exchange, model, rank=lora.rank, base=base, mode=mode, timeout=timeout)
        if chosen == "reload":
            return Reload(self.policy, exchange, mode=mode, timeout=timeout)
        if config.nccl is not None:
            nccl = config.nccl
            backend = Nccl(nccl.host, nccl.port, device=device, gpus=nccl.gpus, dtype=getattr(torch, dtype))
            return Native(self.policy, backend, mode=mode, timeout=timeout)
        if chosen == "ipc":
            if self.world.size > 1:
                raise UsageError(
                    "server.transfer = ipc is for one process that learns, since each GPU would have a part of the "
                    "weights; leave it out, or set server.nccl"
                )
            return Native(self.policy, Ipc(device, dtype=getattr(torch, dtype)), mode=mode, timeout=timeout)
        return Native(self.policy, Files(exchange), mode=mode, timeout=timeout)

    async def open(self) -> None:
        """Check the capabilities and the vocabulary of all servers before any episode is played.

        Raises:
            UsageError: one cannot be used.
            ModelError: one has another tokenizer.
            InfrastructureError: one cannot be reached.
        """

        async def ask() -> None:
            if self.engine is not None:
                self.engine.start()
            transport = self.weights.transport
            assert transport is not None
            try:
                # A server that an interrupted run left paused is resumed here, since it gets complete weights now.
                await self.policy.open(control=transport.needs_control)
                for client in self.clients:
                    await check_tokenizer(client, self.tokenizer, source="the run's model")
            except InfrastructureError as error:
                if self.engine is not None:
                    raise
                raise InfrastructureError(
                    f"{error}; start it (docs/serving.md), or name another in server.urls, then run this again"
                ) from error

        try:
            await run_on_main(self.world, ask)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Remove what the run left in folders and on servers; the servers keep running."""
        if self.world.is_main:
            await self.weights.close()
            await self.policy.close()
            if self.engine is not None:
                self.engine.stop()


def _chosen(config: ServerConfig, lora: LoraConfig | None) -> str:
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


def _refuse_dropping(config: ServerConfig, lora: LoraConfig | None) -> None:
    """Refuse servers that drop their weights and get adapters alone."""
    if config.sleep == 2 and config.engine is None and _chosen(config, lora) == "adapter":
        raise UsageError(
            "server.sleep = 2 drops the weights of servers, and adapters bring none: set server.sleep = 1, or "
            "server.transfer = native"
        )
