"""The registry: versioned ids, near misses, plug-ins of other packages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import registry as gymnasium_registry

import turnwise as tw
from turnwise.envs import registry
from turnwise.errors import ContractError, EnvironmentFailedError, UnknownEnvironmentError, UsageError

from .certify.faults_text import Password
from .certify.faults_tools import Shelf


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Registrations of a test end with it."""
    registry.load_plugins()
    ours, theirs = dict(registry._entries), dict(gymnasium_registry)
    yield
    tables: list[tuple[Any, Any]] = [(registry._entries, ours), (gymnasium_registry, theirs)]
    for now, before in tables:
        now.clear()
        now.update(before)


def test_what_is_registered_is_made_by_us_and_by_gymnasium() -> None:
    tw.register("demo/Password-v0", Password, kwargs={"max_turns": 3})
    env = tw.make("demo/Password-v0")
    assert type(env) is Password, "no wrapper stands in between"
    assert env.max_turns == 3
    assert tw.make("demo/Password-v0", max_turns=5).max_turns == 5
    assert gymnasium.make("demo/Password-v0").unwrapped.__class__ is Password
    assert env.spec is not None
    assert env.spec.id == "demo/Password-v0"


def test_a_class_may_be_named_as_text_and_is_imported_when_it_is_made() -> None:
    tw.register("demo/Late-v0", "turnwise_no_such_module:Env")
    with pytest.raises(EnvironmentFailedError, match=r"cannot create demo/Late-v0: .*turnwise_no_such_module"):
        tw.make("demo/Late-v0")


def test_a_constructor_that_raises_is_named_with_its_id() -> None:
    class Broken(tw.TurnEnv):
        def __init__(self) -> None:
            raise KeyError("no world")

    tw.register("demo/Broken-v0", Broken)
    with pytest.raises(EnvironmentFailedError, match="cannot create demo/Broken-v0: KeyError") as raised:
        tw.make("demo/Broken-v0")
    assert isinstance(raised.value.__cause__, KeyError), "the author's traceback is kept below"


def test_arguments_that_a_constructor_needs_are_named_with_their_setting() -> None:
    class Sized(tw.TurnEnv):
        def __init__(self, size: int, *, depth: int) -> None:
            super().__init__()

        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
            return "x"

        def act(self, action: tw.Action) -> tw.Step:
            return tw.success("x")

    tw.register("demo/Sized-v0", Sized)
    with pytest.raises(UsageError, match=r"demo/Sized-v0 needs arguments: 'size'; set env_kwargs\.NAME=VALUE"):
        tw.make("demo/Sized-v0", depth=2)
    with pytest.raises(UsageError, match=r"needs arguments: 'depth'; .* or give them defaults"):
        tw.make("demo/Sized-v0", size=1)
    assert tw.make("demo/Sized-v0", size=1, depth=2)

    class Nested(tw.TurnEnv):
        def __init__(self) -> None:
            Sized(1)  # type: ignore[call-arg]

    tw.register("demo/Nested-v0", Nested)
    with pytest.raises(EnvironmentFailedError, match=r"cannot create demo/Nested-v0: .*missing 1 required .*'depth'"):
        tw.make("demo/Nested-v0")


def test_a_class_that_is_no_environment_is_refused_by_name() -> None:
    class Unrelated:
        pass

    tw.register("demo/Unrelated-v0", Unrelated)  # type: ignore[arg-type]
    with pytest.raises(ContractError, match=r"demo/Unrelated-v0 is a Unrelated, not a turnwise\.TurnEnv"):
        tw.make("demo/Unrelated-v0")


def test_a_missing_extra_says_what_to_install() -> None:
    registry.register("demo/Extra-v0", "turnwise_no_such_module:Env", extra="chess")
    with pytest.raises(UsageError, match=r"needs 'turnwise_no_such_module': pip install 'turnwise\[chess\]'"):
        tw.make("demo/Extra-v0")


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("demo/Pasword-v0", "demo/Password-v0"),
        ("demo/password-v0", "demo/Password-v0"),
        ("Password-v0", "demo/Password-v0"),
        ("demo/Password-v7", "demo/Password-v0"),
        ("other/Password-v0", "demo/Password-v0"),
    ],
)
def test_an_unknown_id_is_answered_with_the_nearest(wrong: str, near: str) -> None:
    tw.register("demo/Password-v0", Password)
    with pytest.raises(UnknownEnvironmentError, match=f"no environment '{wrong}'. Did you mean .*{near}") as error:
        tw.make(wrong)
    assert "turnwise envs" in str(error.value)


def test_nothing_is_guessed_where_nothing_is_near() -> None:
    tw.register("demo/Password-v0", Password)
    for wrong in ("zzzzzz/Qqqqqqqq-v9", "mine/Greenhouse-v0"):  # an own environment, whose file was not named
        with pytest.raises(UnknownEnvironmentError) as error:
            tw.make(wrong)
        assert "Did you mean" not in str(error.value)


@pytest.mark.parametrize(
    "id", ["Password", "demo/Password", "demo/Password-v", "-v0", "a/b/C-v0", "demo/Pass word-v0", ""]
)
def test_an_id_has_a_version(id: str) -> None:
    with pytest.raises(UsageError, match="must look like"):
        tw.register(id, Password)


@pytest.mark.parametrize("thing", [5, None, "Password"])
def test_only_what_can_be_called_is_registered(thing: Any) -> None:
    with pytest.raises(UsageError, match="use a class, a factory, or 'module:Class'"):
        tw.register("demo/Nothing-v0", thing)


def test_an_id_is_a_text() -> None:
    wrong: Any = 5
    with pytest.raises(UnknownEnvironmentError, match="not by 5"):
        tw.make(wrong)


def test_an_id_belongs_to_one_class() -> None:
    tw.register("demo/Thing-v0", Password)
    with pytest.raises(UsageError, match=r"is taken by .*Password.*; register a new version"):
        tw.register("demo/Thing-v0", Shelf)
    assert isinstance(tw.make("demo/Thing-v0"), Password)
    tw.register("demo/Thing-v0", Password)
    tw.register("demo/Thing-v1", Shelf)
    assert isinstance(tw.make("demo/Thing-v0"), Password), "an older version is made without a warning"


def test_a_class_defined_again_replaces_itself_as_in_a_notebook() -> None:
    def define(limit: int) -> type[tw.TurnEnv]:
        class Cell(Password):
            max_turns = limit

        return Cell

    tw.register("demo/Cell-v0", define(3))
    tw.register("demo/Cell-v0", define(4))
    assert tw.make("demo/Cell-v0").max_turns == 4


def test_arguments_that_do_not_exist_are_named() -> None:
    tw.register("demo/Password-v0", Password)
    with pytest.raises(UsageError, match="does not take the argument 'colour'; it takes max_turns, render_mode"):
        tw.make("demo/Password-v0", colour="red")
    with pytest.raises(UsageError, match="does not take the argument 'corpuss'; did you mean 'corpus'"):
        tw.make("turnwise/Search-v1", corpuss="a", k=3)


def test_arguments_of_a_factory_are_known_too() -> None:
    def made(size: int = 3) -> tw.TurnEnv:
        return Password()

    tw.register("demo/Made-v0", made)
    with pytest.raises(UsageError, match="does not take the argument 'sise'; did you mean 'size'"):
        tw.make("demo/Made-v0", sise=4)


def test_only_turn_environments_are_made() -> None:
    point: Any = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
    registry.register("demo/Cart-v0", point)
    with pytest.raises(ContractError, match=r"is a CartPoleEnv, not a turnwise.TurnEnv"):
        tw.make("demo/Cart-v0")


def test_entries_are_sorted_and_say_where_they_come_from() -> None:
    tw.register("demo/Password-v0", Password)
    ids = [entry.id for entry in tw.entries()]
    assert ids == sorted(ids)
    assert registry.find("demo/Password-v0").source == "session"
    assert all(entry.source == "turnwise" for entry in tw.entries() if entry.id.startswith("turnwise/"))


# -- plug-ins ----------------------------------------------------------------------------------------------------


def distribution(folder: Path, name: str, points: str) -> None:
    """An installed distribution, as far as its metadata goes."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[turnwise.envs]\n{points}\n")


ENV = """
import turnwise as tw
class Hello(tw.TurnEnv):
    def start(self, task, rng):
        return "Say hello."
    def act(self, action):
        return tw.success("Hello!") if action.word() == "hello" else "Say hello."
"""


def test_another_package_is_found_by_its_entry_point_and_imported_only_when_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugged_in.py").write_text(ENV)
    distribution(tmp_path, "plugged-envs", "plugged/Hello-v0 = plugged_in:Hello")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "plugged_in", raising=False)
    registry.load_plugins(again=True)
    assert registry.find("plugged/Hello-v0").source == "plugged-envs"
    assert "plugged_in" not in sys.modules
    env = tw.make("plugged/Hello-v0")
    env.reset(seed=0)
    assert env.step("hello")[2]
    monkeypatch.delitem(sys.modules, "plugged_in")


@pytest.mark.slow
def test_gymnasium_knows_installed_plug_ins_once_turnwise_is_imported(tmp_path: Path) -> None:
    (tmp_path / "plugged_in.py").write_text(ENV)
    distribution(tmp_path, "plugged-envs", "plugged/Hello-v0 = plugged_in:Hello")
    code = (
        "import sys, gymnasium, turnwise\n"
        "assert 'plugged_in' not in sys.modules\n"
        "print(gymnasium.make('plugged/Hello-v0').unwrapped, gymnasium.make('turnwise/Maze-v0').unwrapped)"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Hello" in done.stdout, done.stderr


def test_a_faulty_plug_in_does_not_take_the_others_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugged_in.py").write_text(ENV)
    distribution(tmp_path, "faulty-envs", "NoVersion = plugged_in:Hello\nturnwise/Maze-v0 = plugged_in:Hello")
    distribution(tmp_path, "sound-envs", "sound/Hello-v0 = plugged_in:Hello")
    monkeypatch.syspath_prepend(tmp_path)
    before = registry.find("turnwise/Maze-v0")
    with pytest.warns(UserWarning, match="package 'faulty-envs' are incomplete") as warned:
        registry.load_plugins(again=True)
    assert any("must look like" in str(w.message) for w in warned)
    assert any("is taken by" in str(w.message) for w in warned)
    assert registry.find("turnwise/Maze-v0") == before, "a plug-in cannot replace an id of another"
    assert registry.find("sound/Hello-v0").source == "sound-envs"
