"""Baselines that know nothing: agents that repeat, or slightly edit, a demonstrator's actions on other tasks.

None of them understands a task. If one solves a task, that task needs no more than a fixed sequence of actions
(``ConstantAgent``), a good memory (``MemorizerAgent``), a pattern whose literals are copied (``TemplateAgent``), or the
last observation (``MemorylessAgent``). ``benchmarks/baselines.py`` plays them on every environment.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from ..envs.messages import Action, Observation, ToolCall
from ..errors import UsageError
from ..tasks.rng import Rng
from .agent import Decision, EpisodeContext, Session

TOKEN = re.compile(r"\d+(?:[.,:-]\d+)*|\w+|[^\w\s]")
"""A number (a price, a date or a time is one), a word, or a punctuation mark."""
LITERAL = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|\d+(?:[.,:-]\d+)*")
"""Text that differs between two observations of one kind: quoted text and numbers."""
COMMON = 0.1
"""Share of the demonstrations whose first observations must contain a token for it to be part of a pattern."""
LONGEST = 600
"""Tokens at the end of an observation that are compared; comparing takes quadratic time."""
REPEATS = 4
"""How often a candidate of a fixed sequence may repeat an action."""


@dataclass(frozen=True)
class Demonstration:
    """One episode of a demonstrator.

    Args:
        observations: the observation before each action.
        actions: the demonstrator's actions, one per observation and at least one.

    Raises:
        UsageError: there are no actions, or not as many as observations.
    """

    observations: tuple[Observation, ...]
    actions: tuple[Action, ...]

    def __post_init__(self) -> None:
        if not self.actions or len(self.actions) != len(self.observations):
            raise UsageError(
                f"a demonstration needs one observation per action and at least one of each; got "
                f"{len(self.observations)} observations and {len(self.actions)} actions"
            )


class ConstantAgent:
    """Plays one fixed sequence of actions, whatever it sees, and repeats the last one after it.

    Args:
        actions: sequence of at least one action.

    Raises:
        UsageError: there are no actions.
    """

    def __init__(self, actions: Sequence[Action]) -> None:
        if not actions:
            raise UsageError("a constant policy needs at least one action")
        self.actions = tuple(actions)

    def start(self, context: EpisodeContext) -> Session:
        """Start at the first action."""
        return _Replay(self.actions)


class MemorizerAgent:
    """Replays the demonstration whose first observation shares most tokens with that of the episode.

    Args:
        demonstrations: demonstrations of training tasks.
    """

    def __init__(self, demonstrations: Sequence[Demonstration]) -> None:
        self._memory = _Memory(demonstrations)

    def start(self, context: EpisodeContext) -> Session:
        """Look for the demonstration at the first observation."""
        return _Remembering(self._memory)


class TemplateAgent:
    """Fills a template: replays the demonstration of the most similar pattern, its literals replaced.

    Literals of the demonstration's observation and of the present one are aligned by position, as a regular expression
    with a group per literal would, and replaced in the demonstration's action. Values in neither observation stay.

    Args:
        demonstrations: demonstrations of training tasks.
    """

    def __init__(self, demonstrations: Sequence[Demonstration]) -> None:
        self._memory = _Memory(demonstrations, COMMON)

    def start(self, context: EpisodeContext) -> Session:
        """Look for the demonstration at the first observation, and start with no replacements."""
        return _Filling(self._memory)


class MemorylessAgent:
    """Looks the last observation up in a table of the demonstrator's most frequent action after it.

    The table has three levels: the text as it is, the text with its literals masked, and any text.

    Args:
        demonstrations: demonstrations to make the table from; at least one.

    Raises:
        UsageError: there are no demonstrations.
    """

    def __init__(self, demonstrations: Sequence[Demonstration]) -> None:
        seen: dict[str, list[Action]] = {}
        for one in _some(demonstrations):
            for observation, action in zip(one.observations, one.actions, strict=True):
                for text in _views(observation.text):
                    seen.setdefault(text, []).append(action)
        self._table = {text: most_frequent(actions, 1)[0] for text, actions in seen.items()}

    def start(self, context: EpisodeContext) -> Session:
        """Open a session without state."""
        return _TableSession(self._table)


def fixed_sequences(demonstrations: Sequence[Demonstration], count: int, rng: Rng) -> list[tuple[Action, ...]]:
    """Return fixed sequences of actions that are worth trying, the most promising first, for ``ConstantAgent``.

    These are the most frequent actions and last actions alone, the most frequent whole sequences and the most frequent
    action of each turn. After these come random draws from all actions, each repeated up to ``REPEATS`` times.

    Args:
        demonstrations: source of the actions; demonstrations of a random player widen the choice.
        count: the most sequences to return.
        rng: random generator of the last ones.

    Raises:
        UsageError: there are no demonstrations.
    """
    played = [one.actions for one in _some(demonstrations)]
    every = [action for actions in played for action in actions]
    turns = range(max(map(len, played)))
    found: list[tuple[Action, ...]] = [(action,) for action in most_frequent([each[-1] for each in played], 3)]
    found += [(action,) for action in most_frequent(every, 3)]
    found.append(tuple(most_frequent([one[turn] for one in played if turn < len(one)], 1)[0] for turn in turns))
    frequent = Counter(tuple(map(_key, actions)) for actions in played).most_common(3)
    found += [next(one for one in played if tuple(map(_key, one)) == keys) for keys, _ in frequent]
    while len(found) < count:
        drawn = [[rng.pick(every)] * rng.randint(1, REPEATS) for _ in range(rng.randint(1, 3))]
        found.append(tuple(action for repeated in drawn for action in repeated))
    return list({tuple(map(_key, actions)): actions for actions in found}.values())[:count]


def most_frequent(actions: Iterable[Action], count: int) -> list[Action]:
    """Return the most frequent actions; of equally frequent ones, those that come first."""
    actions = list(actions)
    first = {_key(action): action for action in reversed(actions)}
    return [first[key] for key, _ in Counter(map(_key, actions)).most_common(count)]


class _Memory:
    """Demonstrations, to be found by the tokens of their first observations."""

    def __init__(self, demonstrations: Sequence[Demonstration], common: float = 0.0) -> None:
        self._demonstrations = _some(demonstrations)
        tokens = [_tokens(one) for one in self._demonstrations]
        often = Counter(token for each in tokens for token in each)
        known = {token for token, times in often.items() if times >= common * len(tokens)}
        self._known = known if common else None
        self._tokens = [each & known for each in tokens]

    def nearest(self, observation: Observation) -> Demonstration:
        """Return the demonstration whose first observation shares the largest part of its tokens with this one."""
        tokens = set(TOKEN.findall(observation.text))
        tokens = tokens if self._known is None else tokens & self._known
        shares = [len(tokens & each) / max(1, len(tokens | each)) for each in self._tokens]
        return self._demonstrations[max(range(len(shares)), key=shares.__getitem__)]


class _Replay:
    """A session that takes actions one after the other, and repeats the last one."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self._actions, self._turn = actions, -1

    async def act(self, observation: Observation) -> Decision:
        self._turn = min(self._turn + 1, len(self._actions) - 1)
        return Decision(self._actions[self._turn])


class _Remembering:
    """A replay whose demonstration the first observation selects."""

    def __init__(self, memory: _Memory) -> None:
        self._memory, self._replay = memory, None

    _replay: _Replay | None

    async def act(self, observation: Observation) -> Decision:
        if self._replay is None:
            self._replay = _Replay(self._memory.nearest(observation).actions)
        return await self._replay.act(observation)


class _Filling:
    """A replay whose literals are replaced by the present ones at the same positions."""

    def __init__(self, memory: _Memory) -> None:
        self._memory, self._edits, self._turn = memory, dict[str, str](), -1
        self._shown: Demonstration | None = None

    async def act(self, observation: Observation) -> Decision:
        if self._shown is None:
            self._shown = self._memory.nearest(observation)
        self._turn = min(self._turn + 1, len(self._shown.actions) - 1)
        self._edits |= replacements(self._shown.observations[self._turn].text, observation.text)
        return Decision(edited(self._shown.actions[self._turn], self._edits))


@dataclass(frozen=True)
class _TableSession:
    table: dict[str, Action]

    async def act(self, observation: Observation) -> Decision:
        return Decision(next(self.table[text] for text in _views(observation.text) if text in self.table))


def replacements(shown: str, now: str) -> dict[str, str]:
    """Map literals of one text to those at the same positions in another; of several, the first counts.

    Args:
        shown: the text of a demonstration.
        now: the present text.
    """
    old, new = list(TOKEN.finditer(shown))[-LONGEST:], list(TOKEN.finditer(now))[-LONGEST:]
    matcher = SequenceMatcher(None, [token[0] for token in old], [token[0] for token in new], autojunk=False)
    found: dict[str, str] = {}
    for kind, start, end, begin, stop in matcher.get_opcodes():
        if kind != "replace":
            continue
        found.setdefault(shown[old[start].start() : old[end - 1].end()], now[new[begin].start() : new[stop - 1].end()])
        if end - start == stop - begin:
            for one, other in zip(old[start:end], new[begin:stop], strict=True):
                found.setdefault(one[0], other[0])
    return found


def edited(action: Action, edits: dict[str, str]) -> Action:
    """Return an action with these whole words replaced in its text and in all its arguments."""
    if not edits:
        return action
    words = {**{old.upper(): new.upper() for old, new in edits.items() if old.isalpha()}, **edits}
    ordered = sorted(words, key=len, reverse=True)
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(old)}(?!\w)" for old in ordered))

    def replaced(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda found: words[found[0]], value)
        if isinstance(value, dict):
            return {name: replaced(part) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [replaced(part) for part in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                return type(value)(words.get(str(value), value))
            except ValueError:
                return value
        return value

    calls = tuple(ToolCall(call.name, replaced(dict(call.arguments)), call.id) for call in action.tool_calls)
    return Action(replaced(action.text), calls)


def _some(demonstrations: Sequence[Demonstration]) -> Sequence[Demonstration]:
    if not demonstrations:
        raise UsageError("a baseline needs at least one demonstration; play the oracle on some training tasks")
    return demonstrations


def _tokens(demonstration: Demonstration) -> set[str]:
    return set(TOKEN.findall(demonstration.observations[0].text))


def _views(text: str) -> tuple[str, str, str]:
    """Return a text as it is, with its literals masked, and wholly masked."""
    return text, "masked: " + LITERAL.sub("…", text), ""


def _key(action: Action) -> str:
    """Return a string that identifies an action, since its arguments may be unhashable."""
    calls = [[call.name, dict(call.arguments)] for call in action.tool_calls]
    return json.dumps([action.text, calls], sort_keys=True, default=str)
