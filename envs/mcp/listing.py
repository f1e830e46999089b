"""The tools of MCP servers as tools of an environment: listed once per server and process, with checked arguments."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pydantic

from ...errors import ContractError, ToolError
from ...sandboxes.loop import LOOP
from ..messages import clip
from ..tools import Tool, quoted
from .sdk import need_sdk
from .servers import Servers, shared
from .spec import ServerSpec

if TYPE_CHECKING:
    import mcp

MOST_BYTES = 1_000_000
"""Most bytes of the arguments of one call."""
EXPLAINED = 3
"""Most faults of arguments to name at once."""
_asking = threading.Lock()


class _Anything(pydantic.BaseModel):
    """A stand-in for the model of a tool's arguments, since JSON Schema checks those of a server's tool."""


@dataclass(frozen=True)
class McpTool(Tool):
    """A tool of a server.

    Args:
        spec: the server.
        origin: the name of the tool on the server.
        problems: a function that describes the faults of arguments.
    """

    spec: ServerSpec = field(default_factory=lambda: ServerSpec("none", ("none",)))
    origin: str = ""
    problems: Callable[[Any], Iterator[str]] = lambda arguments: iter(())

    def validate(self, arguments: Any) -> dict[str, Any]:
        """Return the arguments as the one argument ``arguments`` of ``function``.

        Raises:
            ToolError: they do not fit; the message tells the agent what to change.
        """
        if not isinstance(arguments, Mapping):
            raise ToolError(f"{self.name}: arguments must be an object; got {quoted(arguments)}.")
        try:
            given = copy.deepcopy(dict(arguments))
            size = len(json.dumps(given, ensure_ascii=False, allow_nan=False).encode())
        except UnicodeEncodeError:
            raise ToolError(f"{self.name}: an argument has half a surrogate pair, which is not valid text.") from None
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolError(f"{self.name}: the arguments are not valid JSON: {clip(str(error), 200)}.") from None
        if size > MOST_BYTES:
            raise ToolError(f"{self.name}: the arguments have {size} bytes; at most {MOST_BYTES} are taken.")
        found = list(self.problems(given))
        if found:
            more = f"; and {len(found) - EXPLAINED} more" if len(found) > EXPLAINED else ""
            raise ToolError(f"{self.name}: {'; '.join(found[:EXPLAINED])}{more}.")
        return {"arguments": given}


def tools_of_servers(specs: Sequence[ServerSpec], call: Callable[..., Any]) -> tuple[McpTool, ...]:
    """Return the tools that several servers offer, unbound.

    Args:
        specs: the servers.
        call: a function that makes the function of a tool, from the server's spec and the server's name for the tool.

    Raises:
        UsageError: the SDK is missing, or a program.
        InfrastructureError: a server did not start.
        ContractError: a server has no tool of a name in ``allow`` or ``deny``, or two offer tools of one name.
    """
    need_sdk()
    names = [spec.name for spec in specs]
    if len(set(names)) < len(names):
        raise ContractError(f"two MCP servers are called {max(names, key=names.count)!r}; give each its own name")
    made: dict[str, McpTool] = {}
    for spec in specs:
        listed = listing(spec)
        known = [tool.name for tool in listed]
        for name in (*(spec.allow or ()), *spec.deny):
            if name not in known:
                raise ContractError(f"MCP server {spec.name!r} has no tool {name!r}; it has {', '.join(known)}")
        for tool in listed:
            if not spec.offers(tool.name):
                continue
            name = spec.prefix + tool.name
            if name in made:
                raise ContractError(
                    f"MCP servers {made[name].spec.name!r} and {spec.name!r} both offer {name!r}: "
                    "give one of them a prefix, or deny one of the tools"
                )
            made[name] = _made(name, tool, spec, call)
    return tuple(made.values())


def listing(spec: ServerSpec) -> tuple[mcp.Tool, ...]:
    """Return the tools that a server lists. Turnwise starts it once for this and caches the answer in this process."""
    with _asking:  # or as many as are made at once would start one each
        return _listing(spec)


@lru_cache(maxsize=64)
def _listing(spec: ServerSpec) -> tuple[mcp.Tool, ...]:
    async def asked() -> tuple[mcp.Tool, ...]:
        servers = shared(spec) if spec.stateless else Servers()
        try:
            return tuple(await servers.tools(spec))
        finally:
            if not spec.stateless:
                await servers.close()

    return LOOP.wait(asked())


def _made(name: str, tool: mcp.Tool, spec: ServerSpec, call: Callable[..., Any]) -> McpTool:
    schema = dict(tool.input_schema)
    schema.setdefault("properties", {})
    return McpTool(
        name,
        tool.description or tool.title or "",
        schema,
        _Anything,
        call(spec, tool.name),
        spec=spec,
        origin=tool.name,
        problems=checker(schema),
    )


def checker(schema: dict[str, Any]) -> Callable[[Any], Iterator[str]]:
    """Return a function that describes the faults of arguments.

    A schema that is none, or that refers to what is not in it, checks nothing: the server looks at them in any case.
    """
    import referencing
    from jsonschema import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for

    kind: Any = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError:
        return lambda arguments: iter(())
    # A registry of its own: without, references would be looked up on the network.
    validator = kind(schema, registry=referencing.Registry())

    def problems(arguments: Any) -> Iterator[str]:
        try:
            yield from map(_explained, sorted(validator.iter_errors(arguments), key=lambda error: str(error.path)))
        except (referencing.exceptions.Unresolvable, RecursionError):
            return

    return problems


def _explained(error: Any) -> str:
    where = ".".join(str(step) for step in error.absolute_path)
    at = f"argument {where!r}: " if where else ""
    if error.validator == "required":
        # One error for each, which names its property in words only.
        name = error.message.removesuffix(" is a required property").strip("'")
        return f"argument {'.'.join(filter(None, (where, name)))!r} is missing"
    if error.validator == "type":
        wanted = error.validator_value
        wanted = wanted if isinstance(wanted, str) else " or ".join(wanted)
        return f"{at}it must be of type {wanted}; got {clip(repr(error.instance))}"
    return at + clip(error.message, 200)
