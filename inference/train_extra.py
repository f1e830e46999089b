"""The extra ``turnwise[train]``: packages for models that run or learn in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import UsageError

PACKAGES = frozenset({"accelerate", "peft", "safetensors", "tensorboard", "tokenizers", "torch", "transformers"})
"""The top-level modules that the extra installs. Together they take several times the space of everything else."""
INSTALL = (
    "pip install 'turnwise[train]' (without a GPU, first: pip install torch --index-url "
    "https://download.pytorch.org/whl/cpu)"
)


@contextmanager
def train_extra(user: str) -> Iterator[None]:
    """Report a package of the extra that is missing inside the block.

    Args:
        user: name of the component that needs the package, for the message.

    Raises:
        UsageError: A package is missing; the message has the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in PACKAGES:
            raise
        raise UsageError(f"{user} needs {missing}, which is not installed: {INSTALL}") from None
