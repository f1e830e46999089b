"""Build the record of a turn from a decision and a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..agents.agent import Closable, Decision, PromptReader, Session
from ..envs.messages import Observation, bounded
from ..logs import without_secrets
from ..tasks.score import Score
from .episode import Turn

TYPED = frozenset(("score", "success", "obs_key"))
"""Keys of an environment's ``info`` that have their own field in the records."""


def recorded(observation: Observation, decision: Decision, reward: float) -> Turn:
    """Return the turn for a decision on an observation, before its result is known.

    Its action is the one that the environment reads: a deeper one could be neither stored nor sent between processes.
    """
    return Turn(
        observation,
        bounded(decision.action),
        reward,
        prompt_ids=decision.prompt_ids,
        action_ids=decision.action_ids,
        logprobs=decision.logprobs,
        versions=decision.versions,
        finish=decision.finish,
        seconds_policy=decision.seconds,
        thoughts=decision.thoughts,
    )


def judgement(info: Mapping[str, Any]) -> Score:
    """Return the score of a last step; external environments may give only ``success``."""
    score = info.get("score")
    return score if isinstance(score, Score) else Score(success=bool(info.get("success", False)))


async def unread(session: Session, observation: Observation, *, truncated: bool) -> tuple[int, ...]:
    """Return the prompt that would come next if a limit ended the episode: the state that a critic bootstraps from."""
    if isinstance(session, Closable):
        return await session.over(observation)
    return session.read(observation) if truncated and isinstance(session, PromptReader) else ()


def one_line(error: BaseException) -> str:
    """Return an error in one line to record, without credentials that its text may contain."""
    return " ".join(without_secrets(f"{type(error).__name__}: {error}").split())
