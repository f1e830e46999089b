"""ArCHer: a critic over utterances learns off-policy from a replay, and trains an actor over tokens.

Zhou et al., "ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL" (arXiv 2402.19446). Run it with
``turnwise train archer --config configs/archer-maze-fo.toml`` or ``python -m turnwise.trainers.archer --config …``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Self

import pydantic
import torch

from ..errors import UsageError
from ..rollouts.episode import Episode
from ..tasks.rng import Rng
from .algorithms.archer import (
    ActorKind,
    ArcherRule,
    Centring,
    CriticKind,
    awr_weight,
    centred,
    described,
    judged,
    token_credit,
)
from .collect.collect import Experience, NothingPlayed
from .collect.demonstrations import DemonstrationConfig
from .collect.resample import Fresh, fresh_utterances
from .critics.encoders import encoder_named
from .critics.replay import Replay
from .critics.token_values import ValuesConfig, token_values
from .critics.transitions import Transition, transitions
from .critics.utterance import CriticConfig, UtteranceCritic
from .critics.values import Values
from .learning.groups import Group
from .learning.learner import Update
from .learning.normalizers import normalizer
from .learning.objective import LossConfig
from .learning.reference import Reference
from .learning.updates import summary
from .learning.utterances import Utterance, pack_utterances
from .run.conclusion import RunResult
from .run.kept_episodes import refuse_keeping
from .run.metrics import Stopwatch
from .run.offline import as_said, demonstrations
from .run.run import Run
from .run.settings import Plan, PolicyConfig, refuse_greedy
from .run.training import Trainer, train_with
from .script import script


class ArcherConfig(PolicyConfig):
    """Settings of an ArCHer run. A step is one iteration; the paper's values are given where the defaults differ."""

    model: str
    """The model folder to start from: a model that can act, if badly, such as one from behavior cloning."""
    out: str = "runs/archer"
    """The run's folder."""
    mode: Literal["online", "offline"] = "online"
    """``online``: every step plays episodes; ``offline``: ``demonstrations`` fill the replay once."""
    rollouts: int = pydantic.Field(default=32, ge=1)
    """Episodes per step (paper: 128; 512 on WebShop)."""
    replay: int = pydantic.Field(default=10_000, ge=1)
    """Capacity of the replay in transitions (paper: 10,000; a replay of 48 rollouts was unstable)."""
    batch: int = pydantic.Field(default=256, ge=1)
    """Transitions per critic update, and states per actor update (paper: 256)."""
    critic_steps: int = pydantic.Field(default=50, ge=1)
    """Critic updates per step (paper: 50)."""
    actor_steps: int = pydantic.Field(default=3, ge=1)
    """Batches of states that the actor learns from per step (paper: 3)."""
    warmup: int = pydantic.Field(default=10, ge=0)
    """Steps in which only the critic learns (paper: 10, and 20 on Twenty Questions and WebShop)."""
    gamma: float = pydantic.Field(default=0.95, ge=0, le=1)
    """Discount per turn (paper: .98 Detective, .95 Twenty Questions and Guess My City, .9 WebShop)."""
    critic: CriticKind = "td"
    """Target of the critic: ``td`` with fresh utterances, ``mc`` returns, or ``iql`` from the replay alone."""
    min_target: bool = False
    """In ``td``, let both heads learn from the smaller slow one (released code: no)."""
    expectile: float = pydantic.Field(default=0.8, gt=0, lt=1)
    """Expectile of ``iql``: 0.5 values the data's average utterance, towards 1 its best."""
    critic_model: CriticConfig = CriticConfig()
    """The critic's networks and their optimizer."""
    actor: ActorKind = "reinforce"
    """Loss of the actor: ``reinforce`` or ``ppo`` on fresh utterances, ``awr`` on those in the replay."""
    utterances: int = pydantic.Field(default=1, ge=1)
    """Fresh utterances in each state of an actor update (paper: 1); ``batch`` always counts utterances."""
    centred: Centring = "none"
    """Mean to subtract from the advantages of ``reinforce`` and ``ppo`` (paper: ``none``): that of the ``batch``, or of
    the *other* utterances in the same ``state``. Errors of V are noise: their expected gradient is 0, but they add
    variance, and among utterances in one state they cancel."""
    baseline: Literal["none", "token"] = "none"
    """``token``: subtract a critic of prefixes from the advantage (paper: it helps where utterances are long)."""
    values: ValuesConfig = ValuesConfig()
    """The critic of prefixes; its ``warmup`` has no effect here."""
    epochs: int = pydantic.Field(default=2, ge=1)
    """Updates per batch of fresh utterances with the actor ``ppo``; the others make one."""
    loss: LossConfig = LossConfig()
    """Clipping and the other settings of the loss of ``reinforce`` and ``ppo``; ``actor`` determines ``kind``."""
    beta: float = pydantic.Field(default=1.0, gt=0)
    """Temperature of ``awr``, in units of reward: the weight of an utterance is exp(A/β)."""
    max_weight: float = pydantic.Field(default=20.0, ge=1)
    """The largest weight of an utterance in ``awr``."""
    demonstrations: DemonstrationConfig = DemonstrationConfig()
    """Demonstrations that fill the replay in ``offline`` mode."""

    @pydantic.field_validator("loss")
    @classmethod
    def _resolved(cls, loss: LossConfig, info: pydantic.ValidationInfo) -> LossConfig:
        return loss if info.data.get("actor") == "awr" else loss.for_sampler(info.data)  # awr has no use for a loss

    @pydantic.model_validator(mode="after")
    def _heard(self) -> Self:
        """Refuse settings that would have no effect."""
        if self.mode == "offline":
            refuse_keeping(self.keep_episodes, "offline ArCHer")
        if self.mode == "online" or self.actor != "awr" or self.critic == "td":
            refuse_greedy(self.agent)  # the agent samples: episodes, or fresh utterances
        if self.loss.smoothing is not None or self.loss.kl.where == "reward":
            raise ValueError(
                "ArCHer's actor learns from single utterances: loss.smoothing and loss.kl.where = reward are for "
                "scripts that learn from whole episodes; use loss.entropy_coef and loss.kl.where = loss"
            )
        if self.actor == "awr" and (self.loss != LossConfig() or self.baseline != "none"):
            raise ValueError("the actor awr clones weighted utterances: it has neither loss settings nor a baseline")
        if self.warmup > self.steps:  # equality trains a critic first: resumed with more steps, the actor follows
            raise ValueError(
                f"warmup = {self.warmup} steps in which only the critic learns are more than all steps = {self.steps}: "
                "the actor would never learn; ask for more steps, or a shorter warmup"
            )
        return self

    def plan(self) -> Plan:
        per_step = self.actor_steps * (self.epochs if self.actor == "ppo" else 1)
        optimizer = self.optimizer.until(max(1, (self.steps - self.warmup) * per_step))
        return Plan("archer", optimizer, correction=self.loss.is_mode)


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The parts of ArCHer besides its actor, which is the run's learner.

    Args:
        critic: critic of utterances.
        rule: loss of the critic.
        replay: transitions that the critic learns from.
        baseline: critic of prefixes, if configured.
        reference: frozen policy for a KL penalty on the actor, if there is one.
    """

    critic: UtteranceCritic
    rule: ArcherRule
    replay: Replay
    baseline: Values | None = None
    reference: Reference | None = None


class ArcherTrainer(Trainer[ArcherConfig]):
    """ArCHer's part in the training loop: play into the replay, teach the critic, then the actor.

    Within the seconds of ``learn``, those of ``fresh`` are spent waiting for utterances.
    """

    def __init__(self, config: ArcherConfig, run: Run) -> None:
        super().__init__(config, run)
        self.parts = hierarchy(config, run)

    async def begin(self) -> None:
        if self.config.mode == "offline" and not len(self.parts.replay):
            await fill(self.config, self.run, self.parts.replay)

    async def collect(self) -> Experience:
        return await self.run.collect(self.config.rollouts, 1) if self.config.mode == "online" else NothingPlayed()

    def check(self, episode: Episode) -> None:
        transitions(episode, self.config.gamma)

    async def learn(self, groups: Sequence[Group], clock: Stopwatch) -> dict[str, float]:
        config, run, parts = self.config, self.run, self.parts
        episodes = (episode for group in groups for episode in group.members)
        parts.replay.add([turn for episode in episodes for turn in transitions(episode, config.gamma)])
        metrics = await learn_critic(config, run, parts, clock)
        if run.step >= config.warmup:
            metrics |= await learn_actor(config, run, parts, clock)
        return metrics | parts.replay.metrics()


def train(config: ArcherConfig) -> RunResult:
    """Run ArCHer to its last step: see ``train_with``."""
    return train_with(ArcherTrainer, config)


async def learn_critic(config: ArcherConfig, run: Run, parts: Hierarchy, clock: Stopwatch) -> dict[str, float]:
    """Update the critic ``critic_steps`` times, each followed by its slow copy; return means over the updates."""
    rngs = [Rng("archer", config.seed, run.step, "critic", number) for number in range(config.critic_steps)]
    draw = parts.replay.sample_rows if parts.critic.reads_rows else parts.replay.sample
    batches = [draw(config.batch, rng) for rng in rngs]
    fresh: Sequence[Fresh | None] = [None] * len(batches)
    if parts.rule.needs_fresh:  # sampled at once: the policy does not change before the critic has learned
        states = [[each.state_ids for each in batch] for batch in batches]
        with clock("fresh"):
            fresh = await asyncio.gather(*map(partial(fresh_utterances, run.agent), states, rngs))
    seen: list[dict[str, float]] = []
    for batch, said in zip(batches, fresh, strict=True):
        seen.append(parts.critic.update(batch, parts.rule, said.actions if said else None))
        seen[-1] |= said.metrics() if said else {}
    return {name: sum(each[name] for each in seen) / len(seen) for name in seen[0]}


async def learn_actor(config: ArcherConfig, run: Run, parts: Hierarchy, clock: Stopwatch) -> dict[str, float]:
    """Update the actor on ``actor_steps`` batches of states from the replay, with advantages from the critic."""
    updates: list[Update] = []
    for number in range(config.actor_steps):
        rng = Rng("archer", config.seed, run.step, "actor", number)
        if config.actor == "awr":
            updates.append(imitate(config, run, parts, parts.replay.sample(config.batch, rng)))
        else:
            batch = parts.replay.sample(-(-config.batch // config.utterances), rng)
            states = [each.state_ids for each in batch for _ in range(config.utterances)]
            with clock("fresh"):
                fresh = await fresh_utterances(run.agent, states, rng)
            updates += reinforce(config, run, parts, fresh.utterances)
        await run.weights.send(run.step)  # the policy as it is now samples the next utterances
    return summary(updates)


def reinforce(config: ArcherConfig, run: Run, parts: Hierarchy, utterances: Sequence[Utterance]) -> list[Update]:
    """``−mean_b A_b · Σ_t log π(a_t)`` on fresh utterances, once; or PPO's clipped ratios, ``epochs`` times."""
    advantage_B = judged(parts.critic, utterances)
    rows = run.learner.recompute_old(pack_utterances(utterances))
    if parts.reference is not None:
        rows = parts.reference.scored(rows)
    # A mean over utterances of sums over tokens, as in the paper.
    rows = rows.with_weight(normalizer(rows, "const", denominator=len(utterances)))
    compared_B = centred(advantage_B, [said.prompt_ids for said in utterances], config.centred)
    paid = token_credit(rows, compared_B, parts.baseline)
    objective = config.loss.objective()
    if config.actor == "reinforce":
        objective = replace(objective, kind="reinforce", dual_clip=None)
    updates: list[Update] = []
    for _ in range(config.epochs if config.actor == "ppo" else 1):
        update = run.learner.step(paid, objective, version=run.step)
        updates.append(replace(update, metrics={**update.metrics, **described(advantage_B)}))
        if update.aborted:
            break
    if parts.baseline is not None:
        parts.baseline.fit(rows, rows.with_advantage(compared_B).advantage)  # the same quantity that it corrects
    return updates


def imitate(config: ArcherConfig, run: Run, parts: Hierarchy, batch: Sequence[Transition]) -> Update:
    """``−mean_b min(exp(A_b/β), cap) · Σ_t log π(a_t)`` on utterances of the replay."""
    utterances = [Utterance(each.state_ids, each.action_ids, each.logprobs, each.version) for each in batch]
    advantage_B = judged(parts.critic, utterances)
    weight_B = awr_weight(advantage_B, beta=config.beta, cap=config.max_weight)
    rows = pack_utterances(utterances)
    update = run.learner.clone(rows.with_weight(torch.where(rows.mask, weight_B[rows.episode] / len(batch), 0.0)))
    capped = float((weight_B >= config.max_weight).float().mean())
    return replace(update, metrics={**update.metrics, **described(advantage_B), "awr_capped": capped})


def hierarchy(config: ArcherConfig, run: Run) -> Hierarchy:
    """Build the critic, its replay and the other parts of an opened run; a resumed run restores them."""
    encoder = encoder_named(config.critic_model.encoder, run.model, run.start.tokenizer, seed=config.seed)
    critic = UtteranceCritic(encoder, config.critic_model, seed=config.seed, dump=run.folder.dump)
    rule = ArcherRule(config.critic, config.gamma, config.min_target, config.expectile)
    baseline = None
    if config.baseline == "token":
        baseline = token_values(config.values, run.model, run.start.tokenizer, seed=config.seed, dump=run.folder.dump)
        run.state.keep("baseline", baseline)
    reference = run.reference(config.loss.kl, config.model)
    parts = Hierarchy(critic, rule, Replay(config.replay), baseline, reference)
    run.state.keep("critic", parts.critic)
    run.state.keep("replay", parts.replay)
    return parts


async def fill(config: ArcherConfig, run: Run, replay: Replay) -> None:
    """Fill the replay with demonstrations, encoded as the run's own agent would have read and written them.

    Raises:
        UsageError: they do not all fit.
    """
    episodes = as_said(await demonstrations(config, config.demonstrations), config.demonstrations, run)
    replay.add(turn for episode in episodes for turn in transitions(episode, config.gamma))
    if replay.dropped:
        raise UsageError(
            f"the demonstrations have {replay.added} turns, and the replay has room for {replay.capacity}: training "
            f"would ignore the others; set replay={replay.added}, or choose fewer demonstrations"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnwise.trainers.archer``."""
    return script(ArcherConfig, train, argv)


if __name__ == "__main__":
    sys.exit(main())
