"""The seam to one server of a policy: what Turnwise asks of it, and what it says it can do. No HTTP here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from ..policy import Completion, Sampling


class Pause(StrEnum):
    """What happens to requests that are under way while weights change."""

    KEEP = "keep"
    """They are frozen, and go on with the new weights: one action may span versions."""
    WAIT = "wait"
    """They are finished first, with the old weights."""
    ABORT = "abort"
    """They end at once with what they have; ``ServedPolicy`` continues them from there with the new weights."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a running server can do, found by asking it when a run begins.

    Args:
        version: of vLLM, e.g. ``0.32.0+cpu``.
        model: the name it serves the base model under.
        context_length: the most tokens of prompt and action together.
        ids: token ids go in and come out without passing through text.
        processed_logprobs: log-probabilities are those of the distribution sampled from, temperature included.
        control: it can be paused and resumed, and its prefix cache be reset.
        version_spans: it says by itself which weights sampled which tokens, so that ``Pause.KEEP`` is exact.
        transfer: the backend of its native weight transfer; ``None`` if it was started without one.
        reload: it can read a whole checkpoint anew from a folder it sees.
        adapters: adapters can be loaded and unloaded while it runs.
        max_rank: the largest rank of an adapter; 0 where there are none, or the server does not tell.
        started: when its process began, in seconds since 1970, where it tells: a replica that comes back with another
            one has the weights that it was started with.
    """

    version: str
    model: str
    context_length: int
    ids: bool = True
    processed_logprobs: bool = True
    control: bool = False
    version_spans: bool = False
    transfer: str | None = None
    reload: bool = False
    adapters: bool = False
    max_rank: int = 0
    started: float | None = None


class Server(Protocol):
    """One replica. Every verb raises ``InfrastructureError`` when it cannot be reached, naming its address."""

    @property
    def address(self) -> str:
        """For messages: a URL, or ``in process``."""
        ...

    async def probe(self) -> Capabilities:
        """Ask what it can do.

        Raises:
            UsageError: its version is not supported, or it was started in a way that cannot work; says how to start it.
        """
        ...

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "", adapter: str | None = None
    ) -> Served:
        """Sample one continuation; cancelling the call aborts the request on the server.

        Args:
            prompt_ids: exactly what the model reads.
            sampling: how to sample.
            session: requests with the same id share a prefix.
            adapter: the name of a loaded adapter; the base model without one.
        """
        ...

    async def pause(self, mode: Pause) -> None:
        """Stop generating; returns once it has stopped."""
        ...

    async def resume(self) -> None:
        """Go on."""
        ...

    async def reset_prefix_cache(self) -> None:
        """Forget all cached keys and values: they are of old weights."""
        ...

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Load an adapter in PEFT's format from a folder that the server sees."""
        ...

    async def unload_adapter(self, name: str) -> None:
        """Forget an adapter."""
        ...

    async def reload(self, folder: Path) -> None:
        """Read all weights anew from a folder of safetensors that the server sees."""
        ...

    async def init_transfer(self, info: Mapping[str, Any]) -> None:
        """The first of vLLM's four phases of weight transfer; ``info`` is the backend's own."""
        ...

    async def start_update(self) -> None:
        """The second: weights are about to change."""
        ...

    async def update(self, info: Mapping[str, Any]) -> None:
        """The third, once per chunk; ``info`` is the backend's own."""
        ...

    async def finish_update(self, version: int) -> None:
        """The fourth: the weights are whole, and are from now on called ``version``."""
        ...

    async def name_version(self, version: int) -> None:
        """The weights it has are from now on called ``version``; nothing happens where it keeps no versions."""
        ...

    async def close(self) -> None:
        """Let go of connections; the server goes on."""
        ...


@dataclass(frozen=True, slots=True)
class Served:
    """One answer of a server.

    Args:
        completion: ids and log-probabilities; its versions are 0 where the server does not tell them.
        prompt_ids: what the server says that it read; must be what was sent.
        spans: ``(version, first token, token after the last)`` by the server's own account; empty if it gives none.
        cached: how many tokens of the prompt it had in its prefix cache.
    """

    completion: Completion
    prompt_ids: tuple[int, ...]
    spans: tuple[tuple[int, int, int], ...] = ()
    cached: int = 0
