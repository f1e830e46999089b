"""Episodes that an evaluation counted and its store has no longer, such as those of a deleted part."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from ..logs import tell
from ..rollouts.episode import Episode
from ..rollouts.store import EPISODES
from .summary import SUMMARY, Summary

LOG = logging.getLogger(__name__)


def counted(store: Path) -> int:
    """Return how many episodes the summary of a store's evaluation counts, or 0 without a summary."""
    summary = store.parent / SUMMARY
    return Summary.load(summary).episodes if store.name == EPISODES and summary.is_file() else 0


def say_lost_episodes(store: Path, episodes: Iterable[Episode]) -> str:
    """Warn that a store has fewer episodes than its evaluation counted, and what to do.

    Args:
        store: folder of the store.
        episodes: all of its episodes.

    Returns:
        The warning; empty if none is lost, or the number is not known.
    """
    there, known = len({episode.episode_id for episode in episodes}), counted(store)
    if there >= known:
        return ""
    text = (
        f"{known - there} of {known} episodes that {SUMMARY} counts are not in {store}, so the numbers "
        "leave them out: restore the files, or run the evaluation with --resume to play them again"
    )
    tell(LOG, "episodes lost", text, {"store": str(store), "episodes": there, "counted": known})
    return text
