"""Calls under way in an episode: tasks of their own that several callers share, and steps in their caller's task."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from typing import Any, TypeVar, cast

from ...envs.messages import Action
from ...envs.remote.frames import action_to_json
from ...errors import EnvironmentFailedError, RequestError, TurnwiseError, UsageError
from ...logs import event

LOG = logging.getLogger(__name__)
T = TypeVar("T")


class CallersStep(asyncio.Future[None]):
    """A step in its caller's own task. It ends with the step, not with that task, which may be a whole session."""

    def __init__(self) -> None:
        super().__init__()
        self.caller = cast("asyncio.Task[Any]", asyncio.current_task())

    def cancel(self, msg: Any = None) -> bool:
        """Interrupt the step."""
        return self.caller.cancel(msg)


async def shared(task: asyncio.Task[T]) -> T:
    """Wait for a shared task, which continues if this caller is cancelled."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise RequestError("the episode was closed meanwhile", code="lost") from None
        raise


def digest_of(action: Action) -> tuple[bytes, int]:
    """Return a digest of an action, by which to recognize it however long it is, and its size in bytes."""
    encoded = json.dumps(action_to_json(action), sort_keys=True).encode()  # a retry may have them in another order
    return hashlib.sha256(encoded).digest(), len(encoded)


def ended() -> RequestError:
    """Return the refusal of a step after the end."""
    return RequestError("the episode has ended; start another one", code="conflict")


def log_failure(verb: str, error: BaseException) -> None:
    """Log an environment's error, which clients do not receive, unlike the reason of a refused reset."""
    if not isinstance(error, TurnwiseError) or (verb == "reset" and isinstance(error, UsageError)):
        return
    text = error.traceback if isinstance(error, EnvironmentFailedError) else ""
    text = text or f"{type(error).__name__}: {error}"
    event(LOG, "environment failed", text, {"verb": verb}, level=logging.WARNING)


def now() -> float:
    """Return the time of the event loop in seconds."""
    return asyncio.get_running_loop().time()
