"""Learning rates that destroy a pretrained model: refused before anything is played."""

from __future__ import annotations

from ...errors import UsageError

LARGE = 100_000_000
"""Number of trained weights from which on the default learning rate, made for nano models, destroys a model."""
LARGEST_RATE = 1e-4
"""The largest learning rate for so many weights. Recipes for 0.5 to 8 billion have about 1e-6 (TRL, verl)."""


def refuse_high_rate(setting: str, rate: float, trained: int, *, usual: str) -> None:
    """Refuse a learning rate above 1e-4 for more than 100 million weights. Adapters train fewer.

    Args:
        setting: name of the setting.
        rate: its value.
        trained: number of weights that learn at this rate.
        usual: a usual rate or recipe, for the message.

    Raises:
        UsageError: the rate would destroy the model.
    """
    if trained > LARGE and rate > LARGEST_RATE:
        raise UsageError(
            f"{setting} = {rate:g} is for nano models: it destroys a model of {trained / 1e6:,.0f} million trained "
            f"weights within a few steps. Set {usual}"
        )
