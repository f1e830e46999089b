"""``Scorer``: how every model of a run computes, so that all of them give the same tokens the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...inference.precision import autocast_to
from .activations import layers_as
from .logprobs import Logits, Scores, hidden_states, score
from .meter import Meter
from .parallel import ALONE, Part, ProcessGroup
from .rows import Layout, Rows, Unit


@dataclass(frozen=True, slots=True)
class Scorer:
    """How the models of a run compute: learner, reference, critics, canary and the sampler in this process.

    Two models with the same weights agree only if they compute in the same way. In 16 bits even the shape of a batch
    shows in the last digits, so a reference that scores rows as the learner does has a KL of exactly 0 at the start.
    The kernels of attention belong to a model; a copy has those of its original.

    Args:
        temperature: sampling temperature; 0 (greedy) counts as 1.
        autocast: precision of matrix products; ``None`` is that of the weights.
        layout: layout of rows in a forward pass.
        recompute: whether layers keep only their input for the backward pass.
        microbatch_tokens: tokens in one forward pass.
        world: processes that share the rows.
        logits: whether logits exist as a whole; see ``logprobs.Logits``.
        head: precision of the output layer's product; ``None`` is that of the others.
        compiled: whether layers run as compiled code.
        meter: counter of the work with a gradient.
    """

    temperature: float = 1.0
    autocast: torch.dtype | None = None
    layout: Layout = "padded"
    recompute: bool = False
    microbatch_tokens: int = 16384
    world: ProcessGroup = ALONE
    logits: Logits = "auto"
    head: torch.dtype | None = None
    compiled: bool = False
    meter: Meter = field(default_factory=Meter, compare=False)

    def precision(self, device: torch.device) -> AbstractContextManager[object]:
        """Compute in the run's precision within the block."""
        return autocast_to(self.autocast, device)

    def differentiating(self, model: Any) -> AbstractContextManager[None]:
        """Recompute the model's layers for gradients within the block, if the run does."""
        if not self.recompute:
            return nullcontext()
        return layers_as(model, recompute=True, compiled=self.compiled)

    def parts(self, rows: Rows, *, whole: Unit = "row") -> Iterator[Part]:
        """Yield this process's micro-batches of rows; see ``ProcessGroup.parts``."""
        return self.world.parts(rows, self.microbatch_tokens, whole=whole, layout=self.layout)

    def score(self, model: Any, part: Rows, *, entropy_gradient: bool = False) -> Scores:
        """Score the sampled tokens of one micro-batch; see ``logprobs.score``."""
        self.meter.read(part, self.layout)
        return score(
            model,
            part,
            temperature=self.temperature,
            entropy_gradient=entropy_gradient,
            layout=self.layout,
            autocast=self.autocast,
            logits=self.logits,
            head=self.head,
            compiled=self.compiled,
        )

    def states(self, backbone: Any, part: Rows) -> Tensor:
        """Return the hidden states that predict the sampled tokens of a micro-batch; see ``logprobs.hidden_states``."""
        return hidden_states(backbone, part, layout=self.layout, autocast=self.autocast, compiled=self.compiled)

    @torch.no_grad()
    def score_all(self, model: Any, rows: Rows, *, whole: Unit = "row") -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies of the sampled tokens of any number of rows, ``[T]`` each, CPU.

        All processes call it together, score their shares, and get all of the result.
        """
        found_2T = torch.zeros(2, len(rows))
        for part in self.parts(rows, whole=whole):
            scores = self.score(model, part.rows)
            if part.counts:
                found_2T[:, part.place_T] = torch.stack([scores.logp, scores.entropy]).cpu()
        logp, entropy = self.world.all_reduce(found_2T)
        return logp, entropy
