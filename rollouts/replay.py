"""Replay: check that the environment answers a recorded episode's actions exactly as before."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..agents.agent import CHAT_API
from ..envs.base import TurnEnv
from ..envs.messages import Observation
from ..envs.plain_json import plain
from ..envs.registry import create
from ..envs.step import CHANGES
from ..errors import UsageError
from .episode import UNANSWERED, Episode, Outcome
from .hosts import CLOSING_GRACE, Worker, perform
from .options import ENV_TIMEOUT
from .pool import EnvSource
from .turns import TYPED, judgement, one_line

Ask = Callable[[str, Any], Any]
"""Calls a verb of the environment; see ``hosts.perform``."""
ENDED = (Outcome.COMPLETED, Outcome.TRUNCATED)
"""Outcomes that the environment caused, and that a replay must cause again."""


NOT_REPLAYED = TYPED | {CHAT_API, CHANGES}
"""Keys of ``info`` that do not come from the environment, have their own field, or are missing in older stores."""

WINDOW = 240
"""Maximum characters of a value that a difference shows."""


@dataclass(frozen=True, slots=True)
class Difference:
    """First difference between a replay and its record.

    Args:
        turn: index of the turn, from 0; the number of turns stands for the end of the episode.
        what: name of the differing value, e.g. ``"reward"``.
        recorded: value in the record.
        replayed: value in the replay.
    """

    turn: int
    what: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        recorded, replayed = _side_by_side(self.recorded, self.replayed)
        return f"turn {self.turn}: {self.what} was {recorded} and is now {replayed}"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Result of a replay.

    Args:
        episode_id: id of the recorded episode.
        turns: number of turns that agreed.
        difference: first difference; ``None`` if everything is as recorded.
    """

    episode_id: str
    turns: int
    difference: Difference | None = None

    @property
    def ok(self) -> bool:
        """Whether everything is as recorded."""
        return self.difference is None


def replay(episode: Episode, env: EnvSource | None = None, *, env_timeout: float | None = ENV_TIMEOUT) -> ReplayResult:
    """Execute a record's actions again; compare observations, rewards, flags, state names, info and score.

    Episodes that were cut short by a failure of the policy or the infrastructure are compared as far as they went.

    Args:
        episode: recorded episode.
        env: environment to replay on; by default the recorded id with the recorded constructor arguments.
        env_timeout: seconds that the environment has for one call, as in a run. The environment runs on its own thread;
            a call that takes longer counts as a difference.

    Raises:
        UsageError: the episode names no registered environment and ``env`` is not given.
        EnvironmentTimeoutError: the environment could not even be made in time.
    """
    found = episode.fingerprints.get("task")
    if found is not None and found != episode.task.digest:
        return ReplayResult(episode.episode_id, 0, Difference(0, "task digest", found, episode.task.digest))
    agreed = 0
    with _played(episode, env, env_timeout) as ask:
        for turn, what, recorded, replayed in _comparisons(episode, ask):
            if recorded != replayed:
                return ReplayResult(episode.episode_id, turn, Difference(turn, what, recorded, replayed))
            agreed = turn
    return ReplayResult(episode.episode_id, agreed)


@contextlib.contextmanager
def _played(episode: Episode, source: EnvSource | None, limit: float | None) -> Iterator[Ask]:
    """Calls an environment that runs on a thread, and waits no longer than its time limit."""
    worker = Worker()
    try:
        env = worker.wait(lambda: _made(episode, source), "open", limit)
        try:
            yield lambda verb, argument: worker.wait(lambda: perform(env, verb, argument), verb, limit)
        finally:
            if worker.late:
                worker.post(env.close)
            else:
                with contextlib.suppress(Exception):
                    worker.wait(env.close, "close", CLOSING_GRACE)
    finally:
        worker.stop()


def _comparisons(episode: Episode, ask: Ask) -> Iterator[tuple[int, str, Any, Any]]:
    """Yield everything that must be equal, in order: turn, name, recorded value, value now."""
    try:
        observation, info, _ = ask("reset", episode.task)
    except UsageError:
        raise
    except Exception as error:
        yield 0, "reset", "an observation", one_line(error)
        return
    terminated = truncated = False
    for number, turn in enumerate(episode.turns):
        if not turn.sent:
            continue
        yield number, "episode", "going on", "over" if terminated or truncated else "going on"
        yield number, "observation", turn.observation, observation
        yield number, "obs_key", turn.obs_key, info.get("obs_key")
        try:
            observation, reward, terminated, truncated, info = ask("step", turn.action)
        except Exception as error:
            if turn.info.get(UNANSWERED):  # it failed in the record, too
                return
            yield number, "step", "an observation", one_line(error)
            return
        if turn.info.get(UNANSWERED):  # the record ends with an action that the infrastructure did not answer
            return
        yield number, "reward", turn.reward, reward
        yield number, "terminated", turn.terminated, terminated
        yield number, "truncated", turn.truncated, truncated
        yield number, "info", _plain(turn.info), _plain(info)
    end = len(episode.turns)
    if episode.final_observation is not None:
        yield end, "final observation", episode.final_observation, observation
    outcome = Outcome.COMPLETED if terminated else Outcome.TRUNCATED if truncated else "not over"
    if outcome in ENDED or episode.outcome in ENDED:
        yield end, "outcome", str(episode.outcome), str(outcome)
        yield end, "score", episode.score, judgement(info)


def _side_by_side(one: Any, other: Any) -> tuple[str, str]:
    """Two values to be read: observations as their text, long ones from shortly before they part."""
    if isinstance(one, Observation) and isinstance(other, Observation) and one.text != other.text:
        one, other = one.text, other.text
    said = repr(one), repr(other)
    if max(map(len, said)) <= WINDOW:
        return said
    parted = next((i for i, (a, b) in enumerate(zip(*said, strict=False)) if a != b), min(map(len, said)))
    first = max(0, parted - WINDOW // 3)
    cut = (text[first : first + WINDOW] + ("…" if len(text) > first + WINDOW else "") for text in said)
    a, b = ("…" * (first > 0) + text for text in cut)
    return a, b


def _made(episode: Episode, env: EnvSource | None) -> TurnEnv:
    try:
        kwargs = json.loads(episode.fingerprints.get("env_kwargs", "{}"))
    except ValueError:
        raise UsageError(f"episode {episode.episode_id}: its recorded env_kwargs are not JSON") from None
    return create(episode.env_id if env is None else env, **kwargs)


def _plain(info: Mapping[str, Any]) -> Any:
    """Info as a store gives it back, so that a replay of a loaded episode compares like with like."""
    return json.loads(json.dumps({key: value for key, value in info.items() if key not in NOT_REPLAYED}, default=plain))
