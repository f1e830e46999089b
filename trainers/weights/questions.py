"""What the canary asks servers, and what trainer and server make of the answers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

import torch
from peft.tuners.lora import LoraLayer

from ...inference.policy import Sampling
from ...inference.serving.server import Served
from ...tasks.rng import Rng
from .canary import CANARY, TOLERANCES

BLOCK = 128
"""Tokens in the largest cache block in use (vLLM's on a CPU; on GPUs 16): a shorter prompt is never cached."""
SHORT = 12
"""Tokens of a prompt that no cache block is small enough for."""
ANSWER = 8
"""Tokens of an answer."""


class Kind(StrEnum):
    """Why a question is asked."""

    WARM = "warm"
    """Long, and the same every time: its keys and values are in the cache since the last version."""
    FRESH = "fresh"
    """As long, and another one every time: in no cache."""
    SHORT = "short"
    """In no cache either, since it is shorter than a block; ids that no text encodes to, at the run's temperature."""
    PLAIN = "plain"
    """As short, and a text's own ids."""
    BARE = "bare"
    """``WARM``, asked of the model without its adapter: what an adapter that was dropped would answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request.

    Args:
        kind: why.
        prompt_ids: what is asked.
        sampling: how; all but ``SHORT`` are greedy.
    """

    kind: Kind
    prompt_ids: tuple[int, ...]
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Answer:
    """What one server said, and what the trainer's model makes of it.

    Args:
        question: what was asked.
        served: the server's answer.
        mine: the trainer's log-probability of each id that the server sampled.
        best: the trainer's log-probability of the likeliest id in each place.
    """

    question: Question
    served: Served
    mine: tuple[float, ...]
    best: tuple[float, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """What was sampled."""
        return self.served.completion.token_ids

    @property
    def theirs(self) -> tuple[float, ...]:
        """The server's log-probabilities of it."""
        return self.served.completion.logprobs

    @property
    def gap(self) -> float:
        """The largest difference between the two sides."""
        return max((abs(a - b) for a, b in zip(self.theirs, self.mine, strict=True)), default=0.0)

    @property
    def chosen(self) -> bool:
        """Whether the trainer, too, would have sampled the first id, were it greedy: later ones depend on it."""
        return not self.best or self.best[0] - self.mine[0] < 1e-2


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked in a run, the same after every sync but for ``FRESH``.

    Args:
        words: ids to make long prompts of: no special ones.
        plain: a text's own ids.
        length: of long prompts, in tokens.
        answer: tokens of an answer.
        temperature: of the run's sampling.
        tolerance: largest difference of a log-probability between the two sides.
    """

    words: tuple[int, ...]
    plain: tuple[int, ...]
    length: int = 2 * BLOCK + SHORT
    answer: int = ANSWER
    temperature: float = 1.0
    tolerance: float = TOLERANCES["float32"]
    salt: str = field(default_factory=lambda: secrets.token_hex(4))
    """Of this process: what an earlier one asked may be in a server's cache."""

    @classmethod
    def of(cls, tokenizer: Any, *, context_length: int, temperature: float, dtypes: Sequence[str]) -> Self:
        """Those for a model.

        Args:
            tokenizer: the model's.
            context_length: of the model.
            temperature: of the run's sampling; 0 counts as 1.
            dtypes: precisions of the weights on both sides; the coarsest sets the tolerance.
        """
        special = set(tokenizer.all_special_ids)
        words = tuple(token for token in range(len(tokenizer)) if token not in special)
        return cls(
            words or tuple(range(len(tokenizer))),
            tuple(tokenizer.encode(CANARY))[:SHORT] or words[:1],
            temperature=temperature or 1.0,
            tolerance=max(TOLERANCES[dtype] for dtype in dtypes),
        ).within(context_length)

    def within(self, context_length: int) -> Self:
        """The same, short enough for a context of so many tokens."""
        answer = max(1, min(self.answer, context_length // 4))
        return replace(self, answer=answer, length=max(1, min(self.length, context_length - answer)))

    def asked(self, count: int, *, adapter: bool = False) -> tuple[Question, ...]:
        """The questions after one sync.

        Args:
            count: of the sync in this process; makes ``FRESH`` another one.
            adapter: what was sent is an adapter.
        """
        warm, greedy = self._said("warm", self.length), Sampling(temperature=0.0, max_tokens=self.answer, seed=0)
        sampled = Sampling(temperature=self.temperature, max_tokens=self.answer, seed=0)
        short = min(SHORT, self.length)
        return (
            Question(Kind.WARM, warm, greedy),
            Question(Kind.FRESH, self._said(f"fresh {self.salt} {count}", self.length), greedy),
            Question(Kind.SHORT, self._said("short", short), sampled),
            Question(Kind.PLAIN, self.plain, greedy),
            *((Question(Kind.BARE, warm, greedy),) if adapter else ()),
        )

    def _said(self, name: str, length: int) -> tuple[int, ...]:
        rng = Rng("canary", name)
        return tuple(rng.choice(self.words) for _ in range(length))


@torch.no_grad()
def answered(model: Any, question: Question, served: Served) -> Answer:
    """Score a server's answer with the trainer's model, at the temperature that its numbers are of.

    What was asked of a model without its adapter is scored so, too.
    """
    ids = served.completion.token_ids
    if not ids:
        return Answer(question, served, (), ())
    device = next(model.parameters()).device
    row = torch.tensor([[*question.prompt_ids, *ids]], device=device)
    first = len(question.prompt_ids) - 1
    with _bare(model) if question.kind is Kind.BARE else nullcontext():
        logits = model(input_ids=row, attention_mask=torch.ones_like(row)).logits[0, first:-1].float()
    # A greedy answer's numbers are those at temperature 1: the contract of Sampling.
    logp_NV = (logits / (question.sampling.temperature or 1.0)).log_softmax(-1)
    mine_N = logp_NV.gather(-1, row[0, first + 1 :, None])[:, 0]
    return Answer(question, served, tuple(mine_N.tolist()), tuple(logp_NV.max(-1).values.tolist()))


@contextmanager
def _bare(model: Any) -> Iterator[None]:
    """The model without its adapters; which weights are trained stays as it was."""
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
