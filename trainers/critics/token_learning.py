"""Offline learning of token-level values: the inputs of a learning rule, and one update at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from ...inference.value_guided import ActionValues
from ..learning.diverged import diverged
from ..learning.learner import OptimizerConfig, Update
from ..learning.meter import Meter, metered
from ..learning.rows import Rows
from .polyak import follow
from .sequences import batches, last_places, right_padded
from .token_steps import Tokens, TokenSteps


@dataclass(frozen=True, slots=True)
class Estimates:
    """The estimates of K critics for N sampled tokens.

    Args:
        q_KNV: Q of every token of the vocabulary in the state before each sampled token, ``[K, N, V]``, with gradient.
        v_N: V of that state, ``[N]``, with gradient; 0 without a V head.
        target_KN: the target critics' Q of the sampled token, ``[K, N]``, without gradient.
        next_N: V of the state after the token, ``[N]``, without gradient.
    """

    q_KNV: Tensor
    v_N: Tensor
    target_KN: Tensor
    next_N: Tensor


Loss = Callable[[Estimates, Tokens], tuple[Tensor, dict[str, Tensor]]]
"""The *sum* of an algorithm's loss over tokens, by their weights, and terms of it to log."""


class TokenLearner:
    """Learns Q and V of tokens from rows, and optionally the policy under them by cloning.

    As in ``learning.learner``, every pass is in evaluation mode, weights are computed once per batch, and losses are
    only summed, so that micro-batches do not change results.

    Args:
        policy: π_β; it learns if ``cloning`` is positive or the values share its backbone.
        online: values that learn.
        target: values that follow by Polyak averaging; ``online`` itself for an algorithm without targets.
        loss: loss of the algorithm.
        options: settings of the optimizer.
        polyak: share of the online weights that a target takes over at each update.
        cloning: weight of the cloning loss.
        lagged: whether V of the next state comes from the targets too; ILQL takes it from the online values.
        warmup: number of first updates, which regress Q on the returns in the data.
        dump: file for a batch with a non-finite loss.
        meter: counter of the work, shared with the run.
    """

    def __init__(
        self,
        policy: Any,
        online: ActionValues,
        target: ActionValues,
        loss: Loss,
        options: OptimizerConfig,
        *,
        polyak: float,
        cloning: float = 0.0,
        lagged: bool = False,
        warmup: int = 0,
        dump: Path | None = None,
        meter: Meter | None = None,
    ) -> None:
        self.policy, self.online, self.target, self.loss, self.options = policy, online, target, loss, options
        self.polyak, self.cloning, self.lagged, self.warmup, self.dump = polyak, cloning, lagged, warmup, dump
        self.scorer = replace(options.scorer(), layout="padded", meter=meter or Meter())
        self.updates = 0
        learning: list[nn.Module] = [online, policy] if cloning or online.backbone is None else [online]
        self._parameters = [p for module in learning for p in module.parameters() if p.requires_grad]
        self._optimizer = options.adamw(self._parameters)

    @metered
    def step(self, rows: Rows, steps: TokenSteps) -> Update:
        """Make one update on the sum of the losses of some rows, in micro-batches.

        Args:
            rows: rows with ``weight``.
            steps: steps of the episodes of these rows.

        Raises:
            DivergedError: the loss or the gradient is not finite; the weights are as before.
        """
        self._optimizer.zero_grad(set_to_none=True)
        device = next(self.online.parameters()).device
        prompt_value_P = self._prompt_values(steps, rows)
        metrics: dict[str, float] = {}
        for part in rows.microbatches(self.options.microbatch_tokens):
            if not self.cloning:  # which reads the rows by the scorer
                self.scorer.meter.read(part)
            tokens = steps.tokens(part)
            if self.updates < self.warmup:
                tokens = tokens.as_returns()
            tokens = Tokens(*(getattr(tokens, name).to(device) for name in tokens.__dataclass_fields__))
            estimates = self._estimates(part, tokens, prompt_value_P)
            loss, terms = self.loss(estimates, tokens)
            if self.cloning:
                weight_T = part.weight.to(device)
                terms["loss/bc"] = -(weight_T * self.scorer.score(self.policy, part).logp).sum()
                loss = loss + self.cloning * terms["loss/bc"]
            if not torch.isfinite(loss):
                self._diverged(part, f"the loss is {float(loss.detach())}")
            loss.backward()  # type: ignore[no-untyped-call]
            for name, term in {**terms, "loss": loss}.items():
                metrics[name] = metrics.get(name, 0.0) + float(term.detach())
        metrics |= {"tokens": float(rows.tokens), "lr": self.options.rate(self.updates)}
        metrics["grad_norm"] = float(torch.nn.utils.clip_grad_norm_(self._parameters, self.options.max_grad_norm))
        if not math.isfinite(metrics["grad_norm"]):
            self._diverged(rows, f"the gradient norm is {metrics['grad_norm']}")
        for group in self._optimizer.param_groups:
            group["lr"] = metrics["lr"]
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.updates += 1
        follow(self.target, self.online, self.polyak)
        return Update(stepped=True, metrics=metrics)

    def state_dict(self) -> dict[str, Any]:
        """Return all state of the next update except policy and targets, which are in the model's folder."""
        return {
            "online": self.online.state_dict(),
            "target": self.target.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.online.load_state_dict(state["online"])
        self.target.load_state_dict(state["target"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.updates = int(state["updates"])

    # -- the inside ---------------------------------------------------------------------------------------------

    def _estimates(self, part: Rows, tokens: Tokens, prompt_value_P: Tensor) -> Estimates:
        padded = part.padded()
        place_N = padded.flat_T[part.mask] - 1  # the position before a token has the state before it
        shown = padded.ids_BL, padded.attention_BL, place_N
        hidden_NH = self._hidden(self.online, *shown)
        q_KNV, v_N = self.online.heads.action_values(hidden_NH), self.online.heads.state_values(hidden_NH)
        with torch.no_grad():
            late_NH = hidden_NH.detach()  # targets of the heads alone use the states that learn
            if self.target is not self.online and self.target.backbone is not None:
                late_NH = self._hidden(self.target, *shown)
            target_KNV = self.target.heads.action_values(late_NH)
            target_KN = target_KNV.gather(-1, tokens.ids_N.expand(len(target_KNV), -1)[..., None])[..., 0]
            before_N = self.target.heads.state_values(late_NH) if self.lagged else v_N.detach()
            next_N = tokens.following(before_N, prompt_value_P)
        return Estimates(q_KNV, v_N, target_KN, next_N)

    def _hidden(self, values: ActionValues, ids_BL: Tensor, attention_BL: Tensor, place_N: Tensor) -> Tensor:
        """Return the states for the heads, at indices of the flattened batch, ``[N, H]``.

        Equal rows are computed once: if a game has few states, a large batch costs little more than these.
        A causal model needs no mask for padding on the right.
        """
        device = next(values.parameters()).device
        longest = ids_BL.shape[1]
        marked_RL, row_B = torch.unique(2 * ids_BL + attention_BL, dim=0, return_inverse=True)
        backbone = self.policy.base_model if values.backbone is None else values.backbone
        with self.scorer.precision(device):
            output = backbone(input_ids=(marked_RL // 2).to(device), use_cache=False)
        flat_N = row_B[place_N // longest] * longest + place_N % longest
        hidden: Tensor = output.last_hidden_state.flatten(0, 1)[flat_N.to(device)]
        return hidden

    @torch.no_grad()
    def _prompt_values(self, steps: TokenSteps, rows: Rows) -> Tensor:
        """Return V of the prompts' states, ``[P]``, for those that these rows need; 0 for the others."""
        values = self.target if self.lagged else self.online
        value_P = torch.zeros(len(steps.prompts), device=next(values.parameters()).device)
        if values.heads.v is None:
            return value_P
        following_U = torch.unique(steps.successor_U[rows.turn[rows.mask]])
        needed = following_U[following_U >= 0].tolist()
        prompts = [steps.prompts[number] for number in needed]
        for part in batches(prompts, self.options.microbatch_tokens):
            ids_BL, attention_BL = right_padded([prompts[place] for place in part])
            hidden_BH = self._hidden(values, ids_BL, attention_BL, last_places(attention_BL))
            value_P[[needed[place] for place in part]] = values.heads.state_values(hidden_BH)
        return value_P

    def _diverged(self, rows: Rows, what: str) -> NoReturn:
        self._optimizer.zero_grad(set_to_none=True)
        happened = f"after {self.updates} updates of the values {what}"
        diverged(happened, f"{rows.tokens} tokens", rows.columns(), self.dump, rate="optimizer.lr")
