"""The records: a turn, an episode, and how an episode ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ..agents.agent import CHAT_API
from ..envs.messages import Action, Observation
from ..errors import UnscoredEpisodeError
from ..inference.policy import Finish
from ..tasks.score import Score
from ..tasks.spec import TaskSpec


class Outcome(StrEnum):
    """How an episode ended. Only the first three have a return."""

    COMPLETED = "completed"
    """The environment terminated."""
    TRUNCATED = "truncated"
    """A turn limit ended it; the last state still has a value."""
    POLICY_FAILED = "policy_failed"
    """The policy timed out or ran out of context: its own fault, so it counts as a failure, but nothing is learnt from
    it: what it was paid until then says that failing early is cheap."""
    INFRA_FAILED = "infra_failed"
    """The machinery failed, after retries: no reward, no advantage, counted apart."""
    CANCELLED = "cancelled"
    """Somebody stopped it: no reward, no advantage."""

    @property
    def scored(self) -> bool:
        """Whether the episode says anything about the policy."""
        return self in (Outcome.COMPLETED, Outcome.TRUNCATED, Outcome.POLICY_FAILED)

    @property
    def trainable(self) -> bool:
        """Whether the episode was played to an end of the environment's making, and so may enter an advantage."""
        return self in (Outcome.COMPLETED, Outcome.TRUNCATED)


UNSENT = "unsent"
"""The key of a turn's ``info`` that says that the environment was never told of the action."""
UNANSWERED = "unanswered"
"""The key of a turn's ``info`` that says that the infrastructure failed while the environment dealt with the action."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One observation, the action taken on it, and what came of it: the unit of record.

    Args:
        observation: the new messages that the agent saw before acting.
        action: what it did.
        reward: what the environment gave for it.
        terminated: the task ended here.
        truncated: a limit ended the episode here.
        prompt_ids: exactly what the policy read (empty for scripted agents).
        action_ids: exactly what it sampled, including the stop id.
        logprobs: behaviour log-probability per action id.
        versions: policy version per action id.
        finish: why sampling ended.
        seat: who acted, where there are several.
        seconds_policy: time in the policy.
        seconds_env: time in the environment.
        obs_key: a name for "the same state", for step-level groups (GiGPO).
        info: what the environment wants recorded; JSON-able.
        thoughts: what a reasoning model wrote before it acted; the environment never saw it.
    """

    observation: Observation
    action: Action
    reward: float
    terminated: bool = False
    truncated: bool = False
    prompt_ids: tuple[int, ...] = ()
    action_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    versions: tuple[int, ...] = ()
    finish: Finish = Finish.STOP
    seat: str = "agent"
    seconds_policy: float = 0.0
    seconds_env: float = 0.0
    obs_key: str | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    thoughts: str = ""

    @property
    def sent(self) -> bool:
        """Whether the environment was told of the action; a plan or a draft of a black-box agent was not."""
        return not self.info.get(UNSENT)

    @property
    def by_chat_api(self) -> bool:
        """Whether a model behind a chat API acted, which gives no token ids to train on."""
        return CHAT_API in self.info


@dataclass(frozen=True, slots=True)
class Fork:
    """Where an episode left another one: until then, both are the same.

    Args:
        parent: the id of the episode that it left.
        owners: for each turn that it begins with, the id of the episode that acted in it: the parent's, or that of an
            episode which the parent had left itself. The first turn of its own is the next one.
    """

    parent: str
    owners: tuple[str, ...]

    @property
    def turn(self) -> int:
        """The index of the first turn of its own."""
        return len(self.owners)


@dataclass(frozen=True, slots=True)
class Lookahead:
    """A rollout played from a state of an episode to learn what the state is worth; nothing else is kept of it.

    Args:
        turn: it began in the state before this turn's action.
        rewards: of its turns, in order.
        outcome: how it ended.
        sampled: tokens that were sampled for it.
        prompted: tokens of its prompts.
        reused: those of them that had been read before on its way; see ``Account``.
        tool_calls: how many tools it called.
    """

    turn: int
    rewards: tuple[float, ...]
    outcome: Outcome
    sampled: int = 0
    prompted: int = 0
    reused: int = 0
    tool_calls: int = 0


@dataclass(frozen=True, slots=True)
class Episode:
    """Everything that happened from a reset to an end.

    Args:
        episode_id: unique within a run.
        env_id: the environment's id.
        task: what was asked.
        group_id: episodes of one group share task and baseline.
        turns: in order.
        outcome: how it ended.
        final_observation: what the agent would have seen next; ``None`` if nothing came back.
        score: the judgement; ``None`` unless the outcome is scored.
        error: what went wrong, in one line.
        attempts: how many tries it took (infrastructure failures are retried).
        seconds: wall time from the first attempt on.
        fingerprints: versions and hashes needed to reproduce it (task digest, environment kwargs, code version, …).
        final_prompt_ids: what a language model would have read next, where a limit ended the episode and the last
            state still has a value; empty otherwise, and for scripted agents.
        fork: where it left another episode, whose turns until then it repeats; ``None`` if it began by a reset.
        lookaheads: what was played from its states to learn their values.
        after_action: how many attempts the infrastructure failed after the environment was told of an action: it may
            be the action that made it fail.
        redrawn: how many attempts were given up in which the agent had been asked: then it sampled again.
    """

    episode_id: str
    env_id: str
    task: TaskSpec
    group_id: str
    turns: tuple[Turn, ...]
    outcome: Outcome
    final_observation: Observation | None = None
    score: Score | None = None
    error: str | None = None
    attempts: int = 1
    seconds: float = 0.0
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    final_prompt_ids: tuple[int, ...] = ()
    fork: Fork | None = None
    lookaheads: tuple[Lookahead, ...] = ()
    after_action: int = 0
    redrawn: int = 0

    @property
    def own_turns(self) -> tuple[Turn, ...]:
        """The turns that were played for this episode: all but those that it shares with the one it left."""
        return self.turns[self.fork.turn :] if self.fork is not None else self.turns

    @property
    def scored(self) -> bool:
        """Whether the episode may enter a statistic."""
        return self.outcome.scored

    @property
    def trainable(self) -> bool:
        """Whether the episode may enter an advantage."""
        return self.outcome.trainable

    @property
    def total_reward(self) -> float:
        """The undiscounted return.

        Raises:
            UnscoredEpisodeError: the episode failed for reasons that are not the policy's. Zero would be a lie.
        """
        if not self.scored:
            raise UnscoredEpisodeError(
                f"episode {self.episode_id} is {self.outcome} ({self.error}): it has no return; filter with scored()"
            )
        return float(sum(turn.reward for turn in self.turns))

    @property
    def success(self) -> bool:
        """Whether the task was solved.

        Raises:
            UnscoredEpisodeError: as ``total_reward``.
        """
        if not self.scored:
            raise UnscoredEpisodeError(
                f"episode {self.episode_id} is {self.outcome}: it has no score; filter with scored()"
            )
        return self.score is not None and self.score.success


def scored(episodes: Iterable[Episode]) -> list[Episode]:
    """The episodes that say something about the policy."""
    return [episode for episode in episodes if episode.scored]
