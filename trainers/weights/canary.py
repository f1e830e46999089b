"""The canary: proves that the learner's weights arrived in the policy that samples, if that is in this process."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch

from ...errors import ContractError
from ...inference.policy import Completion, Policy, Sampling
from ...logs import tell
from ..learning.main_process import run_on_main
from ..learning.parallel import ALONE, ProcessGroup
from ..learning.scorer import Scorer
from .noise import Bounds, Gap, Noise, share

LOG = logging.getLogger(__name__)
CANARY, ANOTHER = "What is the answer?", "Which way did they go?"
"""The canary's prompts; any text works, since only log-probabilities are compared."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Fixed prompts whose greedy continuations are compared on both sides.

    Args:
        prompt_ids: token ids of the prompt.
        other_ids: token ids of another prompt, for a second opinion; none repeats the first.
        max_tokens: maximum number of tokens of an answer.
        bounds: bounds of the noise.
        scorer: how the learner computes.
    """

    prompt_ids: tuple[int, ...]
    other_ids: tuple[int, ...] = ()
    max_tokens: int = 8
    bounds: Bounds = field(default_factory=lambda: Bounds.of(["float32"]))
    scorer: Scorer = field(default_factory=Scorer)

    def score(self, model: Any, prompt_ids: Sequence[int], answer: Completion) -> tuple[float, ...]:
        """Return the learner's log-probabilities of an answer."""
        return logprobs_of(model, prompt_ids, answer.token_ids, self.scorer)

    @classmethod
    def of(cls, tokenizer: Any, dtype: str, scorer: Scorer) -> Self:
        """Make the usual probe for weights of a given precision."""
        bounds = Bounds.of([dtype, *([] if scorer.autocast is None else ["bfloat16"])])
        return cls(tuple(tokenizer.encode(CANARY)), tuple(tokenizer.encode(ANOTHER)), bounds=bounds, scorer=scorer)


class Canary:
    """Asks the policy and the learner the same question after every transfer, and compares the answers.

    The learner's model must give the ids that the policy sampled the same log-probabilities, but for noise, which the
    first proof measures. If the weights changed, the log-probabilities of the previous answer must have changed too: a
    policy that silently keeps its old weights looks merely stale (traps.md, trap 18). Only that stops a run; a gap
    without it is a warning.

    Args:
        policy: policy that samples; ``None`` in processes other than the main one.
        model: model of the learner.
        probe: prompts and bounds of the canary.
        world: the processes that learn together.
    """

    def __init__(self, policy: Policy | None, model: Any, probe: Probe, world: ProcessGroup = ALONE) -> None:
        self.policy = policy
        self.model = model
        self.probe = probe
        self.world = world
        self.noise = Noise(probe.bounds)
        self.warnings = 0
        """Number of gaps, each confirmed by another prompt, that are not explained by the noise."""
        self._last: _Answer | None = None

    async def prove(self, version: int) -> None:
        """Ask both sides, and compare their answers; all processes call it together.

        Raises:
            ContractError: the weights of this version did not arrive.
        """
        first = await self._heard(version, self.probe.prompt_ids)

        async def again() -> bool:
            return self.noise.measured is None or first.gap.exceeds(self.noise.limit)

        other = None
        if await run_on_main(self.world, again):
            other = await self._heard(version, self.probe.other_ids or self.probe.prompt_ids)

        async def judge() -> None:
            self.judge(version, first, other)

        await run_on_main(self.world, judge)

    async def ask(self, version: int, prompt_ids: Sequence[int]) -> Completion:
        """Return the policy's answer.

        Raises:
            ContractError: the answer is of another version.
        """
        assert self.policy is not None
        sampling = Sampling(temperature=0.0, max_tokens=self.probe.max_tokens, seed=0)
        answer = await self.policy.generate(prompt_ids, sampling, session="canary")
        if set(answer.versions) - {version}:
            raise ContractError(f"the policy stamps version {answer.versions[0]} after version {version} was sent")
        return answer

    def judge(self, version: int, first: _Answer, other: _Answer | None) -> None:
        """Compare the policy's answers with the learner's log-probabilities of them.

        Raises:
            ContractError: the weights of this version did not arrive.
        """
        limit = self.noise.limit
        wrong = other is not None and first.gap.exceeds(limit) and other.gap.exceeds(limit)
        differ = (
            f"policy and learner differ by {first.gap.mean:.3g} in the mean log-probability of a probe, more than "
            f"{limit.mean:.3g}"
        )
        stayed = self._stayed(first)
        if wrong and (stayed or self.noise.gross(first.gap)):
            raise ContractError(f"weights of version {version} did not arrive: {differ}")
        if stayed:
            raise ContractError(f"weights of version {version} did not arrive: {stayed}")
        if wrong:
            if not self.warnings:
                known = {"version": version, "gap_mean": first.gap.mean, "limit_mean": limit.mean}
                tell(LOG, "canary", f"{differ}, though version {version} arrived: they compute differently", known)
            self.warnings += 1
        if self.noise.measured is None:
            self.noise.calibrate([*first.differences, *(other.differences if other else ())])

    async def _heard(self, version: int, prompt_ids: Sequence[int]) -> _Answer:
        answer = await run_on_main(self.world, lambda: self.ask(version, prompt_ids))
        return _Answer(answer.token_ids, answer.logprobs, self.probe.score(self.model, prompt_ids, answer))

    def _stayed(self, now: _Answer) -> str:
        """Describe that the policy kept its weights while the learner's changed; empty if it did not."""
        last = self._last
        if last is None or last.ids != now.ids:
            self._last = now
            return ""
        mine = [a - b for a, b in zip(now.mine, last.mine, strict=True)]
        theirs = [a - b for a, b in zip(now.policy, last.policy, strict=True)]
        moved = max(map(abs, mine), default=0.0)
        if moved <= self.noise.floor.p99:
            return ""  # steps too small to tell from rounding add up: compare the next with the same answer
        changed = f"the learner's log-probabilities of a probe changed by {moved:.3g}, the policy's"
        if not any(theirs):
            return f"{changed} are exactly the previous ones"
        if self.noise.shows(mine) and share(theirs, mine) < 0.5:
            return f"{changed} by {max(map(abs, theirs)):.3g}, and not along"
        self._last = now
        return ""


@dataclass(frozen=True, slots=True)
class _Answer:
    ids: tuple[int, ...]
    policy: tuple[float, ...]
    mine: tuple[float, ...]

    @property
    def differences(self) -> list[float]:
        return [a - b for a, b in zip(self.policy, self.mine, strict=True)]

    @property
    def gap(self) -> Gap:
        return Gap.of(self.differences)


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
