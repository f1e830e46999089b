"""``AppTask``: a request to an agent in a world of apps, and the required state of the world at the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...rows.template import SceneTask, TaskDraft
from ..simulators.situation import Rules
from .talk import Talk


@dataclass(frozen=True, kw_only=True)
class Dialogue(TaskDraft):
    """The draft of a task with a user who wants to be consulted.

    Args:
        talk: user's side of the conversation.
    """

    talk: Talk


@dataclass(frozen=True, kw_only=True)
class AppTask(SceneTask):
    """One task in a world of apps.

    Args:
        talk: user's side of a conversation, if there is one.
        rules: strictness of the apps.
        shown: the apps that the agent sees.
    """

    talk: Talk | None = None
    rules: Rules = field(default_factory=Rules)
    shown: tuple[str, ...] = ()
