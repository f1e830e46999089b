"""What is done about an update that is not finite: its batch is saved, and the run stops."""

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
    """Save the batch of an update that was refused, and say what to do.

    Args:
        what: when, and what was not finite, e.g. ``"after 7 updates the loss is nan"``.
        size: of the batch, e.g. ``"512 tokens"``.
        batch: the update can be computed from it again; ``torch.load`` reads it.
        dump: where it is saved; ``None`` for nowhere.
        rate: the setting that is to be lowered.
        learns: who had no path to save to.
        writes: off in processes that leave the saving to another.

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
