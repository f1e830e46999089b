"""Environments for SkyRL: a ``BaseTextEnv`` of SkyRL-Gym, which is imported only when one is made.

The environment writes the prompt. Each reply of the model is an action, and each observation a user message.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..agents.parsers import AUTO, parser_for
from ..envs.registry import make
from ..errors import UsageError
from .text_episode import TextEpisode, first_messages, task_of_row


def skyrl_env(id: str, *, parser: str = AUTO, **kwargs: Any) -> type[Any]:
    """Return an environment class for ``skyrl_gym.register``, which SkyRL 0.4 constructs for each episode.

    A row of the data set names its task in the column ``task``, as ``turnwise.envs.trl_rows`` writes it, or in
    ``extra_info``. SkyRL's own limit of turns ends an episode, too: the environment then reads empty messages up to its
    limit, and the last reward has what that brings. An exception of the environment is raised in SkyRL.

    Args:
        id: id of the environment, with or without tools. Tools are described in the system message.
        parser: how a reply becomes an action, as in ``AgentSettings``.
        kwargs: constructor arguments of the environment.

    Raises:
        UsageError: skyrl-gym is not installed, or the parser does not fit.
        UnknownEnvironmentError: there is no such environment.
    """
    try:
        from skyrl_gym.envs.base_text_env import BaseTextEnv
    except ModuleNotFoundError:
        raise UsageError("skyrl_env needs SkyRL-Gym: pip install skyrl-gym==0.4.0") from None
    env = make(id, **kwargs)
    try:
        parser_for(parser, [tool.to_json() for tool in env.tools])
        about, limit = type(env.unwrapped).__doc__, env.get_wrapper_attr("max_turns")
    finally:
        env.close()

    class Environment(BaseTextEnv):  # type: ignore[misc]
        def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
            super().__init__()
            row = extras or {}
            self.max_turns = min(int(row.get("max_turns") or limit), limit)
            self._task = task_of_row(row)
            self._played = _Played(TextEpisode(id, kwargs, parser))

        def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
            system, said = self._played.call("start", self._task)
            return first_messages(prompt, system, said), {}

        def step(self, action: str) -> dict[str, Any]:
            stepped = self._played.step(action, self.max_turns)
            self.turns = self._played.turns
            return stepped

        def get_metrics(self) -> dict[str, Any]:
            return {"success": bool(self._played.episode.ended.get("success")), "turns": self._played.turns}

        def close(self) -> None:
            self._played.close()

    Environment.__name__ = Environment.__qualname__ = id.rpartition("/")[2].partition("-")[0]
    Environment.__doc__ = about
    return Environment


class _Played:
    """An episode in a thread of its own: SkyRL calls from several, and a browser or a database wants one.

    Args:
        episode: the episode.
    """

    def __init__(self, episode: TextEpisode) -> None:
        self.episode, self.turns, self._closed = episode, 0, False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="turnwise-skyrl")

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the episode in its thread."""
        return self._thread.submit(getattr(self.episode, method), *arguments).result()

    def step(self, action: str, max_turns: int) -> dict[str, Any]:
        """Return SkyRL's step for a reply of the model."""
        before, said = self.episode.total, self.call("answer", action)
        self.turns, over = self.episode.turns, self.episode.over
        if not over and self.turns >= max_turns:
            self.call("give_up")
        done = self.episode.over
        metadata = {"turn": self.turns, **self.episode.ended}
        if done and not over:
            metadata |= {"terminated": False, "truncated": True}
        observations = [] if done else [{"role": "user", "content": said}]
        reward = self.episode.total - before
        return {"observations": observations, "reward": reward, "done": done, "metadata": metadata}

    def close(self) -> None:
        """Close the environment, once."""
        if not self._closed:
            self._closed = True
            self.call("close")
            self._thread.shutdown(wait=False)
