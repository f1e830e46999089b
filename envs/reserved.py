"""Names that an environment needs for itself: what an author must not put in their place, and how it is reported."""

from __future__ import annotations

import inspect
import re
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from types import FunctionType
from typing import Any, cast

from ..errors import ContractError
from .author_line import PACKAGE, at
from .contract import Contract

STATE = ("_init", "_task", "_turn", "_over", "_actions")
"""Attributes in which ``TurnEnv`` keeps its state. It writes them into ``vars(env)``, which passes ``__setattr__``."""
METHOD, PROPERTY, KEPT, CONTRACT = "method", "read-only property", "state", "tw.Contract"
CURE = "give your attribute another name"


def refuse_assigned(env: object, name: str, value: object) -> None:
    """Refuse ``env.name = value`` where that would replace what the environment needs.

    Raises:
        ContractError: it would; the traceback ends in the author's line.
    """
    kind = _reserved(cast(Hashable, type(env))).get(name)
    if name == "contract" and not isinstance(value, Contract):
        kind = CONTRACT
    if kind is None or (kind == METHOD and callable(value)):
        return
    raise ContractError(
        f"{type(env).__name__}.{name} is a {kind} of the environment, and self.{name} = … (a {type(value).__name__}) "
        f"would replace it; {CURE}"
    )


def refuse_replaced(cls: type) -> None:
    """Refuse a class whose own attributes replace methods or properties of the environment by values.

    Raises:
        ContractError: one does; the message has its line.
    """
    kinds = _kinds(cls.__mro__[1:])
    for name in STATE if _foreign(cls) else ():
        if name in vars(cls):
            raise ContractError(
                f"{cls.__name__}.{name} is where the environment keeps its {KEPT}; {CURE}{at(assigned_at(cls, name))}"
            )
    contract = vars(cls).get("contract")
    if contract is not None and not isinstance(contract, Contract) and not hasattr(contract, "__get__"):
        raise ContractError(
            f"{cls.__name__}.contract is the {CONTRACT} of the environment; got a {type(contract).__name__}; write "
            f"tw.Contract(...), or {CURE}{at(assigned_at(cls, 'contract'))}"
        )
    for name, value in vars(cls).items():
        kind, binds = kinds.get(name), hasattr(value, "__get__")
        if (kind == METHOD and not (binds or callable(value))) or (
            kind == PROPERTY and (not binds or isinstance(value, FunctionType))
        ):
            what = "a function" if isinstance(value, FunctionType) else f"a {type(value).__name__}"
            cure = f"{CURE}, or write it as a {'property' if kind == PROPERTY else METHOD}"
            raise ContractError(
                f"{cls.__name__}.{name} is a {kind} of the environment, and {what} in the class would replace it; "
                f"{cure}{at(assigned_at(cls, name))}"
            )


@lru_cache(maxsize=1024)
def _reserved(cls: Any) -> Mapping[str, str]:
    """Return the names that an instance must not assign; a property with a setter is its author's own choice."""
    settable = {name for name, kind in _kinds(cls.__mro__).items() if kind == PROPERTY and _settable(cls, name)}
    return {name: kind for name, kind in _kinds(cls.__mro__).items() if name not in settable} | dict.fromkeys(
        STATE, KEPT
    )


def _kinds(bases: Iterable[type]) -> dict[str, str]:
    """Name methods and read-only properties that Turnwise and Gymnasium define."""
    found: dict[str, str] = {}
    for base in bases:
        if _foreign(base):
            continue
        for name, value in vars(base).items():
            if name.startswith("__"):
                continue
            if isinstance(value, FunctionType | classmethod | staticmethod):
                found.setdefault(name, METHOD)
            elif isinstance(value, property) and value.fset is None:
                found.setdefault(name, PROPERTY)
    return found


def _foreign(cls: type) -> bool:
    return cls.__module__.partition(".")[0] not in (PACKAGE, "gymnasium")


def _settable(cls: type, name: str) -> bool:
    found = inspect.getattr_static(cls, name)
    return hasattr(found, "__set__") and not (isinstance(found, property) and found.fset is None)


def assigned_at(cls: type, name: str) -> str:
    """Return ``file:line in class`` of an assignment in a class body, or ``""`` where there is no source."""
    try:
        lines, first = inspect.getsourcelines(cls)
        own = re.compile(rf"\s+(async\s+)?(def\s+)?{re.escape(name)}\s*[:=(]")
        offset = next((number for number, line in enumerate(lines) if own.match(line)), 0)
        return f"{inspect.getsourcefile(cls)}:{first + offset} in {cls.__qualname__}"
    except (OSError, TypeError):
        return ""
