"""Agents: what decides on turns. They keep transcripts, apply context strategies and parse actions.

``__all__`` is public, and imported on first use. Everything else in this folder is internal and may change.
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .agent import Agent, Decision, EpisodeContext, Session
    from .baselines import ConstantAgent, Demonstration, MemorizerAgent, MemorylessAgent, TemplateAgent
    from .chat import ChatAgent
    from .chat_apis.settings import ApiSettings
    from .context import ContextStrategy
    from .named import agent_from
    from .parsers import ActionParser
    from .scripted import FunctionAgent, MixedAgent, NullAgent, OracleAgent, RandomAgent
    from .settings import AgentSettings

__all__ = [
    "ActionParser",
    "Agent",
    "AgentSettings",
    "ApiSettings",
    "ChatAgent",
    "ConstantAgent",
    "ContextStrategy",
    "Decision",
    "Demonstration",
    "EpisodeContext",
    "FunctionAgent",
    "MemorizerAgent",
    "MemorylessAgent",
    "MixedAgent",
    "NullAgent",
    "OracleAgent",
    "RandomAgent",
    "Session",
    "TemplateAgent",
    "agent_from",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__)
