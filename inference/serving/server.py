"""The interface to one server of a policy: a sampler and its optional capabilities, without HTTP.

A ``Sampler`` is enough to evaluate and to sample for training. Weights change only on servers that also are
``Pausable`` and either a ``WeightReceiver`` or an ``AdapterHost``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ...errors import UsageError
from ..policy import Completion, Sampling


class Pause(StrEnum):
    """Treatment of requests in flight while weights change."""

    KEEP = "keep"
    """They are frozen and continue with the new weights: one action may span versions."""
    WAIT = "wait"
    """They finish first, with the old weights."""
    ABORT = "abort"
    """They end at once with what they have; ``RemotePolicy`` continues them from there with the new weights."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Abilities of a running server, as it reports them when a run starts.

    Args:
        version: version of vLLM, e.g. ``0.32.0+cpu``.
        model: name under which it serves the base model.
        context_length: maximum tokens of prompt and action together.
        ids: whether token ids go in and come out without passing through text.
        processed_logprobs: whether log-probabilities are those of the sampled distribution, temperature included.
        control: whether it can be paused and resumed, and its prefix cache reset.
        version_spans: whether it reports which weights sampled which tokens, so that ``Pause.KEEP`` is exact.
        transfer: backend of its native weight transfer; ``None`` if it was started without one.
        reload: whether it can reload a whole checkpoint from a folder that it sees.
        adapters: whether it can load and unload adapters while it runs.
        max_rank: largest rank of an adapter; 0 if there are none or the server does not report it.
        started: start time of its process in seconds since 1970, if it reports one: a replica that comes back with
            another one has the weights that it was started with.
        sleeps: whether it was started so that it can free its memory.
        workers: number of its GPUs, each of which takes weights: all of its parallel sizes multiplied.
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
    sleeps: bool = False
    workers: int = 1


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """One answer of a server.

    Args:
        completion: ids and log-probabilities; its versions are 0 where the server does not report them.
        prompt_ids: the prompt that the server reports to have read; must be what was sent.
        spans: ``(version, first token, token after the last)`` as the server reports them; empty if it does not.
        cached: number of prompt tokens that it found in its prefix cache.
    """

    completion: Completion
    prompt_ids: tuple[int, ...]
    spans: tuple[tuple[int, int, int], ...] = ()
    cached: int = 0


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """The load of one server, as it counts it.

    Args:
        running: requests in progress.
        waiting: requests in its queue.
        cache_use: share of the cache for keys and values in use.
        queried: prompt tokens looked up in the prefix cache since it started.
        found: prompt tokens found there.
    """

    running: float
    waiting: float
    cache_use: float
    queried: float
    found: float


class Sampler(Protocol):
    """One replica of a policy. Every method raises ``InfrastructureError`` with its URL when it cannot be reached."""

    @property
    def address(self) -> str:
        """How messages name it: a URL, or ``in process``."""
        ...

    async def probe(self) -> Capabilities:
        """Ask what it can do.

        Raises:
            UsageError: its version is not supported, or it was started in a way that cannot work; says how to start it.
        """
        ...

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "", adapter: str | None = None
    ) -> ServerResponse:
        """Sample one continuation; cancelling the call aborts the request on the server.

        Args:
            prompt_ids: token ids, exactly as the model reads them.
            sampling: sampling options.
            session: id of the session; its requests share a prefix.
            adapter: name of a loaded adapter; ``None`` for the base model.
        """
        ...

    async def close(self) -> None:
        """Close connections; the server continues to run."""
        ...


@runtime_checkable
class Pausable(Protocol):
    """Stops between two tokens, so that weights can change."""

    async def pause(self, mode: Pause) -> None:
        """Stop generating; return once it has stopped."""
        ...

    async def resume(self) -> None:
        """Continue to generate."""
        ...

    async def reset_prefix_cache(self) -> None:
        """Drop all cached keys and values, which belong to old weights."""
        ...

    async def name_version(self, version: int) -> None:
        """Call the weights that it has ``version``; does nothing where it keeps no versions."""
        ...


@runtime_checkable
class Sleeper(Protocol):
    """Frees its GPU's memory while nothing is sampled."""

    async def sleep(self, level: int) -> None:
        """Free the cache and move the weights to the machine's memory (level 1), or drop both (level 2)."""
        ...

    async def wake(self, tags: Sequence[str] = (), *, restore: bool = False) -> None:
        """Take the memory back.

        Args:
            tags: ``weights`` or ``kv_cache``; all without any. It samples again once it has all.
            restore: whether to load the weights that it was started with, since level 2 dropped what it had.
        """
        ...

    async def asleep(self) -> bool:
        """Return whether it sleeps."""
        ...


@runtime_checkable
class Counting(Protocol):
    """Counts its requests."""

    async def load(self) -> ServerLoad | None:
        """Return its present load; ``None`` if it was started without counts.

        Raises:
            InfrastructureError: it cannot be reached.
        """
        ...


@runtime_checkable
class AdapterHost(Protocol):
    """Serves adapters of low rank beside its base model."""

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Load an adapter in PEFT's format from a folder that the server sees."""
        ...

    async def unload_adapter(self, name: str) -> None:
        """Unload an adapter."""
        ...


@runtime_checkable
class WeightReceiver(Protocol):
    """Takes new weights of its base model: from a folder, or in the four phases of vLLM's native weight transfer."""

    async def reload(self, folder: Path) -> None:
        """Reload all weights from a folder of safetensors that the server sees."""
        ...

    async def init_transfer(self, info: Mapping[str, Any]) -> None:
        """Phase 1; ``info`` is the backend's own."""
        ...

    async def start_update(self) -> None:
        """Phase 2: weights are about to change."""
        ...

    async def update(self, info: Mapping[str, Any]) -> None:
        """Phase 3, once per chunk; ``info`` is the backend's own."""
        ...

    async def finish_update(self, version: int) -> None:
        """Phase 4: the weights are complete; use them and call them ``version``."""
        ...


@runtime_checkable
class Leaver(Protocol):
    """Can leave the group of a transfer, so that another is formed."""

    async def started(self) -> float | None:
        """Return the start time of its process in seconds since 1970, also while it is paused; ``None`` if unknown."""
        ...

    async def leave_transfer(self) -> None:
        """Leave the group of the last first phase; does nothing without one."""
        ...


@runtime_checkable
class FolderReceiver(Protocol):
    """May not see the trainer's folders, and is sent copies of them."""

    async def receive(self, folder: Path) -> Path:
        """Send a folder in advance, or not at all if the server sees it; return its path there.

        Raises:
            InfrastructureError: it did not arrive.
        """
        ...


def pausable(server: Sampler) -> Pausable:
    """Return the server as one that can be paused.

    Raises:
        UsageError: it cannot be paused.
    """
    if not isinstance(server, Pausable):
        raise _lacks(server, "cannot be paused, so its weights cannot change")
    return server


def sleeper(server: Sampler) -> Sleeper:
    """Return the server as one that can sleep.

    Raises:
        UsageError: it cannot sleep.
    """
    if not isinstance(server, Sleeper):
        raise _lacks(server, "cannot sleep; leave server.sleep out")
    return server


def adapter_host(server: Sampler) -> AdapterHost:
    """Return the server as one that loads adapters.

    Raises:
        UsageError: it does not load adapters.
    """
    if not isinstance(server, AdapterHost):
        raise _lacks(server, "loads no adapters; set server.transfer = native or reload")
    return server


def weight_receiver(server: Sampler) -> WeightReceiver:
    """Return the server as one that takes weights.

    Raises:
        UsageError: it does not take weights.
    """
    if not isinstance(server, WeightReceiver):
        raise _lacks(server, "takes no weights; set server.transfer = adapter")
    return server


def _lacks(server: Sampler, what: str) -> UsageError:
    return UsageError(f"server {server.address} ({type(server).__name__}) {what}")
