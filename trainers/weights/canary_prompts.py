"""The canary's prompts for servers, and their answers with the trainer's scores."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

import torch
from peft.tuners.lora import LoraLayer

from ...inference.policy import Sampling
from ...inference.serving.server import ServerResponse
from ...tasks.rng import Rng
from ..learning.scorer import Scorer
from .canary import ANOTHER, CANARY
from .noise import Bounds, Gap

BLOCK = 128
"""Tokens in the largest cache block in use (vLLM's on a CPU; on GPUs 16); a shorter prompt is never cached."""
SHORT = 12
"""Tokens of a prompt that is shorter than any cache block."""
ANSWER = 8
"""Tokens of an answer."""


_Place = tuple[bool, int]
"""Whether a question is for the model without its adapter, and the length of its prompt."""
_Said = tuple[tuple[int, ...], tuple[int, ...], float]
"""Prompt, answer and temperature."""
_Scores = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
"""Log-probabilities of an answer, those of the likeliest ids, and those of the answer at temperature 1."""


class Kind(StrEnum):
    """The purpose of a question."""

    WARM = "warm"
    """A long prompt that is the same every time: its keys and values are in the cache since the last version."""
    FRESH = "fresh"
    """A long prompt that is different every time, so it is in no cache."""
    SHORT = "short"
    """A prompt shorter than a cache block, so in no cache; ids that no text encodes to, at the run's temperature."""
    PLAIN = "plain"
    """A short prompt with the ids of a text."""
    BARE = "bare"
    """``WARM`` for the model without its adapter, as if the adapter had been dropped."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request of the canary.

    Args:
        kind: purpose of the question.
        prompt_ids: token ids of the prompt.
        sampling: sampling settings; all kinds but ``SHORT`` are greedy.
    """

    kind: Kind
    prompt_ids: tuple[int, ...]
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Answer:
    """One server's answer, and the trainer's scores of it.

    Args:
        question: question to the server.
        served: the server's answer.
        mine: the trainer's log-probability of each id that the server sampled.
        best: the trainer's log-probability of the likeliest id at each position.
        untempered: ``mine`` at temperature 1.
    """

    question: Question
    served: ServerResponse
    mine: tuple[float, ...]
    best: tuple[float, ...]
    untempered: tuple[float, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """Sampled token ids."""
        return self.served.completion.token_ids

    @property
    def theirs(self) -> tuple[float, ...]:
        """The server's log-probabilities of the sampled ids."""
        return self.served.completion.logprobs

    @property
    def differences(self) -> tuple[float, ...]:
        """The difference between the two sides for each id."""
        return tuple(a - b for a, b in zip(self.theirs, self.mine, strict=True))

    @property
    def gap(self) -> Gap:
        """How far the two sides differ."""
        return Gap.of(self.differences)

    def chosen(self, near: float) -> bool:
        """Whether the trainer, too, would greedily pick the first id, on which later ones depend.

        Args:
            near: difference of two log-probabilities that noise may turn around.
        """
        return not self.best or self.best[0] - self.mine[0] < max(near, 1e-2)


@dataclass(frozen=True, slots=True)
class Questions:
    """The canary's questions in a run, the same after every sync except for ``FRESH``.

    Args:
        words: ids for long prompts, without special tokens.
        plain: token ids of a text.
        another: token ids of another text, for a second opinion.
        length: number of tokens of long prompts.
        answer: number of tokens of an answer.
        temperature: sampling temperature of the run.
        bounds: bounds of the noise between the two sides.
        scorer: how the learner computes.
    """

    words: tuple[int, ...]
    plain: tuple[int, ...]
    another: tuple[int, ...] = ()
    length: int = 2 * BLOCK + SHORT
    answer: int = ANSWER
    temperature: float = 1.0
    bounds: Bounds = field(default_factory=lambda: Bounds.of(["float32"]))
    scorer: Scorer = field(default_factory=Scorer)
    salt: str = field(default_factory=lambda: secrets.token_hex(4))
    """Random string of this process, since a server's cache may have the prompts of an earlier one."""

    @classmethod
    def of(
        cls,
        tokenizer: Any,
        *,
        context_length: int,
        temperature: float,
        dtypes: Sequence[str],
        scorer: Scorer | None = None,
        tolerance: float | None = None,
    ) -> Self:
        """Make the questions for a model.

        Args:
            tokenizer: tokenizer of the model.
            context_length: context length of the model, in tokens.
            temperature: sampling temperature of the run; 0 counts as 1.
            dtypes: precisions of weights and arithmetic on both sides; the coarsest bounds the noise.
            scorer: how the learner computes.
            tolerance: limit of the mean difference in nats; ``None`` measures the noise.
        """
        special = set(tokenizer.all_special_ids)
        words = tuple(token for token in range(len(tokenizer)) if token not in special)
        return cls(
            words or tuple(range(len(tokenizer))),
            tuple(tokenizer.encode(CANARY))[:SHORT] or words[:1],
            tuple(tokenizer.encode(ANOTHER))[:SHORT] or words[-1:],
            temperature=temperature or 1.0,
            bounds=Bounds.of(dtypes, tolerance),
            scorer=scorer or Scorer(),
        ).within(context_length)

    def within(self, context_length: int) -> Self:
        """Return the same questions, short enough for a context of so many tokens."""
        answer = max(1, min(self.answer, context_length // 4))
        return replace(self, answer=answer, length=max(1, min(self.length, context_length - answer)))

    def asked(self, count: int, *, adapter: bool = False, again: bool = False) -> tuple[Question, ...]:
        """Return the questions after one sync.

        Args:
            count: number of the sync in this process, which makes ``FRESH`` a new prompt.
            adapter: whether the sync sent an adapter.
            again: whether to ask for a second opinion, with other prompts. ``WARM`` and ``BARE`` stay, since only they
                are in the cache.
        """
        warm, greedy = self._said("warm", self.length), Sampling(temperature=0.0, max_tokens=self.answer, seed=0)
        sampled = Sampling(temperature=self.temperature, max_tokens=self.answer, seed=0)
        short = min(SHORT, self.length)
        return (
            Question(Kind.WARM, warm, greedy),
            Question(Kind.FRESH, self._said(f"fresh {self.salt} {count}", self.length), greedy),
            Question(Kind.SHORT, self._said("short again" if again else "short", short), sampled),
            Question(Kind.PLAIN, (self.another or self.plain) if again else self.plain, greedy),
            *((Question(Kind.BARE, warm, greedy),) if adapter else ()),
        )

    def _said(self, name: str, length: int) -> tuple[int, ...]:
        rng = Rng("canary", name)
        return tuple(rng.choice(self.words) for _ in range(length))


@torch.no_grad()
def answered(model: Any, heard: Sequence[tuple[Question, ServerResponse]], scorer: Scorer) -> list[Answer]:
    """Score servers' answers with the trainer's model, at the temperature of the servers' numbers.

    Healthy replicas give equal answers, which are scored once; the others share forward passes. Answers of the model
    without its adapter are scored without it, too.

    Args:
        model: model of the learner.
        heard: questions with their answers, in any number.
        scorer: how the learner computes.
    """
    waiting: dict[_Place, dict[_Said, _Scores]] = {}
    for question, served in heard:
        said = (question.prompt_ids, served.completion.token_ids, question.sampling.temperature or 1.0)
        waiting.setdefault((question.kind is Kind.BARE, len(question.prompt_ids)), {})[said] = ((), (), ())
    for (bare, length), scores in waiting.items():
        with _bare(model) if bare else nullcontext():
            rows = [said for said in scores if said[1]]
            size = max(1, scorer.microbatch_tokens // (length + max((len(said[1]) for said in rows), default=0)))
            for batch in (rows[first : first + size] for first in range(0, len(rows), size)):
                scores.update(zip(batch, _scored(model, batch, length, scorer), strict=True))
    found = []
    for question, served in heard:
        said = (question.prompt_ids, served.completion.token_ids, question.sampling.temperature or 1.0)
        scores_of = waiting[question.kind is Kind.BARE, len(question.prompt_ids)][said]
        found.append(Answer(question, served, *scores_of))
    return found


def _scored(model: Any, rows: Sequence[_Said], length: int, scorer: Scorer) -> Iterator[_Scores]:
    """Score some answers to prompts of one length in a forward pass, padded on the right as the learner pads."""
    device, longest = next(model.parameters()).device, max(len(ids) for _, ids, _ in rows)
    padded = torch.tensor([[*prompt, *ids, *[0] * (longest - len(ids))] for prompt, ids, _ in rows], device=device)
    known = "logits_to_keep" in inspect.signature(model.forward).parameters
    kept: dict[str, int] = {"logits_to_keep": longest + 1} if known else {}
    with scorer.precision(device):
        logits_BNV = model(input_ids=padded, **kept).logits[:, -longest - 1 : -1].float()
    for (_, ids, temperature), logits_NV, row in zip(rows, logits_BNV, padded[:, length:], strict=True):
        # The log-probabilities of a greedy answer are those at temperature 1, by the contract of Sampling.
        logp_NV = (logits_NV / temperature).log_softmax(-1)
        found = (
            logp_NV.gather(-1, row[:, None])[:, 0],
            logp_NV.max(-1).values,
            logits_NV.log_softmax(-1).gather(-1, row[:, None])[:, 0],
        )
        mine, best, untempered = (tuple(each_N[: len(ids)].tolist()) for each_N in found)
        yield mine, best, untempered


@contextmanager
def _bare(model: Any) -> Iterator[None]:
    """Run the model without its adapters; the set of trainable weights stays the same."""
    trained = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    layers = [module for module in model.modules() if isinstance(module, LoraLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)
        for parameter, flag in trained:
            parameter.requires_grad_(flag)
