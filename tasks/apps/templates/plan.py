"""Solutions of tasks: calls recorded while a solution runs in a copy of the world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....errors import ContractError, ToolError
from ...rng import Rng
from ...rows.expected import Reason
from ..simulators.app import LoginNeeded, TooManyCalls
from ..simulators.world import World
from .talk import Heard, Talk, reply
from .task import AppTask

CURIOSITY = 0.3
"""Probability that a demonstration reads the description of a call before it makes that call for the first time."""


@dataclass(frozen=True)
class Act:
    """A call, or a message to the user.

    Args:
        name: name of the call; ``say`` for a message to the user.
        arguments: arguments of the call; ``{"text": …}`` for a message.
        wrote: whether it changed a row.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    wrote: bool = False


class Solver:
    """The calls of a world as a solution makes them. It records each call, and logs in and waits on its own.

    Args:
        world: a copy that may be used up.
        talk: user's side of a conversation, if there is one.
        rng: random numbers for variations between demonstrations with the same result.
        curious: whether it sometimes reads the description of a call.
    """

    def __init__(self, world: World, talk: Talk | None, rng: Rng, *, curious: bool = False) -> None:
        self.world, self.talk, self.rng = world, talk, rng
        self.acts: list[Act] = []
        self._heard, self._curious = Heard(), curious
        self._known: set[str] = set()
        self._passwords: Mapping[str, str] | None = None

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Make a call, after a login or a wait if the app requires one.

        Raises:
            ContractError: it is refused for another reason: the solution is wrong.
        """
        if self._curious and name not in self._known and self.rng.random() < CURIOSITY:
            self.acts.append(Act("docs_call", {"name": name}))
        self._known.add(name)
        for _ in range(4):
            try:
                return self._made(name, arguments)
            except LoginNeeded as need:
                self._log_in(need.app)
            except TooManyCalls as busy:
                self._made("account_wait", {"seconds": busy.seconds})
            except ToolError as error:
                raise ContractError(f"the solution's {name}({arguments}) is refused: {error}") from error
        raise ContractError(f"the solution's {name}({arguments}) is refused again and again")

    def pages(self, name: str, /, **arguments: Any) -> Iterator[Any]:
        """Yield every item of a listing, page after page; a solution may stop early."""
        page = 1
        while True:
            found = self.call(name, **arguments, **({"page": page} if page > 1 else {}))
            yield from found["items"]
            if page >= found["pages"]:
                return
            page += 1

    def say(self, text: str) -> str:
        """Send the user a message, and return the reply."""
        if self.talk is None:
            raise ContractError("the solution talks to a user who does not")
        self.acts.append(Act("say", {"text": text}))
        answer, self._heard = reply(self.talk, self._heard, text)
        return answer

    def answer(self, value: str | float | list[str] | list[float] | None = None) -> None:
        """End the task as done, with the answer to its question, if it has one."""
        self.acts.append(Act("task_answer", {} if value is None else {"answer": value}))

    def refuse(self, reason: Reason, evidence: str | float) -> None:
        """End the task as refused, for this reason."""
        self.acts.append(Act("task_refuse", {"reason": reason, "evidence": str(evidence)}))

    def _log_in(self, app: str) -> None:
        if self._passwords is None:
            self._passwords = self._made("account_passwords", {})
        self._made(f"{app}_login", {"password": self._passwords[app]})

    def _made(self, name: str, arguments: dict[str, Any]) -> Any:
        before = self.world.db.writes
        result = self.world.call(name, arguments)
        self.acts.append(Act(name, arguments, self.world.db.writes > before))
        return result


def plan(task: AppTask, world: World, rng: Rng, *, curious: bool = False) -> tuple[Act, ...]:
    """Find the acts that solve a task from its beginning.

    Args:
        task: task to solve.
        world: world at the beginning of the task; not changed.
        rng: random numbers for variations.
        curious: whether it sometimes reads the description of a call.

    Raises:
        ContractError: the solution does not work.
    """
    copy = world.fork()
    solver = Solver(copy, task.talk, rng, curious=curious)
    try:
        task.solve(solver)
    finally:
        copy.db.close()
    if not solver.acts or solver.acts[-1].name not in ("task_answer", "task_refuse"):
        raise ContractError(f"the solution of {task.template!r} does not end")
    return tuple(solver.acts)
