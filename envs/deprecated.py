"""Support for environments of release 0.1: a specification as the argument of ``start``, and limits set one by one.

Both work with a ``DeprecationWarning`` that names the author's line. The next release removes this file.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Hashable
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any, TypeVar, cast, get_args

from ..errors import ContractError
from ..tasks.spec import TaskSpec
from .author_line import at, defined_at
from .contract import Contract
from .required import signature_of
from .reserved import assigned_at

LIMITS = tuple(field.name for field in fields(Contract))
"""Class attributes of release 0.1 that are fields of ``Contract`` now."""
OPTIONAL = re.compile(r"(?:[\w.]+\.)?Optional\[([\w.]+)\]|([\w.]+) *\| *None")
"""An optional type, as an annotation writes it."""


def argument_of_start(env: Any, generated: object) -> object:
    """Return what ``env.start`` expects: the generated task, or its specification in the signature of release 0.1.

    The annotation decides. A first argument annotated ``TaskSpec`` receives the specification, except where the family
    itself generates specifications. Where an override has no annotation, the one that it overrides decides.
    """
    owner = _owner_of_old_start(cast(Hashable, type(env)))
    if owner is None or isinstance(generated, TaskSpec):
        return generated
    _warn(owner, *_about_start(owner, generated))
    return env.task


def remark_on_start(cls: type, generated: object) -> str | None:
    """Return what ``argument_of_start`` warns of, for authors whose Python hides the warning."""
    owner = _owner_of_old_start(cast(Hashable, cls))
    if owner is None or isinstance(generated, TaskSpec):
        return None
    message, where = _about_start(owner, generated)
    return f"{message}{at(where)}"


@lru_cache(maxsize=1024)
def _owner_of_old_start(cls: Any) -> type | None:
    for owner in cls.__mro__:
        annotation = _annotation(owner) if "start" in vars(owner) else Any
        if annotation is TaskSpec:
            return owner  # type: ignore[no-any-return]
        if annotation not in (inspect.Parameter.empty, Any, object) and not isinstance(annotation, TypeVar):
            return None
    return None


def _annotation(owner: type) -> Any:
    """Return the annotation of the first argument of ``start``, resolved as far as module globals go."""
    signature = signature_of(owner, "start")
    parameter = next(iter(signature.parameters.values()), None) if signature is not None else None
    written = inspect.Parameter.empty if parameter is None else parameter.annotation
    if not isinstance(written, str):
        return TaskSpec if TaskSpec in get_args(written) else written
    written = written.strip("'\"")  # quoted under postponed evaluation, the quotes belong to the text
    if optional := OPTIONAL.fullmatch(written):
        written = optional[1] or optional[2]
    name, *attributes = written.split(".")
    found = getattr(inspect.unwrap(vars(owner)["start"]), "__globals__", {}).get(name)
    for attribute in attributes:
        found = getattr(found, attribute, None)
    return TaskSpec if found is None and written.endswith("TaskSpec") else found or written


def _about_start(owner: type, generated: object) -> tuple[str, str]:
    """Return the message on a ``start`` of release 0.1, and where it is defined."""
    kind = "None" if generated is None else type(generated).__qualname__
    message = (
        f"{owner.__name__}.start() takes a TaskSpec, which is deprecated: it will receive the generated task. Write "
        f"start(self, task: {kind}, rng), use task where you called generate(task), and use self.task where you need "
        "the specification"
    )
    return message, defined_at(vars(owner)["start"]) or defined_at(owner)


class _Moved:
    """A limit that is read or set on an environment as in release 0.1."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, env: Any, owner: type) -> Any:
        warnings.warn(f"{self.name} is deprecated; read contract.{self.name}", DeprecationWarning, stacklevel=2)
        holder: Any = owner if env is None else env
        return getattr(holder.contract, self.name)

    def __set__(self, env: Any, value: object) -> None:
        cure = f"self.contract = dataclasses.replace(self.contract, {self.name}={value!r})"
        # The caller's frame lies behind TurnEnv.__setattr__.
        warnings.warn(f"setting {self.name} is deprecated; write {cure}", DeprecationWarning, stacklevel=3)
        env.contract = replace(env.contract, **{self.name: value})


def add_old_limits(cls: type) -> None:
    """Let the limits of release 0.1 be read and set on a class and its subclasses."""
    for name in LIMITS:
        setattr(cls, name, _Moved(name))


def move_old_limits(cls: Any) -> None:
    """Move limits from the body of a class, or of a base that is not an environment, into its contract.

    Raises:
        ContractError: a limit is a property, or ``contract`` is one, so that they cannot be merged.
    """
    own, old = dict(vars(cls)), dict[str, Any]()
    for name in LIMITS:
        value = inspect.getattr_static(cls, name)
        if not isinstance(value, _Moved) and (name in own or _overrides_contract(cls, name)):
            old[name] = value
    if not old:
        return
    inherited = cls.contract
    where = assigned_at(cls, next(iter(old)))
    computed = [name for name, value in old.items() if hasattr(value, "__get__")]
    if computed or not isinstance(inherited, Contract):
        what = f"{cls.__name__}.{next(iter(computed or old))}"
        raise ContractError(f"{what} is a field of the contract; write contract as a property that sets it{at(where)}")
    contract = replace(inherited, **old)
    if contract == inherited and not set(old) & set(own):
        return
    cls.contract = contract
    for name in set(old) & set(own):
        delattr(cls, name)
    changed = ", ".join(f"{name}={value!r}" for name, value in old.items())
    owner = next(base for base in cls.__mro__[1:] if "contract" in vars(base))
    plain = inherited == Contract()
    cure = f"tw.Contract({changed})" if plain else f"dataclasses.replace({owner.__name__}.contract, {changed})"
    cure = f"Add {changed} to its contract" if "contract" in own else f"Write contract = {cure}"
    _warn(cls, f"{cls.__name__} sets {', '.join(old)} in its class body, which is deprecated. {cure}", where)


def _overrides_contract(cls: type, name: str) -> bool:
    """Return whether a class finds a limit before a contract, which would have taken it in or replaced it."""
    return next(name in vars(base) for base in cls.__mro__ if {name, "contract"} & set(vars(base)))


@lru_cache(maxsize=1024)  # so that it warns once per class
def _warn(owner: Any, message: str, where: str) -> None:
    """Warn at an author's line, as ``warnings.warn`` does at that of a caller."""
    found = re.match(r"(.*):(\d+) in ", where)
    file, line = (found[1], int(found[2])) if found else (owner.__module__, 1)
    warnings.warn_explicit(f"{message}{at(where)}", DeprecationWarning, file, line, owner.__module__)


def with_old_limits(wrapper: object, contract: Contract) -> Contract:
    """Return a contract with the limits that the class of a wrapper still defines one by one."""
    cls: Any = type(wrapper)
    old = {name: getattr(wrapper, name) for name in LIMITS if hasattr(cls, name)}
    if not old:
        return contract
    where = assigned_at(cls, next(iter(old)))
    _warn(cls, f"{cls.__name__} defines {', '.join(old)}, which is deprecated. Write a property contract", where)
    return replace(contract, **old)
