"""Calls: what counts its own work is called as it is, what a table knows pays first, and the rest is refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from .counter import COUNTER, SUBMITTED, WORK, charge, name_of, refuse, weight

__work__ = True
FREE = object()
"""Rule of a callable whose work is small and does not depend on its arguments."""
Rule = Any
FUNCTIONS: dict[Any, Rule] = {}
"""Rules by function or type."""
METHODS: dict[type, dict[str, Rule]] = {}
"""Rules by the exact type of the object and the name of its method; they take the object first."""
DECORATORS: dict[Any, Callable[..., Any]] = {}
"""Metered forms of functions that may only be used as decorators."""
_UNBOUND = frozenset({type(list.append), type(dict.__dict__["fromkeys"])})
_WRAPPER: Any = type(vars(object)["__init__"].__get__(0))
_COMPARING: Any = type(functools.cmp_to_key(lambda one, other: 0))


def woven(function: Any) -> bool:
    """Return whether a function is part of woven source or of the meter, and so counts its own work."""
    return type(function) is FunctionType and COUNTER in function.__globals__


def callee(function: Any) -> Any:
    """Return what is called in place of a function: itself, or something that pays for it.

    Raises:
        RefusedError: its work cannot be counted.
    """
    kind = type(function)
    if kind is FunctionType:
        if COUNTER in function.__globals__:
            return function
    elif kind is BuiltinFunctionType:
        owner = function.__self__
        if owner is not None and type(owner) not in (ModuleType, type):
            return _method(function, owner)
    elif kind is MethodType:
        inner = function.__func__
        if woven(inner):
            return function
        return _method(function, function.__self__)
    elif kind is type:
        if function in SUBMITTED:
            return function
        if issubclass(function, BaseException):
            WORK[0] += 1
            return function
    elif kind in _UNBOUND:
        return functools.partial(_unbound, function.__name__)
    elif kind is functools.partial:
        return functools.partial(_partial, function)
    elif kind in SUBMITTED or kind is _COMPARING or not callable(function) or _is_plain_init(function):
        return function
    else:
        refuse(f"{name_of(function)}()", "write it as a function")
    rule = FUNCTIONS.get(function)
    if rule is None:
        refuse(f"{name_of(function)}()", "write it in Python, or use another function")
    if rule is FREE:
        WORK[0] += 1
        return function
    return rule


def _is_plain_init(function: Any) -> bool:
    """Return whether this is the ``__init__`` that a submitted class inherits."""
    return type(function) is _WRAPPER and function.__name__ == "__init__" and type(function.__self__) in SUBMITTED


def _method(function: Any, owner: Any) -> Any:
    name = function.__name__
    rule = METHODS.get(type(owner), {}).get(name)
    if rule is None:
        refuse(f"{type(owner).__name__}.{name}()", "write it in Python, or use another type")
    if rule is FREE:
        WORK[0] += 1
        return function
    return functools.partial(rule, owner)


def _unbound(name: str, owner: Any, *arguments: Any, **named: Any) -> Any:
    """Call a method that was taken from its type."""
    return callee(getattr(owner, name))(*arguments, **named)


def _partial(held: Any, *arguments: Any, **named: Any) -> Any:
    charge(1 + len(held.args) + len(held.keywords))
    return held(*arguments, **named)


def callback(function: Any) -> Any:
    """Return what work in C calls: each call pays."""
    if type(function) in SUBMITTED:
        return lambda *arguments: function(*arguments)
    metered = callee(function)
    submitted = type(function) is type and function in SUBMITTED
    if metered is not function or submitted or woven(metered) or type(function) in (MethodType, _COMPARING):
        return metered

    def paying(*arguments: Any, **named: Any) -> Any:
        WORK[0] += 1
        return function(*arguments, **named)

    return paying


def decorator(wanted: Any) -> Any:
    """Return what decorates in place of a decorator."""
    if wanted in DECORATORS:
        return DECORATORS[wanted]
    if type(wanted) is BuiltinFunctionType and type(wanted.__self__) is property:
        return lambda function: wanted(_counting(function))
    return callee(wanted)


def _counting(function: Any) -> Any:
    if not woven(function):
        refuse("a property of anything but a function", "write def below it")
    return function


def defined(kind: Any) -> Any:
    """Note a class of the submission.

    Raises:
        RefusedError: it derives from a class with methods that do not count their work.
    """
    for base in kind.__mro__[1:]:
        if base not in SUBMITTED and base is not object and not issubclass(base, BaseException):
            refuse(f"a class derived from {base.__name__}", "hold one as an attribute")
    SUBMITTED.add(kind)
    return kind


def owner(value: Any) -> Any:
    """Return what an attribute is assigned to: the submission's own, since the meter relies on the rest.

    Raises:
        RefusedError: it is a module, a type or an object of the standard library.
    """
    kind = type(value)
    if not (kind in SUBMITTED or woven(value) or (kind is type and value in SUBMITTED)):
        refuse(f"assignments to attributes of {name_of(value)}", "assign to attributes of your own objects")
    return value


def partial(function: Any, *arguments: Any, **named: Any) -> Any:
    """Return a metered ``functools.partial``."""
    charge(1 + len(arguments))
    return functools.partial(callback(function), *arguments, **named)


def cached(inner: Any) -> Any:
    """Return a cache, made by ``functools.lru_cache``, that pays for hashing its arguments."""

    def remembering(*arguments: Any, **named: Any) -> Any:
        charge(sum(map(weight, arguments)) + sum(map(weight, named.values())) + 1)
        return inner(*arguments, **named)

    def clear() -> None:
        charge(1 + inner.cache_info().currsize)
        inner.cache_clear()

    def info() -> Any:
        WORK[0] += 1
        return inner.cache_info()

    remembering.cache_clear, remembering.cache_info = clear, info  # type: ignore[attr-defined]
    return remembering


def lru_cache(maxsize: Any = 128, typed: bool = False) -> Any:
    """Return a metered ``functools.lru_cache``."""
    if maxsize is None or isinstance(maxsize, int):
        return lambda function: cached(functools.lru_cache(maxsize, typed)(callback(function)))
    return cached(functools.lru_cache(128, typed)(callback(maxsize)))


def counted_properties(*functions: Any) -> property:
    """Return a property of functions that count their work."""
    return property(*map(_counting, functions))


DECORATORS |= {
    property: counted_properties,
    staticmethod: lambda function: staticmethod(_counting(function)),
    classmethod: lambda function: classmethod(_counting(function)),
    functools.total_ordering: functools.total_ordering,
}
FUNCTIONS |= {functools.partial: partial, functools.lru_cache: lru_cache, functools.cache: lambda f: lru_cache(None)(f)}
