"""The state of an algorithm that is not in Turnwise, as a checkpoint can hold it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import torch

from ...errors import ContractError
from .algorithm import Algorithm

PLAIN = (type(None), bool, int, float, str)


class Remembering(Protocol):
    """An algorithm that saves and restores what it remembers."""

    def state_dict(self) -> Mapping[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


def refuse_forgetful(algorithm: Algorithm) -> None:
    """Refuse an algorithm that remembers what no checkpoint would hold: a resumed run would go on without it.

    Raises:
        ValueError: it has private attributes, and no methods to save and restore them.
    """
    kept = ", ".join(type(algorithm).__private_attributes__)
    if kept and not remembers(algorithm):
        raise ValueError(
            f"{type(algorithm).__name__} keeps {kept} between steps, which no checkpoint would hold: give it "
            "state_dict(), which returns plain values and tensors, and load_state_dict(state)"
        )


def remembers(algorithm: Any) -> TypeGuard[Remembering]:
    """Whether an algorithm has a state that checkpoints hold."""
    return all(callable(getattr(algorithm, name, None)) for name in ("state_dict", "load_state_dict"))


def kept(algorithm: Algorithm, keep: Callable[[str, OwnState], None]) -> Algorithm:
    """Return a copy of an algorithm for one run, whose state is in the run's checkpoints if it has one.

    Args:
        algorithm: the algorithm of the settings.
        keep: function that adds a part to the run's checkpoints, and restores it on resume.

    Raises:
        ContractError: a checkpoint cannot hold its state.
    """
    copy = algorithm.model_copy(deep=True)  # what it remembers belongs to this run, not to the next with the object
    if remembers(copy):
        state = OwnState(copy)
        state.state_dict()  # refuse it before the first step
        keep("algorithm", state)
    return copy


@dataclass(frozen=True, slots=True)
class OwnState:
    """An algorithm's state, checked before a checkpoint is written that could not be read.

    Args:
        algorithm: the algorithm.
    """

    algorithm: Remembering

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain values and tensors.

        Raises:
            ContractError: it has something else.
        """
        name = f"{type(self.algorithm).__name__}.state_dict()"
        state: Any = self.algorithm.state_dict()
        if not isinstance(state, Mapping):
            raise ContractError(f"{name} must return a dict; got {state!r:.80}")
        found: dict[str, Any] = _plain(state, name)
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state."""
        self.algorithm.load_state_dict(state)


def _plain(value: Any, place: str) -> Any:
    if type(value) in PLAIN or isinstance(value, torch.Tensor):
        return value
    if isinstance(value, Mapping):
        return {_plain(key, place): _plain(inner, f"{place}[{key!r}]") for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(inner, f"{place}[{at}]") for at, inner in enumerate(value))
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return _plain(value.item(), place)
    raise ContractError(
        f"{place} is of type {type(value).__name__}, which a checkpoint cannot hold: return numbers, text, tensors, "
        "and lists and dicts of them"
    )
