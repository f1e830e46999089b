"""The official SDK of the Model Context Protocol, imported when it is first used."""

from __future__ import annotations

import importlib.util

from ...errors import UsageError


def need_sdk() -> None:
    """Check that the SDK is installed.

    Raises:
        UsageError: it is not; the message says how to install it.
    """
    if importlib.util.find_spec("mcp") is None or importlib.util.find_spec("jsonschema") is None:
        raise UsageError("tools of MCP servers need the SDK of the protocol: pip install 'turnwise[mcp]'")
