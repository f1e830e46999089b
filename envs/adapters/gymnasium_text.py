"""Gymnasium's environments as text: discrete and text actions, and the "ansi" rendering or values as observations.

What Gymnasium does not state stands in tables for its toy-text environments: words for actions, a legend, and what
counts as a success. For others, name them as arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator

from ...errors import UnknownEnvironmentError, UnparseableError, UsageError
from ...tasks.family import SeededFamily, TaskFamily
from ...tasks.rng import Rng
from ...tasks.score import Score
from ...tasks.spec import Split, TaskSpec
from ..base import TurnEnv
from ..contract import Contract
from ..fork import Forks
from ..messages import Action, ActionLike, clip
from ..step import Step, running

ACTIONS: Mapping[str, Sequence[str]] = {
    "Blackjack": ("stick", "hit"),
    "CliffWalking": ("up", "right", "down", "left"),
    "FrozenLake": ("left", "down", "right", "up"),
    "FrozenLake8x8": ("left", "down", "right", "up"),
    "Taxi": ("south", "north", "east", "west", "pick up", "drop off"),
}
"""Words for discrete actions, in Gymnasium's order; without an entry, actions are numbers."""
LEGENDS: Mapping[str, str] = {
    "Blackjack": "You see your sum, the dealer's card, and whether you have a usable ace (1) or not (0).",
    "CliffWalking": "x is you, o a cell, C the cliff, T the target.",
    "FrozenLake": "[ ] marks your cell. S is the start, F ice, H a hole, G the goal.",
    "FrozenLake8x8": "[ ] marks your cell. S is the start, F ice, H a hole, G the goal.",
    "Taxi": "[ ] marks the taxi, ( ) the passenger, < > the destination. | is a wall, : is open.",
}
"""Meaning of the rendering."""
PAID_AT_THE_END = ("Blackjack", "FrozenLake", "FrozenLake8x8", "Taxi")
"""Environments whose last reward is positive exactly if the task is solved."""
RANDOM_FLOORS: Mapping[str, float] = {"Blackjack": 0.6}
"""Share of episodes in which random play succeeds, where that is more than a tenth."""
NO_ORACLE = "Gymnasium has no oracle for it; only toy-text environments without chance have a table to look it up in"
MOST_NUMBERS = 256
"""Numbers in an observation beyond which it counts as an image, which this adapter does not show."""
COLOR = re.compile(r"\x1b\[(\d+)(?:;1)?m(.*?)\x1b\[0m", re.DOTALL)
MARKS = {"34": ("(", ")"), "35": ("<", ">")}
"""Brackets that stand for a color of the rendering; any other color becomes square ones."""
DISCOUNT, TOLERANCE = 0.999, 1e-9


class OneTask(SeededFamily):
    """The family of an environment without chance: its seed changes nothing."""

    splits = (Split.TRAIN,)
    seeds = 1

    def __reduce__(self) -> Any:
        return (OneTask, (self.name,))


class GymnasiumText(TurnEnv):
    """An environment of Gymnasium as text; ``turnwise.make("gymnasium/FrozenLake-v1")`` creates it.

    Rewards and both ends are Gymnasium's own. A task of the split ``train`` resets with the task's seed. A fork resets
    another instance and repeats the actions.

    Args:
        name: Gymnasium's id, such as ``FrozenLake-v1``.
        actions: words for discrete actions (default: those of toy-text environments, or numbers).
        instructions: text before the first observation (default: Gymnasium's description, a legend, and the actions).
        success_at: return from which an episode counts as a success (default: a positive last reward for some toy-text
            environments, or else Gymnasium's ``reward_threshold``, or else that the episode terminated).
        max_turns: limit of turns (default: Gymnasium's ``max_episode_steps``, or 100).
        arguments: arguments of ``gymnasium.make``, such as ``is_slippery=False``.
    """

    forks = Forks.REPLAY
    max_turns_truncates = True

    def __init__(
        self,
        name: str,
        *,
        actions: Sequence[str] | None = None,
        instructions: str | None = None,
        success_at: float | None = None,
        max_turns: int | None = None,
        **arguments: Any,
    ) -> None:
        arguments.pop("render_mode", None)
        self._name, self._kind = name, name.rpartition("-v")[0].rpartition("/")[2]
        self._game: Any = _made(name, arguments)
        self._policy = _policy(json.dumps([name, arguments], sort_keys=True, default=repr), self._game.unwrapped)
        self._words = tuple(actions or self._usual_words())
        self._success_at = success_at
        _check(name, self._game, self._words)
        limit = self._game.spec.max_episode_steps or 100
        super().__init__(max_turns=limit if max_turns is None else max_turns)
        usual = "\n".join(filter(None, (_about(self._game), LEGENDS.get(self._kind), self._how())))
        self._instructions = usual if instructions is None else instructions
        floor = RANDOM_FLOORS.get(self._kind, self.contract.random_floor)
        self.contract = Contract(random_floor=floor, exempt={} if self.has_oracle else {"oracle_solves": NO_ORACLE})

    @property
    def has_oracle(self) -> bool:
        """Whether the environment has a table of transitions without chance."""
        return self._policy is not None

    def tasks(self) -> TaskFamily[Any]:  # type: ignore[override]
        """Return the family of its tasks, which differ only by their seeds; one task if the seed changes nothing."""
        starts = getattr(self._game.unwrapped, "initial_state_distrib", None)
        alike = self.has_oracle and starts is not None and np.count_nonzero(starts) == 1
        return OneTask(self._name) if alike else SeededFamily(self._name)

    def start(self, task: TaskSpec, rng: Rng) -> str:
        """Reset Gymnasium's environment."""
        seed = task.seed if task.split is Split.TRAIN else rng.randrange(2**31)
        self._seen, _ = self._game.reset(seed=seed)
        self._return = 0.0
        return f"{self._instructions}\n\n{self._shown()}"

    def act(self, action: Action) -> Step:
        """Take one action."""
        taken = self._read(action)
        self._seen, reward, terminated, truncated, _ = self._game.step(taken)
        self._return += float(reward)
        step = running(self._shown(), float(reward))
        if not (terminated or truncated):
            return step
        ended = bool(terminated)
        score = Score(success=self._solved(float(reward), ended))
        return replace(step, terminated=ended, truncated=not ended, score=score)

    def judge(self) -> Score:
        """Judge an episode that the limit of turns stopped."""
        return Score(success=self._solved(0.0, False))

    def oracle(self) -> ActionLike:
        """Return the best action by Gymnasium's own table of transitions, where it has one without chance."""
        if self._policy is None:
            return super().oracle()
        return self._said(self._policy[int(self._game.unwrapped.s)])

    def random_action(self, rng: Rng) -> ActionLike:
        """Return a random action of Gymnasium's space."""
        space = self._game.action_space
        space.seed(rng.randrange(2**31))
        return self._said(space.sample())

    def state_key(self) -> str | None:
        """Return the observation, for environments that show their whole state."""
        return self._kind + json.dumps(_plain(self._seen)) if self._policy is not None else None

    def close(self) -> None:
        """Close Gymnasium's environment."""
        self._game.close()
        super().close()

    # -- the inside -----------------------------------------------------------------------------------------------

    _seen: Any = None
    _return: float = 0.0

    def _usual_words(self) -> Sequence[str]:
        return ACTIONS.get(self._kind, ())

    def _how(self) -> str:
        space = self._game.action_space
        if self._words:
            return f"Answer with one of: {', '.join(self._words)}."
        if isinstance(space, gymnasium.spaces.Discrete):
            return f"Answer with a number from {space.start} to {space.start + space.n - 1}."
        if isinstance(space, gymnasium.spaces.Text):
            return f"Answer with a text of {space.min_length} to {space.max_length} characters."
        return f"Answer with a JSON list of {len(space.sample())} whole numbers."

    def _said(self, action: Any) -> str:
        if self._words:
            return self._words[int(action)]
        return action if isinstance(action, str) else json.dumps(_plain(action))

    def _read(self, action: Action) -> Any:
        space = self._game.action_space
        if self._words:
            return self._words.index(action.choice(self._words))
        if isinstance(space, gymnasium.spaces.Text):
            given: Any = action.text.strip()
        elif isinstance(space, gymnasium.spaces.Discrete):
            given = action.integer()
        else:
            given = _list(action.text, space.dtype)
        if given is None or not space.contains(given):
            raise UnparseableError(f"{self._how()} Got {clip(action.text)!r}.")
        return given

    def _shown(self) -> str:
        if self._game.render_mode == "ansi":
            return COLOR.sub(_bracketed, str(self._game.render())).strip("\n")
        seen = _plain(self._seen)
        return seen if isinstance(seen, str) else json.dumps(seen)

    def _solved(self, last: float, terminated: bool) -> bool:
        threshold = self._game.spec.reward_threshold
        if self._success_at is not None:
            return self._return >= self._success_at
        if self._kind in PAID_AT_THE_END:
            return terminated and last > 0
        return terminated if threshold is None else self._return >= threshold


class _Table:
    """A table of transitions, equal to any other of the same environment and arguments."""

    def __init__(self, key: str, rows: Mapping[int, Mapping[int, Any]]) -> None:
        self.key, self.rows = key, rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Table) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _policy(key: str, game: Any) -> tuple[int, ...] | None:
    rows = getattr(game, "P", None)
    if not isinstance(rows, Mapping) or any(len(ends) != 1 for acts in rows.values() for ends in acts.values()):
        return None
    return _best_actions(_Table(key, rows))


@lru_cache(maxsize=64)
def _best_actions(table: _Table) -> tuple[int, ...]:
    """Return the best action of each state, by value iteration over transitions without chance."""
    rows, values, change = table.rows, dict.fromkeys(table.rows, 0.0), 1.0

    def worth(end: tuple[float, int, float, bool]) -> float:
        _, there, reward, ended = end
        return float(reward) + (0.0 if ended else DISCOUNT * values[there])

    while change > TOLERANCE:
        change = 0.0
        for state, acts in rows.items():
            best = max(worth(ends[0]) for ends in acts.values())
            change, values[state] = max(change, abs(best - values[state])), best
    return tuple(max(rows[state], key=lambda action: worth(rows[state][action][0])) for state in sorted(rows))


def _made(name: str, arguments: Mapping[str, Any]) -> Any:
    """Create Gymnasium's environment, without the wrappers that only check it.

    Raises:
        UnknownEnvironmentError: Gymnasium has none of this name.
        UsageError: it refuses the arguments, or lacks a package.
    """
    try:
        point = gymnasium.spec(name).entry_point
        kind: Any = load_env_creator(point) if isinstance(point, str) else point
        modes = (getattr(kind, "metadata", None) or {}).get("render_modes", ())
        shown = {"render_mode": "ansi"} if "ansi" in modes else {}
        return gymnasium.make(name, disable_env_checker=True, max_episode_steps=-1, **shown, **arguments)
    except gymnasium.error.UnregisteredEnv as error:
        raise UnknownEnvironmentError(f"gymnasium/{name}: {error}") from None
    except (gymnasium.error.Error, ImportError, TypeError, ValueError, AssertionError) as error:
        reason = str(error) or type(error).__name__
        raise UsageError(f"gymnasium/{name} cannot be created: {reason}") from None


def _check(name: str, game: Any, words: Sequence[str]) -> None:
    """Refuse what has no form as text.

    Raises:
        UsageError: the actions are neither discrete nor text, the words do not fit, or observations are images.
    """
    space, seen = game.action_space, game.observation_space
    spaces = gymnasium.spaces
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Text):
        raise UsageError(f"gymnasium/{name} has actions of {space}; this adapter knows discrete and text actions")
    if words and (not isinstance(space, spaces.Discrete) or len(words) != space.n or space.start):
        raise UsageError(f"gymnasium/{name} has actions of {space}, and {len(words)} words were given for them")
    if game.render_mode != "ansi" and isinstance(seen, spaces.Box) and int(np.prod(seen.shape)) > MOST_NUMBERS:
        raise UsageError(
            f"gymnasium/{name} has observations of shape {seen.shape}, which this adapter cannot show as text"
        )


def _about(game: Any) -> str:
    """Return the first paragraph of the description in the environment's docstring."""
    first = (type(game.unwrapped).__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(first.removeprefix("## Description").split())


def _bracketed(match: re.Match[str]) -> str:
    left, right = MARKS.get(match[1], ("[", "]"))
    return f"{left}{match[2]}{right}"


def _plain(value: Any) -> Any:
    """Return an observation or action as JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _list(text: str, dtype: Any) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        return None
    try:
        return np.array(value, dtype=dtype)
    except OverflowError:
        return None
