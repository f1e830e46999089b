"""Evaluation during training, on the same tasks each time: held-out ones, unless ``eval.split`` is that of training."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

from ...agents.chat import ChatAgent
from ...tasks.spec import TaskSpec
from ..collect.async_rollouts import Source
from ..collect.collect import collect
from ..collect.sampler import round_seed
from .settings import EvalConfig


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Plays the same held-out tasks every time.

    Args:
        config: schedule, and how the policy samples.
        source: everything that playing episodes needs.
        agent: agent that plays in training.
        tasks: the held-out tasks.
    """

    config: EvalConfig
    source: Source
    agent: ChatAgent
    tasks: Sequence[TaskSpec]

    @property
    def keep_best(self) -> bool:
        """Whether to keep the model of the best evaluation."""
        return self.config.keep_best

    def due(self, step: int) -> bool:
        """Return whether an evaluation follows a step; step 0 is the state before training."""
        every = self.config.every
        return bool(self.tasks) and (step in (0, self.source.steps) or bool(every and step % every == 0))

    async def metrics(self) -> dict[str, float]:
        """Play the tasks with the policy as it is, and return the numbers."""
        source, agent, temperature = self.source, self.agent, self.config.temperature
        if temperature is not None:
            agent = with_temperature(agent, temperature)
        options = source.options.model_copy(update={"seed": round_seed("eval", source.seed)})
        collected = await collect(source.pool, agent, self.tasks, options=options)
        return collected.held_out_metrics()


def with_temperature(agent: ChatAgent, temperature: float) -> ChatAgent:
    """Return the same agent, sampling at another temperature from the same policy."""
    other = copy(agent)  # keeps the class of the agent
    other.sampling = replace(agent.sampling, temperature=temperature)
    return other
