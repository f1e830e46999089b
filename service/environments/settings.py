"""Settings of an environment server: its limits and times."""

from __future__ import annotations

from typing import Any, Self

import pydantic

from ...config import Config
from ...rollouts.options import ENV_TIMEOUT, Isolation


class ServeConfig(Config):
    """Limits and times of an environment server; every default suits one machine."""

    capacity: int = pydantic.Field(default=16, ge=1)
    """Number of episodes at a time, forks included. With ``isolation = "process"``, each has a process."""
    per_client: int | None = pydantic.Field(default=None, ge=1)
    """Number of episodes that one token may have at a time (default: ``capacity``)."""
    isolation: Isolation = "process"
    """Place of each environment: ``process``, so that one that hangs or dies harms no other; ``thread`` and ``inline``
    are faster, for environments that you trust to return."""
    env_kwargs: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Constructor arguments of the environments."""
    process_memory: float | None = pydantic.Field(default=None, gt=0)
    """Bytes of memory that the process of an environment and the processes below it may occupy (default: no limit). It
    is measured each second. A process beyond the limit is killed, and its episode has failed; one that has occupied
    more than four fifths of it is replaced after its episode."""
    process_episodes: int | None = pydantic.Field(default=None, ge=1)
    """Number of episodes that a process plays before another takes its place (default: no limit)."""
    env_timeout: float = pydantic.Field(default=ENV_TIMEOUT, gt=0)
    """Seconds that an environment has for one call; beyond them it is killed, and the episode has failed."""
    reattach: float = pydantic.Field(default=120.0, ge=0)
    """Seconds that an episode waits for its client after a broken socket."""
    idle: float = pydantic.Field(default=3600.0, gt=0)
    """Seconds without a request after which an episode is closed."""
    heartbeat: float = pydantic.Field(default=5.0, gt=0)
    """Seconds between two heartbeats on each connection."""
    send_timeout: float = pydantic.Field(default=30.0, gt=0)
    """Seconds that a client has to read a frame or an answer; beyond them its connection is dropped."""
    frame: int = pydantic.Field(default=4 * 1024 * 1024, ge=1024)
    """Maximum bytes of a request; sixteen times as many of NeMo Gym's ``aggregate_metrics``."""
    pending: int = pydantic.Field(default=256, ge=1)
    """Number of requests of one connection without an answer; beyond them nothing more is read from it. The same holds
    when they have four times ``frame`` bytes together. As many more may wait for a place; beyond them it is refused.
    Steps of one episode without an answer have the same two limits; beyond them a step is refused."""
    rate: float = pydantic.Field(default=2000.0, gt=0)
    """Requests per second of one WebSocket, after a burst of as many; faster ones are read later. Over HTTP, the same
    holds of all requests of one token together; one that would have to wait longer than five seconds gets 429."""
    connections: int = pydantic.Field(default=256, ge=1)
    """Number of WebSockets at a time, and of streams of ORS. With several tokens, half of the streams are shared out
    evenly among them and the operator. Of the other half, each may use as many as stay free."""
    waiting: int = pydantic.Field(default=256, ge=0)
    """Number of episodes that may wait for a place when the server is full."""
    drain: float = pydantic.Field(default=30.0, ge=0)
    """Seconds that running episodes have to end after SIGTERM. Those whose client has been silent for longer, or
    without a connection for 15 seconds, end at once."""

    @pydantic.model_validator(mode="after")
    def _limits_need_processes(self) -> Self:
        limits = [name for name in ("process_memory", "process_episodes") if getattr(self, name) is not None]
        if limits and self.isolation != "process":
            raise ValueError(f"{' and '.join(limits)} need isolation=process; got isolation={self.isolation}")
        return self
