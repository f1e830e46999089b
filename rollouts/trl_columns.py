"""Episodes as TRL's trainer reads them: one sequence each, the mask of sampled tokens, and the reward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import UsageError
from .episode import Episode


def columns(episodes: Sequence[Episode], spare: int, *, with_logprobs: bool) -> dict[str, Any]:
    """Return what TRL's trainer reads; an episode without a reward is one token that counts for nothing.

    Args:
        episodes: episodes in the order of the trainer's prompts.
        spare: id of the token in place of an episode without a reward.
        with_logprobs: whether the log-probabilities of the sampled tokens are known.

    Raises:
        UsageError: an episode is more than one sequence.
    """
    rewards = _rewards(episodes)
    rows = [
        ((spare,), [spare], [0], [0.0]) if reward is None else _row(episode)
        for episode, reward in zip(episodes, rewards, strict=True)
    ]
    return {
        "prompt_ids": [list(prompt) for prompt, _, _, _ in rows],
        "completion_ids": [ids for _, ids, _, _ in rows],
        "env_mask": [mask for _, _, mask, _ in rows],
        "logprobs": [logprobs for _, _, _, logprobs in rows] if with_logprobs else None,
        "reward": rewards,
        "success": [episode.success if episode.scored else None for episode in episodes],
        "outcome": [str(episode.outcome) for episode in episodes],
        "turns": [len(episode.turns) if episode.scored else None for episode in episodes],
    }


def _row(episode: Episode) -> tuple[tuple[int, ...], list[int], list[int], list[float]]:
    """Return an episode as one sequence: first prompt, completion, mask of sampled tokens, log-probabilities."""
    prompt = episode.turns[0].prompt_ids
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    for turn in episode.turns:
        known = len(prompt) + len(ids)
        if turn.prompt_ids[:known] != (*prompt, *ids):
            raise UsageError("a prompt does not extend the episode before it, and TRL trains each as one sequence")
        between = turn.prompt_ids[known:]
        ids += (*between, *turn.action_ids)
        mask += [0] * len(between) + [1] * len(turn.action_ids)
        logprobs += [0.0] * len(between) + list(turn.logprobs)
    return prompt, ids, mask, logprobs


def _rewards(episodes: Sequence[Episode]) -> list[float | None]:
    """Return the return of each episode; ``None`` for one that the policy is not to blame for.

    As in Turnwise's own trainers, an episode that the policy did not finish returns what the worst attempt at its task
    returned, or less if it has less. If no attempt at its task was played to an end, the worst of all tasks counts.
    """
    played: dict[str, list[float]] = {}
    failed: dict[str, list[float]] = {}
    for episode in episodes:
        if episode.scored:
            side = played if episode.trainable else failed
            side.setdefault(episode.task.digest, []).append(episode.total_reward)
    every = [value for values in played.values() for value in values]

    def of(episode: Episode) -> float | None:
        if episode.trainable:
            return episode.total_reward
        if not episode.scored or not any(turn.action_ids for turn in episode.turns):
            return None
        return min([*played.get(episode.task.digest, every), *failed[episode.task.digest]])

    return [of(episode) for episode in episodes]
