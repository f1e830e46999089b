"""``TimeLimits``: how long a policy's servers may take, nested within the time of a turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ...errors import UsageError

REQUEST, LONGEST_PATIENCE = 600.0, 60.0
"""Seconds of one request where a run sets no limit to a turn, and the most of patience where nothing else is set."""
WITHIN = 0.9
"""The share of a turn that may be spent waiting for servers: the rest is the agent's own work."""
PATIENCE = 0.2
"""The share of a turn for which a failing server is asked again, where nothing else is set."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long one completion may take: ``request < request + patience < turn``.

    Args:
        request: seconds for one request, from the first byte sent to the last received, but for pauses.
        patience: seconds for which a request waits for a replica that takes it.
    """

    request: float
    patience: float

    @classmethod
    def within(
        cls, turn: float | None, *, request: float | None = None, patience: float | None = None, table: str = "server."
    ) -> Self:
        """Limits that nest within a turn; what is not given follows from it.

        Args:
            turn: seconds of a turn (``turn_timeout``); ``None`` for no limit.
            request: seconds for one request, where they are set.
            patience: seconds of waiting for a replica, where they are set.
            table: the table of the settings, for messages.

        Raises:
            UsageError: what is given does not fit into the turn.
        """
        if turn is None:
            return cls(request or REQUEST, patience or LONGEST_PATIENCE)
        whole = WITHIN * turn
        if request is None and patience is None:
            patience = PATIENCE * turn
        chosen = cls(
            request=whole - (patience or 0.0) if request is None else request,
            patience=min(whole - (request or 0.0), LONGEST_PATIENCE) if patience is None else patience,
        )
        if min(chosen.request, chosen.patience) <= 0 or chosen.silence >= turn:
            given = {f"{table}request_timeout": request, f"{table}patience": patience}
            said = " and ".join(f"{name} = {value:g} s" for name, value in given.items() if value is not None)
            raise UsageError(
                f"{said} do not fit into turn_timeout = {turn:g} s. A turn must have time for one request and, after "
                f"it, for the patience with failing servers; raise turn_timeout above "
                f"{(request or 0) + (patience or 0):g} s by a tenth or more, or lower the others"
            )
        return chosen

    @property
    def silence(self) -> float:
        """The longest that a completion is waited for, whatever the servers do."""
        return self.request + self.patience
