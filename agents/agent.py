"""The agent interface: an agent opens one session per episode, and a session decides turn by turn."""

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
It marks a turn without token ids, which no trainer of tokens may use."""


@dataclass(frozen=True, slots=True)
class EpisodeContext:
    """The information that an agent gets when an episode starts.

    Args:
        episode_id: id that is unique within a run.
        env_id: id of the environment.
        task: specification of the task.
        tools: tools that the agent may call.
        rng: the agent's own random numbers, a pure function of run seed, task and attempt.
        oracle: function that asks the environment for its best next action. Only demonstrations may use it.
        random: function that asks the environment for a random legal action, drawn with a seed.
        record: function that records a sample which the environment never gets, such as a plan, together with the
            messages that it answers: an unsent turn, with no reward of its own.
        affinity: the policy's session id, if it is not the episode's own: a forked episode keeps its parent's, so that
            a server finds their common prefix in its cache.
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
        """The ``session`` of the policy's requests."""
        return self.affinity or self.episode_id


@dataclass(frozen=True, slots=True)
class Decision:
    """One action, with its exact tokens if a language model decided.

    Args:
        action: action for the environment.
        prompt_ids: token ids that the policy read; empty for scripted agents.
        action_ids: token ids that it sampled, including the stop id.
        logprobs: log-probability of each action id under the behavior policy.
        versions: policy version of each action id.
        finish: why sampling ended.
        seconds: time spent in the policy (the runner counts the rest of the agent's time as its own).
        thoughts: reasoning before the action; the environment never sees it.
        info: further values to record with the turn, for JSON, under keys that no environment uses.
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
    """An agent's side of one episode. The runner drops it when the episode ends."""

    async def act(self, observation: Observation) -> Decision:
        """Decide on one turn, given the new messages."""
        ...


@runtime_checkable
class PromptReader(Protocol):
    """A session whose agent reads token ids, and can return the ones that it would read next."""

    def read(self, observation: Observation) -> tuple[int, ...]:
        """Return the prompt that ``act`` would sample from, without sampling; the session ends with this call."""
        ...


@runtime_checkable
class Forkable(Protocol):
    """A session that can continue in several ways."""

    def fork(self, context: EpisodeContext) -> Session:
        """Return an independent session with the same history, for an episode that branches off here."""
        ...


@runtime_checkable
class Recalling(Protocol):
    """A session that can continue after turns that it did not decide itself."""

    def recall(self, turns: Sequence[tuple[Observation, Decision]]) -> None:
        """Add recorded turns to a new session's history, as if it had decided them."""
        ...


@runtime_checkable
class SelfTimed(Protocol):
    """A session that limits its own turns: it waits for a remote server, whose faults are never the policy's."""

    @property
    def patience(self) -> float | None:
        """Seconds that the server may fail before ``act`` raises ``InfrastructureError``. The run's ``turn_timeout``
        does not apply: the session itself raises ``PolicyTimeoutError`` for a policy that writes for too long. ``None``
        for a session that waits for no server, to which the run's limit does apply."""
        ...


@runtime_checkable
class Repeatable(Protocol):
    """A session that an ``InfrastructureError`` of ``act`` leaves unchanged, so that ``act`` can be called again."""

    def repeatable(self) -> None:
        """Do nothing; the existence of this method is the information."""
        ...


@runtime_checkable
class Closable(Protocol):
    """A session with resources besides memory, such as a process, which needs to know when its episode ends."""

    async def over(self, observation: Observation) -> tuple[int, ...]:
        """Take the last observation of an ended episode; return the ids that would be read next, where known."""
        ...

    async def close(self) -> None:
        """Release everything, however the episode ended: it may have failed or been canceled."""
        ...


@runtime_checkable
class Remarking(Protocol):
    """An agent with remarks on how it acted, for readers of results."""

    def remarks(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        """Return remarks on episodes with these tools; called after they were played."""
        ...


class Agent(Protocol):
    """Opens sessions. One agent serves any number of concurrent episodes."""

    def start(self, context: EpisodeContext) -> Session:
        """Return a new session; sessions must not share state."""
        ...
