"""``Pretraining``: the model, its optimizer and its text; one step, one evaluation, one checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ...errors import DivergedError
from ...inference.models import load_model, resolve_device, save_model
from ...inference.nano import build_model, build_tokenizer
from ...inference.transformers_policy import TransformersPolicy
from ..run.checkpoint import Checkpoint, Checkpoints
from .corpus import Corpus, Kind, sample_texts
from .probes import probe_metrics, probe_policy, probe_scores, probe_suite
from .settings import PretrainConfig

TOKENIZER_TEXTS = 200
"""Documents of every kind that a tokenizer is learned from."""
BETAS = (0.9, 0.95)
"""AdamW's β₁ and β₂."""


class Pretraining:
    """A causal language model and everything that it is trained with.

    Args:
        config: settings of the run.
        training: kinds of training text.
        held_out: kinds of held-out text.
        resumed: checkpoint to continue from.
    """

    def __init__(
        self, config: PretrainConfig, training: list[Kind], held_out: list[Kind], resumed: Checkpoint | None = None
    ) -> None:
        self.config, self.device = config, resolve_device(config.device)
        if resumed is not None:
            self.model, self.tokenizer = load_model(resumed.model, dtype=torch.float32, device=self.device)
        else:
            texts = [text for some in sample_texts(training, TOKENIZER_TEXTS).values() for text in some]
            nano = config.nano
            self.tokenizer = build_tokenizer(nano.tokenizer, texts, vocab_size=nano.vocab_size)
            built: Any = build_model(nano, self.tokenizer, seed=config.seed)
            self.model = built.to(self.device)
        self.corpus = Corpus(training, self.tokenizer, seed=config.seed)
        self.unseen = Corpus(held_out, self.tokenizer, seed=config.seed)
        self.optimizer = _optimizer(self.model, config)
        self.step = 0
        if resumed is not None:
            self.optimizer.load_state_dict(resumed.tensors["optimizer"])
            self.step = resumed.step

    def learn(self) -> dict[str, float]:
        """Do one step, and return its numbers.

        Raises:
            DivergedError: the loss or the gradient is not finite.
        """
        config = self.config
        rate = config.rate(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        ids_RL, weight_RL = self._batch()
        total = float(weight_RL[:, 1:].sum())
        loss = 0.0
        for ids, weights in _parts(ids_RL, weight_RL, config.microbatch_tokens):
            part = self._loss(ids, weights) / max(1.0, total)
            part.backward()  # type: ignore[no-untyped-call]
            loss += float(part.detach())
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.max_grad_norm))
        if not (torch.isfinite(torch.tensor([loss, norm])).all()):
            raise DivergedError(
                f"step {self.step + 1}: loss {loss} with a gradient of norm {norm}; lower lr (now {config.lr:g}) or "
                "raise warmup, then start again"
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        learned = float((weight_RL[:, 1:] > 0).sum())
        return {"loss": loss, "lr": rate, "grad_norm": norm, "learned_tokens": learned}

    def _batch(self) -> tuple[Tensor, Tensor]:
        config = self.config
        long = config.long_every > 0 and self.step % config.long_every == config.long_every - 1
        length = config.long_context if long else config.context
        return self.corpus.rows(self.step, config.batch_tokens // length, length)

    def _loss(self, ids_RL: Tensor, weight_RL: Tensor) -> Tensor:
        """Return the weighted sum of the losses of all tokens but the first of each row."""
        ids_RL, weight_RL = ids_RL.to(self.device), weight_RL.to(self.device)
        with torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=self.config.autocast is not None):
            logits_RLV = self.model(input_ids=ids_RL, use_cache=False).logits
        flat = logits_RLV[:, :-1].float().flatten(0, 1)
        return (cross_entropy(flat, ids_RL[:, 1:].flatten(), reduction="none") * weight_RL[:, 1:].flatten()).sum()

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Return the loss per token of each kind of held-out text, and the shares of exact answers to the probes."""
        config = self.config
        found: dict[str, float] = {}
        for kind in self.unseen.kinds:
            total, learned = 0.0, 0
            for index in range(config.eval.documents):
                ids, weights = self.unseen.encode(kind, index)
                counted = torch.tensor([weights[: config.nano.context_length]]).gt(0).float()
                total += float(self._loss(torch.tensor([ids[: config.nano.context_length]]), counted))
                learned += int(counted[:, 1:].sum())
            found[f"held_out/{kind.name}"] = total / max(1, learned)
        exercises = probe_suite(config.eval.probes)
        policy = TransformersPolicy(self.model, self.tokenizer)
        return found | probe_metrics(probe_scores(exercises, probe_policy(policy, self.tokenizer, exercises)))

    def save(self, checkpoints: Checkpoints) -> None:
        """Write a checkpoint of this step."""
        checkpoints.save(
            self.step, write_model=self.export, progress={}, tensors={"optimizer": self.optimizer.state_dict()}
        )

    def export(self, folder: Path) -> None:
        """Write the model and its tokenizer as a Hugging Face folder."""
        save_model(self.model, self.tokenizer, folder)


def _optimizer(model: Any, config: PretrainConfig) -> torch.optim.AdamW:
    """Return AdamW with weight decay on matrices alone, not on the scales of norms."""
    parameters = list(model.parameters())
    groups: list[Mapping[str, Any]] = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.lr, betas=BETAS, fused=True)  # type: ignore[arg-type]


def _parts(ids_RL: Tensor, weight_RL: Tensor, tokens: int) -> Iterator[tuple[Tensor, Tensor]]:
    rows = max(1, tokens // ids_RL.shape[1])
    return zip(torch.split(ids_RL, rows), torch.split(weight_RL, rows), strict=True)
