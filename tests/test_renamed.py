"""Former names of settings work for one release: everywhere, with a warning that says what to write."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pydantic
import pytest

from turnwise.config import Config, load_config
from turnwise.errors import ConfigError


class Pen(Config):
    """One kind of tool."""

    renamed: ClassVar[Mapping[str, str]] = {"colour": "color"}

    name: Literal["pen"] = "pen"
    """Name of the kind."""
    color: str = "black"
    """Its color."""


class Brush(Config):
    """Another kind, which never had a color."""

    name: Literal["brush"] = "brush"
    """Name of the kind."""
    width: float = 1.0
    """Its width."""


Tool = Annotated[Pen | Brush, pydantic.Field(discriminator="name")]


class Sheet(Config):
    """Settings of every drawing."""

    renamed: ClassVar[Mapping[str, str]] = {"n": "copies"}

    copies: int = pydantic.Field(default=1, ge=1)
    """How many."""


class Drawing(Sheet):
    """A setting with new values, tables of one kind and of several, and a list of tables."""

    renamed: ClassVar[Mapping[str, str]] = {"paper": "material", "pens": "tools"}
    renamed_values: ClassVar[Mapping[str, Mapping[Any, Any]]] = {"material": {"carton": "cardboard"}}

    material: Literal["sheet", "cardboard"] = "sheet"
    """The ground of the drawing."""
    first: Pen = Pen()
    """The first tool."""
    tool: Tool = Brush()
    """The tool of either kind."""
    tools: tuple[Tool, ...] = ()
    """Further ones."""


NEW = Drawing(copies=2, material="cardboard", tool=Pen(color="red"), tools=(Pen(color="blue"), Brush()))
OLD: dict[str, Any] = {
    "n": 2,
    "paper": "carton",
    "tool": {"name": "pen", "colour": "red"},
    "pens": [{"name": "pen", "colour": "blue"}, {"name": "brush"}],
}
OLD_TOML = """n = 2
paper = "carton"

[tool]
name = "pen"
colour = "red"

[[pens]]
name = "pen"
colour = "blue"

[[pens]]
name = "brush"
"""
CURES = {
    "setting 'n' is deprecated: write copies",
    "setting 'paper' = 'carton' is deprecated: write material = 'cardboard'",
    "setting 'tool.colour' is deprecated: write tool.color",
    "setting 'pens' is deprecated: write tools",
    "setting 'tools.0.colour' is deprecated: write tools.0.color",
}


@contextmanager
def warned() -> Iterator[list[str]]:
    """Collect the messages of the deprecation warnings inside the block, which all name the line of this test."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    assert {one.category for one in caught} <= {DeprecationWarning}
    assert {one.filename for one in caught} <= {__file__}
    said += [str(one.message) for one in caught]


@pytest.mark.parametrize("read", [Drawing.model_validate, lambda given: Drawing(**given)])
def test_a_program_may_pass_former_names(read: Any) -> None:
    with warned() as said:
        assert read(OLD) == NEW
    assert sorted(said) == sorted(CURES), "each of them once"


def test_settings_of_a_function_may_have_former_names() -> None:
    with warned() as said:
        assert load_config(Drawing, settings=OLD) == NEW
    assert sorted(said) == sorted(CURES)


def test_a_file_may_have_former_names_and_the_warnings_name_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "d.toml"
    file.write_text(OLD_TOML)
    with warned() as said:
        assert load_config(Drawing, file) == NEW
    lines = {text.removeprefix(str(file)).partition(": ")[0] for text in said}
    assert {text.partition(": ")[2] for text in said} == CURES
    assert {", line 1", ", line 2", ", line 6"} < lines


def test_the_command_line_may_have_former_names() -> None:
    words = [
        "n=2",
        "paper=carton",
        "tool.name=pen",
        "tool.colour=red",
        'pens=[{name="pen", colour="blue"}, {name="brush"}]',
    ]
    with warned() as said:
        assert load_config(Drawing, None, words) == NEW
    assert sorted(said) == sorted(CURES)
    with warned() as said:
        assert load_config(Drawing, None, ['paper="carton"']).material == "cardboard"
    assert said == ["setting 'paper' = 'carton' is deprecated: write material = 'cardboard'"]


def test_former_values_are_read_under_the_new_name_too() -> None:
    with warned() as said:
        assert Drawing.model_validate({"material": "carton"}).material == "cardboard"
    assert said == ["setting 'material' = 'carton' is deprecated: write material = 'cardboard'"]


def test_new_names_do_not_warn(tmp_path: Path) -> None:
    file = tmp_path / "d.toml"
    file.write_text('copies = 2\nmaterial = "cardboard"\n[first]\ncolor = "red"\n')
    with warned() as said:
        load_config(Drawing, file, ["tool.name=pen", "tool.color=red"], settings={"copies": 3})
        assert Drawing.model_validate(NEW.model_dump()) == NEW
    assert said == []


def test_what_takes_precedence_does_so_by_either_name(tmp_path: Path) -> None:
    file = tmp_path / "d.toml"
    for written, word in (("n = 2", "copies=3"), ("copies = 2", "n=3")):
        file.write_text(written)
        with warned() as said:
            assert load_config(Drawing, file, [word]).copies == 3
            assert load_config(Drawing, file, settings=dict([word.split("=")])).copies == 3
            presets = {"copies": 7, "first": {"color": "green"}}
            assert load_config(Drawing, None, [word, "first.colour=red"], presets=presets).first.color == "red"
        assert said


@pytest.mark.parametrize("words", [["n=2", "copies=2"], ["copies=2", "n=3"], ["first.color=a", "first.colour=b"]])
def test_both_names_on_the_command_line_are_refused(words: list[str]) -> None:
    with (
        warned(),
        pytest.raises(ConfigError, match=r"^(\S+) and (\S+) are two names of one setting: write only (\S+)$"),
    ):
        load_config(Drawing, None, words)


def test_both_names_in_one_place_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "d.toml"
    file.write_text('[first]\ncolor = "red"\ncolour = "blue"\n')
    both = "first.colour is the former name of first.color, and both are set: remove first.colour"
    with warned(), pytest.raises(ConfigError, match=f"^{file}: {both}$"):
        load_config(Drawing, file)
    with warned(), pytest.raises(ConfigError, match=f"^{both}$"):
        load_config(Drawing, settings={"first": {"color": "red", "colour": "blue"}})
    with warned(), pytest.raises(pydantic.ValidationError, match=both):
        Drawing.model_validate({"first": {"color": "red", "colour": "blue"}})


def test_a_kind_of_table_without_the_setting_still_refuses_its_former_name() -> None:
    wrong = "there is no setting 'tool.color'; choose from name, width"
    with warned(), pytest.raises(ConfigError, match=wrong):
        load_config(Drawing, None, ["tool.name=brush", "tool.colour=red"])


def test_a_wrong_value_is_explained_under_the_new_name(tmp_path: Path) -> None:
    file = tmp_path / "d.toml"
    file.write_text("copies = 2\n")
    with (
        warned(),
        pytest.raises(ConfigError, match=r"^setting 'copies' must be greater than or equal to 1; got 0$"),
    ):
        load_config(Drawing, file, ["n=0"])


def test_suggestions_have_new_names() -> None:
    with pytest.raises(ConfigError, match=r"there is no setting 'papr'; did you mean 'material'\?"):
        load_config(Drawing, None, ["papr=sheet"])
    with pytest.raises(ConfigError, match=r"there is no setting 'first.coluor'; did you mean 'first.color'\?"):
        load_config(Drawing, None, ["first.coluor=red"])
    with pytest.raises(ConfigError, match="there is no setting 'm'; choose from copies, material, first, tool, tools"):
        load_config(Drawing, None, ["m=2"])


def test_the_settings_of_an_older_run_are_read_silently(tmp_path: Path) -> None:
    run, own = tmp_path / "config.json", tmp_path / "own.json"
    run.write_text(json.dumps({"algorithm": "drawing", "config": OLD | {"resume": True}}))
    own.write_text(json.dumps(OLD))
    with warned() as said:
        assert load_config(Drawing, run) == NEW
    assert said == []
    with warned() as said:
        assert load_config(Drawing, own) == NEW
    assert len(said) == len(CURES), "a file that somebody wrote is another matter"
    run.write_text(json.dumps({"config": OLD | {"copies": 2}}))
    with pytest.raises(ConfigError, match=f"^{run}: n is the former name of copies, and both are set: remove n$"):
        load_config(Drawing, run)


def test_a_subclass_may_give_a_former_name_to_a_setting_of_its_own() -> None:
    class Numbered(Drawing):
        n: str = ""
        """The number."""

    with warned() as said:
        assert Numbered.model_validate({"n": "7a", "copies": 2}).n == "7a"
    assert said == []


def test_python_shows_the_warning_at_the_line_of_the_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import turnwise as tw\nfrom turnwise.rollouts.options import RunOptions\n\n"
        "class Mine(RunOptions):\n    renamed = {'parallel': 'concurrency'}\n\n"
        "print(tw.load_config(Mine, None, ['parallel=3']).concurrency)\nprint(Mine(parallel=4).concurrency)\n"
    )
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True, timeout=120)
    assert ran.stdout.split() == ["3", "4"]
    wanted = "DeprecationWarning: setting 'parallel' is deprecated: write concurrency"
    assert [line for line in ran.stderr.splitlines() if wanted in line] == [
        f"{program}:{line}: {wanted}" for line in (7, 8)
    ]
