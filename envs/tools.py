"""Tools from typed functions: JSON Schema from signature and docstring, validated calls, and errors as text."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar, cast, overload

import docstring_parser
import pydantic
from pydantic_core import to_jsonable_python

from ..errors import ContractError, ToolError
from ..tasks.score import Score
from .author_line import at, defined_at
from .messages import Message, Observation, Part, TextPart, clip
from .step import Step

F = TypeVar("F", bound=Callable[..., Any])
MARK = "_turnwise_tool"
PREFIX = "argument_"


@dataclass(frozen=True)
class Tool:
    """One tool an agent may call.

    Args:
        name: the name by which the agent calls it.
        description: the description, from the docstring.
        parameters: JSON Schema of the arguments.
        arguments: the pydantic model that validates them.
        function: the function that runs; bound to its environment, sync or async.
        ends: a successful call ends the episode.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    arguments: type[pydantic.BaseModel]
    function: Callable[..., Any]
    ends: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the tool in the form of chat templates and OpenAI-style APIs."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }

    def bind(self, owner: object) -> Tool:
        """Return the same tool as a method of ``owner``."""
        return replace(self, function=self.function.__get__(owner))

    def validate(self, arguments: Any) -> dict[str, Any]:
        """Return the arguments, converted to the signature's types.

        Raises:
            ToolError: they do not fit; the message tells the agent what to change.
        """
        try:
            # A copy, so that what a tool does to its arguments stays out of the recorded action.
            given = copy.deepcopy(dict(arguments)) if isinstance(arguments, Mapping) else arguments
            if not _is_text(given):
                raise ToolError(f"{self.name}: the arguments have half of a surrogate pair, which is not text")
            checked = self.arguments.model_validate(given)
        except pydantic.ValidationError as error:
            raise ToolError(f"{self.name}: {_explain(error, self.parameters)}") from None
        except RecursionError:
            raise ToolError(f"{self.name}: the arguments are nested too deeply") from None
        return {name.removeprefix(PREFIX): getattr(checked, name) for name in type(checked).model_fields}


@overload
def tool(function: F) -> F: ...
@overload
def tool(*, name: str | None = None, ends: bool = False, strict: bool = False) -> Callable[[F], F]: ...
def tool(
    function: F | None = None, *, name: str | None = None, ends: bool = False, strict: bool = False
) -> F | Callable[[F], F]:
    """Mark a method (or function) as a tool.

    Args:
        function: a typed function with a docstring; Google-style ``Args:`` describe the parameters.
        name: another name than the function's own.
        ends: a successful call ends the episode.
        strict: a number, text or truth value must come as one: ``"12"`` and ``true`` do not count as numbers.
    """

    if isinstance(function, str):
        raise ContractError(f"@tw.tool({function!r}) has no such argument; write @tw.tool(name={function!r})")

    def mark(target: F) -> F:
        if isinstance(target, (staticmethod, classmethod, property)):
            plain: Any = target.fget if isinstance(target, property) else target.__func__
            kind, short = type(target).__name__, plain.__name__
            text = f"tool {name or short!r} is a {kind}; remove @{kind}, and write def {short}(self, ...)"
            raise ContractError(f"{text}{at(defined_at(plain))}")
        setattr(target, MARK, {"name": name or target.__name__, "ends": ends, "strict": strict})
        return target

    return mark if function is None else mark(function)


@lru_cache(maxsize=1024)
def describe(function: Callable[..., Any], name: str, ends: bool = False, strict: bool = False) -> Tool:
    """Return the ``Tool`` of a marked function, unbound; for the arguments, see ``tool``.

    Raises:
        ContractError: a parameter has no type, or the docstring is missing: an agent could not use such a tool.
    """
    docs = docstring_parser.parse(inspect.getdoc(function) or "")
    if not docs.short_description:
        raise ContractError(f"tool {name!r} needs a docstring, because it is all that an agent knows about the tool")
    texts = {param.arg_name: param.description or "" for param in docs.params}
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise ContractError(f"tool {name!r}: a type in its signature cannot be resolved ({error})") from None
    fields: dict[str, Any] = {}
    for param in signature.parameters.values():
        if param.name == "self":
            continue
        if param.kind in (param.VAR_POSITIONAL, param.VAR_KEYWORD, param.POSITIONAL_ONLY):
            raise ContractError(f"tool {name!r}: parameter {param.name!r} must be a plain named parameter")
        if param.annotation is param.empty:
            raise ContractError(f"tool {name!r}: parameter {param.name!r} needs a type")
        default = ... if param.default is param.empty else param.default
        # Aliased, so that a parameter may be called "copy" or "json" without hiding a method of the model.
        field = pydantic.Field(default, alias=param.name, description=texts.get(param.name))
        fields[f"{PREFIX}{param.name}"] = (param.annotation, field)
    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=False, strict=strict)
    try:
        model: type[pydantic.BaseModel] = pydantic.create_model(f"{name}_arguments", __config__=config, **fields)
        schema = model.model_json_schema()
    except (pydantic.PydanticUserError, pydantic.errors.PydanticSchemaGenerationError) as error:
        raise ContractError(
            f"tool {name!r}: a parameter's type has no JSON Schema; use str, int, float, bool, Literal, "
            f"Enum, list, dict or a pydantic model ({str(error).splitlines()[0]})"
        ) from None
    schema.pop("title", None)
    for part in schema.get("properties", {}).values():
        part.pop("title", None)
    text = "\n".join(filter(None, (docs.short_description, docs.long_description)))
    return Tool(name, text, schema, model, function, ends)


def tools_of(cls: type) -> tuple[Tool, ...]:
    """Return the tools of a class: its methods marked with ``@tool``, unbound, in order of definition.

    Raises:
        ContractError: two tools share a name, or a marked function is not a method.
    """
    return _tools_of(cast(Hashable, cls))


@lru_cache(maxsize=1024)
def _tools_of(cls: Any) -> tuple[Tool, ...]:
    found: dict[str, Tool] = {}
    for base in reversed(cls.__mro__):
        for attribute, value in vars(base).items():
            marked = getattr(getattr(value, "__func__", value), MARK, None)
            if not marked:
                found.pop(attribute, None)
            elif isinstance(value, (staticmethod, classmethod)):
                raise ContractError(f"tool {marked['name']!r} must be a plain method of {cls.__name__}")
            elif next(iter(inspect.signature(value).parameters), None) != "self":
                text = f"tool {marked['name']!r} has no self; write def {value.__name__}(self, ...)"
                raise ContractError(f"{text}{at(defined_at(value))}")
            else:
                found[attribute] = _described(value, **marked)
    names = [tool.name for tool in found.values()]
    for name in names:
        if names.count(name) > 1:
            raise ContractError(f"{cls.__name__} has two tools named {name!r}; an agent could not tell them apart")
    return tuple(found.values())


def _described(method: Callable[..., Any], name: str, ends: bool, strict: bool) -> Tool:
    """Describe a tool of a class; an error also says where the method is defined, which no traceback does."""
    try:
        return describe(method, name, ends, strict)
    except ContractError as error:
        raise ContractError(f"{error}{at(defined_at(method))}") from None


def jsonable(result: Any, tool: Tool) -> Any:
    """Return what a tool returned as plain JSON values.

    Raises:
        ContractError: it has no JSON form, or is a result of ``act``; the message names the tool's line.
    """
    if isinstance(result, (Step, Score, Observation, Message)):
        raise ContractError(
            f"tool {tool.name!r} returned a {type(result).__name__}, which the agent would read as JSON; return what "
            "the agent reads. judge() and reward() decide on the end; to end an episode, override ends_with(tool); to "
            f"pay for each turn, override act{at(defined_at(tool.function))}"
        )
    try:
        return to_jsonable_python(result)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ContractError(
            f"tool {tool.name!r} returned a {type(result).__name__}, which cannot be converted to JSON "
            f"({clip(reason, 120)}); return text, numbers, lists or dicts{at(defined_at(tool.function))}"
        ) from None


def shown(result: Any, tool: Tool) -> tuple[Part, ...]:
    """Return what a tool returned as parts of a message: parts and text as they are, everything else as JSON.

    Raises:
        ContractError: it has no JSON form.
    """
    if isinstance(result, Part):
        return (result,)
    if isinstance(result, tuple) and result and all(isinstance(part, Part) for part in result):
        return result
    if isinstance(result, str):
        return (TextPart(result),)
    return (TextPart("done" if result is None else json.dumps(jsonable(result, tool), ensure_ascii=False)),)


def quoted(value: Any) -> str:
    """Return a value short enough to quote; Python refuses to print integers of some thousand digits."""
    try:
        return clip(repr(value))
    except RecursionError:
        return "what is nested too deeply"
    except ValueError:
        return "a number of thousands of digits" if isinstance(value, int) else "what is too long to be shown"


def _is_text(value: Any) -> bool:
    """Return whether UTF-8 can hold every string in ``value``: databases and files refuse anything else."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, Mapping):
        return all(_is_text(key) and _is_text(item) for key, item in value.items())
    return all(map(_is_text, value)) if isinstance(value, (list, tuple)) else True


def _explain(error: pydantic.ValidationError, schema: dict[str, Any]) -> str:
    parts = []
    for problem in error.errors(include_url=False):
        where = ".".join(str(step) for step in problem["loc"]) or "arguments"
        if problem["type"] == "extra_forbidden":
            known = ", ".join(schema.get("properties", {})) or "no arguments"
            parts.append(f"unknown argument {where!r} (takes {known})")
        elif problem["type"] == "missing":
            parts.append(f"argument {where!r} is missing")
        else:
            parts.append(f"argument {where!r}: {problem['msg']}; got {quoted(problem['input'])}")
    return "; ".join(parts) + "."
