"""An MCP server of the SDK with tools of every kind, for the contract tests. Run as a program."""

from __future__ import annotations

import asyncio
import base64
import os
from typing import Any

from mcp import MCPError, types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, TextContent, Tool

PNG = base64.b64encode(b"\x89PNG not really").decode()
TEXT = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 40}}, "required": ["text"]}
ODD: dict[str, dict[str, Any]] = {
    "echo": {**TEXT, "additionalProperties": False},
    "fail": {"type": "object"},
    "refuse": {"type": "object"},
    "crash": {"type": "object"},
    "picture": {"type": "object"},
    "huge": {"type": "object"},
    "nothing": {"type": "object"},
    "structured": {"type": "object"},
    "count": {"type": "object"},
    "sleep": {"type": "object"},
    "cancelled": {"type": "object"},
    "environment": {"type": "object"},
    "where": {"type": "object"},
    "self": {"type": "object", "properties": {"self": {"type": "integer"}, "env": {"type": "null"}}},
    "broken_schema": {"type": "object", "properties": {"a": {"type": "no such type"}}},
    "far_reference": {"type": "object", "properties": {"a": {"$ref": "https://example.invalid/schema.json"}}},
    "nested": {
        "type": "object",
        "$defs": {"point": {"type": "object", "properties": {"x": {"type": ["integer", "null"]}}, "required": ["x"]}},
        "properties": {"points": {"type": "array", "items": {"$ref": "#/$defs/point"}}, "any": True},
        "required": ["points"],
    },
}
counted = 0
cancelled = 0


def said(*texts: str, error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text) for text in texts], is_error=error)


async def on_list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    """Two pages."""
    names = list(ODD)
    first = params is None or params.cursor is None
    page = names[:5] if first else names[5:]
    tools = [Tool(name=name, description=f"Do {name}.", input_schema=ODD[name]) for name in page]
    return types.ListToolsResult(tools=tools, next_cursor="more" if first else None)


async def on_call_tool(ctx: Any, params: types.CallToolRequestParams) -> CallToolResult:
    global counted, cancelled
    arguments = params.arguments or {}
    match params.name:
        case "echo":
            return said(arguments["text"])
        case "fail":
            return said("it did not work", error=True)
        case "refuse":
            raise MCPError(types.INVALID_PARAMS, "refused by the server")
        case "crash":
            raise ZeroDivisionError("by zero")
        case "picture":
            return CallToolResult(
                content=[
                    TextContent(text="look"),
                    types.ImageContent(data=PNG, mime_type="image/png"),
                    types.ImageContent(data="%%%", mime_type="image/gif"),
                    types.AudioContent(data=PNG, mime_type="audio/wav"),
                ]
            )
        case "huge":
            return said("x" * 3_000_000)
        case "nothing":
            return said()
        case "structured":
            return CallToolResult(content=[], structured_content={"answer": 42})
        case "count":
            counted += 1
            return said(str(counted))
        case "sleep":
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled += 1
                raise
        case "cancelled":
            return said(str(cancelled))
        case "environment":
            return said(*sorted(os.environ))
        case "where":
            return said(os.getcwd())
    return said(repr(arguments))


async def main() -> None:
    server = Server("odd", on_list_tools=on_list_tools, on_call_tool=on_call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
