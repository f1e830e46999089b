"""Detect a hopeless run from a round of its episodes, and stop it with an error instead of learning nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ...agents.agent import Agent
from ...errors import InfrastructureError, ProgramFailedError, PromptTooLongError, UsageError
from ...rollouts.episode import Episode, Outcome
from ...rollouts.unread import unread


def refuse_hopeless(episodes: Sequence[Episode], agent: Agent) -> None:
    """Raise an error if there is nothing to learn from.

    Args:
        episodes: episodes of a round.
        agent: agent that played them.

    Raises:
        PromptTooLongError: the very first prompt of every single episode is too long.
        ProgramFailedError: a black-box agent's program failed in every single episode.
        InfrastructureError: every single episode was lost to the infrastructure, or to a broken environment.
        UsageError: much of the environment's text is not in the model's vocabulary.
    """
    if not episodes:
        return
    too_long = [e.error for e in episodes if not e.turns and (e.error or "").startswith(PromptTooLongError.__name__)]
    if len(too_long) == len(episodes):
        raise PromptTooLongError(f"none of {len(episodes)} episodes could begin: {too_long[0]}")
    crashed = [e.error for e in episodes if (e.error or "").startswith(ProgramFailedError.__name__)]
    if len(crashed) == len(episodes):
        raise ProgramFailedError(f"none of {len(episodes)} episodes was played to an end: {crashed[0]}")
    if all(episode.outcome is Outcome.INFRA_FAILED for episode in episodes):
        raise InfrastructureError(
            f"none of {len(episodes)} episodes was played to an end: {episodes[0].error}; fix that, then resume the run"
        )
    if problem := unread(episodes, agent):
        raise UsageError(f"{problem}; name a model that was cloned on this one")
