"""Turn episodes of Turnwise into records of an audit."""

from __future__ import annotations

import json
from pathlib import Path

from ...rollouts.episode import UNANSWERED, Episode, Outcome
from ...tasks.rng import stable_hash
from ..failures import error_name
from ..summary import SUMMARY
from .record import Record, continuity


def record_of(episode: Episode) -> Record:
    """Return the record of an episode."""
    value: float | None = None
    if episode.scored:
        value = float(episode.success)
    elif episode.score is not None:
        value = float(episode.score.success)
    unanswered = episode.trainable and any(UNANSWERED in turn.info for turn in episode.turns)
    by_policy = episode.outcome is Outcome.POLICY_FAILED
    failure: str | None = None
    if by_policy or not episode.scored:
        failure = error_name(episode)
    elif unanswered:
        failure = "the infrastructure failed in a step"
    content: bytes | None = None
    if episode.own_turns:
        # Two episodes may sample the same text, but not in the same nanoseconds.
        parts = (f"{turn.action.text} {turn.action_ids} {turn.seconds_policy!r}" for turn in episode.own_turns)
        content = stable_hash("audit", episode.task.digest, repr(episode.seconds), *parts)
    return Record(
        id=episode.episode_id,
        outcome=str(episode.outcome),
        task=episode.task.digest,
        value=value,
        failure=failure,
        by_policy=by_policy,
        unscorable=not by_policy,
        seconds=episode.seconds,
        turns=len(episode.turns),
        level=episode.task.level,
        parent=episode.fork.parent if episode.fork is not None else None,
        content=content,
        tokens=continuity((turn.seat, turn.prompt_ids, turn.action_ids) for turn in episode.turns),
    )


def context_of(store: Path) -> str:
    """Return the context strategy of a store's run if it rewrites the history, such as ``last:1``.

    Empty if it is ``full``, or neither a training run's ``config.json`` nor an evaluation's summary beside the store
    has it.
    """
    for name, path in ((SUMMARY, ("made", "settings")), ("config.json", ("config",))):
        try:
            settings = json.loads((store.parent / name).read_bytes())
            for key in (*path, "agent"):
                settings = settings[key]
            context = str(settings["context"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        return "" if context == "full" else context
    return ""
