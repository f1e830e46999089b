"""Episodes that an algorithm cannot learn from: dropped and counted, until there are too many of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...errors import ContractError
from ...logs import tell
from ...rollouts.episode import FAILURE_RATE, FEWEST_FAILURES, Episode
from ..learning.groups import Group, with_failures

LOG = logging.getLogger(__name__)


class UnusableEpisodes:
    """Drops episodes that break the contract of an algorithm, and stops a run in which they are not exceptions.

    The share is that of all episodes since the process started, so it does not depend on the size of a step.

    Args:
        check: raises ``ContractError`` for an episode that the algorithm cannot learn from.
    """

    def __init__(self, check: Callable[[Episode], object]) -> None:
        self._check = check
        self._played = self._dropped = 0

    def without(self, groups: Sequence[Group]) -> tuple[tuple[Group, ...], dict[str, float]]:
        """Return the groups to learn from, and the number of dropped episodes to log, if there are any.

        Attempts that the policy did not finish become members after unusable ones have gone, whose returns must not
        count.

        Raises:
            ContractError: Three or more episodes were unusable, and more than 5 % of all.
        """
        before, errors = self._dropped, list[ContractError]()
        usable = [self._kept(group, group.members, errors) for group in groups]
        ended = [
            self._kept(after, after.members[len(group.members) :], errors)
            for group, after in zip(usable, with_failures(usable), strict=True)
        ]
        if errors and self._dropped >= FEWEST_FAILURES and self._dropped > FAILURE_RATE * self._played:
            raise ContractError(
                f"{self._dropped} of {self._played} episodes cannot be learned from (limit {FAILURE_RATE:.0%}). "
                f"The last one: {errors[-1]}"
            ) from errors[-1]
        dropped = self._dropped - before
        return tuple(ended), {"unusable": float(dropped)} if dropped else {}

    def _kept(self, group: Group, examined: Sequence[Episode], errors: list[ContractError]) -> Group:
        """Return the group without those of the examined members that are unusable."""
        lost = {episode.episode_id for episode in examined if not self._usable(episode, errors)}
        if not lost:
            return group
        members = tuple(episode for episode in group.members if episode.episode_id not in lost)
        return replace(group, members=members, excluded=group.excluded + len(group.members) - len(members))

    def _usable(self, episode: Episode, errors: list[ContractError]) -> bool:
        self._played += 1
        try:
            self._check(episode)
        except ContractError as error:
            self._dropped += 1
            errors.append(error)
            tell(LOG, "episode dropped", f"an episode is not learned from: {error}", {"episode": episode.episode_id})
            return False
        return True
