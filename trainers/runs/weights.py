"""From the learner's weights to the policy's, and the canary that proves they arrived."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch

from ...agents.policy import Completion, Policy, Sampling
from ...errors import ContractError

CANARY = "What is the answer?"
"""What the canary asks: any text does, since only log-probabilities are compared."""
TOLERANCES = {"float32": 1e-3, "bfloat16": 0.1}
"""How far the two sides of the canary may differ. Measured on random nano models: 1e-6, and 0.02 to 0.05."""


class WeightTransfer(Protocol):
    """Brings the learner's weights to whatever samples. A server's transfer (files, NCCL) goes behind the same verb."""

    async def send(self, version: int) -> None:
        """Make the policy sample from the learner's present weights, as ``version``.

        Raises:
            ContractError: the canary found that they did not arrive.
        """
        ...


class Updatable(Policy, Protocol):
    """A policy that takes new weights, and stamps every token with the version that sampled it."""

    def update(self, state_dict: Mapping[str, Any] | None, version: int) -> None:
        """Sample from these weights from now on; ``None`` when the trainer changed the policy's own model in place."""
        ...


@dataclass(frozen=True, slots=True)
class Probe:
    """A fixed prompt whose greedy continuation is compared on both sides.

    Args:
        prompt_ids: what is asked.
        max_tokens: how long the answer may be.
        tolerance: largest difference of a log-probability; 32-bit kernels differ by about 1e-6, 16-bit ones by 0.05.
    """

    prompt_ids: tuple[int, ...]
    max_tokens: int = 8
    tolerance: float = 1e-3

    @classmethod
    def of(cls, tokenizer: Any, dtype: str) -> Self:
        """The usual question, for weights of a precision."""
        return cls(tuple(tokenizer.encode(CANARY)), tolerance=TOLERANCES[dtype])


class Canary:
    """Asks the policy and the learner the same question after every transfer, and compares.

    The learner's model must give the ids that the policy sampled the same log-probabilities; if the weights changed,
    those of the previous answer must have changed too (algorithms.md, trap 18: a policy that silently keeps its old
    weights looks like mere staleness).

    Args:
        policy: samples.
        model: the learner's.
        probe: what is asked.
    """

    def __init__(self, policy: Policy, model: Any, probe: Probe) -> None:
        self.policy = policy
        self.model = model
        self.probe = probe
        self._last: _Answer | None = None

    async def prove(self, version: int) -> None:
        """Ask both sides, and compare.

        Raises:
            ContractError: the weights of this version did not arrive.
        """
        answer = await self.ask(version)
        self.judge(version, answer, logprobs_of(self.model, self.probe.prompt_ids, answer.token_ids))

    async def ask(self, version: int) -> Completion:
        """The policy's answer.

        Raises:
            ContractError: it is of another version.
        """
        sampling = Sampling(temperature=0.0, max_tokens=self.probe.max_tokens, seed=0)
        answer = await self.policy.generate(self.probe.prompt_ids, sampling, session="canary")
        if set(answer.versions) - {version}:
            raise ContractError(f"the policy stamps version {answer.versions[0]} after version {version} was sent")
        return answer

    def judge(self, version: int, answer: Completion, mine: tuple[float, ...]) -> None:
        """Compare the policy's answer with what the learner's model makes of it.

        Raises:
            ContractError: the weights of this version did not arrive.
        """
        worst = max((abs(a - b) for a, b in zip(mine, answer.logprobs, strict=True)), default=0.0)
        if worst > self.probe.tolerance:
            raise ContractError(
                f"weights of version {version} did not arrive: policy and learner differ by {worst:.3g} in the "
                f"log-probability of a probe, more than {self.probe.tolerance}"
            )
        answered, last = _Answer(answer.token_ids, answer.logprobs, mine), self._last
        if last and last.ids == answered.ids and last.mine != answered.mine and last.policy == answered.policy:
            raise ContractError(
                f"weights of version {version} did not arrive: the learner's log-probabilities of a probe changed, "
                "the policy's are exactly the previous ones"
            )
        self._last = answered


class InProcess:
    """Learner and policy share one model, so a transfer is a new version number, and the canary's proof of it.

    Args:
        policy: samples from ``model``.
        model: the learner's.
        probe: what the canary asks.
    """

    def __init__(self, policy: Updatable, model: Any, probe: Probe) -> None:
        self.policy = policy
        self.canary = Canary(policy, model, probe)

    async def send(self, version: int) -> None:
        self.policy.update(None, version)
        await self.canary.prove(version)


class Copied:
    """The policy samples from a model of its own, so that it can go on while the learner's changes.

    This costs the memory of the weights a second time (no optimizer state, no gradients): 2 bytes a parameter in
    bfloat16. A transfer copies the weights between two forward passes. Requests that are under way keep what they
    have sampled and their cache, and go on with the new weights: one action may span versions, and each of its tokens
    says which one drew it, with the log-probability that it was drawn with. (AReaL, arXiv 2505.24298, reads the prefix
    again under the new weights; here the cache of the old ones stays, as with vLLM's ``pause?mode=keep``.)

    Args:
        policy: samples from a copy of ``model``.
        model: the learner's; it must not change during a transfer.
        probe: what the canary asks.
    """

    def __init__(self, policy: Updatable, model: Any, probe: Probe) -> None:
        self.policy = policy
        self.model = model
        self.canary = Canary(policy, model, probe)

    async def send(self, version: int) -> None:
        # In a thread, since it waits for the pass that is under way: environments go on meanwhile.
        await asyncio.to_thread(self.policy.update, self.model.state_dict(), version)
        await self.canary.prove(version)


def own_copy(model: Any) -> Any:
    """A copy of a model to sample from: the same weights in memory of their own, none of them trainable."""
    return copy.deepcopy(model).requires_grad_(False).eval()


@dataclass(frozen=True, slots=True)
class _Answer:
    ids: tuple[int, ...]
    policy: tuple[float, ...]
    mine: tuple[float, ...]


@torch.no_grad()
def logprobs_of(model: Any, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
    """Log-probability, at temperature 1, of each of ``token_ids`` as the continuation of ``prompt_ids``."""
    device = next(model.parameters()).device
    ids = torch.tensor([[*prompt_ids, *token_ids]], device=device)
    logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, len(prompt_ids) - 1 : -1].float()
    picked = logits.log_softmax(-1).gather(-1, ids[0, len(prompt_ids) :, None])[:, 0]
    return tuple(float(value) for value in picked)
