"""Services: programs that act through the APIs of OpenAI and Anthropic.

``__all__`` is public, and imported on first use. Everything else in this folder is internal and may change.
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .process import ProgramConfig
    from .program import ProgramAgent

__all__ = ["ProgramAgent", "ProgramConfig"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__)
