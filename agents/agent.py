"""Who acts: an agent opens one session per episode, and a session decides turn by turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..envs.messages import Action, Observation
from ..inference.policy import Finish
from ..tasks.rng import Rng
from ..tasks.spec import TaskSpec

if TYPE_CHECKING:
    from ..envs.tools import Tool


CHAT_API = "chat_api"
"""The key of a turn's ``info`` under which a model behind a chat API records its tokens, cost and latency.
It marks a turn without token ids, which no trainer of tokens may take."""


@dataclass(frozen=True, slots=True)
class EpisodeContext:
    """What an agent is told when an episode starts.

    Args:
        episode_id: unique within a run.
        env_id: the environment's id.
        task: what is asked.
        tools: what may be called.
        rng: the agent's own random numbers, a pure function of run seed, task and attempt.
        oracle: asks the environment for its best next action. Only demonstrations may use it.
        random: asks the environment for an action of an agent that knows the rules only, drawn with a seed.
        record: writes down something that was sampled and that the environment will never be told of, such as a plan,
            with the messages that it answers: an unsent turn, with no reward of its own.
        affinity: the policy's session id, where it is not the episode's own: an episode that left another one keeps
            that one's, so that a server finds the prefix that they share in its cache.
    """

    episode_id: str
    env_id: str
    task: TaskSpec
    tools: Sequence[Tool]
    rng: Rng
    oracle: Callable[[], Awaitable[Action]]
    random: Callable[[int], Awaitable[Action]]
    record: Callable[[Observation, Decision], None] = lambda observation, decision: None
    affinity: str = ""

    @property
    def policy_session(self) -> str:
        """What the policy is told as ``session``."""
        return self.affinity or self.episode_id


@dataclass(frozen=True, slots=True)
class Decision:
    """One action, with the exact tokens behind it where a language model decided.

    Args:
        action: what the environment gets.
        prompt_ids: exactly what the policy read; empty for scripted agents.
        action_ids: exactly what it sampled, including the stop id.
        logprobs: behaviour log-probability per action id.
        versions: policy version per action id.
        finish: why sampling ended.
        seconds: time spent in the policy (the runner counts the rest of the agent's time as ours).
        thoughts: what it wrote for itself before it acted; the environment never sees it.
        info: what else to record with the turn, under keys that no environment uses; JSON-able.
    """

    action: Action
    prompt_ids: tuple[int, ...] = ()
    action_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    versions: tuple[int, ...] = ()
    finish: Finish = Finish.STOP
    seconds: float = 0.0
    thoughts: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)


class Session(Protocol):
    """An agent's side of one episode. It is dropped when the episode ends."""

    async def act(self, observation: Observation) -> Decision:
        """Decide on one turn, given the new messages."""
        ...


@runtime_checkable
class Reader(Protocol):
    """A session whose agent reads token ids, and can tell what it would read next."""

    def read(self, observation: Observation) -> tuple[int, ...]:
        """The prompt that ``act`` would sample from; nothing is sampled, and the session is over after it."""
        ...


@runtime_checkable
class Forking(Protocol):
    """A session that can be continued in several ways."""

    def fork(self, context: EpisodeContext) -> Session:
        """An independent session that has heard and said the same, for an episode that leaves this one here."""
        ...


@runtime_checkable
class SelfTimed(Protocol):
    """A session that bounds its own turns: it waits for a remote server, whose faults are never the policy's."""

    @property
    def patience(self) -> float | None:
        """Seconds that the server may fail before ``act`` raises ``InfrastructureError``. The run's ``turn_timeout``
        does not apply: the session itself raises ``PolicyTimeoutError`` for a policy that writes too long. ``None``
        where it waits for no server, and the run's limit does apply."""
        ...


@runtime_checkable
class Repeatable(Protocol):
    """A session that is as it was before where ``act`` raises ``InfrastructureError``: it can be asked again."""

    def repeatable(self) -> None:
        """Does nothing; that it is there says so."""
        ...


@runtime_checkable
class Holding(Protocol):
    """A session that holds more than memory, such as a process, and has to be told when its episode is over."""

    async def over(self, observation: Observation) -> tuple[int, ...]:
        """The environment ended the episode, with this observation; what would have been read next, where known."""
        ...

    async def close(self) -> None:
        """Let go of everything, however the episode ended: it may have failed or been cancelled."""
        ...


@runtime_checkable
class Remarking(Protocol):
    """An agent that tells readers of results how it acted."""

    def remarks(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        """What to know of episodes in which these tools were offered; asked after they were played."""
        ...


class Agent(Protocol):
    """Opens sessions. One agent serves any number of concurrent episodes."""

    def start(self, context: EpisodeContext) -> Session:
        """A fresh session; nothing may leak between sessions."""
        ...
