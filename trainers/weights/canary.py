"""The canary: proves that the learner's weights arrived in the policy that samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch

from ...errors import ContractError
from ...inference.policy import Completion, Policy, Sampling
from ..learning.scorer import Scorer

CANARY = "What is the answer?"
"""The canary's prompt; any text works, since only log-probabilities are compared."""
TOLERANCES = {"float32": 1e-3, "bfloat16": 0.1}
"""Largest difference between the two sides of the canary. Measured on random nano models: 1e-6, and 0.02 to 0.05."""

ROUNDING = 3e-6
"""Change of a 32-bit log-probability by rounding alone: two units in the last place of its logit."""


def noise(tolerance: float, *, in_32_bits: float) -> float:
    """Return the largest difference of log-probabilities of the same weights.

    Args:
        tolerance: largest difference between the two sides of a canary.
        in_32_bits: result for the tolerance of 32-bit weights or a smaller one; for others it is half the tolerance.
    """
    return in_32_bits if tolerance <= TOLERANCES["float32"] else tolerance / 2


@dataclass(frozen=True, slots=True)
class Probe:
    """A fixed prompt whose greedy continuation is compared on both sides.

    Args:
        prompt_ids: token ids of the prompt.
        max_tokens: maximum number of tokens of the answer.
        tolerance: largest difference of a log-probability; 32-bit kernels differ by about 1e-6, 16-bit ones by 0.05.
        scorer: how the learner computes.
    """

    prompt_ids: tuple[int, ...]
    max_tokens: int = 8
    tolerance: float = 1e-3
    scorer: Scorer = field(default_factory=Scorer)

    @property
    def rounding(self) -> float:
        """Change on one side while the other stays the same, since their passes have different shapes."""
        return noise(self.tolerance, in_32_bits=ROUNDING)

    def score(self, model: Any, answer: Completion) -> tuple[float, ...]:
        """Return the learner's log-probabilities of an answer."""
        return logprobs_of(model, self.prompt_ids, answer.token_ids, self.scorer)

    @classmethod
    def of(cls, tokenizer: Any, dtype: str, scorer: Scorer) -> Self:
        """Make the usual probe for weights of a given precision."""
        coarsest = "bfloat16" if scorer.autocast is not None else dtype
        return cls(tuple(tokenizer.encode(CANARY)), tolerance=TOLERANCES[coarsest], scorer=scorer)


class Canary:
    """Asks the policy and the learner the same question after every transfer, and compares the answers.

    The learner's model must give the ids that the policy sampled the same log-probabilities. If the weights changed,
    the log-probabilities of the previous answer must have changed too: a policy that silently keeps its old weights
    looks merely stale (traps.md, trap 18).

    Args:
        policy: policy that samples.
        model: model of the learner.
        probe: prompt and tolerance of the canary.
    """

    def __init__(self, policy: Policy, model: Any, probe: Probe) -> None:
        self.policy = policy
        self.model = model
        self.probe = probe
        self._last: _Answer | None = None

    async def prove(self, version: int) -> None:
        """Ask both sides, and compare their answers.

        Raises:
            ContractError: the weights of this version did not arrive.
        """
        answer = await self.ask(version)
        self.judge(version, answer, self.probe.score(self.model, answer))

    async def ask(self, version: int) -> Completion:
        """Return the policy's answer.

        Raises:
            ContractError: the answer is of another version.
        """
        sampling = Sampling(temperature=0.0, max_tokens=self.probe.max_tokens, seed=0)
        answer = await self.policy.generate(self.probe.prompt_ids, sampling, session="canary")
        if set(answer.versions) - {version}:
            raise ContractError(f"the policy stamps version {answer.versions[0]} after version {version} was sent")
        return answer

    def judge(self, version: int, answer: Completion, mine: tuple[float, ...]) -> None:
        """Compare the policy's answer with the learner's log-probabilities of it.

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
        if last is not None and last.ids == answered.ids:
            moved = max((abs(a - b) for a, b in zip(mine, last.mine, strict=True)), default=0.0)
            if moved <= self.probe.rounding:
                return  # steps too small to tell from rounding add up: compare the next with the same answer
            if last.policy == answered.policy:
                raise ContractError(
                    f"weights of version {version} did not arrive: the learner's log-probabilities of a probe changed "
                    f"by {moved:.3g}, the policy's are exactly the previous ones"
                )
        self._last = answered


@dataclass(frozen=True, slots=True)
class _Answer:
    ids: tuple[int, ...]
    policy: tuple[float, ...]
    mine: tuple[float, ...]


@torch.no_grad()
def logprobs_of(
    model: Any, prompt_ids: Sequence[int], token_ids: Sequence[int], scorer: Scorer | None = None
) -> tuple[float, ...]:
    """Return the log-probability, at temperature 1, of each of ``token_ids`` as the continuation of ``prompt_ids``."""
    device = next(model.parameters()).device
    ids = torch.tensor([[*prompt_ids, *token_ids]], device=device)
    with (scorer or Scorer()).precision(device):
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, len(prompt_ids) - 1 : -1].float()
    picked = logits.log_softmax(-1).gather(-1, ids[0, len(prompt_ids) :, None])[:, 0]
    return tuple(float(value) for value in picked)
