"""Environments: base classes, wrappers, tools of MCP servers, retrievers, and certification.

``__all__`` is public, and imported on first use. Everything else in this folder is internal and may change.
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .base import TurnEnv
    from .certify.pytest_laws import EnvironmentLaws
    from .certify.report import Certificate, Verdict
    from .code.episode_sandbox import EpisodeSandbox
    from .code.tool import CodeTool
    from .for_trl import trl_environment, trl_rows
    from .mcp.spec import ServerSpec
    from .mcp.tools import McpTools
    from .program.env import ProgramEnv
    from .program.tools import PythonTools
    from .registry import Entry
    from .search.retrieval.batched import Batched
    from .search.retrieval.dense import Dense
    from .search.retrieval.engines import retriever_for
    from .search.retrieval.fts5 import Fts5
    from .search.retrieval.fused import Fused
    from .search.retrieval.remote import Remote
    from .search.retrieval.retriever import Retriever
    from .search.retrieval.retriever_checks import RetrieverContract
    from .search.retrieval.retriever_checks import self_check as check_retriever
    from .toolenv import ToolEnv
    from .wrappers.base import TurnWrapper
    from .wrappers.check_reward import CheckReward
    from .wrappers.history import History
    from .wrappers.multi_attempt import MultiAttempt
    from .wrappers.observation_budget import ObservationBudget
    from .wrappers.tool_faults import ToolFaults
    from .wrappers.turn_limit import TurnLimit

__all__ = [
    "Batched",
    "Certificate",
    "CheckReward",
    "CodeTool",
    "Dense",
    "Entry",
    "EnvironmentLaws",
    "EpisodeSandbox",
    "Fts5",
    "Fused",
    "History",
    "McpTools",
    "MultiAttempt",
    "ObservationBudget",
    "ProgramEnv",
    "PythonTools",
    "Remote",
    "Retriever",
    "RetrieverContract",
    "ServerSpec",
    "ToolEnv",
    "ToolFaults",
    "TurnEnv",
    "TurnLimit",
    "TurnWrapper",
    "Verdict",
    "check_retriever",
    "retriever_for",
    "trl_environment",
    "trl_rows",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__)
