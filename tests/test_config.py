"""Configurations are read from TOML and words; each mistake in them gets one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pydantic
import pytest

from turnwise.config import Config, load_config, merge_defaults
from turnwise.errors import ConfigError
from turnwise.tasks.spec import Split


class Circle(Config):
    """One kind."""

    name: Literal["circle"] = "circle"
    """Name of the kind."""
    radius: float = pydantic.Field(default=1.0, gt=0)
    """Its size."""


class Square(Config):
    """Another kind."""

    name: Literal["square"] = "square"
    """Name of the kind."""
    side: float = 1.0
    """Its size."""


Shape = Annotated[Circle | Square, pydantic.Field(discriminator="name")]


class Drawing(Config):
    """A table of several kinds, a list of them, and a table that may be missing."""

    shape: Shape
    """The main one."""
    others: tuple[Shape, ...] = ()
    """Further ones."""
    frame: Square | None = None
    """Around it."""
    pens: int = 1
    """How many."""

    @pydantic.model_validator(mode="after")
    def _together(self) -> Drawing:
        if self.pens > 1 and not self.others:
            raise ValueError(f"pens={self.pens} have one shape to draw: add others")
        return self


def said(path: Path | None, *words: str) -> str:
    return said_of(Drawing, *words, path=path)


def said_of(model: type[Config], *words: str, path: Path | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(model, path, words)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["shape.name=circle", "shape.radios=2"], "there is no setting 'shape.radios'; did you mean 'shape.radius'?"),
        (["shape.name=circle", "radios=2"], "there is no setting 'radios'; did you mean 'shape.radius'?"),
        (["shape.name=circle", "shape.side=2"], "there is no setting 'shape.side'; choose from name, radius"),
        (["shape.name=square", "shape.side=wide"], "setting 'shape.side' must be a number; got 'wide'"),
        (["shape.name=circle", "shape.radius=0"], "setting 'shape.radius' must be greater than 0; got 0"),
        (
            ["shape.name=square", "frame=3"],
            "setting 'frame' is a table of settings: set one, such as 'frame.name'; got 3",
        ),
        (["shape.name=cirle"], "setting 'shape.name' cannot be 'cirle'; did you mean 'circle'?"),
        (["shape.name=42"], "setting 'shape.name' cannot be '42'; choose from circle, square"),
        (["shape.radius=2"], "setting 'shape.name' is missing"),
        ([], "setting 'shape' is missing"),
        (["shape.name=circle", "frame.sides=4"], "there is no setting 'frame.sides'; did you mean 'frame.side'?"),
        (["shape.name=circle", "pens=2"], "pens=2 have one shape to draw: add others"),
    ],
)
def test_mistakes_in_a_table_of_several_kinds_are_told_without_its_insides(words: list[str], message: str) -> None:
    assert said(None, *words).startswith(message)


class Restart(Config):
    """A kind that another setting than ``name`` tells from others."""

    strategy: Literal["restart"] = "restart"
    """Name of the kind."""
    store: str
    """A folder."""


class Vine(Config):
    """Another one."""

    strategy: Literal["vine"] = "vine"
    """Name of the kind."""
    store: str = ""
    """A folder."""


class Playing(Config):
    """A table whose kind is its ``strategy``."""

    branching: Annotated[Restart | Vine, pydantic.Field(discriminator="strategy")] | None = None
    """How to branch."""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["branching.strategy=restart"], "setting 'branching.store' is missing"),
        (["branching.strategy=vine", "branching.stor=x"], "there is no setting 'branching.stor'; did you mean"),
        (["branching.strategy=vin"], "setting 'branching.strategy' cannot be 'vin'; did you mean 'vine'?"),
    ],
)
def test_keys_are_as_a_user_writes_them_whatever_setting_names_the_kind(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(Playing, None, words)
    assert str(error.value).startswith(message)
    assert load_config(Playing, presets={"branching": {"strategy": "vine"}}).branching == Vine()
    merged = merge_defaults({"branching": {"store": "s"}}, {"branching": Vine()})
    assert Playing.model_validate(merged).branching == Vine(store="s")


class Splits(Config):
    """A list of choices."""

    splits: tuple[Split, ...] = ()
    """Splits."""
    order: Literal["random", "fixed"] = "random"
    """Their order."""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["splits=['train', 'test_idd']"], "setting 'splits' cannot be 'test_idd'; did you mean 'test_iid'"),
        (["splits=['wide']"], "setting 'splits' cannot be 'wide'; choose from train, dev, test_iid,"),
        (["order=fixd"], "setting 'order' cannot be 'fixd'; did you mean 'fixed'?"),
        (["order=3"], "setting 'order' must be 'random' or 'fixed'; got 3"),
    ],
)
def test_a_choice_that_does_not_exist_gets_the_nearest_ones(words: list[str], message: str) -> None:
    assert said_of(Splits, *words).startswith(message)


class Lists(Config):
    """Settings with several values."""

    levels: tuple[int, ...] = ()
    """Any number."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Two."""
    shapes: tuple[Square, ...] = ()
    """Tables."""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["levels=1"], "setting 'levels' must be a list in brackets; got 1"),
        (["levels=['x']"], "each entry of 'levels' must be an integer; got 'x'"),
        (["levels=[1e99]"], "each entry of 'levels' must be an integer; got 1e+99"),
        (["betas=[0.9]"], "setting 'betas' must have more entries; got [0.9]"),
        (["betas=[0.9, 0.9, 0.9]"], "setting 'betas' must have at most 2 entries; got [0.9, 0.9, 0.9]"),
        (["shapes=[3]"], "each entry of 'shapes' must be a table of settings; got 3"),
    ],
)
def test_a_list_is_told_from_its_entries(words: list[str], message: str) -> None:
    assert said_of(Lists, *words) == message


def test_a_mistake_in_a_list_of_tables_has_its_place_and_its_line(tmp_path: Path) -> None:
    file = tmp_path / "d.toml"
    file.write_text('[shape]\nname = "circle"\n\n[[others]]\nname = "square"\nsied = 2\n')
    assert said(file) == f"{file}, line 6: there is no setting 'others.0.sied'; did you mean 'others.0.side'?"
    file.write_text('pens = 2\n[shape]\nname = "circle"\n')
    assert said(file) == f"{file}: pens=2 have one shape to draw: add others"


def test_presets_hold_where_neither_file_nor_words_say_anything(tmp_path: Path) -> None:
    file = tmp_path / "d.toml"
    file.write_text("[shape]\nradius = 3.0\n")
    presets = {"shape": {"name": "circle", "radius": 2.0}, "frame": {"side": 5.0}}
    drawing = load_config(Drawing, file, ["frame.side=6"], presets=presets)
    assert drawing == Drawing(shape=Circle(radius=3.0), frame=Square(side=6.0))


def test_beneath_merges_tables_and_what_was_set_wins() -> None:
    defaults = {"a": {"x": 1, "y": 2}, "b": 3, "c": {"z": 4}}
    given = {"a": {"y": 20}, "c": None, "d": 5}
    assert merge_defaults(defaults, given) == {"a": {"x": 1, "y": 20}, "b": 3, "c": None, "d": 5}
    assert given == {"a": {"y": 20}, "c": None, "d": 5}, "nothing is changed in place"
    set_to_the_default = merge_defaults({"shape": {"radius": 9.0}}, {"shape": Circle(radius=1.0)})
    assert set_to_the_default == {"shape": {"name": "circle", "radius": 1.0}}, "what was set counts, if as the default"
    unset = merge_defaults({"shape": {"radius": 9.0}}, {"shape": Circle()})
    assert unset == {"shape": {"name": "circle", "radius": 9.0}}, "and which kind it is"


class Named(Config):
    """Settings that take text, and some that do not."""

    folder: str | None = None
    """Text."""
    words: tuple[str, ...] = ()
    """Several texts."""
    size: float | str = 1.0
    """A number, or a word."""
    anything: dict[str, object] = pydantic.Field(default_factory=dict)
    """Any value."""


@pytest.mark.parametrize("word", ["true", "2026", "1e3", "2026-01-01", "inf", "0x10"])
def test_a_setting_that_takes_text_is_given_text_whatever_it_looks_like(word: str) -> None:
    assert load_config(Named, overrides=[f"folder={word}"]).folder == word
    assert load_config(Named, overrides=[f'folder="{word}"']).folder == word, "quoted, as in a file, it is the same"


def test_a_setting_that_takes_something_else_is_given_that() -> None:
    read = load_config(Named, overrides=["size=3", "anything.n=3", 'words=["a", "true"]'])
    assert (read.size, read.anything, read.words) == (3, {"n": 3}, ("a", "true"))
    assert load_config(Named, overrides=["size=large"]).size == "large"


class Optional(Config):
    """Settings that may be None, and one whose choice has that name."""

    frame: Square | None = None
    """A table."""
    precision: Literal["bfloat16"] | None = None
    """A choice."""
    folder: str | None = None
    """Text."""
    mode: Literal["none", "some"] | None = None
    """A choice of the name."""
    pens: int = 1
    """A number."""


@pytest.mark.parametrize("word", ["none", "None", " none"])
def test_a_bare_none_takes_back_what_a_file_sets(tmp_path: Path, word: str) -> None:
    file = tmp_path / "set.toml"
    file.write_text('precision = "bfloat16"\nfolder = "runs"\n[frame]\nside = 2\n')
    assert load_config(Optional, file, [f"precision={word}"]).precision is None
    assert load_config(Optional, file, [f"folder={word}"]).folder is None
    assert load_config(Optional, file, [f"frame={word}"]).frame is None
    assert load_config(Optional, file, [f"frame={word}", "frame.side=3"]).frame == Square(side=3)
    presets = {"precision": "bfloat16"}
    assert load_config(Optional, overrides=[f"precision={word}"], presets=presets).precision is None


def test_none_is_text_in_quotes_a_choice_of_that_name_and_else_a_mistake() -> None:
    assert load_config(Optional, overrides=['folder="none"']).folder == "none"
    assert load_config(Optional, overrides=["mode=none"]).mode == "none"
    assert "got 'none'" in said_of(Optional, "pens=none")


def test_a_setting_of_a_table_that_a_run_did_not_have_is_given(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"config": {"frame": null}}')
    assert load_config(Optional, tmp_path / "config.json", ["frame.side=3"]).frame == Square(side=3)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "notepad.toml").write_bytes(b"\xef\xbb\xbf[shape]\r\nname = 'circle'\r\nradius = 2.0\r\n")
    assert load_config(Drawing, tmp_path / "notepad.toml").shape == Circle(radius=2.0)


@pytest.mark.parametrize(("text", "wrong"), [("{", "is not valid JSON"), ("[]", "is not a JSON object")])
def test_a_json_file_that_holds_no_settings_is_refused(tmp_path: Path, text: str, wrong: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert wrong in said(tmp_path / "config.json")
