"""The judgment of a critic over utterances on kept episodes: value per turn, and the advantage of each utterance."""

from __future__ import annotations

from collections.abc import Sequence

from ...rollouts.episode import Episode
from ...rollouts.learner_records import LearnerRecord, LearnerTurn
from .transitions import transitions
from .utterance import UtteranceCritic


def judged_episodes(
    critic: UtteranceCritic, episodes: Sequence[Episode], *, step: int, only: frozenset[str]
) -> list[LearnerRecord]:
    """Return ``min(V1, V2)`` before each turn, and ``min(Q1, Q2) − min(V1, V2)`` of its utterance on each token.

    These are the critic's numbers before it learns from the episodes. ArCHer's actor learns from other utterances in
    the same states, which no store holds, so entropies and the trainer's log-probabilities are unknown.

    Args:
        critic: the critic.
        episodes: episodes played to an end.
        step: training step, counted from 1.
        only: ids of the episodes to judge.
    """
    chosen = [episode for episode in episodes if episode.episode_id in only]
    made = [(number, turn) for number, episode in enumerate(chosen) for turn in transitions(episode, 1.0)]
    if not made:
        return [LearnerRecord(each.episode_id, step, (LearnerTurn(),) * len(each.turns)) for each in chosen]
    states = [turn.state_ids for _, turn in made]
    value_B = critic.v(states).amin(0).tolist()
    advantage_B = critic.advantage(states, [turn.action_ids for _, turn in made]).tolist()
    turns = [[LearnerTurn()] * len(each.turns) for each in chosen]
    for (number, turn), value, advantage in zip(made, value_B, advantage_B, strict=True):
        turns[number][turn.turn] = LearnerTurn((advantage,) * len(turn.action_ids), value=value)
    return [LearnerRecord(each.episode_id, step, tuple(own)) for each, own in zip(chosen, turns, strict=True)]
