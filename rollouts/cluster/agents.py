"""Agents on the way to workers: everything travels, except for policies that must stay where they are."""

from __future__ import annotations

import hashlib
import io
import pickle
from typing import Any, cast

import cloudpickle

from ...agents.agent import Agent
from ...errors import UsageError
from ...inference.policy import Policy
from ...inference.policy_service import PolicyConnection, PolicyService


def packed_agent(agent: Agent, service: PolicyService) -> tuple[str, bytes]:
    """Return an agent as bytes for workers, and their digest.

    A policy with a ``recipe`` (see ``RemotePolicy``) is made again by each worker, which then asks the servers itself.
    Any other stays in this process, and workers ask for its tokens over ``service``.

    Args:
        agent: agent that acts.
        service: service for policies that stay.

    Raises:
        UsageError: the agent cannot be sent to another process.
    """
    file = io.BytesIO()
    try:
        _Pickler(file, service).dump(agent)
    except Exception as error:
        raise UsageError(
            f"agent {type(agent).__name__} cannot be sent to workers ({type(error).__name__}: {error}); play with "
            "rollouts.engine = 'local'"
        ) from None
    data = file.getvalue()
    return hashlib.sha256(data).hexdigest()[:16], data


def unpacked_agent(data: bytes, connection: PolicyConnection) -> Agent:
    """Return the agent of ``packed_agent``.

    Args:
        data: its bytes.
        connection: connection to the service that they were packed with.
    """
    return cast(Agent, _Unpickler(io.BytesIO(data), connection).load())


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO, service: PolicyService) -> None:
        super().__init__(file)
        self._service = service
        self._is_policy: dict[type, bool] = {}

    def persistent_id(self, found: Any) -> Any:
        kind = type(found)
        if kind not in self._is_policy:
            self._is_policy[kind] = not issubclass(kind, type) and hasattr(kind, "generate") and _samples(kind)
        if not self._is_policy[kind]:
            return None
        recipe = getattr(found, "recipe", None)
        made = recipe() if recipe is not None else None
        if made is not None:
            return "recipe", made
        return "service", (self._service.offer(cast(Policy, found)), getattr(found, "max_wait", None))


def _samples(kind: type) -> bool:
    """Whether a class has the ``generate`` of a ``Policy``, and not that of a Hugging Face model."""
    code = getattr(kind.__dict__.get("generate") or getattr(kind, "generate", None), "__code__", None)
    return code is not None and {"prompt_ids", "sampling"} <= set(code.co_varnames[: code.co_argcount])


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, connection: PolicyConnection) -> None:
        super().__init__(file)
        self._connection = connection

    def persistent_load(self, id: Any) -> Any:
        kind, given = id
        return given() if kind == "recipe" else self._connection.policy(*given)
