"""One episode as a conversation of text, for libraries whose models read and write text alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from ..agents.parsers import ActionParser, parser_for
from ..agents.tool_calls import CallParser, described
from ..envs.base import TurnEnv
from ..envs.messages import Action, Message, TextPart
from ..envs.registry import make
from ..errors import UsageError
from ..tasks.spec import TaskSpec


class TextEpisode:
    """One episode: each observation is a user message, and each reply of a model is an action.

    Args:
        id: id of the environment.
        kwargs: constructor arguments of the environment.
        parser: name of the parser that reads replies.
    """

    def __init__(self, id: str, kwargs: dict[str, Any], parser: str) -> None:
        self._id, self._kwargs, self._parser = id, kwargs, parser
        self._env: TurnEnv | None = None
        self._reader: ActionParser | None = None
        self.over = False
        self.rewards: list[float] = []
        """Reward of each turn."""
        self.ended: dict[str, Any] = {}
        """How the episode ended: ``terminated``, ``truncated`` and ``success``."""

    @property
    def total(self) -> float:
        """Sum of the rewards."""
        return sum(self.rewards)

    @property
    def turns(self) -> int:
        """Number of turns so far."""
        return len(self.rewards)

    def start(self, task: TaskSpec) -> tuple[str, str]:
        """Start the episode; return the system message, with the tools described in it, and the first user message."""
        self._env = make(self._id, **self._kwargs)
        observation, _ = self._env.reset(options={"task": task})
        tools = [tool.to_json() for tool in self._env.tools]
        self._reader = parser_for(self._parser, tools)
        system = [_text([one]) for one in observation.messages if one.role == "system"]
        if isinstance(self._reader, CallParser):
            system.append(described(tools, self._reader.how))
        return "\n\n".join(system), _text([one for one in observation.messages if one.role != "system"])

    def answer(self, reply: str) -> str:
        """Let a reply act, and return the next user message."""
        if self._env is None or self._reader is None:
            raise UsageError("start() comes before the first reply")
        if self.over:
            raise UsageError("the episode has ended; start another one")
        action = self._reader.parse(reply) if reply else Action("")
        observation, reward, terminated, truncated, info = self._env.step(action)
        self.rewards.append(reward)
        self.over = terminated or truncated
        if self.over:
            self.ended = {"terminated": terminated, "truncated": truncated, "success": bool(info.get("success"))}
        return _text(observation.messages)

    def give_up(self) -> None:
        """Answer with empty messages up to the turn limit, as an agent that says nothing more."""
        while not self.over:
            self.answer("")

    def close(self) -> None:
        """Close the environment."""
        if self._env is not None:
            self._env.close()


class ThreadedEpisode:
    """An episode in a thread of its own: its library calls from several threads or from an event loop, and a browser or
    database needs one thread.

    Args:
        episode: the episode.
    """

    def __init__(self, episode: TextEpisode) -> None:
        self.episode = episode
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="turnwise-episode")
        self._closed: Future[Any] | None = None

    def submit(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of the episode in its thread."""
        return self._thread.submit(getattr(self.episode, method), *arguments)

    def close(self) -> Future[Any]:
        """Close the environment and its thread; a second call does nothing more."""
        if self._closed is None:
            self._closed = self.submit("close")
            self._thread.shutdown(wait=False)
        return self._closed


@contextmanager
def checked_env(id: str, kwargs: Mapping[str, Any], parser: str) -> Iterator[TurnEnv]:
    """Create an environment for as long as the context lasts.

    Args:
        id: id of the environment.
        kwargs: constructor arguments of the environment.
        parser: name of the parser of replies.

    Raises:
        UsageError: an argument does not fit, or the parser does not fit its tools.
        UnknownEnvironmentError: there is no such environment.
    """
    env = make(id, **kwargs)
    try:
        parser_for(parser, [tool.to_json() for tool in env.tools])
        yield env
    finally:
        env.close()


def task_of_row(row: Mapping[str, Any]) -> TaskSpec:
    """Return the task of a row of a data set, in its column ``task`` or in ``extra_info``.

    Raises:
        UsageError: it has none.
    """
    spec = row.get("task") or (row.get("extra_info") or {}).get("task")
    if spec is None:
        raise UsageError("a row needs a column 'task', as turnwise.envs.trl_rows writes it")
    return TaskSpec.from_json(dict(spec))


def first_messages(prompt: Sequence[Mapping[str, Any]], system: str, said: str) -> list[dict[str, str]]:
    """Return the first messages: a row's own system message comes first, and its other messages before the last."""
    own = [message["content"] for message in prompt if message["role"] == "system"]
    whole = "\n\n".join(text for text in (*own, system) if text)
    others = [dict(message) for message in prompt if message["role"] != "system" and message["content"]]
    first = [{"role": "system", "content": whole}] if whole else []
    return [*first, *others, {"role": "user", "content": said}]


def _text(messages: Sequence[Message]) -> str:
    for message in messages:
        if any(not isinstance(part, TextPart) for part in message.parts):
            raise UsageError("this observation has another part than text, such as an image, and models read text here")
    return "\n\n".join(message.text for message in messages)
