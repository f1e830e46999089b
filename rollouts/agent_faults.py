"""Faults of an agent of a user's own: its errors with its line, and results of another type than its contract's."""

from __future__ import annotations

import inspect
from typing import Any

from ..agents.agent import Agent, Decision, Session
from ..envs.author_line import at, author_line, method_at
from ..envs.messages import Action
from ..errors import ContractError
from .turns import one_line


def raised_by(who: str, error: BaseException) -> ContractError:
    """Return the error of an agent that raised, with the line of its own code."""
    return ContractError(f"{who} raised {one_line(error)}{at(author_line(error))}")


def opened(found: Any, agent: Agent, who: str) -> Session:
    """Return what an agent's ``start`` returned, if it is a session.

    Raises:
        ContractError: it is not one.
    """
    if callable(getattr(found, "act", None)):
        session: Session = found
        return session
    if inspect.iscoroutine(found):
        found.close()
        raise ContractError(f"{who} has an async start(); write def start(self, context){method_at(agent, 'start')}")
    raise ContractError(
        f"{who} returned {found!r:.80} from start(); return the episode's session, an object with "
        f"async def act(self, observation){method_at(agent, 'start')}"
    )


async def asked(session: Session, observation: Any) -> Any:
    """Return what a session decides; a plain ``act`` is as good as an async one."""
    found: Any = session.act(observation)
    return await found if inspect.isawaitable(found) else found


def decision_of(found: Any, session: Session, who: str) -> Decision:
    """Return what a session's ``act`` returned, if it is a decision.

    Raises:
        ContractError: it is not one.
    """
    if isinstance(found, Decision) and isinstance(found.action, Action):
        return found
    raise ContractError(
        f"{who} returned {found!r:.80}, not a Decision with an Action; return "
        f"turnwise.agents.Decision(tw.Action.of(text or a tool call)){method_at(session, 'act')}"
    )
