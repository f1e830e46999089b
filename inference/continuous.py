"""Continuous batching of a transformers model, without asyncio: rows join at any step and leave when they finish."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.cache_utils import Cache

from ..errors import PolicyError
from .kv_cache import cache_argument, empty_cache, joined, refuse_other_caches
from .policy import Finish
from .precision import autocast_to

PREFILL_TOKENS = 16_384
"""Maximum number of prompt tokens, padding included, in one forward pass."""


@dataclass(slots=True, eq=False)
class Row:
    """One request in the batch.

    Args:
        prompt: token ids that the model reads.
        temperature: sampling temperature; 0 is greedy.
        limit: maximum number of tokens to sample.
        stop_ids: token ids that end the row.
        draws: generator of its uniform numbers; each row has its own, so that the other rows do not influence it.
        top_p: probability of the most likely tokens from which it draws.
    """

    prompt: tuple[int, ...]
    temperature: float
    limit: int
    stop_ids: frozenset[int]
    draws: random.Random
    top_p: float = 1.0
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    finish: Finish | None = None

    @property
    def cached(self) -> int:
        """Number of its tokens that the model has read: all except the last sampled one."""
        return len(self.prompt) + max(len(self.tokens) - 1, 0)

    def take(self, token: int, logprob: float, version: int) -> None:
        """Record one sampled token, and set ``finish`` if it was the last."""
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.versions.append(version)
        if token in self.stop_ids:
            self.finish = Finish.STOP
        elif len(self.tokens) >= self.limit:
            self.finish = Finish.LENGTH


class RunningBatch:
    """The rows being decoded, with their key-value cache, which is left-padded to the longest row.

    Args:
        model: a causal language model with full attention in every layer.
        autocast: precision of matrix products; ``None`` is that of the weights.

    Raises:
        ModelError: the model keeps another kind of cache.
    """

    def __init__(self, model: Any, autocast: torch.dtype | None = None) -> None:
        refuse_other_caches(model)
        self.model = model
        self.autocast = autocast
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self._rows: list[Row] = []  # rows that have finished may stay for a while; see _join
        self._cache = empty_cache()

    def step(self, arrivals: Sequence[Row], version: int) -> None:
        """Sample one token for every row, arrivals included, and remove the rows that it finishes."""
        with torch.no_grad(), eval_mode(self.model):
            parts: list[PassOutput] = [self._decode()] if any(not row.finish for row in self._rows) else []
            parts += [self._prefill(bucket) for bucket in buckets(arrivals)]
            if parts:
                rows = [row for part in parts for row in part.rows]
                alive = [i for i, row in enumerate(rows) if not row.finish]
                logits = torch.cat([part.logits for part in parts])
                sample([rows[i] for i in alive], logits if len(alive) == len(rows) else logits[alive], version)
            self._join(parts)

    def drop(self, unwanted: Sequence[Row]) -> None:
        """Remove rows before they finish."""
        for row in unwanted:
            row.finish = Finish.ABORT

    def _decode(self) -> PassOutput:
        last = [[row.tokens[-1]] for row in self._rows]
        return self._forward(self._rows, last, [row.cached + 1 for row in self._rows], self._cache)

    def _prefill(self, rows: list[Row]) -> PassOutput:
        # Read a prompt that several rows share (a group's first turn, utterances in one state) only once.
        readers = list({row.prompt: row for row in rows}.values())
        longest = max(len(row.prompt) for row in readers)
        padded = [[0] * (longest - len(row.prompt)) + list(row.prompt) for row in readers]
        read = self._forward(readers, padded, [len(row.prompt) for row in readers], empty_cache())
        if len(readers) == len(rows):
            return read
        number = {row.prompt: index for index, row in enumerate(readers)}
        place = [number[row.prompt] for row in rows]
        return PassOutput(rows, read.logits[place], joined([(read.cache, place)], longest))

    def _forward(self, rows: list[Row], tokens: list[list[int]], lengths: list[int], cache: Cache) -> PassOutput:
        """Read ``tokens`` [rows, new]; the last ``lengths`` positions of a row are its tokens, the rest is padding."""
        device, new = self.model.device, len(tokens[0])
        width = cache.get_seq_length() + new
        ends = torch.tensor(lengths, device=device)[:, None]
        with autocast_to(self.autocast, device):
            output = self.model(
                input_ids=torch.tensor(tokens, device=device),
                attention_mask=(torch.arange(width, device=device) >= width - ends).long(),
                position_ids=(ends - new + torch.arange(new, device=device)).clamp_min(0),
                use_cache=True,
                logits_to_keep=1,
                **cache_argument(self.model, cache),
            )
        return PassOutput(rows, output.logits[:, -1], cache)

    def _join(self, parts: Sequence[PassOutput]) -> None:
        """Make one batch of the unfinished rows. Copying costs too, so a few finished rows may stay, unread."""
        chosen = [[i for i, row in enumerate(part.rows) if not row.finish] for part in parts]
        kept = [(part, rows) for part, rows in zip(parts, chosen, strict=True) if rows]
        if not kept:
            self.clear()
            return
        alive = [part.rows[i] for part, rows in kept for i in rows]
        width = max(row.cached for row in alive)
        part = kept[0][0]
        if len(kept) == 1 and 4 * len(alive) * width >= 3 * len(part.rows) * part.cache.get_seq_length():
            self._rows, self._cache = part.rows, part.cache
        else:
            self._rows, self._cache = alive, joined([(part.cache, rows) for part, rows in kept], width)


@dataclass(frozen=True, slots=True)
class PassOutput:
    """Rows of one forward pass, with their logits [rows, vocabulary] and their cache after it."""

    rows: list[Row]
    logits: Tensor
    cache: Cache


def sample(rows: Sequence[Row], logits: Tensor, version: int) -> None:
    """Draw one token per row by inverting the distribution function, and record it.

    Args:
        rows: the rows to sample for, one per row of ``logits``.
        logits: unnormalized log-probabilities [rows, vocabulary].
        version: policy version to record with every token.

    Raises:
        PolicyError: a log-probability is not finite: the model has diverged.
    """
    temperatures = torch.tensor([row.temperature or 1.0 for row in rows], device=logits.device)
    logprobs = functional.log_softmax(logits.float() / temperatures[:, None], dim=-1)
    shares = [row.top_p if row.temperature else 1.0 for row in rows]
    if min(shares) < 1:
        logprobs = nucleus(logprobs, torch.tensor(shares, device=logits.device))
    # Double precision, because a single-precision sum over a large vocabulary loses the rare tokens.
    mass = logprobs.double().exp().cumsum(dim=-1)
    draws = torch.tensor([row.draws.random() for row in rows], dtype=torch.float64, device=logits.device)
    drawn = torch.searchsorted(mass, draws[:, None] * mass[:, -1:], right=True).clamp_max(logits.shape[-1] - 1)
    greedy = torch.tensor([row.temperature == 0 for row in rows], device=logits.device)[:, None]
    tokens = torch.where(greedy, logits.argmax(dim=-1, keepdim=True), drawn)
    chosen = logprobs.gather(-1, tokens)
    if not bool(chosen.isfinite().all()):
        raise PolicyError(f"the model of version {version} returns log-probabilities that are not finite: it diverged")
    for row, token, logprob in zip(rows, tokens[:, 0].tolist(), chosen[:, 0].tolist(), strict=True):
        row.take(token, logprob, version)


def nucleus(logprobs: Tensor, top_p: Tensor) -> Tensor:
    """Keep the most likely tokens of each row up to the probability ``top_p``, and normalize them.

    Args:
        logprobs: log-probabilities [rows, vocabulary].
        top_p: cumulative probability to keep [rows]; 1 keeps all tokens.
    """
    ranked, order = logprobs.sort(dim=-1, descending=True, stable=True)
    before = ranked.exp().cumsum(dim=-1) - ranked.exp()
    dropped = torch.zeros_like(logprobs, dtype=torch.bool).scatter(-1, order, before >= top_p[:, None])
    dropped &= top_p[:, None] < 1
    return functional.log_softmax(logprobs.masked_fill(dropped, -torch.inf), dim=-1)


@contextmanager
def eval_mode(model: Any) -> Iterator[None]:
    """Switch a model to evaluation mode (no dropout), and restore the mode of every module at the end."""
    if not model.training:
        yield
        return
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def buckets(rows: Sequence[Row]) -> list[list[Row]]:
    """Group rows of similar prompt length, so that at most half of a prefill is padding."""
    found: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: len(row.prompt)):
        shortest = len(found[-1][0].prompt) if found else 0
        fits = found and len(row.prompt) <= 2 * shortest + 16
        if fits and (len(found[-1]) + 1) * len(row.prompt) <= PREFILL_TOKENS:
            found[-1].append(row)
        else:
            found.append([row])
    return found
