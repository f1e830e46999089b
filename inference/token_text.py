"""Texts of single token ids, for readers; needs the package ``tokenizers`` but no model."""

from __future__ import annotations

from pathlib import Path

from ..errors import ModelError


class TokenTexts:
    """Turns token ids into the texts that they stand for, one by one.

    A character that is split over several ids shows as replacement characters.

    Args:
        folder: folder of a model with a ``tokenizer.json``.

    Raises:
        ModelError: The folder has no tokenizer that can be read, or ``tokenizers`` is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise ModelError("texts of tokens need the package tokenizers: pip install 'turnwise[train]'") from None
        file = folder / "tokenizer.json"
        try:
            self._tokenizer = Tokenizer.from_str(file.read_text(encoding="utf-8"))
        except Exception as error:  # tokenizers raises bare exceptions
            raise ModelError(f"{file} is not a tokenizer that can be read: {error}") from None

    def text(self, id: int) -> str:
        """Return the text of one id; an id outside of the vocabulary shows as its number."""
        try:
            text: str = self._tokenizer.decode([id], skip_special_tokens=False)
            return text if text else str(self._tokenizer.id_to_token(id) or f"⟨{id}⟩")
        except (OverflowError, TypeError):
            return f"⟨{id}⟩"
