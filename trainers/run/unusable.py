"""Episodes that an algorithm cannot learn from: dropped and counted, until there are too many of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...errors import ContractError
from ...logs import tell
from ...rollouts.episode import FAILURE_RATE, FEWEST_FAILURES, Episode
from ..learning.groups import Group

LOG = logging.getLogger(__name__)


class UnusableEpisodes:
    """Drops episodes that break the contract of an algorithm, and stops a run in which they are not exceptions.

    The share is that of all episodes since the process started, so it does not depend on the size of a step.

    Args:
        check: raises ``ContractError`` for an episode that the algorithm cannot learn from.
        warns: whether to print a warning for each; false in all processes but the main one.
    """

    def __init__(self, check: Callable[[Episode], object], *, warns: bool = True) -> None:
        self._check = check
        self._warns = warns
        self._played = self._dropped = 0

    def without(self, groups: Sequence[Group]) -> tuple[tuple[Group, ...], dict[str, float]]:
        """Return the groups without unusable members, and their number to log, if there are any.

        Raises:
            ContractError: Three or more episodes were unusable, and more than 5 % of all.
        """
        kept, dropped = [], 0
        for group in groups:
            usable = tuple(episode for episode in group.members if self._usable(episode))
            lost = len(group.members) - len(usable)
            dropped += lost
            kept.append(replace(group, members=usable, excluded=group.excluded + lost) if lost else group)
        return tuple(kept), {"unusable": float(dropped)} if dropped else {}

    def _usable(self, episode: Episode) -> bool:
        self._played += 1
        try:
            self._check(episode)
        except ContractError as error:
            self._dropped += 1
            if self._dropped >= FEWEST_FAILURES and self._dropped > FAILURE_RATE * self._played:
                raise ContractError(
                    f"{self._dropped} of {self._played} episodes cannot be learned from (limit {FAILURE_RATE:.0%}). "
                    f"The last one: {error}"
                ) from error
            if self._warns:
                tell(
                    LOG, "episode dropped", f"an episode is not learned from: {error}", {"episode": episode.episode_id}
                )
            return False
        return True
