"""Tasks: families, specifications, random numbers and scores; corpora and questions about them.

``__all__`` is public, and imported on first use. Everything else in this folder is internal and may change.
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .family import TaskFamily
    from .rng import Rng, unit_hash
    from .score import Score
    from .search.document import Corpus, Document
    from .search.family import SEARCH_FAMILY
    from .search.matching import exact_match
    from .search.verifier.library import Library
    from .spec import Split, TaskSpec

__all__ = [
    "SEARCH_FAMILY",
    "Corpus",
    "Document",
    "Library",
    "Rng",
    "Score",
    "Split",
    "TaskFamily",
    "TaskSpec",
    "exact_match",
    "unit_hash",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__)
