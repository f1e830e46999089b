"""On-policy learning: play, give credit, take a few steps, forget. REINFORCE, RLOO, GRPO, GiGPO, PPO and others.

They differ only in how they give credit: one small file each in ``trainers/algorithms/``. The rest is here, and naming
an algorithm also sets the loss of its paper. Run it with ``turnwise train grpo --config
configs/grpo-maze.toml`` or ``python -m turnwise.trainers.on_policy algorithm.name=rloo env=… model=…``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

import pydantic
import torch

from ..config import merge_defaults
from ..logs import tell
from ..rollouts.branching import refuse_unforkable
from ..rollouts.branching_restart import PrefixRestarts
from ..rollouts.episode import Episode
from ..tasks.rng import Rng
from .algorithms.credited import credited
from .algorithms.istar import IStar
from .algorithms.modulator import modulated
from .algorithms.named import AnyAlgorithm, AnyModulator, algorithm_named, only_from_its_script, word_of
from .algorithms.own_state import kept, refuse_forgetful
from .algorithms.trees import counted_once
from .collect.async_rollouts import OverlapConfig
from .collect.branching import AnyStrategy, refuse_mismatch
from .collect.dynamic_sampling import Drawn, DynamicSampling, draw
from .critics.preferences import preferences
from .critics.token_values import ValuesConfig, token_values
from .critics.values import Values
from .learning.advantages import bootstraps, context_of, final_prompt, large_enough
from .learning.batch import Batch
from .learning.clips import ClipCounts
from .learning.entropy import EntropyHistory
from .learning.groups import Group
from .learning.kl import kl_in_reward, reference_metrics
from .learning.learner import Learner, Update
from .learning.learner_records import Observe, observed
from .learning.normalizers import Normalizer, normalizer
from .learning.objective import LossConfig, Objective
from .learning.reference import Reference
from .learning.rows import Rows
from .learning.updates import minibatches, parts_of, summary, take_steps
from .run.conclusion import RunResult, only_critic
from .run.metrics import Stopwatch
from .run.run import Run
from .run.settings import Plan, PolicyConfig, refuse_greedy
from .run.training import Trainer, train_with
from .script import script

LOG = logging.getLogger(__name__)


class OnPolicyConfig(PolicyConfig):
    """Settings of an on-policy run. The algorithm's name sets what its paper fixes, unless you set it."""

    renamed: ClassVar[Mapping[str, str]] = {
        "k": "group_size",
        "tasks": "tasks_per_step",
        "shared": "shared_token_weight",
        "sampling": "group_filter",
        "normaliser": "normalizer",
    }
    renamed_values: ClassVar[Mapping[str, Mapping[Any, Any]]] = {
        "shared_token_weight": {"once": "split", "each": "full"}
    }

    out: str = "runs/on-policy"
    """The run's folder (default: ``runs/`` and the algorithm's name)."""
    algorithm: AnyAlgorithm
    """The rule of credit: ``algorithm.name`` and that algorithm's own settings. ``module:Class`` names one of yours."""
    modulators: tuple[AnyModulator, ...] = ()
    """Rules that rescale the algorithm's advantages, in this order: tables ``[[modulators]]`` with a ``name``."""
    tasks_per_step: int = pydantic.Field(default=12, ge=1)
    """Tasks per step."""
    group_size: int = pydantic.Field(default=6, ge=1)
    """Attempts per task."""
    branching: AnyStrategy | None = None
    """Branching in the middle of episodes: ``branching.strategy`` and its settings (default: whole attempts only)."""
    shared_token_weight: Literal["split", "full"] = "split"
    """Weight of a token that several episodes share because they branched after it: divided among them (``split``), or
    ``full`` in each."""
    group_filter: DynamicSampling = DynamicSampling()
    """Filter of the groups to learn from."""
    epochs: int = pydantic.Field(default=1, ge=1)
    """Passes over each step's episodes."""
    minibatch: int | None = pydantic.Field(default=None, ge=1)
    """Episodes per optimizer step (default: all in one)."""
    normalizer: Normalizer = "traj_mean"
    """Mean of the loss, which weights each token: see ``trainers/learning/normalizers.py``."""
    denominator: float | None = pydantic.Field(default=None, gt=0)
    """Constant that divides the loss of every update, instead of the average number of trajectories, tokens or
    groups."""
    min_advantage: float = pydantic.Field(default=0.0, ge=0)
    """Smallest size of an advantage, as a share of the batch's largest; tokens below it have no weight in the policy's
    loss."""
    overlap: OverlapConfig = OverlapConfig()
    """Play episodes while the learner learns. Tokens may then be stale, so ``loss.is_mode`` becomes ``tis``."""
    loss: LossConfig = LossConfig()
    """The loss."""
    values: ValuesConfig = ValuesConfig()
    """The critic, for algorithms that need one."""

    @classmethod
    def filled(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the given settings, completed by those that follow from the algorithm's name."""
        algorithm = algorithm_named(given.get("algorithm"))
        if algorithm is None:
            return given
        default = algorithm.model_fields["name"].default
        name = default if isinstance(default, str) else algorithm.__name__
        return merge_defaults({"out": f"runs/{name}", **algorithm.paper}, given)

    @pydantic.field_validator("loss")
    @classmethod
    def _resolved(cls, loss: LossConfig, info: pydantic.ValidationInfo) -> LossConfig:
        return loss.for_sampler(info.data)

    @pydantic.model_validator(mode="after")
    def _sensible(self) -> Self:
        refuse_greedy(self.agent)
        self.algorithm.frozen(self.loss.kl)
        refuse_forgetful(self.algorithm)
        if self.group_size < self.algorithm.smallest_group:
            raise ValueError(
                f"group_size={self.group_size} leaves {self.algorithm.name} without a baseline: it compares attempts "
                f"at the same task, so group_size must be {self.algorithm.smallest_group} at least"
            )
        name, wanted = self.algorithm.name, self.algorithm.strategy
        refuse_mismatch(
            name,
            wanted,
            self.branching,
            group_size=self.group_size,
            overlap=self.overlap.enabled,
            program=self.agent.program is not None,
        )
        for rule in (self.algorithm, *self.modulators):
            self.loss.refuse_erasing(rule.credit_level, rule.name)
        if self.branching is not None and self.branching.strategy == "entropy" and self.shared_token_weight == "split":
            self.loss.refuse_erasing("turn", "shared_token_weight = split")
        if self.normalizer == "const" and self.denominator is None:
            raise ValueError("normalizer='const' divides by a constant: set denominator")
        return self

    def plan(self) -> Plan:
        learning = max(self.steps - (self.values.warmup if self.algorithm.needs_values else 0), 1)
        updates = learning * self.epochs * parts_of(self.tasks_per_step * self.group_size, self.minibatch)
        optimizer, correction = self.optimizer.until(updates), self.loss.is_mode
        many = not isinstance(self.algorithm, IStar)  # its second copy of the policy is not sharded
        return Plan(word_of(self.algorithm), optimizer, self.overlap, many_processes=many, correction=correction)


@dataclass(frozen=True, slots=True)
class Parts:
    """The state of the algorithm, which an iteration reads and changes.

    Args:
        learner: learner of the policy.
        critic: critic of states, or a model of preferences; ``None`` for algorithms without.
        reference: frozen policy for a KL penalty, or a teacher; ``None`` without one.
        entropies: history of entropies; ``None`` without smoothing.
    """

    learner: Learner
    critic: Values | None = None
    reference: Reference | None = None
    entropies: EntropyHistory | None = None

    @classmethod
    def of(cls, config: OnPolicyConfig, run: Run) -> Self:
        """Build the parts that the configuration needs, and keep them in the run's checkpoints."""
        critic: Values | None = None
        entropies = None
        if config.algorithm.needs_values:
            shared: dict[str, Any] = {"seed": config.seed, "dump": run.folder.dump, "scorer": run.learner.scorer}
            values = token_values(config.values, run.model, run.start.tokenizer, **shared)
            run.state.keep("critic", values)
            critic = run.together.lead("critic", values, "values", "final", "fit")
        elif isinstance(config.algorithm, IStar):
            critic = preferences(run.learner, **config.algorithm.model_dump(include={"lr", "beta", "epochs"}))
            run.state.keep("preferences", critic)
        if config.loss.smoothing is not None:
            entropies = EntropyHistory()
            run.state.keep("entropies", entropies)
        return cls(run.learner, critic, run.reference(config.algorithm.frozen(config.loss.kl), config.model), entropies)


class OnPolicyTrainer(Trainer[OnPolicyConfig]):
    """The part of on-policy algorithms in the training loop: play groups, filter them, learn, forget."""

    def __init__(self, config: OnPolicyConfig, run: Run) -> None:
        config = config.model_copy(update={"algorithm": kept(config.algorithm, run.state.keep)})
        super().__init__(config, run)
        self.parts = Parts.of(config, run)
        if config.algorithm.needs_values:
            self.note = only_critic(config.steps, config.values.warmup)

    async def begin(self) -> None:
        config, run = self.config, self.run
        if remark := only_from_its_script(config.algorithm):
            tell(LOG, "remark", remark)
        if isinstance(config.branching, PrefixRestarts):
            config.branching.read()
        if config.branching is not None:
            options = config.episodes.options(seed=config.seed)
            await refuse_unforkable(run.pool, run.sampler.peek(1)[0], options)

    async def collect(self) -> Drawn:
        config, run = self.config, self.run
        return await draw(
            lambda tasks: run.collect(tasks, config.group_size, config.branching),
            config.tasks_per_step,
            config.group_filter,
        )

    def check(self, episode: Episode) -> None:
        super().check(episode)
        if self.config.algorithm.needs_values and bootstraps(episode):
            final_prompt(episode, context=context_of(self.run.model))

    async def learn(self, groups: Sequence[Group], clock: Stopwatch) -> dict[str, float]:
        run = self.run
        step = partial(iterate, self.config, self.parts, groups, version=run.step, observe=run.observe)
        return await run.learn(step)


def train(config: OnPolicyConfig) -> RunResult:
    """Run an algorithm to its last step: see ``train_with``."""
    return train_with(OnPolicyTrainer, config)


def iterate(
    config: OnPolicyConfig, parts: Parts, groups: Sequence[Group], *, version: int, observe: Observe | None = None
) -> dict[str, float]:
    """Run one iteration on collected groups: credit, the policy's updates, the critic's.

    Args:
        config: settings of the run.
        parts: learner, critic and history of entropies to update; the learner rests while the critic warms up.
        groups: scored episodes by task.
        version: policy version that sampled them, which also seeds the shuffle.
        observe: function that receives the episodes, their advantages and clipped tokens after the last update.

    Returns:
        Means over the updates (maxima for names that end in ``_max``), counts, and the critic's own metrics.

    Raises:
        UsageError: a reward is not finite.
    """
    learner, critic = parts.learner, parts.critic
    batch = Batch.of(groups)
    batch = batch.with_rows(learner.recompute_old(batch.rows))
    metrics = {"rows": float(torch.unique(batch.rows.row).numel())}
    if parts.reference is not None:
        batch = batch.with_rows(parts.reference.scored(batch.rows))
        metrics |= reference_metrics(batch.rows)
        if config.loss.kl.where == "reward":
            batch = kl_in_reward(batch, config.loss.kl.coef)
    warming = config.algorithm.needs_values and version < config.values.warmup
    credit = credited(config.algorithm.warming() if warming else config.algorithm, batch, critic, config.loss)
    rows = weighted(config, modulated(config.modulators, batch, credit), len(batch.episodes))
    if config.shared_token_weight == "split":
        rows = counted_once(batch, rows)
    with observed(observe, batch.episodes, rows, credit.value_T) as clips:
        if not warming:
            objective = objective_at(version, config, parts, rows)
            count = len(batch.episodes)
            metrics |= summary(update(config, learner, rows, objective, count, version=version, clips=clips))
    if critic is not None and credit.target_T is not None:
        metrics |= critic.fit(rows, credit.target_T)
    return metrics


def objective_at(step: int, config: OnPolicyConfig, parts: Parts, rows: Rows) -> Objective:
    """Return the loss of a step, with a band around the entropies of earlier steps; add this step's to the history."""
    if config.loss.smoothing is None or parts.entropies is None:
        return config.loss.objective()
    band = config.loss.smoothing.band(parts.entropies, step / config.steps)
    parts.entropies.record(rows)
    return config.loss.objective(band)


def weighted(config: OnPolicyConfig, rows: Rows, episodes: int) -> Rows:
    """Return the rows with the weight of each token in an update: the mean ``normalizer`` of a minibatch."""
    if config.denominator is not None:
        weight_T = normalizer(rows, config.normalizer, denominator=config.denominator)
    else:
        weight_T = normalizer(rows, config.normalizer) * parts_of(episodes, config.minibatch)
    return rows.with_weight(weight_T)


def update(
    config: OnPolicyConfig,
    learner: Learner,
    rows: Rows,
    objective: Objective,
    episodes: int,
    *,
    version: int,
    clips: ClipCounts | None = None,
) -> list[Update]:
    """Make epochs × minibatches of optimizer steps; stop early if the policy has moved too far."""
    rows = rows.with_weight(torch.where(large_enough(rows.advantage, config.min_advantage), rows.weight, 0.0))
    shuffles = (Rng("on-policy", config.seed, version, epoch) for epoch in range(config.epochs))
    chosen = (rows.select(part) for rng in shuffles for part in minibatches(episodes, config.minibatch, rng))
    return take_steps(learner, chosen, objective, version=version, clips=clips)


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnwise.trainers.on_policy``."""
    return script(OnPolicyConfig, train, argv)


if __name__ == "__main__":
    sys.exit(main())
