"""A run whose policy is served: the policy and the weight transfer made from its settings."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ...errors import InfrastructureError, UsageError
from ...inference.serving.http.client import ServerClient
from ...inference.serving.http.vocabulary import check_tokenizer
from ...inference.serving.launch.process import FILES
from ...inference.serving.placed import NOWHERE
from ...inference.serving.remote_policy import RemotePolicy
from ...inference.value_guided import ValueGuidedModel
from ..learning.lora import LoraConfig
from ..learning.main_process import run_on_main
from ..learning.parallel import ProcessGroup
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
from .own_engine import OwnEngine
from .ray_servers import API_KEY, RayServers, save_base
from .server_settings import ServerConfig, chosen_transfer, refuse_dropping


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
        refuse_dropping(config, lora)
        key = os.environ.get(API_KEY)
        self.tokenizer = tokenizer
        self.world = world = scorer.world
        theirs = config.dtype or dtype
        longest = int(getattr(model.config, "max_position_embeddings", 1 << 20))
        client: dict[str, Any] = {"model": config.model, "api_key": key, "timeout": config.timeout}
        made: dict[str, Any] = {"longest": longest, "dtype": theirs, "out": out, "world": world}
        self.placed = _placed(config, model, tokenizer, lora, client, **made)
        self.clients: Sequence[ServerClient] = (
            self.placed.servers
            if self.placed is not None
            else [ServerClient(url, **client) for url in config.urls or [NOWHERE] * (config.engine is None)]
        )
        for each in self.clients:
            each.vocabulary = getattr(model.config, "vocab_size", None)
        self.engine = _engine(config, model, tokenizer, **made)
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
        self.weights = WeightSync(
            policy, transport, model, asked, world=world, sleep=config.sleep, refresh=config.ray is not None
        )

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
        chosen, device = chosen_transfer(config, lora), next(model.parameters()).device
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
        return Native(self.policy, Files(exchange, keep=config.ray is not None), mode=mode, timeout=timeout)

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
            late: Mapping[Any, str] = await self.placed.start() if self.placed is not None else {}
            self.policy.expect(late)
            try:
                # A server that an interrupted run left paused is resumed here, since it gets complete weights now.
                await self.policy.open(control=transport.needs_control)
                for client in (each for each in self.clients if each not in late):
                    await check_tokenizer(client, self.tokenizer, source="the run's model")
            except InfrastructureError as error:
                if self.engine is not None or self.placed is not None:
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
        """Remove what the run left in folders and on servers; those that it did not start keep running."""
        if self.world.is_main:
            await self.weights.close()
            await self.policy.close()
            if self.engine is not None:
                self.engine.stop()
            if self.placed is not None:
                await self.placed.stop()


def _engine(
    config: ServerConfig, model: Any, tokenizer: Any, *, longest: int, dtype: str, out: Path, world: ProcessGroup
) -> OwnEngine | None:
    """Return the engine in this process, if the settings ask for it."""
    if config.engine is None:
        return None
    if world.size > 1:
        raise UsageError(
            "server.engine is for one process, since vLLM takes torch.distributed for itself; start servers "
            "(scripts/serve) and name them in server.urls"
        )
    options = config.engine.options(longest=longest, dtype=dtype, sleep=config.sleep > 0)
    return OwnEngine(options, model, tokenizer, out / "engine")


def _placed(
    config: ServerConfig,
    model: Any,
    tokenizer: Any,
    lora: LoraConfig | None,
    client: Mapping[str, Any],
    *,
    longest: int,
    dtype: str,
    out: Path,
    world: ProcessGroup,
) -> RayServers | None:
    """Return the servers that the run starts on a cluster, if the settings ask for them; only in the main process."""
    if config.ray is None:
        return None
    save_base(model, tokenizer, out / "served", world)
    if not world.is_main:
        return None
    options = config.ray.options(longest=longest, dtype=dtype, sleep=config.sleep > 0)
    return RayServers(config.ray, options.model_copy(update=_ways(config, lora)), out / "served", **client)


def _ways(config: ServerConfig, lora: LoraConfig | None) -> dict[str, Any]:
    """Return the options of servers on a cluster that follow from the other settings."""
    chosen = chosen_transfer(config, lora)
    return {
        "name": config.model or "policy",
        "transfer": "nccl" if config.nccl is not None else FILES if chosen == "native" else None,
        "max_rank": lora.rank if chosen == "adapter" and lora is not None else 0,
    }
