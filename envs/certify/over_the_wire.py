"""Certification of an environment on a server: which laws its protocol cannot ask, and why.

A law that is not named here is tried as in process. A law of which only a part can be tried holds with a remark that
names the other part.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from ...errors import InfrastructureError
from ..base import TurnEnv
from ..remote.wire import Wire
from .report import UNASKED

PROCESS = "it watches the process that runs the environment, which is the server's"
CLIENT = "it would check this client, not the server"
TURNWISE: Mapping[str, str] = {
    "is_complete": "it reads the class, which is on the server",
    "gymnasium_check": CLIENT,
    "sync_and_async_agree": CLIENT,
    "specs_travel": "the task family is on the server",
    "no_global_rng": PROCESS,
    "no_clock": PROCESS,
    "no_environment_variables": PROCESS,
    "no_network": PROCESS,
    "prints_nothing": PROCESS,
    "leaks_nothing": "memory, threads and files are the server's",
    "answer_not_leaked": "secrets stay on the server",
    "near_misses_fail": "near misses stay on the server",
    "judge_changes_nothing": "the server judges only at the end",
}
"""Laws that Turnwise's own protocol cannot ask, with the reason."""
NO_FORK = "OpenEnv has no fork; replay_equals_original says whether a replay can stand in for one"
NO_LIMIT = "OpenEnv announces no turn limit"
OPENENV: Mapping[str, str] = {
    **TURNWISE,
    "oracle_solves": "OpenEnv has no oracle",
    "oracle_changes_nothing": "OpenEnv has no oracle",
    "turns_counted": f"{NO_LIMIT}, and its answers count no turns",
    "limits_end": NO_LIMIT,
    "judged_at_the_end": "OpenEnv has no score",
    "fork_equals_original": NO_FORK,
    "fork_is_independent": NO_FORK,
    "splits_overlap": "OpenEnv has seeds, but no splits",
}
"""Laws that OpenEnv's protocol cannot ask."""
NEMO: Mapping[str, str] = {
    **{law: reason.replace("OpenEnv", "NeMo Gym") for law, reason in OPENENV.items()},
    "over_means_over": "a resources server has no end of its own: it verifies whenever it is asked to",
    "splits_overlap": "NeMo Gym has rows, but no splits",
    "bad_calls_change_nothing": "NeMo Gym has no oracle and no state to compare",
}
"""Laws that NeMo Gym's protocol cannot ask."""
BY_PROTOCOL: Mapping[str, Mapping[str, str]] = {"turnwise": TURNWISE, "openenv": OPENENV, "nemo": NEMO}
NAMES = {"openenv": "OpenEnv", "nemo": "NeMo Gym"}
"""Protocols of others, which know neither turn limits nor floors."""
FORK_WAIT, FORK_PAUSE = 10.0, 0.05
"""Seconds for which a fork is tried again on a full server, where closed episodes are still leaving; and between."""


def unasked(wire: Wire | None, law: str) -> str:
    """Return why a law cannot be tried through a connection, or ``""``."""
    reason = BY_PROTOCOL[wire.protocol].get(law, "") if wire is not None else ""
    return f"{UNASKED}: {reason}" if reason else ""


def fork(env: TurnEnv) -> TurnEnv:
    """Fork an environment; on a full server, wait until closed episodes have left."""
    ends = time.monotonic() + FORK_WAIT
    while True:
        try:
            return env.fork()
        except InfrastructureError as error:
            if type(error) is not InfrastructureError or time.monotonic() > ends:
                raise
            time.sleep(FORK_PAUSE)
