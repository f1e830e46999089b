"""ScienceWorld's simulator, in a process of its own that owns a Java virtual machine for all of its games."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

from .peer_child import RefusedError, serve

JAVA = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")
"""Options of Java. Its defaults take a quarter of the machine's memory, a thread per processor to collect, and a file
that stays when it is killed.

The simulator keeps the things of a place in sets ordered by Java's identity hashes, which are random: the same things
would be listed in another order in each game. With equal hashes the order is that in which they were put there.
"""
SPLITS = {"train": "getVariationsTrain", "dev": "getVariationsDev"}
"""Methods of the simulator that list the variations of a task; all other splits are its test set."""


def main(fd: int, folder: str) -> None:
    """Serve games of ScienceWorld."""
    serve(fd, folder, ScienceWorldGame)


@lru_cache(maxsize=1)
def _gateway() -> Any:
    """Start Java, which ends when its input closes, and so also when this process is killed.

    It listens on a port of this machine, and runs whatever a client asks for: only this process knows the token.
    """
    gateway: Any = importlib.import_module("py4j.java_gateway")
    constants: Any = importlib.import_module("scienceworld.constants")
    port, token, process = gateway.launch_gateway(
        classpath=constants.JAR_PATH,
        die_on_exit=True,
        cwd=constants.BASEPATH,
        javaopts=list(JAVA),
        enable_auth=True,
        return_proc=True,
    )
    parameters = gateway.GatewayParameters(auto_field=True, port=port, auth_token=token)
    return gateway.JavaGateway(gateway_parameters=parameters, java_process=process)


def _simulator() -> Any:
    return _gateway().jvm.scienceworld.runtime.pythonapi.PythonInterface()


@lru_cache(maxsize=1024)
def _variations(task: str, listed_by: str) -> tuple[int, ...]:
    server = _simulator()
    server.load(task, 0, "", False)
    return tuple(int(each) for each in getattr(server, listed_by)())


@lru_cache(maxsize=1024)
def _gold(task: str, variation: int, simplifications: str) -> tuple[str, ...]:
    """Compute the gold path, which takes longer than all else of a reset."""
    server = _simulator()
    server.load(task, variation, simplifications, True)
    return tuple(str(each) for each in server.getGoldActionSequence())


class ScienceWorldGame:
    """One game; ``begin`` may be called again."""

    def __init__(self) -> None:
        self._server: Any = None
        self._begun: tuple[str, int, str] = ("", 0, "")

    def begin(self, task: str, split: str, index: int, simplifications: str) -> dict[str, Any]:
        """Start a variation of a task, and return what is seen.

        Raises:
            RefusedError: there is no such simplification.
        """
        if self._server is None:
            self._server = _simulator()
        known = {"easy", *str(self._server.getPossibleSimplifications()).split(", ")}
        if unknown := sorted({each for each in simplifications.split(",") if each} - known):
            raise RefusedError(f"ScienceWorld has no simplification {unknown[0]!r}; it has {', '.join(sorted(known))}")
        variations = _variations(task, SPLITS.get(split, "getVariationsTest"))
        self._begun = (task, variations[index % len(variations)], simplifications)
        self._server.load(*self._begun, False)
        self._server.reset()
        seen = self.step("look around")
        return {**seen, "task": str(self._server.freeActionTaskDesc()), "variation": self._begun[1]}

    def step(self, command: str) -> dict[str, Any]:
        """Enter a command, and return what is seen."""
        text = str(self._server.step(command))
        score = round(100 * float(self._server.getScore()))
        return {"text": text, "score": score, "over": bool(self._server.getCompleted()) or score < 0}

    def gold(self) -> list[str]:
        """Return the simulator's own solution of the present task."""
        return list(_gold(*self._begun))

    def view(self) -> str:
        """Return the descriptions of the room and of what is carried, which takes no turn."""
        return f"{self._server.freeActionLook()}\n{self._server.freeActionInventory()}"

    def close(self) -> None:
        """Let the simulator go; Java collects it."""
        self._server = None
