"""The agent of a run, and how the learner's weights reach it: the model itself, a copy of it, or servers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

from ...agents.chat import ChatAgent
from ..learning.parallel import ProcessGroup
from ..learning.scorer import Scorer
from ..weights.canary import Probe
from ..weights.gathered import Gathered
from ..weights.shared_model import Copied, InProcess, own_copy
from ..weights.transfer import Updatable, WeightTransfer
from .model_files import ModelFiles
from .servers import Serving
from .settings import TrainConfig


@dataclass(frozen=True, slots=True)
class Actor:
    """An agent, and the transfer of weights to its policy.

    Args:
        agent: agent that plays.
        weights: transfer of the learner's weights to its policy.
        serving: servers behind the policy, if any.
    """

    agent: ChatAgent
    weights: WeightTransfer
    serving: Serving | None = None

    @classmethod
    def of(
        cls,
        config: TrainConfig,
        model: Any,
        tokenizer: Any,
        *,
        own: Any,
        overlaps: bool,
        version: int,
        files: ModelFiles,
        scorer: Scorer,
    ) -> Self:
        """Build the actor of a configuration.

        Args:
            config: settings of the run.
            model: the learner's model, sharded if several processes learn.
            tokenizer: tokenizer of the model.
            own: ``sampling_copy(…)`` of the model.
            overlaps: whether episodes are played while the learner learns.
            version: version of the weights.
            files: files that the model was loaded from.
            scorer: how the learner computes; a policy in this process and the canary compute likewise.

        Raises:
            UsageError: the servers cannot hold the model.
        """
        world = files.world
        if config.server is not None:
            serving = Serving(
                config.server,
                model,
                tokenizer,
                out=Path(config.out),
                version=version,
                dtype=config.dtype,
                lora=config.lora,
                base=files.base,
                turn_timeout=config.episodes.turn_timeout,
                scorer=scorer,
            )
            return cls(config.agent.over(serving.policy, tokenizer), serving.weights, serving)
        probe = Probe.of(tokenizer, config.dtype, scorer)
        settings = config.agent.model_copy(update={"threaded": True}) if overlaps and world.is_main else config.agent
        sampled = model if own is None else own
        agent = settings.agent(sampled, tokenizer, version=version, autocast=scorer.autocast)
        policy = cast(Updatable, agent.policy)
        if world.size > 1:
            return cls(agent, Gathered(policy if world.is_main else None, model, world, probe))
        return cls(agent, InProcess(policy, model, probe) if own is None else Copied(policy, model, probe))


def sampling_copy(config: TrainConfig, model: Any, overlapped: bool, world: ProcessGroup) -> Any:
    """Return a copy of the model to sample from, if neither the learner's own model nor servers can; else ``None``.

    Args:
        config: settings of the run.
        model: model that is not sharded yet.
        overlapped: whether episodes are played while the learner learns.
        world: the processes that learn together; the main one samples.
    """
    if config.server is not None or not world.is_main:
        return None
    return own_copy(model) if overlapped or world.size > 1 else None
