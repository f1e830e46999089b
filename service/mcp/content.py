"""Convert an environment's answers to MCP results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...envs.messages import ImagePart, Message, Observation
from ...envs.tools import Tool
from ...tasks.score import Score
from .episode import Told

if TYPE_CHECKING:
    import mcp

OVER = "The episode is over."
SAY = "Say something to the environment, in plain text."


def result(answer: Told, show_score: bool) -> mcp.types.CallToolResult:
    """Return the result of a call.

    Args:
        answer: answer to the action.
        show_score: whether to include the score after the end of the episode.
    """
    from mcp.types import CallToolResult, TextContent

    messages = answer.observation.messages if answer.observation is not None else ()
    content: list[Any] = [block for message in messages for block in blocks(message)]
    if answer.over:
        lines = [OVER]
        if answer.problem is not None:
            lines = [f"The episode is void: {answer.problem}"]
        elif show_score and answer.score is not None:
            lines.append(judged(answer.score))
        content.append(TextContent(text=plain("\n".join(lines))))
    # ``ToolEnv`` starts an error with this word. Nothing else in a step marks an error for the agent.
    failed = any(message.role == "tool" and message.text.startswith("Error: ") for message in messages)
    return CallToolResult(content=content, is_error=failed or answer.problem is not None or not messages)


def judged(score: Score) -> str:
    """A score in words."""
    said = {"success": score.success, "checks": dict(score.checks)}
    said |= {"collateral": list(score.collateral)} if score.collateral else {}
    said |= {"violations": list(score.violations)} if score.violations else {}
    return f"Score: {json.dumps(said, ensure_ascii=False)}"


def blocks(message: Message) -> list[Any]:
    """The parts of a message, as contents."""
    from mcp.types import ImageContent, TextContent

    return [
        ImageContent(data=part.base64, mime_type=part.mime)
        if isinstance(part, ImagePart)
        else TextContent(text=plain(part.text))
        for part in message.parts
    ]


def described(tool: Tool) -> mcp.Tool:
    """An environment's tool, as a list of tools has it."""
    from mcp import Tool as Listed

    schema = {"type": "object", **tool.parameters}
    return Listed(name=tool.name, description=tool.description, input_schema=schema)


def said(name: str) -> mcp.Tool:
    """The tool that stands for a message without a call."""
    from mcp import Tool as Listed

    text = {"type": "string", "description": "what to say"}
    schema = {"type": "object", "properties": {"text": text}, "required": ["text"], "additionalProperties": False}
    return Listed(name=name, description=SAY, input_schema=schema)


def instructions(observation: Observation) -> str:
    """The first observation, as text."""
    return plain(observation.text)


def plain(text: str) -> str:
    """The text with a question mark for what UTF-8, and so JSON, cannot hold."""
    return text.encode(errors="replace").decode()
