"""Detect a model that was made for another environment: its vocabulary lacks the words of the prompts."""

from __future__ import annotations

from collections.abc import Sequence

from ..agents.agent import Agent
from ..agents.chat import ChatAgent
from .episode import Episode

UNREAD = 0.25
"""Share of unknown tokens in first prompts above which the model must be made for another environment."""


def unread(episodes: Sequence[Episode], agent: Agent) -> str:
    """Say that the model cannot read the environment's prompts; empty if it can, or if the agent is not a model.

    Args:
        episodes: episodes that the agent played.
        agent: agent that played them.
    """
    if not isinstance(agent, ChatAgent) or (unknown := agent.template.tokenizer.unk_token_id) is None:
        return ""
    prompts = [episode.turns[0].prompt_ids for episode in episodes if episode.turns]
    read = sum(map(len, prompts))
    share = sum(prompt.count(unknown) for prompt in prompts) / max(1, read)
    if share <= UNREAD:
        return ""
    return (
        f"{share:.0%} of the tokens in the first prompts of {episodes[0].env_id} are unknown to the model's "
        "vocabulary: it was made for another environment"
    )
