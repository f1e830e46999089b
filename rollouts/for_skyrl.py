"""Environments for SkyRL: a ``BaseTextEnv`` of SkyRL-Gym, which is imported only when one is made.

The environment writes the prompt. Each reply of the model is an action, and each observation a user message.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ..agents.parsers import AUTO
from ..errors import UsageError
from .text_episode import TextEpisode, ThreadedEpisode, checked_env, first_messages, task_of_row


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
    with checked_env(id, kwargs, parser) as env:
        about = type(env.unwrapped).__doc__

    class Environment(BaseTextEnv):  # type: ignore[misc]
        def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
            super().__init__()
            row = extras or {}
            self.turns = 0
            self.max_turns = int(row.get("max_turns") or sys.maxsize)  # the environment ends by itself
            self._task = task_of_row(row)
            self._play = ThreadedEpisode(TextEpisode(id, kwargs, parser))

        def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
            system, said = self._play.submit("start", self._task).result()
            return first_messages(prompt, system, said), {}

        def step(self, action: str) -> dict[str, Any]:
            episode, before = self._play.episode, self.turns
            said = self._play.submit("answer", action).result()
            self.turns, over = episode.turns, episode.over
            if not over and self.turns >= self.max_turns:
                self._play.submit("give_up").result()
            metadata = {"turn": self.turns, **episode.ended}
            if episode.over and not over:
                metadata |= {"terminated": False, "truncated": True}
            observations = [] if episode.over else [{"role": "user", "content": said}]
            reward = sum(episode.rewards[before:])
            return {"observations": observations, "reward": reward, "done": episode.over, "metadata": metadata}

        def get_metrics(self) -> dict[str, Any]:
            return {"success": bool(self._play.episode.ended.get("success")), "turns": self.turns}

        def close(self) -> None:
            self._play.close().result()

    Environment.__name__ = Environment.__qualname__ = id.rpartition("/")[2].partition("-")[0]
    Environment.__doc__ = about
    return Environment
