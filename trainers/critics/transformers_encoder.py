"""An encoder from a folder, such as RoBERTa, that reads the policy's text with a tokenizer of its own."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from ...errors import ModelError, UsageError
from ...inference.models import available_device
from .encoder import PretrainedConfig, TooLong
from .sequences import right_padded

ENDLESS = 10**6
"""The context of an encoder that does not state one."""


class TransformersEncoder(nn.Module):
    """Any transformers encoder behind the interface of ``critics/encoder.py``, for critics only.

    The policy's tokenizer decodes its ids to text, including special tokens, which is then encoded again. The policy is
    still trained on its own ids (traps.md, trap 1); only the critic reads another encoding of them. The vector is
    the pooled first token, as ArCHer's (arXiv 2402.19446), or the first token without a pooler.

    Args:
        model: encoder ``model(input_ids=, attention_mask=)``.
        tokenizer: tokenizer of the encoder.
        decoder: tokenizer of the policy.
        too_long: handling of a text with too many tokens.
        train: whether its weights learn.
    """

    def __init__(
        self, model: nn.Module, tokenizer: Any, decoder: Any, *, too_long: TooLong = "error", train: bool = True
    ) -> None:
        super().__init__()
        self.body = model.eval().requires_grad_(train)
        self.tokenizer, self.decoder = tokenizer, decoder
        self.too_long = too_long
        self.width = int(self._settings.hidden_size)
        self.context = self._limit()
        self.dropped = 0
        """Number of tokens left out since the last call of ``metrics``."""

    @classmethod
    def load(cls, config: PretrainedConfig, decoder: Any, *, device: torch.device | str = "cpu") -> Self:
        """Load the encoder of a folder on this machine; nothing is downloaded.

        Raises:
            ModelError: no folder is given, or it has no encoder with a tokenizer.
        """
        if not config.path or not Path(config.path).expanduser().is_dir():
            raise ModelError(
                f"critic encoder {config.path!r} is not a folder: set critic_model.encoder.pretrained.path to one that "
                "holds an encoder and its tokenizer"
            )
        source = str(Path(config.path).expanduser())
        try:
            # 32-bit for stored weights of any precision: it is trained, and 16 bits would lose steps of its slow copy.
            model = AutoModel.from_pretrained(source, dtype=torch.float32, local_files_only=True)
            tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True)
        except Exception as error:
            raise ModelError(
                f"{config.path} holds no encoder that transformers can load: {str(error).splitlines()[0]}"
            ) from error
        moved = model.to(available_device(device))
        return cls(moved, tokenizer, decoder, too_long=config.too_long, train=config.train)

    def forward(self, sequences: Sequence[tuple[int, ...]]) -> Tensor:
        """See ``Encoder``."""
        texts = [self.decoder.decode(list(ids), skip_special_tokens=False) for ids in sequences]
        read = [self._fitting(ids) for ids in self.tokenizer(texts, verbose=False)["input_ids"]]
        ids_BL, attention_BL = right_padded(read, fill=int(self.tokenizer.pad_token_id))
        device = next(self.body.parameters()).device
        output = self.body(input_ids=ids_BL.to(device), attention_mask=attention_BL.to(device))
        pooled: Tensor | None = getattr(output, "pooler_output", None)
        return (output.last_hidden_state[:, 0] if pooled is None else pooled).float()

    def metrics(self) -> dict[str, float]:
        """Return the number of tokens left out since the last call."""
        dropped, self.dropped = self.dropped, 0
        return {"dropped_tokens": float(dropped)}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the weights; the tokenizers are shared."""
        body = copy.deepcopy(self.body, memo)
        trained = any(parameter.requires_grad for parameter in self.body.parameters())
        return type(self)(body, self.tokenizer, self.decoder, too_long=self.too_long, train=trained)

    @property
    def _settings(self) -> Any:
        return self.body.config

    def _fitting(self, ids: list[int]) -> list[int]:
        over = len(ids) - self.context
        if over <= 0:
            return ids
        if self.too_long == "error":
            raise UsageError(
                f"the critic is to read {len(ids)} tokens, and its encoder holds {self.context}: it would judge what "
                "it has not read; use a shorter agent.context (last:K), an encoder with a longer context, or "
                "too_long='drop_oldest'"
            )
        self.dropped += over
        # The vector is that of the special token in front, so the oldest tokens after it are dropped.
        return [ids[0], *ids[1 + over :]]

    def _limit(self) -> int:
        """Return the most tokens that it can read, including special ones."""
        places = int(getattr(self._settings, "max_position_embeddings", ENDLESS))
        table = getattr(getattr(self.body, "embeddings", None), "position_embeddings", None)
        reserved = getattr(table, "padding_idx", None)  # RoBERTa's positions start after its padding id
        limit = places - (reserved + 1 if reserved is not None else 0)
        return min(limit, int(self.tokenizer.model_max_length))
