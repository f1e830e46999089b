"""Estimates of a run before it starts, and the smallest change with which it fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ...inference.hardware import ALONE
from .memory import GIB, Memory, memory_of
from .speed import seconds_of
from .workload import Sampler, Workload

RANK = 16
"""Rank of the adapters that are suggested."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Memory and time of one step.

    Args:
        load: the step.
        memory: memory of each GPU that learns.
        seconds: seconds of the step, by what for.
    """

    load: Workload
    memory: Memory
    seconds: Mapping[str, float]

    @property
    def step_seconds(self) -> float:
        """Seconds of a whole step."""
        return sum(self.seconds.values())

    @property
    def learned_per_second(self) -> float:
        """Tokens of rows that are learned from per second of learning, by all GPUs together."""
        return self.load.policy.learned * self.load.policy.read / max(self.seconds["learn"], 1e-9)

    @property
    def sampled_per_second(self) -> float:
        """Tokens that are sampled per second of play; 0 without any."""
        return self.load.sampler.sampled / self.seconds["play"] if self.seconds["play"] else 0.0

    def dollars(self, price: float) -> float:
        """Return the dollars of a step.

        Args:
            price: dollars per GPU and hour.
        """
        return self.step_seconds / 3600 * self.load.gpus * price


def estimate(load: Workload) -> Estimate:
    """Estimate a step."""
    return Estimate(load, memory_of(load), seconds_of(load))


def change_that_fits(load: Workload) -> tuple[str, Workload] | None:
    """Return the smallest change of settings with which a workload fits, in words and as a workload.

    One setting that saves memory is tried first, then several, then adapters instead of all weights, then more GPUs.
    """
    for words, larger in [("", load), *_larger(load)]:
        if words and memory_of(larger).fits:
            return words, larger
        if (saved := _saving(larger)) is not None:
            return f"{words} {saved[0]}".strip(), saved[1]
    return None


def _saving(load: Workload) -> tuple[str, Workload] | None:
    """Return settings that save enough memory: one of them, or several, of which each saves the most."""
    for word, changed in _changes(load):
        if memory_of(changed).fits:
            return word, changed
    words: dict[str, str] = {}
    while changes := list(_changes(load)):
        word, changed = min(changes, key=lambda change: memory_of(change[1]).peak)
        if memory_of(changed).peak >= memory_of(load).peak:
            return None
        words[word.partition("=")[0]], load = word, changed
        if memory_of(load).fits:
            return " ".join(words.values()), load
    return None


def _changes(load: Workload) -> Iterator[tuple[str, Workload]]:
    """Yield single changes, the cheapest first."""
    policy, critic, sampler = load.policy, load.critic, load.sampler
    if not policy.recompute:
        again = critic if critic is None or critic.rank is not None else replace(critic, recompute=True)
        yield "optimizer.recompute=true", replace(load, policy=replace(policy, recompute=True), critic=again)
    tokens = policy.tokens // policy.row_tokens // 2 * policy.row_tokens
    if tokens:
        changed = replace(policy, microbatch_tokens=tokens)
        yield f"optimizer.microbatch_tokens={tokens}", replace(load, policy=changed)
    if critic is not None and (fewer := critic.tokens // critic.row_tokens // 2 * critic.row_tokens):
        name = "critic_model.optimizer" if load.critic_copies else "values"
        yield f"{name}.microbatch_tokens={fewer}", replace(load, critic=replace(critic, microbatch_tokens=fewer))
    if sampler.kind == "engine":
        least = (
            2 * policy.shape.weights / GIB + 3 + 8 * policy.row_tokens * policy.shape.cached() / GIB
        ) / load.gpu.gib
        least = round(least + 0.005, 2)
        if least < sampler.share:
            word = f"server.engine.memory_share={least:g}"
            yield word, replace(load, sampler=replace(sampler, share=least))
    if sampler.kind in ("model", "copy") and sampler.rows > 1:
        fewer = sampler.rows // 2
        yield f"agent.max_batch={fewer}", replace(load, sampler=replace(sampler, rows=fewer))
    if not policy.autocast and policy.width == 4:
        shorter = None if critic is None else replace(critic, autocast=True)
        yield "optimizer.autocast=bfloat16", replace(load, policy=replace(policy, autocast=True), critic=shorter)


def _larger(load: Workload) -> Iterator[tuple[str, Workload]]:
    """Yield changes of another size: adapters, or more GPUs."""
    if load.policy.rank is None:
        policy = replace(load.policy, rank=RANK, width=2)
        critic = load.critic
        if critic is not None and critic.rank is not None:  # it shares the policy's weights
            critic = replace(critic, width=2)
        words = f"lora.rank={RANK} dtype=bfloat16 optimizer.lr=5e-5"
        yield words, replace(load, policy=policy, critic=critic)
    if load.alone:
        return
    replicas = load.sampler.replicas if load.sampler.kind == "servers" else 0
    beside = replicas > load.sampling_gpus
    for learners in (load.learners, 2, 4, 8, 16, 32, 64):
        if learners > load.learners or (beside and learners == load.learners):
            count = learners + replicas
            yield f"{count} GPUs", replace(load, gpus=count, sampler=_on_several(load.sampler))


def _on_several(sampler: Sampler) -> Sampler:
    """Return the same sampling on more GPUs than one: no shard samples, and servers have GPUs to themselves."""
    if sampler.kind == "model":
        return replace(sampler, kind="copy")
    return replace(sampler, share=ALONE) if sampler.kind == "servers" else sampler
