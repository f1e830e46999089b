"""Pre-training of ArCHer's critic: learn the returns of demonstrations before the first step."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ..rollouts.episode import Episode
from ..tasks.rng import Rng
from .algorithms.archer import ArcherRule
from .archer_settings import ArcherConfig, CriticPretrainingConfig
from .critics.replay import Replay
from .critics.transitions import NOBODY, transitions
from .critics.utterance import UtteranceCritic
from .learning.advantages import context_of
from .run.offline import as_said, demonstrations, refuse_long_ends
from .run.run import Run

REPORTED = 20
"""Number of last updates whose means are reported."""


async def demonstrated(config: ArcherConfig, run: Run) -> list[Episode]:
    """Return the demonstrations, encoded as the run's own agent would have read and written them.

    Raises:
        UsageError: there are none, or the critic cannot read the last state of one.
    """
    episodes = as_said(await demonstrations(config, config.demonstrations), config.demonstrations, run)
    if config.critic_model.encoder.kind != "transformers":  # which counts tokens of its own
        refuse_long_ends(episodes, context_of(run.model))
    return episodes


async def pretrain_critic(
    config: ArcherConfig, settings: CriticPretrainingConfig, run: Run, critic: UtteranceCritic, replay: Replay
) -> dict[str, float]:
    """Update the critic on demonstrations, encoded as the run's own agent would have read and written them.

    A run that was interrupted meanwhile resumes at the update at which it stopped.

    Args:
        config: settings of the run; ``demonstrations`` are the data.
        settings: settings of the pre-training.
        run: the open run.
        critic: critic to train.
        replay: the run's replay, which receives the demonstrations if ``settings.keep`` asks for it.

    Returns:
        Numbers to log, named ``pretraining/…``: means over the last updates, and counts; empty if all updates were
        made before.

    Raises:
        UsageError: there is no demonstration to learn from, or the critic cannot read one.
    """
    if critic.updates >= settings.updates:
        return {}
    episodes = await demonstrated(config, run)
    turns = [turn for episode in episodes for turn in transitions(episode, config.gamma)]
    data = Replay(max(len(turns), 1))
    data.add(turns)
    if settings.keep and not replay.added:
        # Versions of recorded ids are those of another run, and its turns are not recent ones of this policy.
        replay.add(replace(turn, version=NOBODY) for turn in turns)
    rule = ArcherRule(
        settings.critic, config.gamma, config.min_target, config.expectile, lam=config.td_lambda, steps=config.td_steps
    )
    draw = data.sample_rows if critic.reads_rows else data.sample
    if rule.looks_ahead:
        draw = data.sample_episodes
    seen: list[dict[str, float]] = []
    for number in range(critic.updates, settings.updates):
        seen.append(critic.update(draw(config.batch, Rng("archer", config.seed, "pretraining", number)), rule))
        await asyncio.sleep(0)  # Ctrl-C takes effect here
    last = seen[-REPORTED:]
    means = {name.removeprefix("critic/"): sum(each[name] for each in last) / len(last) for name in last[0]}
    means |= {"updates": float(settings.updates), "turns": float(len(turns))}
    return {f"pretraining/{name}": value for name, value in means.items()}
