"""Recognize the kind of a policy specification, as given to ``--policy``."""

from __future__ import annotations

CHAT_APIS = ("openai", "anthropic", "chat")


def is_chat_api(spec: str) -> bool:
    """Return whether a chat API serves the policy: ``openai:MODEL``, ``anthropic:MODEL`` or ``chat:URL#MODEL``."""
    kind, colon, _ = spec.strip().partition(":")
    return bool(colon) and kind in CHAT_APIS
