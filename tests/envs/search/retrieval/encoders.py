"""An encoder without weights: words hashed into a vector."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from turnwise.envs.search.retrieval.tokenize import STOP_WORDS, WORD
from turnwise.tasks.rng import stable_hash

SIZE = 256


def hashed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """A row for each text: where its words fall, without accents, endings or capitals."""
    made = np.zeros((len(texts), SIZE), dtype=np.float32)
    for row, text in zip(made, texts, strict=True):
        plain = unicodedata.normalize("NFKD", text.lower()).encode("ascii", "ignore").decode()
        for word in WORD.findall(plain):
            if word not in STOP_WORDS:
                row[int.from_bytes(stable_hash(word.removesuffix("s"))[:4]) % SIZE] += 1
    return np.asarray(np.sqrt(made))
