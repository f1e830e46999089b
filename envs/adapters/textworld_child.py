"""TextWorld's games, in a process of their own: it has a global generator, and its interpreter keeps files and time."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import random
import re
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from .peer_child import RefusedError, serve

MOST_COMPILED = 128
"""Compiled games that are kept: members of a group and forks play the same one."""
ATTEMPTS = 5
"""Number of seeds to try for a game."""
OVER = "Would you like to RESTART"
"""Beginning of the question that the interpreter asks after the end of a game."""
STATUS = re.compile(r"\s*>\s+-= [^\n]*\Z")
"""The interpreter's next prompt, and the line with the room, the score and the moves at the top of its screen."""
BLANK = re.compile(r"(?:[ \t]*\n){3,}[ \t]*")


def main(fd: int, folder: str) -> None:
    """Serve games of TextWorld."""
    games = _Compiled(Path(folder))
    serve(fd, folder, lambda: TextWorldGame(games))


class _Compiled:
    """The games that were compiled last, by what they were made of."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: OrderedDict[str, Path] = OrderedDict()

    def path(self, kind: str, seed: int, settings: dict[str, Any]) -> Path:
        """Return the compiled game, and make it if it is not there."""
        name = hashlib.sha256(json.dumps([kind, seed, settings], sort_keys=True).encode()).hexdigest()[:24]
        if name in self._known:
            self._known.move_to_end(name)
            return self._known[name]
        path = self._folder / f"{name}.z8"
        _make(kind, seed, settings, path)
        self._known[name] = path
        while len(self._known) > MOST_COMPILED:
            _, old = self._known.popitem(last=False)
            for each in self._folder.glob(f"{old.stem}.*"):
                each.unlink()
        return path


def _make(kind: str, seed: int, settings: dict[str, Any], path: Path) -> None:
    """Generate and compile a game.

    Where the rooms that TextWorld draws allow no quest, it draws others with a seed derived from that of the task.

    Raises:
        RefusedError: TextWorld refuses the settings, or no attempt allows a quest.
    """
    no_quest: Any = importlib.import_module("textworld.generator").QuestGenerationError
    seeds = [seed, *(_derived(seed, attempt) for attempt in range(1, ATTEMPTS))]
    for each in seeds:
        with contextlib.suppress(no_quest):
            return _attempt(kind, each, settings, path)
    raise RefusedError(f"TextWorld finds no quest in {ATTEMPTS} attempts with {settings}; choose other settings")


def _derived(seed: int, attempt: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{attempt}".encode()).digest()[:4], "big")


def _attempt(kind: str, seed: int, settings: dict[str, Any], path: Path) -> None:
    textworld: Any = importlib.import_module("textworld")
    generator: Any = importlib.import_module("textworld.generator")
    challenges: Any = importlib.import_module("textworld.challenges")
    textworld.g_rng.set_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    options = textworld.GameOptions()
    options.seeds = seed
    try:
        if kind == "custom":
            for key, value in settings.items():
                setattr(options, key, value)
            game = generator.make_game(options)
        else:
            game = challenges.CHALLENGES[f"tw-{kind}"][1](settings, options)
        options.path = str(path)
        textworld.generator.compile_game(game, options)
    except (ValueError, TypeError, AssertionError, KeyError) as error:
        raise RefusedError(f"TextWorld makes no game of {settings}: {type(error).__name__}: {error}") from None


class TextWorldGame:
    """One game; ``begin`` may be called again."""

    def __init__(self, compiled: _Compiled) -> None:
        self._compiled = compiled
        self._env: Any = None
        self._begun: tuple[str, int, dict[str, Any]] = ("", 0, {})

    def begin(self, kind: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
        """Start a game, and return what is seen."""
        self.close()
        self._begun = (kind, seed, settings)
        self._env, state = self._started()
        game = state["game"]
        return {
            **_seen(state),
            "text": BLANK.sub("\n\n", (state["description"] or "")).strip(),
            "objective": (state["objective"] or "").strip(),
            "max_score": state["max_score"],
            "walkthrough": list(game.walkthrough or ()),
            "verbs": list(game.verbs),
        }

    def step(self, command: str) -> dict[str, Any]:
        """Enter a command, and return what is seen."""
        state, _, _ = self._env.step(command)
        return _seen(state)

    def plan(self, commands: list[str]) -> list[str]:
        """Return the commands that win after others, if TextWorld finds any; it takes long to keep such a plan."""
        env, state = self._started(policy_commands=True)
        try:
            for command in commands:
                state, _, _ = env.step(command)
            return list(state["policy_commands"] or ())
        finally:
            env.close()

    def close(self) -> None:
        """End the interpreter."""
        if self._env is not None:
            self._env.close()
            self._env = None

    def _started(self, **more: bool) -> tuple[Any, Any]:
        """Start the game, and return it with its first state."""
        textworld: Any = importlib.import_module("textworld")
        wanted = ("feedback", "description", "objective", "admissible_commands", "won", "lost", "score", "max_score")
        infos = textworld.EnvInfos(**dict.fromkeys(wanted, True), **more)
        env = textworld.start(str(self._compiled.path(*self._begun)), infos)
        env.seed(1 + self._begun[1])  # 0 would mean the time
        return env, env.reset()


def _seen(state: Any) -> dict[str, Any]:
    return {
        "text": BLANK.sub("\n\n", STATUS.sub("", (state["feedback"] or "").partition(OVER)[0])).strip(),
        "score": int(state["score"] or 0),
        "won": bool(state["won"]),
        "lost": bool(state["lost"]),
        "commands": list(state["admissible_commands"] or ()),
    }
