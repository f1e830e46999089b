"""The digest of an environment's source: of a package all its files, of what an id fixes nothing."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from turnwise.envs.registry import make, register
from turnwise.envs.source import source_digest
from turnwise.envs.wrappers.turn_limit import TurnLimit

MINE = """
import turnwise as tw

class Mine(tw.TurnEnv):
    def start(self, task, rng):
        return "Say something."
    def act(self, action):
        return tw.success("Yes.")
"""
WRAPPER = """
from turnwise.envs.wrappers.base import TurnWrapper

class Louder(TurnWrapper):
    factor = 2
"""
PLAIN_WRAPPER = """
import gymnasium

class Bonus(gymnasium.Wrapper):
    def __init__(self, env, bonus, names=()):
        super().__init__(env)
        self.bonus, self.names, self.made_of = bonus, set(names), object()
"""


def test_of_a_package_every_file_counts_and_its_place_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for place, rule in (("one", "1"), ("two", "1"), ("three", "2")):
        folder = tmp_path / place / "digested_env"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(MINE)
        (folder / "rules.py").write_text(f"REWARD = {rule}\n")  # not imported, and still part of it
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path / place)
            patch.delitem(sys.modules, "digested_env", raising=False)
            found.append(source_digest(importlib.import_module("digested_env").Mine()))
            del sys.modules["digested_env"]
    assert found[0] is not None
    assert found[0] == found[1] != found[2]


def test_the_id_of_a_builtin_fixes_what_it_does() -> None:
    with make("turnwise/Maze-v0") as env:
        assert source_digest(env) is None


def test_a_wrapper_counts_with_its_file_and_its_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(name: str, source: str) -> Any:
        (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    monkeypatch.syspath_prepend(tmp_path)
    mine = loaded("digested_mine", MINE).Mine
    louder = loaded("digested_wrapper", WRAPPER).Louder
    found = [source_digest(each) for each in (mine(), louder(mine()), TurnLimit(mine(), 3), TurnLimit(mine(), 4))]
    assert len(set(found)) == 4, "each plays otherwise"
    assert found == [
        source_digest(each) for each in (mine(), louder(mine()), TurnLimit(mine(), 3), TurnLimit(mine(), 4))
    ]
    edited = loaded("digested_wrapper", WRAPPER.replace("2", "300")).Louder
    assert source_digest(edited(mine())) != found[1], "the wrapper was edited"
    with make("turnwise/Maze-v0") as maze:
        assert source_digest(TurnLimit(maze, 3)) is not None, "no id fixes what a wrapper does"


def test_a_plain_gymnasium_wrapper_counts_with_its_attributes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "digested_bonus.py").write_text(PLAIN_WRAPPER)
    monkeypatch.syspath_prepend(tmp_path)
    bonus = importlib.import_module("digested_bonus").Bonus
    with make("turnwise/Maze-v0") as maze:
        found = [source_digest(bonus(maze, amount, names)) for amount, names in ((1, "ab"), (2, "ab"), (1, "abc"))]
        assert len({None, *found}) == 4, "each plays otherwise"
        assert source_digest(bonus(maze, 1, "ba")) == found[0], "a set has no order, and an object no value"


def test_the_function_that_makes_a_registered_environment_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    monkeypatch.syspath_prepend(tmp_path)
    for level in (1, 200):
        code = (
            f"from turnwise.envs.registry import make\n\ndef made():\n    return make('turnwise/Maze-v0')  # {level}\n"
        )
        (tmp_path / "digested_maker.py").write_text(code)
        monkeypatch.delitem(sys.modules, "digested_maker", raising=False)
        importlib.invalidate_caches()
        register("test/Made-v0", importlib.import_module("digested_maker").made)
        with make("test/Made-v0") as env:
            found.append(source_digest(env))
    assert None not in found
    assert found[0] != found[1]
