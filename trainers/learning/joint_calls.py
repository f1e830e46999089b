"""Calls that all processes of a run make together: process 0 runs the script, and the others follow it.

Only process 0 plays, assigns credit and decides. Where a model is sharded, or rows are divided, it announces a method
of an object that every process has, with its arguments, and all processes call it at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

from ...errors import DivergedError, TurnwiseError
from .main_process import MainStopped, StoppedByMain
from .parallel import ProcessGroup

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Call:
    """Announcement of a call."""

    name: str
    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _End:
    """Announcement that the script has ended, with its result."""

    result: Any = None


class JointCalls:
    """The objects that all processes share, and the calls of their methods; one process simply calls them.

    Args:
        world: the processes of the run.
    """

    def __init__(self, world: ProcessGroup) -> None:
        self.world = world
        self._objects: dict[str, Any] = {}
        self._announced = self._torn = self._over = False

    def lead(self, name: str, shared: T, *methods: str) -> T:
        """Register an object of every process, and return what the script uses in its place.

        In process 0 of several, that is a stand-in which announces calls of ``methods`` before it makes them. All else
        is passed on to the object itself.

        Args:
            name: name of the object, the same in every process.
            shared: the object; every process has one in the same state.
            methods: methods that all processes have to call together; they may be coroutine functions.
        """
        self._objects[name] = shared
        if self.world.size == 1 or not self.world.is_main:
            return shared
        return cast(T, _Leader(self, name, shared, frozenset(methods)))

    def call(self, name: str, method: str, *args: Any, **kwargs: Any) -> Any:
        """Announce a call of a shared object's method in process 0, and make it here.

        Raises:
            InfrastructureError: another process has ended.
        """
        act = getattr(self._objects[name], method)
        if self.world.size == 1:
            return act(*args, **kwargs)
        self._announced = True
        self.world.broadcast(_Call(name, method, args, kwargs))
        try:
            return act(*args, **kwargs)
        except DivergedError:
            raise  # all processes see the same numbers, so each of them raises it
        except BaseException:
            self._torn = True  # the others may be in the middle of the call: nothing can be announced any more
            raise

    async def follow(self) -> Any:
        """Make the calls that process 0 announces until its script ends, and return the script's result.

        Raises:
            StoppedByMain: The script ended without a result: process 0 says why.
            InfrastructureError: Process 0 has ended.
        """
        while True:
            announced: Any = self.world.broadcast()
            if isinstance(announced, _End):
                if announced.result is None:
                    raise StoppedByMain
                return announced.result
            act: Callable[..., Any] = getattr(self._objects[announced.name], announced.method)
            try:
                made = act(*announced.args, **announced.kwargs)
                if inspect.isawaitable(made):
                    await made
            except (StoppedByMain, MainStopped, DivergedError):
                continue  # process 0 is stopped in the same call, and announces what follows from it

    def end(self, result: Any = None) -> None:
        """Tell the others that the script has ended; only the first call counts."""
        if self._over or self._torn or self.world.size == 1 or not self.world.is_main:
            return
        self._over = True
        self.world.broadcast(_End(result))

    def leave(self) -> None:
        """Tell the others, if they follow, that the script ended without a result."""
        if not self._announced:
            return
        try:
            self.end()
        except TurnwiseError:
            return  # they have ended already


class _Leader:
    """Stand-in for a shared object in process 0."""

    def __init__(self, calls: JointCalls, name: str, shared: Any, methods: frozenset[str]) -> None:
        self._calls, self._name, self._shared, self._methods = calls, name, shared, methods

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance() sees the shared object
        return type(self._shared)

    def __getattr__(self, name: str) -> Any:
        if name in self._methods:
            return partial(self._calls.call, self._name, name)
        return getattr(self._shared, name)
