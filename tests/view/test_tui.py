"""The viewer for terminals: live rows, a search, one episode; texts of episodes never act on the terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")

from textual.pilot import Pilot
from textual.widgets import DataTable, Static

import turnwise as tw
from turnwise.view.learned import learned as found
from turnwise.view.runs import Runs
from turnwise.view.tui import EpisodeScreen, EpisodesScreen, RunsScreen, Viewer, conversation

from .fakes import LONGER, PNG, episode, family, learned, said, store, training, turn

HOSTILE = "\x1b[31mred\x1b[0m [bold]bold[/bold] \u202eevil \x07 \ud800 \x9b2J"


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    """Let the application work until something holds."""
    for _ in range(600):
        if holds():
            return
        await pilot.pause(0.05)
    raise AssertionError("it never held")


def rows(app: Viewer) -> list[list[str]]:
    table = app.screen.query_one(DataTable)
    return [[str(cell) for cell in table.get_row_at(at)] for at in range(table.row_count)]


@pytest.mark.slow
async def test_from_the_runs_to_an_episode(tmp_path: Path) -> None:
    store(tmp_path / "runs" / "eval" / "episodes", family())
    app = Viewer(Runs([tmp_path / "runs"]))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunsScreen) and len(rows(app)) == 1)
        training(tmp_path / "runs" / "new", steps=20, done=5)
        await until(pilot, lambda: len(rows(app)) == 2)
        assert {row[1] for row in rows(app)} == {"runs/eval", "runs/new"}, "a run that begins appears"
        (at,) = (at for at, row in enumerate(rows(app)) if row[1] == "runs/eval")
        app.screen.query_one(DataTable).move_cursor(row=at)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, EpisodesScreen) and len(rows(app)) == 6)
        await pilot.press("slash", *"break", "enter")
        await until(pilot, lambda: len(rows(app)) == 1)
        assert rows(app)[0][:3] == ["not solved", "e0-fork", "completed"]
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, EpisodeScreen))
        assert "break door" in str(app.screen.query_one("VerticalScroll Static", Static).render())
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, EpisodesScreen))
        store(tmp_path / "runs" / "eval" / "episodes", [episode("later", ("break it",))])
        await until(pilot, lambda: len(rows(app)) == 2)
        await pilot.press("q")


async def test_pages_of_a_long_store(tmp_path: Path) -> None:
    store(tmp_path / "eval" / "episodes", [episode(f"t{n:03d}") for n in range(120)], per_part=60)
    app = Viewer(Runs([tmp_path]))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunsScreen) and len(rows(app)) == 1)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, EpisodesScreen) and len(rows(app)) == 50)
        for key, first, count in (("n", "t050", 50), ("n", "t100", 20), ("n", "t100", 20), ("p", "t050", 50)):
            await pilot.press(key)
            await until(pilot, lambda first=first: rows(app)[0][1] == first)  # type: ignore[misc]
            assert len(rows(app)) == count


@pytest.mark.parametrize("where", ["text", "name", "error"])
def test_hostile_text_does_not_act(where: str) -> None:
    shown: dict[str, Any] = {"text": {"turns": [turn(HOSTILE, see=HOSTILE)]}, "name": {}, "error": {"error": HOSTILE}}
    if where == "name":
        seen = tw.Observation((said("tool", tw.ImagePart(PNG), name=HOSTILE),))
        shown["name"] = {"turns": [tw.Turn(seen, tw.Action("", (tw.ToolCall(HOSTILE, {"x": HOSTILE}),)), 0.0)]}
    text = conversation(episode("e", **shown[where])).plain
    assert "\u241b[31mred" in text, "an escape is visible"
    assert "[bold]bold[/bold]" in text, "markup is text"
    assert "⟨U+202E⟩evil" in text
    assert not {character for character in text if ord(character) < 32} - {"\n"}
    assert not {"\u202e", "\x9b", "\ud800"} & set(text)


def test_a_text_has_an_end() -> None:
    text = conversation(episode("e", turns=[turn("go", see="y" * 1_000_000)])).plain
    assert len(text) < 100_000
    assert "more characters" in text


def test_the_learners_numbers_are_lines_of_an_episode(tmp_path: Path) -> None:
    path = store(tmp_path, [episode("one", LONGER)])
    plain_text = str(conversation(episode("one", LONGER)))
    assert "critic" not in plain_text, "nothing is stored"
    shown_text = str(
        conversation(episode("one", LONGER), found(learned(path, [episode("one", LONGER)]), episode("one", LONGER)))
    )
    assert "▁▅█ critic's value before each turn, 0 to 0.5" in shown_text
    assert "critic 0.25 · advantage -0.25 (-1 to 0.5) · entropy 0.5 · 2 of 2 tokens clipped" in shown_text
