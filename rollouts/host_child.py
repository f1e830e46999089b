"""The other end of ``ProcessHost``: serves one environment and its forks until the pipe closes."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
from typing import Any

from ..envs.base import TurnEnv
from ..errors import EnvironmentFailedError
from .host_process import HEADER
from .hosts import perform, translated


def main(fd: int) -> None:
    """Serve requests ``(handle, verb, argument)`` on an inherited socket; answers are ``(ok, value)``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and closes the pipe
    envs: dict[int, TurnEnv] = {}
    with socket.socket(fileno=fd) as pipe, pipe.makefile("rb") as requests:
        while header := requests.read(HEADER.size):
            (size,) = HEADER.unpack(header)
            request = requests.read(size)
            try:
                answer = pickle.dumps((True, _serve(envs, *pickle.loads(request))))
            except BaseException as error:
                answer = _failure(error, request)
            try:
                pipe.sendall(HEADER.pack(len(answer)) + answer)
            except OSError:
                break
    for env in envs.values():
        with contextlib.suppress(Exception):
            env.close()
    os._exit(0)  # a thread that an environment left behind must not keep the process


def _serve(envs: dict[int, TurnEnv], handle: int, verb: str, argument: Any) -> Any:
    if verb == "open":
        envs[0] = pickle.loads(argument)()
        return 0
    if verb == "close":
        return envs.pop(handle).close()
    result = perform(envs[handle], verb, argument)
    if verb == "fork":
        envs[max(envs) + 1] = result
        return max(envs)
    if verb == "reset":
        observation, info, tools = result
        return observation, info, tuple((tool.name, tool.description, tool.parameters, tool.ends) for tool in tools)
    return result


def _failure(error: BaseException, request: bytes) -> bytes:
    verb = "a call"
    with contextlib.suppress(Exception):
        verb = pickle.loads(request)[1]
    seen = translated(error, verb)
    try:
        pickled = pickle.dumps((False, seen))
        pickle.loads(pickled)  # an exception with its own constructor may fail to unpickle
    except Exception:
        pickled = pickle.dumps((False, EnvironmentFailedError(str(seen))))
    return pickled
