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
from typing import Any

import torch

from ..errors import UsageError
from ..rollouts.episode import Episode
from ..tasks.rng import Rng
from .algorithms.archer import ArcherRule, awr_weight, centered, described, judged, token_credit
from .archer_doubly_robust import learn_doubly_robust
from .archer_gate import GatedExperience, Measured, closed_note, decide, measure, refuse_without_forks
from .archer_pretraining import demonstrated, pretrain_critic
from .archer_settings import ArcherConfig
from .collect.collect import Experience, NothingPlayed
from .collect.resample import Fresh, fresh_utterances, shared_utterances
from .critics.encoders import encoder_named, is_language_model
from .critics.gate import CriticGate
from .critics.replay import Replay
from .critics.returns import explained, lambda_returns
from .critics.token_values import token_values
from .critics.transitions import Transition, transitions
from .critics.utterance import UtteranceCritic
from .critics.utterance_records import judged_episodes
from .critics.values import Values
from .learning.advantages import bootstraps, context_of, final_prompt
from .learning.groups import Group
from .learning.learner import Update
from .learning.normalizers import normalizer, per_utterance
from .learning.reference import Reference
from .learning.updates import summary
from .learning.utterances import Utterance, merge_equal, pack_utterances
from .run.conclusion import RunResult
from .run.metrics import Stopwatch
from .run.run import Run
from .run.training import Trainer, train_with
from .script import script


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
        self.note = ""
        self.parts = hierarchy(config, run)
        self.gate: CriticGate | None = None
        self._measured: Measured | None = None
        self._pretrained: dict[str, float] = {}
        if config.critic_gate is not None:
            self.gate = CriticGate(config.critic_gate, first=config.warmup)
            run.state.keep("gate", self.gate)

    async def begin(self) -> None:
        if self.gate is not None:
            await refuse_without_forks(self.config, self.run)
            self.note = closed_note(self.gate, self.run.step, self.config.steps)
            if self.gate.failed:
                self.run.early.reason = self.gate.reason()
        pretraining = self.config.critic_pretraining
        if pretraining is not None and not self.run.step:
            parts = self.parts
            self._pretrained = await pretrain_critic(self.config, pretraining, self.run, parts.critic, parts.replay)
        if self.config.mode == "offline" and not len(self.parts.replay):
            await fill(self.config, self.run, self.parts.replay)

    async def collect(self) -> Experience:
        config, run, gate = self.config, self.run, self.gate
        self._measured = None
        if config.mode == "offline":
            return NothingPlayed()
        if gate is not None and gate.due(run.step):
            self._measured = await measure(config, gate.config, run, self.parts.critic)
        played = await run.collect(config.episodes_per_step, 1)
        return played if self._measured is None else GatedExperience(played, self._measured)

    def check(self, episode: Episode) -> None:
        transitions(episode, self.config.gamma)
        if bootstraps(episode):
            final_prompt(episode, context=context_of(self.run.model))

    async def learn(self, groups: Sequence[Group], clock: Stopwatch) -> dict[str, float]:
        config, run, parts = self.config, self.run, self.parts
        episodes = [episode for group in groups for episode in group.members]
        if run.reports.kept:
            run.reports.learned(judged_episodes(parts.critic, episodes, step=run.step + 1, only=run.reports.kept))
        turns = [turn for episode in episodes for turn in transitions(episode, config.gamma)]
        judged_before = foresight(config, parts, turns)
        parts.replay.add(turns)
        metrics = self._pretrained | judged_before | await learn_critic(config, run, parts, clock)
        self._pretrained = {}
        learns = run.step >= config.warmup
        if self.gate is not None:
            decide(self.gate, run, self._measured.found if self._measured is not None else None)
            learns = self.gate.open
            self.note = closed_note(self.gate, run.step + 1, config.steps)
            metrics |= self.gate.metrics()
        if learns:
            metrics |= await learn_actor(config, run, parts, clock)
        return metrics | parts.replay.metrics()


def train(config: ArcherConfig) -> RunResult:
    """Run ArCHer to its last step: see ``train_with``."""
    return train_with(ArcherTrainer, config)


def foresight(config: ArcherConfig, parts: Hierarchy, turns: Sequence[Transition]) -> dict[str, float]:
    """Return how much of the variance of new turns' returns V explains before the critic learns from them."""
    if not turns:
        return {}
    return {"critic/explained": explained(*lambda_returns(turns, parts.critic, gamma=config.gamma, lam=1.0))}


async def learn_critic(config: ArcherConfig, run: Run, parts: Hierarchy, clock: Stopwatch) -> dict[str, float]:
    """Update the critic ``critic_steps`` times, each followed by its slow copy; return means over the updates."""
    rngs = [Rng("archer", config.seed, run.step, "critic", number) for number in range(config.critic_steps)]
    draw = parts.replay.sample_rows if parts.critic.reads_rows else parts.replay.sample
    if parts.rule.looks_ahead:
        draw = parts.replay.sample_episodes
    batches = [draw(config.batch, rng) for rng in rngs]
    fresh: Sequence[Fresh | None] = [None] * len(batches)
    if parts.rule.needs_fresh:  # sampled at once: the policy does not change before the critic has learned
        states = [[each.state_ids for each in batch] for batch in batches]
        with clock("fresh"):
            if config.fresh_per_state is None:
                fresh = await asyncio.gather(*map(partial(fresh_utterances, run.agent), states, rngs))
            else:
                rng = Rng("archer", config.seed, run.step, "shared")
                fresh = await shared_utterances(run.agent, states, rng, most=config.fresh_per_state)
    seen: list[dict[str, float]] = []
    for batch, said in zip(batches, fresh, strict=True):
        seen.append(parts.critic.update(batch, parts.rule, said.actions if said else None))
        seen[-1] |= said.metrics() if said else {}
    return {name: sum(each[name] for each in seen) / len(seen) for name in seen[0]}


async def learn_actor(config: ArcherConfig, run: Run, parts: Hierarchy, clock: Stopwatch) -> dict[str, float]:
    """Update the actor on ``actor_steps`` batches of states from the replay, with advantages from the critic."""
    if config.actor == "doubly_robust":
        updates, numbers = await learn_doubly_robust(config, run, parts.critic, parts.replay, parts.reference, clock)
        return summary(updates) | numbers
    updates = []
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
    compared_B = centered(advantage_B, [said.prompt_ids for said in utterances], config.centered)
    sampled, count_B = len(utterances), torch.ones(len(utterances))
    if config.merge_equal:
        utterances, compared_B, count_B = merge_equal(utterances, compared_B)
    rows = run.learner.recompute_old(pack_utterances(utterances))
    if parts.reference is not None:
        rows = parts.reference.scored(rows)
    # A mean over utterances of sums over tokens, as in the paper.
    rows = rows.with_weight(normalizer(rows, "const", denominator=sampled) * count_B[rows.episode])
    if config.actor == "ppo" and config.loss.whole_terms:
        rows = rows.with_weight(per_utterance(rows))
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
    shared: dict[str, Any] = {"seed": config.seed, "dump": run.folder.dump, "scorer": run.learner.scorer}
    sharded = is_language_model(config.critic_model.encoder)
    critic = UtteranceCritic(encoder, config.critic_settings(), **shared, sharded=sharded)
    run.state.keep("critic", critic)
    rule = ArcherRule(
        config.critic, config.gamma, config.min_target, config.expectile, lam=config.td_lambda, steps=config.td_steps
    )
    baseline = None
    if config.baseline == "token":
        values = token_values(config.values, run.model, run.start.tokenizer, **shared)
        run.state.keep("baseline", values)
        baseline = run.together.lead("baseline", values, "values", "final", "fit")
    reference = run.reference(config.loss.kl, config.model)
    led = run.together.lead("critic", critic, "q", "v", "advantage", "update")
    parts = Hierarchy(led, rule, Replay(config.replay), baseline, reference)
    if run.world.is_main:  # the others get their batches from it
        run.state.keep("replay", parts.replay)
    return parts


async def fill(config: ArcherConfig, run: Run, replay: Replay) -> None:
    """Fill the replay with demonstrations, encoded as the run's own agent would have read and written them.

    Raises:
        UsageError: they do not all fit, or the critic cannot read one.
    """
    episodes = await demonstrated(config, run)
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
