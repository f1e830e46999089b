"""ArCHer's gate at work: fork states with the present policy, and compare the critic's order with the returns."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..errors import ContractError, UsageError
from ..logs import event
from ..rollouts.branching import refuse_unforkable
from ..rollouts.branching_utterances import ForkedStates
from ..tasks.rng import Rng
from .archer_settings import ArcherConfig
from .collect.collect import Collected, collect
from .collect.forked_states import ForkedState, forked_states
from .critics.gate import CriticGate, CriticGateConfig
from .critics.ranking import Ranking, ranking
from .critics.utterance import UtteranceCritic
from .learning.groups import Group
from .run.run import Run

LOG = logging.getLogger(__name__)
CLOSED = "the critic's gate is closed, so the actor has not learned (critic/rank)"
"""Remark on a run that ends before its gate has opened."""
SPENT = ("episodes", "unscored", "policy_failed", "retries", "action_tokens")
"""Counts of a step that include the episodes of a measurement, besides all that begin with ``cost/``."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement of the critic.

    Args:
        found: rank correlation of Q with the returns.
        played: episodes that were played for it; they count as played, and nothing is learned from them.
    """

    found: Ranking
    played: Collected


@dataclass(frozen=True, slots=True)
class GatedExperience:
    """The experience of a step, before which the critic was measured.

    Args:
        played: the episodes to learn from.
        measured: the measurement.
    """

    played: Collected
    measured: Measured

    @property
    def groups(self) -> tuple[Group, ...]:
        """Groups of the episodes to learn from."""
        return self.played.groups

    @property
    def tasks(self) -> int:
        """Number of tasks drawn for the episodes to learn from."""
        return self.played.tasks

    def metrics(self) -> dict[str, float]:
        """Return the numbers of the episodes to learn from; counts and costs include the measurement."""
        numbers, spent = self.played.metrics(), self.measured.played.metrics()
        for name, value in spent.items():
            if name in SPENT or name.startswith("cost/"):
                numbers[name] = numbers.get(name, 0.0) + value
        return numbers | self.measured.found.metrics() | {"critic/rank_episodes": spent["episodes"]}


async def refuse_without_forks(config: ArcherConfig, run: Run) -> None:
    """Refuse an environment that cannot be forked, before anything is played.

    Raises:
        UsageError: it cannot be forked; the message gives the reason, and the setting to use instead.
    """
    try:
        await refuse_unforkable(run.pool, run.sampler.peek(1)[0], config.episodes.options(seed=config.seed))
    except ContractError as error:
        raise UsageError(
            f"critic_gate measures the critic by rollouts from forked states. {error}. Without forks, leave "
            "critic_gate out and set warmup, the number of steps in which only the critic learns"
        ) from error


async def measure(config: ArcherConfig, settings: CriticGateConfig, run: Run, critic: UtteranceCritic) -> Measured:
    """Fork states with the present policy, and compare the critic's order of utterances with the mean returns."""
    strategy = ForkedStates(utterances=settings.utterances, rollouts=settings.rollouts)
    seed = Rng("archer", config.seed, run.step, "gate").getrandbits(31)
    options = config.episodes.options(seed=seed, group_size=strategy.size)
    tasks = run.sampler.peek(settings.states)
    played = await collect(run.pool, run.agent, tasks, options=options, strategy=strategy)
    states = forked_states(played.episodes, config.gamma)
    if not states:
        run.reports.warn(
            "critic gate",
            f"the measurement has no forked state: {played.metrics()['unscored']:g} of its episodes are unscored. "
            "The environment may fail to fork",
        )
    return Measured(ranking(judgements(critic, states), [state.means for state in states]), played)


def judgements(critic: UtteranceCritic, states: Sequence[ForkedState]) -> list[list[float]]:
    """Return the smaller Q of each utterance, by state."""
    pairs = [(state.state_ids, said) for state in states for said in state.utterances]
    if not pairs:
        return []
    judged = critic.q([state for state, _ in pairs], [said for _, said in pairs]).amin(0).tolist()
    ends = [0]
    for state in states:
        ends.append(ends[-1] + len(state.utterances))
    return [judged[start:end] for start, end in pairwise(ends)]


def closed_note(gate: CriticGate, step: int, steps: int) -> str:
    """Return the remark on a run that would end after ``step`` of its ``steps`` steps; empty if another one says it."""
    if gate.open:
        return ""
    if not gate.failed:
        return CLOSED
    return "" if step < steps else gate.reason()  # before its last step, the run says why it stopped early


def decide(gate: CriticGate, run: Run, found: Ranking | None) -> None:
    """Open the gate, end the run, or do neither; report what happened."""
    before = gate.open
    gate.see(run.step, found)
    if gate.failed:
        run.early.reason = gate.reason()
    elif gate.open and not before:
        passed = found is not None and gate.passes(found)
        if passed and found is not None:
            text = f"the actor begins after {run.step} steps: critic/rank is {found.mean:.2f} ± {found.error:.2f}"
            event(LOG, "critic gate", text, {"step": run.step, "rank": found.mean})
        else:
            run.reports.warn(
                "critic gate", f"{gate.reason()}. The actor begins nevertheless (critic_gate.otherwise = start)"
            )
