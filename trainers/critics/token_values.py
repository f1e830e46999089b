"""A value model: a causal transformer of its own with a scalar head, V before every sampled token in one pass."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

import pydantic
import torch
from torch import Tensor, nn

from ...config import Config
from ...errors import UsageError
from ...inference.nano import NanoConfig, build_model
from ...tasks.rng import Rng
from ..learning.advantages import context_of
from ..learning.diverged import diverged
from ..learning.learner import Beta
from ..learning.logprobs import row_lengths
from ..learning.parallel import Part, ProcessGroup, shard, unsharded
from ..learning.rates import refuse_high_rate
from ..learning.rows import Rows
from ..learning.scorer import Scorer
from ..learning.sharded_state import load_unsharded, optimizer_state, reshard
from .backbone_copy import backbone_copy
from .scaling import TargetScale, varies
from .sequences import batches, last_places, right_padded
from .value_replay import ValueReplay


class ValuesConfig(Config):
    """The value model and its training."""

    renamed: ClassVar[Mapping[str, str]] = {"centre": "center"}

    init: Literal["policy", "nano"] = "policy"
    """Initial backbone: a copy of the policy's, or an untrained nano model."""
    nano: NanoConfig = NanoConfig()
    """The shape of a nano backbone."""
    lr: float = pydantic.Field(default=1e-3, gt=0, le=1000)
    """Constant learning rate of its own AdamW. 1e-3 suits nano models, 1e-5 large ones."""
    epochs: int = pydantic.Field(default=2, ge=1)
    """Passes over each step's rows."""
    minibatches: int = pydantic.Field(default=4, ge=1)
    """Optimizer steps per pass, or as many as there are rows."""
    replay: int = pydantic.Field(default=0, ge=0)
    """Earlier steps whose rows each pass has again, with the targets that they had (PPG's auxiliary phase)."""
    warmup: int = pydantic.Field(default=5, ge=0)
    """Steps in which only the critic learns, from Monte-Carlo returns (LOOP's PPO: 10; VAPO: value pre-training)."""
    loss: Literal["huber", "squared"] = "huber"
    """Loss of the error in units of the targets' deviation; Huber's is linear beyond 1."""
    clip: float | None = pydantic.Field(default=None, gt=0)
    """The largest change of a value in one step, in units of the targets' deviation."""
    scale: Literal["running", "fixed", "none"] = "running"
    """Units of the head: the targets' running mean and deviation, ``center`` and ``spread``, or plain reward."""
    center: float = 0.0
    """Center of the ``fixed`` scale, in reward."""
    spread: float = pydantic.Field(default=1.0, gt=0)
    """Spread of the ``fixed`` scale, in reward."""
    memory: float = pydantic.Field(default=0.8, ge=0, lt=1)
    """Share of the ``running`` scale that is kept from one step to the next."""
    max_grad_norm: float = pydantic.Field(default=1.0, gt=0)
    """Norm to which larger gradients are scaled down."""
    weight_decay: float = pydantic.Field(default=0.0, ge=0)
    """Decoupled weight decay."""
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    """AdamW's β₁ and β₂."""
    microbatch_tokens: int = pydantic.Field(default=16384, ge=1)
    """Padded tokens in one forward pass. It changes memory and speed, but results only in the last digits."""


class TokenValues:
    """V of the state before every sampled token: the first implementation of ``Values``.

    The position that predicts a token values the state in which it was sampled, as in ``logprobs.score``. One causal
    pass over a row serves all of its turns; padding is on the right, where it has no influence (traps.md, trap
    26). No weight is shared with the policy, so no gradient of a value reaches it (LOOP, arXiv 2502.01600, appendix).

    Inputs and outputs are in units of reward. Inside, the head works in units of the targets' mean and deviation. When
    these move, the head is rewritten so that no value changes: advantages are exact (see ``TargetScale``).

    Processes that learn together shard backbone and head, and divide the rows. All of them call every method with the
    same arguments, and get the same results. The loss is a sum with one normalizer for all rows.

    Args:
        backbone: causal model ``backbone(input_ids=).last_hidden_state``, trained in place.
        width: size of its last hidden state.
        options: settings.
        seed: seed of the order of minibatches.
        dump: file for a batch with a non-finite loss.
        scorer: how the backbone computes, and in which processes; the head is 32-bit, and ``options`` has its own size
            of micro-batches.
    """

    def __init__(
        self,
        backbone: nn.Module,
        width: int,
        options: ValuesConfig,
        *,
        seed: int = 0,
        dump: Path | None = None,
        scorer: Scorer | None = None,
    ) -> None:
        self.scorer = scorer or Scorer()
        self.backbone = shard(backbone.eval().requires_grad_(True), self.world)
        self.options = options
        self.seed = seed
        self.dump = dump
        self.fits = 0
        self.replay = ValueReplay(options.replay)
        self._device = next(backbone.parameters()).device
        self.context = context_of(backbone)
        """The most tokens of a row that it can read; ``None`` for no limit."""
        self.head = nn.Linear(width, 1).to(self._device)
        nn.init.zeros_(self.head.weight)  # the first value of every state is the center of the scale
        nn.init.zeros_(self.head.bias)
        shard(self.head, self.world)
        center, spread = (options.center, options.spread) if options.scale == "fixed" else (0.0, 1.0)
        self.scale = TargetScale([self.head], center, spread, memory=options.memory)
        self._parameters = [*self.backbone.parameters(), *self.head.parameters()]
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=options.lr, betas=options.betas, weight_decay=options.weight_decay
        )

    @property
    def world(self) -> ProcessGroup:
        """The processes that learn together."""
        return self.scorer.world

    @torch.no_grad()
    def values(self, rows: Rows) -> Tensor:
        """Return V of each sampled token's state, 0 on context, ``[T]`` on the CPU, without gradient.

        Raises:
            UsageError: a row is longer than the critic's context.
        """
        value_T = torch.zeros(len(rows))
        for part in self._parts(rows):
            value_N = self.scale.value(self._outputs(part.rows)).cpu()
            if part.counts:
                value_T[part.place_T[part.rows.mask]] = value_N
        return self.world.all_reduce(value_T)

    @torch.no_grad()
    def final(self, prompts: Sequence[tuple[int, ...]]) -> Tensor:
        """Return V of the state that each prompt shows, ``[len(prompts)]``.

        Raises:
            UsageError: a prompt is empty, or longer than the critic's context.
        """
        if not all(prompts):
            raise UsageError("an empty prompt shows no state, so it has no value")
        value_B = torch.zeros(len(prompts))
        parts = batches(prompts, self.world.fair(self.options.microbatch_tokens, sum(map(len, prompts))))
        for number, counts in self.world.shares(len(parts)):
            read_N = self.scale.value(self._last([prompts[index] for index in parts[number]])).cpu()
            if counts:
                value_B[parts[number]] = read_N
        return self.world.all_reduce(value_B)

    def fit(self, rows: Rows, target_T: Tensor) -> dict[str, float]:
        """Regress the values of the sampled tokens on targets, and on those of earlier steps that are kept.

        The loss is the *sum* of ``weight · loss`` over a minibatch. Only ratios of weights matter: they are divided
        once by their sum in an average minibatch, so that the gradient's norm means the same with every normalizer.

        Args:
            rows: rows with ``weight``; tokens of weight 0 are ignored.
            target_T: targets in units of reward, ``[T]``.

        Raises:
            DivergedError: a target, the loss or the gradient is not finite; the weights are as before that update.
            UsageError: a row is longer than the critic's context.
        """
        new_T = rows.mask & (rows.weight != 0)
        if not new_T.any():
            return {}
        if not torch.isfinite(target_T[new_T]).all():
            self._diverged(rows, target_T, "a target is not finite")
        if self.options.scale == "running":
            reshard(self.head)
            self.scale.follow(target_T[new_T], rows.weight[new_T])
        described = target_T[new_T], rows.weight[new_T]
        rows, target_T = self.replay.joined(rows, target_T)
        used_T = rows.mask & (rows.weight != 0)
        before_T = self.values(rows)
        numbers = torch.unique(rows.row[used_T]).tolist()
        parts = min(self.options.minibatches, len(numbers))
        unit = float(rows.weight[used_T].double().sum()) / parts
        losses, norms = [], []
        for epoch in range(self.options.epochs):
            order = list(numbers)
            Rng("values", self.seed, self.fits, epoch).shuffle(order)
            for part in range(parts):
                chosen = order[len(order) * part // parts : len(order) * (part + 1) // parts]
                loss, norm = self._step(rows, target_T, before_T, torch.isin(rows.row, torch.tensor(chosen)), unit)
                losses.append(loss)
                norms.append(norm)
        self.fits += 1
        return self._metrics(before_T[: len(new_T)][new_T], *described) | {
            "value_loss": sum(losses) / len(losses),
            "value_grad_norm": sum(norms) / len(norms),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return all state of the next ``fit``, unsharded, for any number of processes to continue."""
        return {
            "backbone": unsharded(self.backbone.state_dict()),
            "head": unsharded(self.head.state_dict()),
            "scale": self.scale.state_dict(),
            "optimizer": unsharded(self._optimizer.state_dict()),
            "replay": self.replay.state_dict(),
            "fits": self.fits,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        load_unsharded(self.backbone, state["backbone"])
        load_unsharded(self.head, state["head"])
        self.scale.load_state_dict(state["scale"])
        self._optimizer.load_state_dict(optimizer_state(state["optimizer"], self._parameters))
        self.replay.load_state_dict(state.get("replay", []))  # checkpoints of 0.1 have none
        self.fits = int(state["fits"])

    # -- the inside ---------------------------------------------------------------------------------------------

    def _step(
        self, rows: Rows, target_T: Tensor, before_T: Tensor, chosen_T: Tensor, unit: float
    ) -> tuple[float, float]:
        """Make one optimizer step on a minibatch, in micro-batches; return its loss and the gradient's norm."""
        place_M = chosen_T.nonzero()[:, 0]
        rows, target_T, before_T = rows.select(rows.row[chosen_T], unit="row"), target_T[place_M], before_T[place_M]
        self._optimizer.zero_grad(set_to_none=True)
        total = 0.0
        with self.scorer.differentiating(self.backbone):
            for part in self._parts(rows):
                mask = part.rows.mask
                place_N = part.place_T[mask]
                target_N, before_N = (self.scale.inside(x[place_N]).to(self._device) for x in (target_T, before_T))
                weight_N = (part.rows.weight[mask] / unit).to(self._device)
                loss = (weight_N * self._loss(self._outputs(part.rows), target_N, before_N)).sum()
                (loss if part.counts else 0 * loss).backward()  # type: ignore[no-untyped-call]
                total += float(loss.detach()) if part.counts else 0.0
        total = float(self.world.all_reduce(torch.tensor(total, dtype=torch.float64)))
        if not math.isfinite(total):  # nothing has moved, and every process sees the same sum
            self._diverged(rows, target_T, f"the loss is {total}")
        norm = float(unsharded(torch.nn.utils.clip_grad_norm_(self._parameters, self.options.max_grad_norm)))
        if not math.isfinite(norm):
            self._diverged(rows, target_T, f"the gradient norm is {norm}")
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return total, norm

    def _loss(self, output_N: Tensor, target_N: Tensor, before_N: Tensor) -> Tensor:
        loss_N = self._error(output_N, target_N)
        if self.options.clip is None:
            return loss_N
        near_N = before_N + (output_N - before_N).clamp(-self.options.clip, self.options.clip)
        return torch.maximum(loss_N, self._error(near_N, target_N))

    def _error(self, output_N: Tensor, target_N: Tensor) -> Tensor:
        if self.options.loss == "squared":
            return 0.5 * (output_N - target_N).square()
        return nn.functional.huber_loss(output_N, target_N, reduction="none")

    def _parts(self, rows: Rows) -> Iterator[Part]:
        """Split rows into this process's micro-batches."""
        return self.world.parts(rows, self.options.microbatch_tokens, layout=self.scorer.layout)

    def _outputs(self, rows: Rows) -> Tensor:
        """Return the head's output at the position that predicts each sampled token, ``[N]``, in units of the scale."""
        self._refuse_longer(max(row_lengths(rows)))
        output: Tensor = self.head(self.scorer.states(self.backbone, rows).float())[:, 0]
        return output

    def _last(self, prompts: Sequence[tuple[int, ...]]) -> Tensor:
        """Return the head's output at the last token of each prompt, ``[B]``. A causal model needs no mask here."""
        ids_BL, attention_BL = right_padded(prompts)
        self._refuse_longer(ids_BL.shape[1])
        with self.scorer.precision(self._device):
            hidden_BLH = self.backbone(input_ids=ids_BL.to(self._device), use_cache=False).last_hidden_state
        place_B = last_places(attention_BL).to(self._device)
        output: Tensor = self.head(hidden_BLH.flatten(0, 1)[place_B].float())[:, 0]
        return output

    def _refuse_longer(self, longest: int) -> None:
        if self.context is not None and longest > self.context:
            raise UsageError(
                f"a row of {longest} tokens does not fit the critic's context of {self.context}: nothing is "
                "cut off silently; use a shorter agent.context (last:K), or a critic that reads as far as the policy"
            )

    def _metrics(self, value_N: Tensor, target_N: Tensor, weight_N: Tensor) -> dict[str, float]:
        """Describe the values before this fit: means, and the share of the targets' variance that they explain."""
        share_N = weight_N.double() / weight_N.double().sum()

        def variance(x_N: Tensor) -> float:
            mean = (share_N * x_N.double()).sum()
            return float((share_N * (x_N.double() - mean).square()).sum())

        spread = variance(target_N)
        return {
            "value_mean": float((share_N * value_N).sum()),
            "value_target": float((share_N * target_N).sum()),
            "value_explained": 1 - variance(target_N - value_N) / spread if varies(spread, target_N) else 0.0,
        }

    def _diverged(self, rows: Rows, target_T: Tensor, what: str) -> NoReturn:
        self._optimizer.zero_grad(set_to_none=True)
        happened, batch = f"after {self.fits} fits of the critic {what}", rows.columns() | {"target": target_T}
        how: dict[str, Any] = {"rate": "values.lr", "learns": "critic", "writes": self.world.is_main}
        diverged(happened, f"{rows.tokens} tokens", batch, self.dump, **how)


def token_values(
    options: ValuesConfig,
    model: Any,
    tokenizer: Any,
    *,
    seed: int = 0,
    dump: Path | None = None,
    scorer: Scorer | None = None,
) -> TokenValues:
    """Create the value model of a configuration.

    Args:
        options: settings.
        model: the policy's transformers causal language model; a copy has its adapters merged.
        tokenizer: tokenizer of the policy; a nano critic reads the same ids.
        seed: seed of a nano critic's first weights, and of minibatches.
        dump: file for a batch with a non-finite loss.
        scorer: how the models of the run compute.

    Raises:
        UsageError: the learning rate would destroy a copy of so large a policy.
    """
    if options.init == "nano":
        fresh: Any = build_model(options.nano, tokenizer, seed=seed)
        backbone = fresh.base_model.to(next(model.parameters()).device)
    else:
        backbone = backbone_copy(model).float()  # 32-bit for a policy of any precision, since small steps must count
    refuse_high_rate("values.lr", options.lr, sum(each.numel() for each in backbone.parameters()), usual="about 1e-5")
    return TokenValues(backbone, int(backbone.config.hidden_size), options, seed=seed, dump=dump, scorer=scorer)
