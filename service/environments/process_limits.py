"""``ProcessLimits``: how much memory the process of an environment may occupy, and how many episodes it plays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from ...logs import event
from ...rollouts.host_process import ProcessHost
from ...rollouts.hosts import Host
from ...rollouts.process_memory import occupied
from .settings import ServeConfig

LOG = logging.getLogger(__name__)
WORN = 0.8
"""Share of the allowed memory beyond which a process plays no further episode."""


class ProcessLimits:
    """Ends processes that occupy too much memory, and tells which ones should play no further episode.

    Args:
        config: settings of the server.
    """

    def __init__(self, config: ServeConfig) -> None:
        self._memory, self._episodes = config.process_memory, config.process_episodes
        self._occupied: dict[int, int] = {}

    async def enforce(self, hosts: Iterable[Host]) -> None:
        """Measure the processes of environments, and kill those that occupy too much."""
        if self._memory is None:
            return
        measured = [host for host in hosts if isinstance(host, ProcessHost)]
        self._occupied = await asyncio.to_thread(occupied, [host.pid for host in measured])
        for host in measured:
            used = self._occupied.get(host.pid, 0)
            if used > self._memory:
                why = f"occupied {used / 1e9:.2f} GB, more than {self._memory / 1e9:.2f} GB (process_memory)"
                if host.kill(f"was ended: it {why}"):
                    event(LOG, "process ended", f"the process of an environment {why}", level=logging.WARNING)

    def is_worn(self, host: Host) -> bool:
        """Whether the process of an environment, after its episode, should play no other."""
        if not isinstance(host, ProcessHost):
            return False
        if self._episodes is not None and host.episodes >= self._episodes:
            return True
        return self._memory is not None and self._occupied.get(host.pid, 0) > WORN * self._memory
