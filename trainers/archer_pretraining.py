"""Pre-training of ArCHer's critic: learn the returns of demonstrations before the first step."""

from __future__ import annotations

import asyncio

from ..tasks.rng import Rng
from .algorithms.archer import ArcherRule
from .archer_settings import ArcherConfig, CriticPretrainingConfig
from .critics.replay import Replay
from .critics.transitions import transitions
from .critics.utterance import UtteranceCritic
from .run.offline import as_said, demonstrations
from .run.run import Run

REPORTED = 20
"""Number of last updates whose means are reported."""


async def pretrain_critic(
    config: ArcherConfig, settings: CriticPretrainingConfig, run: Run, critic: UtteranceCritic, replay: Replay
) -> dict[str, float]:
    """Update the critic on demonstrations, encoded as the run's own agent would have read and written them.

    Args:
        config: settings of the run; ``demonstrations`` are the data.
        settings: settings of the pre-training.
        run: the open run.
        critic: critic to train.
        replay: the run's replay, which receives the demonstrations if ``settings.keep`` asks for it.

    Returns:
        Numbers to log, named ``pretraining/…``: means over the last updates, and counts.

    Raises:
        UsageError: there is no demonstration to learn from.
    """
    episodes = as_said(await demonstrations(config, config.demonstrations), config.demonstrations, run)
    turns = [turn for episode in episodes for turn in transitions(episode, config.gamma)]
    data = Replay(max(len(turns), 1))
    data.add(turns)
    rule = ArcherRule(
        settings.critic, config.gamma, config.min_target, config.expectile, lam=config.td_lambda, steps=config.td_steps
    )
    draw = data.sample_rows if critic.reads_rows else data.sample
    if rule.looks_ahead:
        draw = data.sample_episodes
    seen: list[dict[str, float]] = []
    for number in range(settings.updates):
        seen.append(critic.update(draw(config.batch, Rng("archer", config.seed, "pretraining", number)), rule))
        await asyncio.sleep(0)  # Ctrl-C takes effect here
    if settings.keep:
        replay.add(turns)
    last = seen[-REPORTED:]
    means = {name.removeprefix("critic/"): sum(each[name] for each in last) / len(last) for name in last[0]}
    means |= {"updates": float(len(seen)), "turns": float(len(turns))}
    return {f"pretraining/{name}": value for name, value in means.items()}
