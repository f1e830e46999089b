"""The critic over utterances: double Q of a state and an utterance, double V of a state, and a slow copy of both."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, cast

import pydantic
import torch
from torch import Tensor, nn

from ...config import Config
from ...errors import UsageError
from ..learning.activations import recomputable
from ..learning.diverged import diverged
from ..learning.learner import OptimizerConfig
from ..learning.parallel import ProcessGroup, shard, unsharded
from ..learning.rates import refuse_high_rate
from ..learning.scorer import Scorer
from ..learning.sharded_state import load_unsharded, optimizer_state, reshard
from .causal_encoder import CausalEncoder
from .critic_networks import Networks
from .critic_rule import CriticRule, Known
from .encoder import (
    CountingEncoder,
    Encoder,
    EncoderConfig,
    PrefixEncoder,
    encode,
    encode_pairs,
    encode_steps,
    pair_batches,
)
from .frozen_backbone import FrozenEncoder
from .hl_gauss import HistogramConfig
from .polyak import follow
from .replay import packed
from .scaling import TargetScale
from .transitions import Transition

Ids = tuple[int, ...]
MEMORY = 0.95
"""Share of the running mean and deviation of returns that each update keeps."""


class CriticConfig(Config):
    """The networks of a critic over utterances, and their training. Its optimizer is not the actor's."""

    encoder: EncoderConfig = EncoderConfig()
    """The encoder of states and utterances (paper: RoBERTa-base)."""
    head: int = pydantic.Field(default=64, ge=1)
    """Width of the heads' hidden layers (released code: 768)."""
    scaled: bool = True
    """Let the heads work in units of the returns (their running mean and deviation), which move without changing any
    value. Formulas and results are in reward either way; without it the heads must learn the size of a return."""
    histogram: HistogramConfig | None = None
    """HL-Gauss: heads that predict a distribution over bins and learn by cross-entropy. A table with ``low`` and
    ``high`` turns it on; ``scaled`` then has no effect. Not for ``critic = "iql"``."""
    tau: float = pydantic.Field(default=0.1, gt=0, le=1)
    """Polyak averaging: how far the slow copy moves towards the critic after every update (released code: 0.1)."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Optimizer of the critic (released code: learning rate 2e-5 for RoBERTa-base)."""


class UtteranceCritic:
    """ArCHer's critic (Zhou et al., arXiv 2402.19446): encodes state and utterance apart, and judges them together.

    Processes that learn together divide the passes of every batch, and sum losses and gradients with one normalizer.
    All of them call every method with the same arguments, and get the same results. Each has the whole critic, unless
    ``sharded``.

    Args:
        encoder: an ``Encoder`` and a module; ``copy.deepcopy`` makes the slow copy, so an encoder that shares a frozen
            backbone defines in ``__deepcopy__`` what is copied.
        config: settings of heads, Polyak averaging and optimizer; ``config.encoder`` is ignored.
        seed: seed of the heads' weights; the global generator keeps its state.
        dump: file for a batch with a non-finite loss.
        scorer: how the models of the run compute, and in which processes; the encoder computes likewise, unless
            ``config.optimizer`` sets more.
        sharded: whether processes shard the critic, whose encoder is then a ``CausalEncoder``; for language models.

    Raises:
        UsageError: the learning rate would destroy so large an encoder.
    """

    def __init__(
        self,
        encoder: nn.Module,
        config: CriticConfig,
        *,
        seed: int = 0,
        dump: Path | None = None,
        scorer: Scorer | None = None,
        sharded: bool = False,
    ) -> None:
        self.config = config
        self.dump = dump
        own, shared = config.optimizer.scorer(), scorer or Scorer()
        # A backbone shared with the policy is not recomputed: its adapters are switched back before the backward pass.
        recompute = (own.recompute or shared.recompute) and recomputable(encoder)
        autocast = own.autocast or shared.autocast
        self.scorer = replace(own, autocast=autocast, recompute=recompute, world=shared.world)
        self.updates = 0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            online = Networks(encoder, config.head, config.histogram)
        self._device = next(chain(encoder.parameters(), encoder.buffers())).device
        self.online = online.to(self._device).eval()
        self.slow = copy.deepcopy(self.online).requires_grad_(False)
        for networks in (self.online, self.slow) if sharded else ():
            for module in (cast(CausalEncoder, networks.encoder).body, *networks.q_heads, *networks.v_heads):
                shard(module, self.world)
        self._scale = TargetScale([*self.online.last_layers(), *self.slow.last_layers()], memory=MEMORY)
        self._trained = [parameter for parameter in self.online.parameters() if parameter.requires_grad]
        trained = sum(parameter.numel() for parameter in self._trained)
        refuse_high_rate("critic_model.optimizer.lr", config.optimizer.lr, trained, usual="about 1e-5")
        self._optimizer = config.optimizer.adamw(self._trained)

    @property
    def world(self) -> ProcessGroup:
        """The processes that learn together."""
        return self.scorer.world

    @property
    def reads_rows(self) -> bool:
        """Whether it reads a row once for all of its transitions, so that these belong into one batch."""
        return isinstance(self.online.encoder, PrefixEncoder) and not isinstance(self.online.encoder, FrozenEncoder)

    @torch.no_grad()
    def q(self, states: Sequence[Ids], actions: Sequence[Ids], *, slow: bool = False) -> Tensor:
        """Return Q of each pair by each head, ``[2, B]``, CPU, without gradient; with ``slow``, by the slow copy."""
        networks = self.slow if slow else self.online
        return networks.q(*self._read(networks, states, actions)).cpu()

    @torch.no_grad()
    def v(self, states: Sequence[Ids], *, slow: bool = False) -> Tensor:
        """Return V of each state by each head, ``[2, B]``, CPU, without gradient; with ``slow``, by the slow copy."""
        networks = self.slow if slow else self.online
        return networks.v(self._encoded(networks, states)).cpu()

    @torch.no_grad()
    def advantage(self, states: Sequence[Ids], actions: Sequence[Ids]) -> Tensor:
        """``A = min(Q1, Q2) − min(V1, V2)``, ``[B]`` on the CPU (released code; section 3.3 of the paper has one)."""
        state_BH, action_BH = self._read(self.online, states, actions)
        q_2B, v_2B = self.online.q(state_BH, action_BH), self.online.v(state_BH)
        return (q_2B.amin(0) - v_2B.amin(0)).cpu()

    def update(
        self, batch: Sequence[Transition], rule: CriticRule, fresh_actions: Sequence[Ids] | None = None
    ) -> dict[str, float]:
        """Make one optimizer step towards the targets of ``rule``, then one Polyak step of the slow copy.

        The loss is the mean over the batch, however it is divided into micro-batches.

        Args:
            batch: B transitions.
            rule: rule that makes a loss of predictions and known values.
            fresh_actions: an utterance of the present policy for the state of each transition, if the rule needs them.

        Returns:
            Numbers to log.

        Raises:
            UsageError: the batch is empty, or there is not one fresh utterance per transition.
            DivergedError: the loss or the gradient is not finite; weights and optimizer are as before.
        """
        if not batch or (fresh_actions is not None and len(fresh_actions) != len(batch)):
            count = "no" if fresh_actions is None else len(fresh_actions)
            raise UsageError(f"{len(batch)} transitions with {count} fresh utterances: a critic cannot learn from it")
        if self.config.scaled and self.online.histogram is None:
            self._rescale(torch.tensor([transition.mc_return for transition in batch]))
        known = rule.ahead(batch, self.known(batch, fresh_actions))
        self._optimizer.zero_grad(set_to_none=True)
        sums = torch.zeros(5, dtype=torch.float64)
        pairs = [(t.state_ids, t.action_ids) for t in batch]
        encoder, tokens = cast(Encoder, self.online.encoder), self.scorer.microbatch_tokens
        parts = pair_batches(encoder, pairs, tokens=self.world.fair(tokens, sum(len(s) + len(a) for s, a in pairs)))
        with self.scorer.differentiating(self.online.encoder):
            for number, counts in self.world.shares(len(parts)):
                part = parts[number]
                place = torch.tensor(part)
                states, actions = [pairs[index][0] for index in part], [pairs[index][1] for index in part]
                state_BH, action_BH = self._read_part(states, actions)
                q_2BK, v_2BK = self.online.q_outputs(state_BH, action_BH), self.online.v_outputs(state_BH)
                q_2B, v_2B = self.online.values(q_2BK), self.online.values(v_2BK)
                seen = known.part(place.to(q_2B.device))
                if self.online.histogram is None:
                    q_loss_B, v_loss_B = rule.losses(q_2B, v_2B, seen)
                else:
                    losses = zip((q_2BK, v_2BK), rule.targets(seen), strict=True)
                    q_loss_B, v_loss_B = (self.online.histogram.loss(out, target).sum(0) for out, target in losses)
                loss = (q_loss_B.sum() + v_loss_B.sum()) / (len(batch) * self.online.get_buffer("units")[1].square())
                (loss if counts else 0 * loss).backward()  # type: ignore[no-untyped-call]
                if counts:
                    seen_5 = (q_loss_B.sum(), v_loss_B.sum(), q_2B.mean(0).sum(), v_2B.mean(0).sum(), loss)
                    sums += torch.stack([each.detach().double().cpu() for each in seen_5])
        *sums_4, whole = self.world.all_reduce(sums).tolist()
        if not math.isfinite(whole):  # nothing has moved, and every process sees the same sum
            self._diverged(batch, fresh_actions, f"the critic's loss is {whole}")
        norm = self._step(batch, fresh_actions)
        means = dict(zip(("q_loss", "v_loss", "q", "v"), (each / len(batch) for each in sums_4), strict=True))
        means |= {"loss": means["q_loss"] + means["v_loss"], "grad_norm": norm}
        if self.online.histogram is not None:
            means["outside"] = self.online.histogram.outside(rule.targets(known)[0])
        if isinstance(self.online.encoder, CountingEncoder):
            means |= self.online.encoder.metrics()
        return {f"critic/{name}": value for name, value in means.items()}

    @torch.no_grad()
    def known(self, batch: Sequence[Transition], fresh_actions: Sequence[Ids] | None = None) -> Known:
        """Collect the values of the slow copy and of the transitions themselves, on the critic's device."""
        states, actions = [t.state_ids for t in batch], [t.action_ids for t in batch]
        if fresh_actions is not None:
            states, actions = states * 2, [*actions, *fresh_actions]
        following = [t.next_ids for t in batch if not t.done]
        encoder, tokens = cast(Encoder, self.slow.encoder), self.scorer.microbatch_tokens
        with self.scorer.precision(self._device):
            state_BH, action_BH, next_NH = encode_steps(
                encoder, states, actions, following, tokens=tokens, world=self.world
            )
        judged_2B = self.slow.q(state_BH, action_BH)
        device = state_BH.device
        done_B = torch.tensor([t.done for t in batch], device=device)
        next_v_2B = torch.zeros(2, len(batch), device=device, dtype=state_BH.dtype)
        if following:
            next_v_2B[:, ~done_B] = self.slow.v(next_NH)
        fresh = None if fresh_actions is None else judged_2B[:, len(batch) :]
        reward_B = torch.tensor([t.reward for t in batch], dtype=torch.float32, device=device)
        return_B = torch.tensor([t.mc_return for t in batch], dtype=torch.float32, device=device)
        span_B = torch.tensor([t.span for t in batch], dtype=torch.float32, device=device)
        return Known(reward_B, done_B, span_B, return_B, next_v_2B, judged_2B[:, : len(batch)], fresh)

    def state_dict(self) -> dict[str, Any]:
        """Return all state of the next update, unsharded, for any number of processes to continue."""
        return {
            "online": unsharded(self.online.state_dict()),
            "slow": unsharded(self.slow.state_dict()),
            "optimizer": unsharded(self._optimizer.state_dict()),
            "updates": self.updates,
            "scale": self._scale.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        load_unsharded(self.online, state["online"])
        load_unsharded(self.slow, state["slow"])
        self._optimizer.load_state_dict(optimizer_state(state["optimizer"], self._trained))
        self.updates = int(state["updates"])
        center, spread = self.online.get_buffer("units").tolist()  # all that older checkpoints have
        older = {"centre": center, "spread": spread, "seen": 1.0, "first": center, "second": spread**2 + center**2}
        self._scale.load_state_dict(state.get("scale", older))

    # -- the inside ---------------------------------------------------------------------------------------------

    def _read(self, networks: Networks, states: Sequence[Ids], actions: Sequence[Ids]) -> tuple[Tensor, Tensor]:
        tokens, encoder = self.scorer.microbatch_tokens, cast(Encoder, networks.encoder)
        with self.scorer.precision(self._device):
            return encode_pairs(encoder, states, actions, tokens=tokens, world=self.world)

    def _read_part(self, states: Sequence[Ids], actions: Sequence[Ids]) -> tuple[Tensor, Tensor]:
        """Read a micro-batch with gradient; where others read theirs at once, all make the same number of passes."""
        tokens = self.scorer.microbatch_tokens if self.world.size == 1 else None
        with self.scorer.precision(self._device):
            return encode_pairs(cast(Encoder, self.online.encoder), states, actions, tokens=tokens)

    def _encoded(self, networks: Networks, sequences: Sequence[Ids]) -> Tensor:
        with self.scorer.precision(self._device):
            tokens, encoder = self.scorer.microbatch_tokens, cast(Encoder, networks.encoder)
            return encode(encoder, sequences, tokens=tokens, world=self.world)

    def _rescale(self, return_B: Tensor) -> None:
        """Let the units follow the returns of a batch, from the first that differ; no value changes (PopArt)."""
        if not return_B.isfinite().all() or (not self._scale.started and bool((return_B == return_B[0]).all())):
            return
        for networks in (self.online, self.slow):
            reshard(networks)
        self._scale.follow(return_B, torch.ones_like(return_B))
        for networks in (self.online, self.slow):
            networks.get_buffer("units").copy_(torch.tensor([self._scale.center, self._scale.spread]))

    def _step(self, batch: Sequence[Transition], fresh_actions: Sequence[Ids] | None) -> float:
        options = self.config.optimizer
        self.world.sum_gradients(self._trained)
        norm = float(unsharded(torch.nn.utils.clip_grad_norm_(self._trained, options.max_grad_norm)))
        if not math.isfinite(norm):
            self._diverged(batch, fresh_actions, f"the critic's gradient norm is {norm}")
        for group in self._optimizer.param_groups:
            group["lr"] = options.rate(self.updates)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.updates += 1
        follow(self.slow, self.online, self.config.tau)
        return norm

    def _diverged(self, batch: Sequence[Transition], fresh_actions: Sequence[Ids] | None, what: str) -> NoReturn:
        self._optimizer.zero_grad(set_to_none=True)
        happened, size = f"after {self.updates} updates {what}", f"{len(batch)} transitions"
        saved = {"transitions": packed(batch), "fresh_actions": list(fresh_actions or ())}
        how: dict[str, Any] = {"rate": "critic_model.optimizer.lr", "learns": "critic", "writes": self.world.is_main}
        diverged(happened, size, saved, self.dump, **how)
