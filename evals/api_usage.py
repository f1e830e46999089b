"""Tokens of episodes, and cost and latency of those that a model behind a chat API played."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..agents.agent import CHAT_API
from ..rollouts.episode import Episode, Turn


@dataclass(frozen=True, slots=True)
class ApiUsage:
    """Tokens, cost and latency of an API's answers, over all episodes, scored or not.

    Args:
        answers: number of answers.
        kept: number of answers that came from an earlier run's files, without a new request.
        prompt_tokens: tokens read, as the provider counted them.
        cached_tokens: prompt tokens that the provider's cache served.
        completion_tokens: tokens written.
        reasoning_tokens: completion tokens that were reasoning.
        cost: cost in dollars; ``None`` if a price is unknown.
        median_seconds: median latency of a request.
        p95_seconds: 95th percentile of the latency of a request.
    """

    answers: int
    kept: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    cost: float | None
    median_seconds: float
    p95_seconds: float


def api_usage(episodes: Iterable[Episode]) -> ApiUsage | None:
    """Return the usage of these episodes, or ``None`` if no API played any."""
    records = [turn.info[CHAT_API] for episode in episodes for turn in episode.own_turns if turn.by_chat_api]
    if not records:
        return None
    seconds = sorted(float(record["seconds"]) for record in records)
    costs = [record["cost"] for record in records]
    total = {name: sum(int(record.get(name, 0)) for record in records) for name in _TOKENS}
    return ApiUsage(
        answers=len(records),
        kept=sum(bool(record["kept"]) for record in records),
        cost=None if None in costs else sum(costs),
        median_seconds=statistics.median(seconds),
        p95_seconds=seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))],
        **total,
    )


_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")


def tokens_read(episode: Episode) -> int:
    """Return the number of prompt tokens of an episode and its rollouts: of their ids, or as an API counted them."""
    read = (len(turn.prompt_ids) or _counted(turn, "prompt_tokens") for turn in episode.turns)
    return sum(read) + sum(ahead.prompted for ahead in episode.lookaheads)


def tokens_written(episode: Episode) -> int:
    """Return the number of sampled tokens of an episode and its rollouts: of their ids, or as an API counted them."""
    written = (len(turn.action_ids) or _counted(turn, "completion_tokens") for turn in episode.turns)
    return sum(written) + sum(ahead.sampled for ahead in episode.lookaheads)


def _counted(turn: Turn, name: str) -> int:
    return int(turn.info.get(CHAT_API, {}).get(name, 0))


def rollouts_note(episodes: Iterable[Episode]) -> Iterator[str]:
    """Yield a remark on the rollouts that were played beside the episodes, if there are any."""
    rollouts = [ahead for episode in episodes for ahead in episode.lookaheads]
    if rollouts:
        steps = sum(len(ahead.rewards) for ahead in rollouts)
        yield (
            f"{len(rollouts):,} rollouts on forks of the environment ({steps:,} actions) chose the actions or valued "
            "states; tokens include theirs"
        )
