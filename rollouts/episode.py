"""Records: a turn, an episode, and the outcome of an episode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ..agents.agent import CHAT_API
from ..envs.messages import Action, Observation
from ..envs.step import OUT_OF_TURNS
from ..errors import UnscoredEpisodeError
from ..inference.policy import Finish
from ..tasks.score import Score
from ..tasks.spec import TaskSpec

FAILURE_RATE = 0.05
"""Default share of the episodes in which the infrastructure may fail before results are inconclusive."""
FEWEST_FAILURES = 3
"""Number of episodes with an infrastructure failure below which their share is ignored."""
CUT_RATE = 0.05
"""Share of actions cut at the token limit above which runs and evaluations warn."""


class Outcome(StrEnum):
    """Outcome of an episode. Only the first three have a return."""

    COMPLETED = "completed"
    """The environment terminated."""
    TRUNCATED = "truncated"
    """A limit outside the task ended it; the last state still has a value."""
    POLICY_FAILED = "policy_failed"
    """The policy timed out or ran out of context. It counts as a failure, and is trained on as one: with its rewards so
    far, failing early would be cheap, so it returns what the worst attempt of its group returned."""
    INFRA_FAILED = "infra_failed"
    """The infrastructure failed, after retries: no reward, no advantage, counted separately."""
    CANCELLED = "cancelled"
    """A user or program stopped it: no reward, no advantage."""

    @property
    def scored(self) -> bool:
        """Whether the episode says anything about the policy."""
        return self in (Outcome.COMPLETED, Outcome.TRUNCATED, Outcome.POLICY_FAILED)

    @property
    def trainable(self) -> bool:
        """Whether the environment brought the episode to an end, so that its own return may enter an advantage."""
        return self in (Outcome.COMPLETED, Outcome.TRUNCATED)


UNSENT = "unsent"
"""Key of a turn's ``info`` for an action that the environment never received."""
UNANSWERED = "unanswered"
"""Key of a turn's ``info`` for an infrastructure failure while the environment handled the action."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One observation, the action taken on it, and its result: the unit of record.

    Args:
        observation: new messages that the agent saw before acting.
        action: the agent's action.
        reward: reward of the action.
        terminated: whether the task ended here.
        truncated: whether a limit outside the task ended the episode here.
        prompt_ids: exact ids that the policy read (empty for scripted agents).
        action_ids: exact ids that it sampled, including the stop id.
        logprobs: behavior log-probability per action id.
        versions: policy version per action id.
        finish: reason why sampling ended.
        seat: name of the player, if there are several.
        seconds_policy: wall time in the policy, including a queue of a batch or server.
        seconds_env: wall time in the environment, including a wait for where it runs.
        obs_key: key of the state, equal for equal states, for step-level groups (GiGPO).
        info: further records of the environment, JSON-able.
        thoughts: reasoning of the model before it acted; the environment never saw it.
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
        """Whether the environment received the action; it does not receive plans and drafts of a black-box agent."""
        return not self.info.get(UNSENT)

    @property
    def by_chat_api(self) -> bool:
        """Whether a model behind a chat API acted, which provides no token ids to train on."""
        return CHAT_API in self.info


@dataclass(frozen=True, slots=True)
class Fork:
    """Branching point: until then, the episode equals its parent.

    Args:
        parent: id of the episode that it left.
        owners: for each turn that it shares, the id of the episode that acted in it: the parent, or an episode that the
            parent itself had left. Its own turns follow.
    """

    parent: str
    owners: tuple[str, ...]

    @property
    def turn(self) -> int:
        """Index of the first own turn."""
        return len(self.owners)


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Record of a rollout that only estimated the value of a state.

    Args:
        turn: index of the turn before whose action it started.
        rewards: rewards of its turns, in order.
        outcome: outcome of the rollout.
        sampled: number of tokens sampled for it.
        prompted: number of tokens in its prompts.
        reused: prompt tokens that had been read before on its path; see ``RolloutCost``.
        tool_calls: number of tools it called.
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
        env_id: id of the environment.
        task: specification of the task.
        group_id: id of the group; its episodes share task and baseline.
        turns: turns in order.
        outcome: outcome of the episode.
        final_observation: observation after the last action; ``None`` if there was none.
        score: score of the episode; ``None`` unless the outcome is scored.
        error: error in one line.
        attempts: number of attempts (infrastructure failures are retried).
        seconds: wall time from the first attempt on.
        fingerprints: versions and hashes needed to reproduce it (task digest, environment kwargs, code version, …).
        final_prompt_ids: prompt that a language model would have read next, if a limit ended the episode and the last
            state still has a value; empty otherwise, and for scripted agents.
        fork: branching point, if the episode left another one; ``None`` if it started with a reset.
        lookaheads: rollouts that estimated the values of its states.
        after_action: number of attempts in which the infrastructure failed after the environment received an action,
            which may have caused the failure.
        redrawn: number of abandoned attempts in which the agent had already acted, so that it sampled again.
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
        """Turns that were played for this episode: all except those that it shares with its parent."""
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
            UnscoredEpisodeError: the episode failed for reasons that are not the policy's. Zero would be wrong.
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
            UnscoredEpisodeError: the episode has no score; see ``total_reward``.
        """
        if not self.scored:
            raise UnscoredEpisodeError(
                f"episode {self.episode_id} is {self.outcome}: it has no score; filter with scored()"
            )
        return self.score is not None and self.score.success

    @property
    def out_of_turns(self) -> bool:
        """Whether a turn limit ended the episode: the task's own, so that it terminated, or another."""
        return self.outcome is Outcome.TRUNCATED or bool(self.turns and self.turns[-1].info.get(OUT_OF_TURNS))


def scored(episodes: Iterable[Episode]) -> list[Episode]:
    """Return the scored episodes."""
    return [episode for episode in episodes if episode.scored]
