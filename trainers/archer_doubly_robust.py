"""ArCHer's doubly robust actor at work: recent turns of the replay, fresh utterances there, clipped updates."""

from __future__ import annotations

from dataclasses import replace

import torch

from ..tasks.rng import Rng
from .algorithms.archer import centered, described, judged
from .algorithms.doubly_robust import Outcomes, combined, outcomes, with_own_old, with_terms
from .archer_settings import ArcherConfig
from .collect.resample import fresh_utterances
from .critics.replay import Replay
from .critics.utterance import UtteranceCritic
from .learning.learner import Update
from .learning.normalizers import per_utterance
from .learning.reference import Reference
from .learning.utterances import Utterance
from .run.metrics import Stopwatch
from .run.run import Run


async def learn_doubly_robust(
    config: ArcherConfig,
    run: Run,
    critic: UtteranceCritic,
    replay: Replay,
    reference: Reference | None,
    clock: Stopwatch,
) -> tuple[list[Update], dict[str, float]]:
    """Update the actor on ``actor_steps`` batches of recent turns; return the updates, and numbers of the turns."""
    settings = config.doubly_robust
    recent = replay.since(run.step - settings.max_age)
    if not recent:  # every episode of the last steps was lost
        return [], {"actor/recorded": 0.0}
    found = outcomes(
        recent,
        critic,
        gamma=config.gamma,
        lam=settings.lam,
        control=settings.control,
        utterances=config.utterances,
    )
    states = max(1, config.batch // (1 + config.utterances))
    updates: list[Update] = []
    for number in range(config.actor_steps):
        rng = Rng("archer", config.seed, run.step, "actor", number)
        drawn = [rng.pick(range(len(recent))) for _ in range(states)]
        prompts = [recent[place].state_ids for place in drawn for _ in range(config.utterances)]
        with clock("fresh"):
            fresh = await fresh_utterances(run.agent, prompts, rng)
        updates += update(config, run, critic, reference, found, drawn, fresh.utterances)
        await run.weights.send(run.step)
    return updates, found.metrics(run.step)


def update(
    config: ArcherConfig,
    run: Run,
    critic: UtteranceCritic,
    reference: Reference | None,
    found: Outcomes,
    drawn: list[int],
    fresh: tuple[Utterance, ...],
) -> list[Update]:
    """Make ``epochs`` clipped updates on some recent turns and on fresh ones, equally many in the state of each."""
    drawn_S = torch.tensor(drawn)
    recorded = [found.turns[place] for place in drawn]
    rows = combined(recorded, fresh)
    rows = with_own_old(rows, run.learner.recompute_old(rows), len(recorded))
    if reference is not None:
        rows = reference.scored(rows)
    if config.loss.whole_terms:
        rows = rows.with_weight(per_utterance(rows))
    share_F = found.share_N[drawn_S].repeat_interleave(len(fresh) // len(drawn))
    control_F = share_F * centered(judged(critic, fresh), [said.prompt_ids for said in fresh], config.centered)
    outcome_N = found.recorded(centered=config.centered != "none")
    outcome_R = outcome_N[drawn_S]
    paid = with_terms(rows, outcome_R, control_F)
    updates: list[Update] = []
    for _ in range(config.epochs):
        made = run.learner.step(paid, config.loss.objective(), version=run.step)
        updates.append(replace(made, metrics={**made.metrics, **described(outcome_R)}))
        if made.aborted:
            break
    return updates
