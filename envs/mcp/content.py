"""Answers of an MCP server as parts of a message, with the episode's folder under a fixed name."""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..messages import ImagePart, Part, TextPart

if TYPE_CHECKING:
    import mcp

SHOWN_FOLDER = "/episode"
"""Name that agents see for the episode's folder, whose real name differs each time."""


def parts_of(result: mcp.types.CallToolResult, limit: int, folder: Path) -> tuple[Part, ...]:
    """Return the parts of an answer: texts and images as they are, and names of everything else.

    Args:
        result: the answer of the server.
        limit: the largest number of characters to show.
        folder: the episode's, which is shown as ``/episode``.
    """
    blocks = [_block(block) for block in result.content]
    texts = [block for block in blocks if isinstance(block, str)]
    if not blocks and result.structured_content is not None:  # with content, it says the same once more
        texts = [json.dumps(result.structured_content, ensure_ascii=False)]
    text = "\n".join(texts).replace(str(folder), SHOWN_FOLDER)
    if len(text) > limit:
        text = f"{text[:limit]}\n… and {len(text) - limit} more characters"
    images = tuple(block for block in blocks if isinstance(block, ImagePart))
    return (TextPart(text or "done"), *images) if text or not images else images


def unfolded(value: Any, folder: Path) -> Any:
    """Return arguments with the real name of the episode's folder in place of the fixed one."""
    if isinstance(value, str):
        for scheme in ("", "file://"):
            start = scheme + SHOWN_FOLDER
            if value == start or value.startswith(start + "/"):
                return f"{scheme}{folder}{value[len(start) :]}"
        return value
    if isinstance(value, dict):
        return {key: unfolded(each, folder) for key, each in value.items()}
    if isinstance(value, list):
        return [unfolded(each, folder) for each in value]
    return value


def _block(block: Any) -> str | ImagePart:
    match block.type:
        case "text":
            return str(block.text)
        case "image":
            return _image(block.data, block.mime_type)
        case "audio":
            return f"[audio, {block.mime_type}]"
        case "resource_link":
            return f"[resource {block.name}: {block.uri}]"
        case "resource":
            return _resource(block.resource)
    return f"[{block.type}]"


def _resource(resource: Any) -> str | ImagePart:
    if getattr(resource, "text", None) is not None:
        return str(resource.text)
    mime = resource.mime_type or "application/octet-stream"
    return _image(resource.blob, mime) if mime.startswith("image/") else f"[resource {resource.uri}, {mime}]"


def _image(data: str, mime: str) -> str | ImagePart:
    try:
        return ImagePart(base64.b64decode(data, validate=True), mime)
    except (binascii.Error, ValueError):
        return f"[a picture that cannot be read, {mime}]"
