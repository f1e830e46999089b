"""The algorithms and modulators that ``trainers/on_policy.py`` knows by name."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pydantic

from ...agents.imported import imported
from ...errors import UsageError
from ..registry import is_own, one_of, rules
from .algorithm import Algorithm
from .duration import DurationWeighting
from .empg import EMPG

ALGORITHMS: Mapping[str, type[Algorithm]] = rules("on_policy")
"""On-policy algorithms by name."""


def _validated(given: Any, known: pydantic.ValidatorFunctionWrapHandler) -> Algorithm:
    """Validate the table of a known algorithm; import another one, or take the object."""
    if isinstance(given, Algorithm) and is_outside(given):
        return given
    if isinstance(given, Mapping) and is_own(name := given.get("name")):
        return _of_own(own_algorithm(name), {key: value for key, value in given.items() if key != "name"})
    found: Algorithm = known(given)
    return found


def _of_own(kind: type[Algorithm], given: Mapping[str, Any]) -> Algorithm:
    if unknown := given.keys() - kind.model_fields.keys():
        known = ", ".join(name for name in kind.model_fields if name != "name") or "none"
        raise ValueError(f"{kind.__name__} has no setting {min(unknown)!r}; its settings: {known}")
    try:
        return kind.model_validate(given)
    except pydantic.ValidationError as error:
        for each in error.errors():
            if each["type"] == "frozen_instance":
                raise ValueError(
                    f"{kind.__name__} sets {each['loc'][0]!r} as it is created, and settings are fixed then: declare a "
                    "setting in the class, and keep what changes between steps in a private attribute "
                    "(docs/algorithms.md)"
                ) from None
        raise


def _saved(algorithm: Algorithm, info: pydantic.SerializationInfo) -> dict[str, Any]:
    """Write the table with the name that selects the algorithm when a run resumes."""
    return algorithm.model_dump(mode=info.mode, exclude_unset=info.exclude_unset) | {"name": word_of(algorithm)}


if TYPE_CHECKING:
    AnyAlgorithm = Algorithm
else:
    AnyAlgorithm = Annotated[one_of(ALGORITHMS), pydantic.WrapValidator(_validated), pydantic.PlainSerializer(_saved)]
"""Types of a configuration's ``algorithm``: its ``name`` selects one, or is the ``module:Class`` of another."""

AnyModulator = Annotated[EMPG | DurationWeighting, pydantic.Field(discriminator="name")]
"""Types of the entries of a configuration's ``modulators``."""


def own_algorithm(word: str) -> type[Algorithm]:
    """Import an algorithm that is not one of Turnwise.

    Raises:
        UsageError: there is no such class, it is not a subclass of ``Algorithm``, or it lacks what each of them has.
    """
    found = imported(word)
    if not (isinstance(found, type) and issubclass(found, Algorithm)):
        raise UsageError(f"{word} must be a subclass of turnwise.trainers.Algorithm; got {found!r:.80}")
    if inspect.isabstract(found):
        raise UsageError(
            f"{word} lacks {' and '.join(sorted(found.__abstractmethods__))}; write def credit(self, batch, values)"
        )
    if found.model_fields["name"].is_required():
        raise UsageError(f"{word} lacks a name; write name: str = 'my-rule' in the class")
    return found


def is_outside(algorithm: Algorithm) -> bool:
    """Whether an algorithm is not one of Turnwise."""
    return type(algorithm) not in ALGORITHMS.values()


def word_of(algorithm: Algorithm) -> str:
    """Return the word that selects an algorithm: its name, or ``module:Class`` of one that is not in Turnwise."""
    kind = type(algorithm)
    return f"{_module_of(kind)}:{kind.__qualname__}" if is_outside(algorithm) else algorithm.name


def only_from_its_script(algorithm: Algorithm) -> str:
    """Return a remark on an algorithm that no command can import when its run resumes; empty if one can."""
    if not is_outside(algorithm) or is_own(word_of(algorithm)):
        return ""
    kind = type(algorithm).__name__
    return (
        f"{kind} is defined inside a function, so only this script can resume the run (resume=True); for `turnwise "
        f"train --resume`, define {kind} at the top of a module"
    )


def _module_of(kind: type[Algorithm]) -> str:
    """Return the module to import a class from when a run resumes: a script's own name in place of ``__main__``."""
    if kind.__module__ != "__main__":
        return kind.__module__
    main = sys.modules["__main__"]
    if (spec := getattr(main, "__spec__", None)) is not None:
        return str(spec.name)
    return Path(getattr(main, "__file__", None) or "__main__").stem


def algorithm_named(given: Any) -> type[Algorithm] | None:
    """Return the class that a configuration's ``algorithm`` means, before validation; ``None`` if it means none."""
    if isinstance(given, Algorithm):
        return type(given)
    name = given.get("name") if isinstance(given, Mapping) else None
    return own_algorithm(name) if is_own(name) else ALGORITHMS.get(name) if isinstance(name, str) else None
