"""Statistics of a run so far: counts by outcome and by failure, the time split, and dropped episodes."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, fields

from .episode import Episode, Outcome


@dataclass(slots=True)
class Moments:
    """Running sums of pairs (seconds, reward): enough for means and a correlation without keeping episodes."""

    count: int = 0
    seconds: float = 0.0
    reward: float = 0.0
    seconds_squared: float = 0.0
    reward_squared: float = 0.0
    product: float = 0.0

    def add(self, seconds: float, reward: float) -> None:
        """Count one pair."""
        self.count += 1
        self.seconds += seconds
        self.reward += reward
        self.seconds_squared += seconds * seconds
        self.reward_squared += reward * reward
        self.product += seconds * reward

    def merge(self, other: Moments) -> None:
        """Add all counts of ``other``."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    @property
    def mean_seconds(self) -> float | None:
        """Mean duration; ``None`` without data."""
        return self.seconds / self.count if self.count else None

    @property
    def mean_reward(self) -> float | None:
        """Mean reward; ``None`` without data."""
        return self.reward / self.count if self.count else None

    @property
    def correlation(self) -> float | None:
        """Pearson's correlation of duration and reward; ``None`` if either is constant, or too large to square."""
        if self.count < 2:
            return None
        spread = (self.count * self.seconds_squared - self.seconds * self.seconds) * (
            self.count * self.reward_squared - self.reward * self.reward
        )
        if not 1e-24 < spread < math.inf:  # rewards of 1e200 are legal, but their squares overflow
            return None
        return max(-1.0, min(1.0, (self.count * self.product - self.seconds * self.reward) / math.sqrt(spread)))


@dataclass(slots=True)
class RunStats:
    """Live counters of a run; pass one to ``run_episodes`` and read it at any time.

    ``kept`` and ``dropped`` answer trap 25 (survivor bias): if the dropped episodes lasted longer than the kept ones
    and duration correlates with reward, then the kept episodes are a biased sample. The reward of a dropped episode
    is the one until it stopped: use it for this comparison only.
    """

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    """Episodes by outcome. Those cut short by the end of the run count as cancelled."""
    failures: Counter[str] = field(default_factory=Counter)
    """Failed attempts by kind of error, retried ones included."""
    retries: int = 0
    """Attempts beyond the first."""
    successes: int = 0
    """Scored episodes that solved their task."""
    turns: int = 0
    """Turns of finished episodes; turns that a branch only repeats count where they were played."""
    seconds_policy: float = 0.0
    """Time in the policy, summed over episodes that ended (the time of a failed turn is not counted)."""
    seconds_env: float = 0.0
    """Time in the environments, over the same episodes."""
    seconds_ours: float = 0.0
    """The rest of their wall time: bookkeeping, and waiting for the event loop."""
    kept: Moments = field(default_factory=Moments)
    """Scored episodes: duration and return."""
    dropped: Moments = field(default_factory=Moments)
    """Unscored episodes: duration, and reward gathered until they stopped."""

    @property
    def episodes(self) -> int:
        """Number of episodes that have ended, with any outcome."""
        return self.outcomes.total()

    @property
    def success_rate(self) -> float | None:
        """Share of the scored episodes that solved their task; ``None`` without any."""
        return self.successes / self.kept.count if self.kept.count else None

    def add(self, episode: Episode) -> None:
        """Count one episode."""
        self.outcomes[episode.outcome] += 1
        self.turns += len(episode.own_turns)
        if episode.outcome in (Outcome.COMPLETED, Outcome.TRUNCATED):
            policy = sum(turn.seconds_policy for turn in episode.own_turns)
            env = sum(turn.seconds_env for turn in episode.own_turns)
            self.seconds_policy += policy
            self.seconds_env += env
            self.seconds_ours += max(0.0, episode.seconds - policy - env)
        reward = sum(turn.reward for turn in episode.turns)
        (self.kept if episode.scored else self.dropped).add(episode.seconds, reward)
        self.successes += episode.scored and episode.success

    def merge(self, other: RunStats) -> None:
        """Add all counts of ``other``."""
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, Moments):
                mine.merge(theirs)
            else:
                setattr(self, each.name, mine + theirs)


def wilson_interval(successes: float, n: float, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion, which stays inside [0, 1] and behaves at 0 and ``n``.

    ``(p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n)``; Wilson (1927), JASA 22:209-212.

    Args:
        successes: number of successes, from 0 to ``n``; may be fractional (an effective count).
        n: number of trials, above 0; may be fractional.
        z: quantile of the normal distribution; 1.96 for a coverage of 95 %.
    """
    p = successes / n
    center = p + z * z / (2 * n)
    reach = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if successes == 0 else max(0.0, (center - reach) / scale)
    high = 1.0 if successes == n else min(1.0, (center + reach) / scale)
    return min(low, p), max(high, p)
