"""Check that a tokenizer is the one of a server's model."""

from __future__ import annotations

import random
from typing import Any

from ....errors import ModelError
from ..answers import shortened
from .client import ServerClient

TEXTS = 12
CHARACTERS = "aabcdeghilnorstuAEIRT  \n\t.,:;!?'\"(){}[]<>|/\\=+-*_#@0123456789éßñΩж中文🙂"


async def check_tokenizer(server: ServerClient, tokenizer: Any, *, source: str) -> None:
    """Compare a tokenizer with the server's own on texts that are mostly noise, control tokens among them.

    If the server has no tokenizer (``--skip-tokenizer-init``) or no route for it, its model must have an embedding
    for the largest id.

    Args:
        server: server to compare with.
        tokenizer: Hugging Face tokenizer.
        source: origin of the tokenizer, for messages.

    Raises:
        ModelError: the tokenizers differ.
    """
    for text in texts(tokenizer):
        there = await server.tokenize(text)
        if there is None:
            await _check_largest_id(server, tokenizer, source)
            return
        here = tuple(tokenizer.encode(text, add_special_tokens=False))
        if here != there:
            raise ModelError(
                f"the tokenizer of {source} differs from that of server {server.address}: {text!r} is "
                f"{shortened(here)} here and {shortened(there)} there; use the tokenizer of the model that it serves"
            )


def texts(tokenizer: Any) -> list[str]:
    """Return the texts to compare on; they depend only on the tokenizer."""
    rng = random.Random(0)
    words = [" the", " look", "ing", *CHARACTERS, *map(str, tokenizer.all_special_tokens)]
    return ["".join(rng.choice(words) for _ in range(rng.randint(1, 40))) for _ in range(TEXTS)]


async def _check_largest_id(server: ServerClient, tokenizer: Any, source: str) -> None:
    largest = len(tokenizer) - 1
    if not await server.has_embedding(largest):
        raise ModelError(
            f"the tokenizer of {source} has ids up to {largest}, but the model of server {server.address} has fewer; "
            "use the tokenizer of the model that it serves"
        )
