"""The learner: a model, its optimizer, and one update at a time. It knows no algorithm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Self

import pydantic
import torch
from torch import Tensor

from ...config import Config
from ...errors import CheckpointError
from .clips import Clips, placed
from .diverged import diverged
from .kl import kl_estimate
from .logprobs import Logits, Scores, refuse_unless_packable
from .loss import Diagnostics
from .meter import metered
from .objective import Objective, objective_loss
from .optimizers import OptimizerKind, adamw
from .parallel import ALONE, ProcessGroup, sharded_like, unsharded
from .rows import Layout, Rows, Unit
from .scorer import Scorer

Beta = Annotated[float, pydantic.Field(ge=0, lt=1)]
"""Decay rate of a moment of Adam; the closer to 1, the slower it forgets."""


class OptimizerConfig(Config):
    """Settings of AdamW, its schedule and its micro-batches."""

    kind: OptimizerKind = "adamw"
    """``adamw``; ``adamw-fused``, which needs no temporary copy of the weights at the update, for GPUs; or
    ``adamw-8bit``, whose moments take 2 bytes per weight instead of 8 (one process; ``pip install turnwise[8bit]``)."""
    lr: float = pydantic.Field(default=1e-3, gt=0, le=1000)
    """Learning rate. 1e-3 suits nano models; LOOP used 5e-5 with LoRA on 32B, full fine-tuning wants about 1e-6."""
    schedule: Literal["constant", "linear"] = "constant"
    """Learning rate after the warm-up: constant, or linear down to 0 at ``total`` updates."""
    warmup: int = pydantic.Field(default=0, ge=0)
    """Updates over which the rate rises linearly from 0."""
    total: int | None = pydantic.Field(default=None, ge=1)
    """Updates until a linear schedule ends (default: the updates of the whole run)."""
    weight_decay: float = pydantic.Field(default=0.0, ge=0)
    """Decoupled weight decay."""
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    """AdamW's β₁ and β₂."""
    max_grad_norm: float = pydantic.Field(default=1.0, gt=0)
    """Norm to which larger gradients are scaled down (LOOP's paper: 1, its code: 0.1)."""
    microbatch_tokens: int = pydantic.Field(default=2048, ge=1)
    """Tokens in one forward pass. It changes memory and speed, but results only in the last digits. A CPU is fastest
    with 1024 to 2048; a GPU needs 16384 or more."""
    layout: Layout = "padded"
    """Layout of rows in a forward pass: ``padded`` to the longest of them, or ``packed`` into one sequence."""
    logits: Logits = "auto"
    """``whole`` logits, or ``chunked``: computed for some tokens at a time, and again for the gradient, so that they
    never exist together. ``auto`` chooses ``chunked`` from 8,192 ids on, unless the model caps or scales its logits."""
    head: Literal["float32"] | None = None
    """Precision of the output layer's product, where ``autocast`` would have 16 bits."""
    autocast: Literal["bfloat16"] | None = None
    """Precision of matrix products; the weights keep the precision of ``dtype``. Everything that a run computes with
    a model in this process uses it: learner, sampler, reference, critics and canary."""
    recompute: bool = False
    """Keep only the input of each layer for the backward pass, and compute the rest again: less memory, more time."""
    compiled: bool = False
    """Run the layers as compiled code (``torch.compile``), for learner, reference and values of tokens, but not for
    ArCHer's critic; needs a C compiler, and 15 to 20 seconds at the start."""

    def rate(self, update: int) -> float:
        """Return the learning rate of an update, counted from 0."""
        if update < self.warmup:
            return self.lr * (update + 1) / self.warmup
        if self.schedule == "linear" and self.total is not None:
            return self.lr * max(0.0, 1 - (update - self.warmup) / max(1, self.total - self.warmup))
        return self.lr

    def until(self, updates: int) -> Self:
        """Return the same with ``total`` set, if it is not: the updates of a whole run that skips none."""
        return self if self.total is not None else self.model_copy(update={"total": updates})

    def scorer(self, *, temperature: float = 1.0, world: ProcessGroup = ALONE) -> Scorer:
        """Return how the models of a run compute with these settings."""
        return Scorer(
            temperature,
            getattr(torch, self.autocast) if self.autocast else None,
            self.layout,
            self.recompute,
            self.microbatch_tokens,
            world,
            self.logits,
            torch.float32 if self.head else None,
            self.compiled,
        )

    def adamw(self, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        """Create the optimizer; ``rate`` sets its learning rate again before every step.

        Raises:
            UsageError: this machine cannot compute its kind.
        """
        return adamw(self.kind, parameters, lr=self.lr, betas=self.betas, weight_decay=self.weight_decay)


@dataclass(frozen=True, slots=True)
class Update:
    """The result of one update.

    Args:
        stepped: whether the weights moved.
        aborted: whether it was refused because the policy is too far from the one before the iteration.
        metrics: numbers to log.
        clips: tokens that the loss clipped; ``None`` unless requested, and if the update was refused.
    """

    stepped: bool
    aborted: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    clips: Clips | None = None


class Learner:
    """Updates a model from rows.

    Every forward pass is in evaluation mode, also those with a gradient. Dropout would make the policy differ from
    itself, and every ratio from 1, before a single update (traps.md, traps 15 and 23).

    Args:
        model: a causal language model; it may be shared with a policy that samples from it between updates.
        options: the optimizer's settings.
        temperature: sampling temperature.
        dump: file for a batch with a non-finite loss.
        world: processes that learn together. All of them call every method with the same arguments and get the same
            results; the model is sharded over them (``parallel.shard``).

    Raises:
        UsageError: the layout is ``packed``, and the model cannot tell rows apart.
    """

    def __init__(
        self,
        model: Any,
        options: OptimizerConfig,
        *,
        temperature: float = 1.0,
        dump: Path | None = None,
        world: ProcessGroup = ALONE,
    ) -> None:
        self.model = model.eval()
        self.world = world
        self.options = options
        self.scorer = options.scorer(temperature=temperature, world=world)
        self.dump = dump
        self.updates = 0
        self.skipped = 0
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._optimizer = options.adamw(self._parameters)
        # After the shards are collected: a forward pass without gradients leaves a sharded model's root unsharded, and
        # an optimizer of those tensors would never see a gradient.
        if options.layout == "packed":
            refuse_unless_packable(model, self.scorer.autocast)

    @property
    def parameters(self) -> Sequence[Tensor]:
        """The trained parameters, in the order of the optimizer's state."""
        return self._parameters

    @property
    def trainable(self) -> int:
        """Number of trainable parameters: all of the model's, or those of its adapters."""
        return sum(parameter.numel() for parameter in self._parameters)

    def logprobs(self, rows: Rows, *, whole: Unit = "row") -> Tensor:
        """Return the log-probability of each sampled token under the present weights, 0 on context, ``[T]``, CPU."""
        return self.scorer.score_all(self.model, rows, whole=whole)[0]

    def recompute_old(self, rows: Rows) -> Rows:
        """Replace the sampler's log-probabilities by the trainer's own, so that the ratio is 1 before an update.

        It is exact but for rounding, which depends on the rows of a pass; an update holds others than this pass.

        Also set the entropies of the distributions of the sampled tokens.
        """
        return rows.with_logp_old(*self.scorer.score_all(self.model, rows))

    @metered
    def step(self, rows: Rows, objective: Objective, *, version: int = 0, clips: bool = False) -> Update:
        """Make one optimizer step on the sum of the losses of ``rows``, in micro-batches.

        Rows without advantage or weight are skipped, since their gradient is 0. If none is left, or the gradient is
        exactly 0, the optimizer does not move (Adam would, by its momentum) and the update counts as skipped.

        Args:
            rows: rows with advantage, weight and ``logp_old``.
            objective: the loss.
            version: present policy version, to measure the staleness of the tokens.
            clips: whether the update says which tokens the loss clipped.

        Raises:
            DivergedError: the loss or the gradient is not finite; weights and optimizer are as before.
        """
        matters = rows.weight if objective.beyond_advantage else rows.advantage * rows.weight
        # Whole episodes and not rows: a ratio over a trajectory needs all of its rows.
        useful = rows.select(torch.unique(rows.episode[matters != 0]))
        self._optimizer.zero_grad(set_to_none=True)
        if not useful.tokens:
            self.skipped += 1
            return Update(stepped=False, metrics={"loss": 0.0, "grad_norm": 0.0, "tokens": 0.0})

        def loss_of(scores: Scores, part: Rows) -> tuple[Tensor, Diagnostics]:
            loss, seen = objective_loss(scores, part.to(scores.logp.device), objective)
            return loss, placed(seen, part) if clips else seen

        loss, seen, metrics = self._accumulate(useful, objective, loss_of)
        assert seen is not None
        metrics |= seen.metrics() | _staleness(useful, version)
        episodes = torch.unique(useful.episode).numel()
        kl = kl_estimate(-seen.log_ratio, torch.zeros_like(seen.log_ratio), "k3").sum() / episodes
        metrics |= {"loss": loss, "kl_episode": float(kl), "tokens": float(useful.tokens)}
        # Judged after the gradient was computed and before anything moves, since the KL comes from the same pass.
        if objective.max_kl is not None and float(kl) > objective.max_kl:
            self._optimizer.zero_grad(set_to_none=True)
            self.skipped += 1
            return Update(stepped=False, aborted=True, metrics=metrics)
        update = self._apply(useful, metrics)
        return replace(update, clips=Clips.of(seen)) if clips else update

    @metered
    def clone(self, rows: Rows) -> Update:
        """Make one optimizer step on the weighted negative log-likelihood of sampled tokens: behavior cloning.

        Raises:
            DivergedError: the loss or the gradient is not finite; weights and optimizer are as before.
        """
        self._optimizer.zero_grad(set_to_none=True)
        if not rows.tokens:
            self.skipped += 1
            return Update(stepped=False, metrics={"loss": 0.0, "grad_norm": 0.0, "tokens": 0.0})
        loss, _, metrics = self._accumulate(
            rows, None, lambda scores, part: (-(part.to(scores.logp.device).weight * scores.logp).sum(), None)
        )
        return self._apply(rows, metrics | {"loss": loss, "tokens": float(rows.tokens)})

    def state_dict(self) -> dict[str, Any]:
        """Return all state of the next update but the model; of a sharded model, moments are sharded as it is."""
        counted = {"updates": self.updates, "skipped": self.skipped}
        return {"kind": self.options.kind, "optimizer": self._optimizer.state_dict(), **counted}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``, whose moments may be unsharded or sharded as the model is.

        Raises:
            CheckpointError: it is of another kind of optimizer.
        """
        kind, saved = self.options.kind, state.get("kind", "adamw")
        if "adamw-8bit" in (kind, saved) and kind != saved:
            raise CheckpointError(
                f"the optimizer's moments were written by {saved} and cannot be read by {kind}, which stores them in "
                f"another precision: set optimizer.kind = {saved}, or start a new run from the exported model"
            )
        optimizer = dict(state["optimizer"])
        optimizer["state"] = {
            index: sharded_like(moments, self._parameters[index]) for index, moments in optimizer["state"].items()
        }
        self._optimizer.load_state_dict(optimizer)
        self.updates, self.skipped = int(state["updates"]), int(state["skipped"])

    # -- the inside ---------------------------------------------------------------------------------------------

    def _accumulate(
        self,
        rows: Rows,
        objective: Objective | None,
        loss_of: Callable[[Scores, Rows], tuple[Tensor, Diagnostics | None]],
    ) -> tuple[float, Diagnostics | None, dict[str, float]]:
        """Sum losses and gradients over micro-batches, and over processes."""
        differentiable = objective is not None and objective.needs_entropy_gradient
        sums, mine = torch.zeros(2, dtype=torch.float64), []
        with self.scorer.differentiating(self.model):
            for part in self.scorer.parts(rows, whole=objective.whole if objective else "row"):
                scores = self.scorer.score(self.model, part.rows, entropy_gradient=differentiable)
                loss, diagnostics = loss_of(scores, part.rows)
                # A process with fewer micro-batches repeats one that does not count: a sharded pass is joint, and the
                # others would wait for it.
                (loss if part.counts else 0 * loss).backward()  # type: ignore[no-untyped-call]
                if part.counts:
                    sums = sums.to(loss.device) + torch.stack([loss.detach(), scores.entropy.detach().sum()])
                    mine += [diagnostics] if diagnostics is not None else []
        loss_sum, entropy = self.world.all_reduce(sums.cpu()).tolist()
        # Checking once at the end is enough: nothing has moved, and every process sees the same sum.
        if not math.isfinite(loss_sum):
            self._diverged(rows, f"the loss is {loss_sum}")
        seen = [each for share in self.world.all_gather(mine) for each in share]
        turns = torch.unique(rows.turn[rows.mask]).numel()
        metrics = {"entropy": entropy / rows.tokens, "entropy_turn": entropy / turns}
        return loss_sum, Diagnostics.join(seen) if seen else None, metrics

    def _apply(self, rows: Rows, metrics: dict[str, float]) -> Update:
        norm = float(unsharded(torch.nn.utils.clip_grad_norm_(self._parameters, self.options.max_grad_norm)))
        if not math.isfinite(norm):
            self._diverged(rows, f"the gradient norm is {norm}")
        metrics |= {"grad_norm": norm, "lr": self.options.rate(self.updates), "trainable": float(self.trainable)}
        if norm == 0.0:
            self.skipped += 1
        else:
            for group in self._optimizer.param_groups:
                group["lr"] = metrics["lr"]
            self._optimizer.step()
            self.updates += 1
        self._optimizer.zero_grad(set_to_none=True)
        return Update(stepped=norm != 0.0, metrics=metrics)

    def _diverged(self, rows: Rows, what: str) -> NoReturn:
        self._optimizer.zero_grad(set_to_none=True)
        happened, size = f"after {self.updates} updates {what}", f"{rows.tokens} tokens"
        diverged(happened, size, rows.columns(), self.dump, rate="optimizer.lr", writes=self.world.is_main)


def _staleness(rows: Rows, version: int) -> dict[str, float]:
    age = version - rows.version[rows.mask]
    return {"staleness_mean": float(age.float().mean()), "staleness_max": float(age.max())}
