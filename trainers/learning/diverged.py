"""Handling of an update that is not finite: save its batch and stop the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch

from ...errors import DivergedError


def diverged(
    what: str,
    size: str,
    batch: Mapping[str, Any],
    dump: Path | None,
    *,
    rate: str,
    learns: Literal["learner", "critic"] = "learner",
    writes: bool = True,
) -> NoReturn:
    """Save the batch of an update that was refused, and raise an error that says what to do.

    Args:
        what: time and quantity of the failure, e.g. ``"after 7 updates the loss is nan"``.
        size: size of the batch, e.g. ``"512 tokens"``.
        batch: everything that the update can be computed from again; ``torch.load`` reads it.
        dump: file for the batch; ``None`` to save nothing.
        rate: name of the setting to lower.
        learns: name of the object that had no ``dump`` path.
        writes: whether to save; false in processes that leave the saving to another.

    Raises:
        DivergedError: always.
    """
    saved = f"not saved: the {learns} has no dump path"
    if dump is not None:
        saved = f"saved as {dump}"
        if writes:
            dump.parent.mkdir(parents=True, exist_ok=True)
            torch.save(dict(batch), dump)
    raise DivergedError(
        f"{what}; the batch of {size} is {saved}. The weights are as before the update: resume from the last "
        f"checkpoint with a lower {rate}"
    )
