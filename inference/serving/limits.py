"""``TimeLimits``: how long a policy's servers may take, nested within the time of a turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ...errors import UsageError

REQUEST, LONGEST_PATIENCE = 600.0, 60.0
"""Default seconds of one request in a run without a turn limit, and the maximum default of patience."""
WITHIN = 0.9
"""Share of a turn that a request may spend on servers; the rest is for the agent's own work."""
PATIENCE = 0.2
"""Default share of a turn for requests to failing servers."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits of one completion: ``request < request + patience < turn``.

    Args:
        request: seconds for one request, from the first byte sent to the last received, without pauses.
        patience: seconds that a request waits for an available replica.
    """

    request: float
    patience: float

    @classmethod
    def within(
        cls, turn: float | None, *, request: float | None = None, patience: float | None = None, table: str = "server."
    ) -> Self:
        """Return limits that nest within a turn; those that are omitted follow from it.

        Args:
            turn: seconds of a turn (``turn_timeout``); ``None`` for no limit.
            request: seconds for one request; ``None`` for the default.
            patience: seconds of waiting for a replica; ``None`` for the default.
            table: prefix of the settings' names, for messages.

        Raises:
            UsageError: the given limits do not fit into the turn.
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
        if min(chosen.request, chosen.patience) <= 0 or chosen.max_wait >= turn:
            given = {f"{table}request_timeout": request, f"{table}patience": patience}
            said = " and ".join(f"{name} = {value:g} s" for name, value in given.items() if value is not None)
            raise UsageError(
                f"{said} do not fit into turn_timeout = {turn:g} s. A turn must have time for one request and, after "
                f"it, for the patience with failing servers; raise turn_timeout above "
                f"{(request or 0) + (patience or 0):g} s by a tenth or more, or lower the others"
            )
        return chosen

    @property
    def max_wait(self) -> float:
        """Maximum seconds to wait for a completion, whatever the servers do."""
        return self.request + self.patience
