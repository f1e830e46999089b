"""A viewer for terminals: runs and episodes as they happen, a search, one episode. Needs ``turnwise[tui]``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Header, Input, Static

from ..envs.messages import Observation
from ..errors import TurnwiseError
from ..evals.sample_episodes import pieces, speaker
from ..rollouts.episode import Episode
from ..rollouts.store import TEXT_INDEX
from .episode import load, place_of, said
from .episode_index import EpisodeIndex
from .learned import Learned, learned
from .queries import Page, Query, page
from .runs import RunInfo, Runs
from .text_search.searcher import Searcher

LIMIT = 50
"""Episodes on a page."""
OPENING = 0.7
"""Seconds that one look reads files of a store."""
LONGEST = 20_000
"""Most characters of one text."""
ACTING = [
    *range(0x20),
    *range(0x7F, 0xA0),
    0x61C,
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x206A),
]
"""Characters that act on a terminal or on the direction of a text; surrogates and the byte order mark are added."""
SHOWN_AS = {code: chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩" for code in [*ACTING, 0xFEFF]}
SHOWN_AS |= {code: f"⟨U+{code:04X}⟩" for code in range(0xD800, 0xE000)}
del SHOWN_AS[ord("\n")]
BACK: list[BindingType] = [Binding("escape", "app.pop_screen", "Back"), Binding("q", "app.quit", "Quit")]


def shown(text: str) -> str:
    """Return a text that a terminal shows and never obeys: no escapes, no changes of direction, not endless."""
    more = f"\n… {len(text) - LONGEST:,} more characters" if len(text) > LONGEST else ""
    return text[:LONGEST].translate(SHOWN_AS) + more


def plain(value: object) -> Text:
    """Return a cell of a table, without markup."""
    return Text(shown(str(value)).replace("\n", "␊"), no_wrap=True)


class RunsScreen(Screen[None]):
    """The list of runs, which follows the folders."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "app.quit", "Quit")]

    def __init__(self, runs: Runs) -> None:
        super().__init__()
        self._runs, self._rows = runs, dict[str, RunInfo]()

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Header()
        yield DataTable[Text](cursor_type="row")
        yield Footer()

    async def on_mount(self) -> None:
        """Start to follow the runs."""
        self.title = "Turnwise"
        table = self.query_one(DataTable)
        for name in ("State", "Run", "Environment", "Step", "Success", "Problem"):
            table.add_column(name, key=name)
        await self.look()
        self.set_interval(1.0, self.look)

    async def look(self) -> None:
        """Bring the rows up to date."""
        found = {run.id: run for run in await asyncio.to_thread(self._runs.list)}
        table = self.query_one(DataTable)
        for gone in self._rows.keys() - found.keys():
            table.remove_row(gone)
        for id, run in found.items():
            cells = _cells(run)
            if id not in self._rows:
                table.add_row(*cells.values(), key=id)
            elif run != self._rows[id]:
                for name, cell in cells.items():
                    table.update_cell(id, name, cell, update_width=True)
        self._rows = found

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the episodes of a run."""
        run = self._rows.get(str(event.row_key.value))
        if run is None or not run.stores:
            self.notify("This run keeps no episodes.", markup=False)
            return
        path = self._runs.store(run.id, run.stores[0])
        if path is not None:
            kept = path / TEXT_INDEX if isinstance(self.app, Viewer) and self.app.index else None
            self.app.push_screen(EpisodesScreen(run.name, EpisodeIndex(path), Searcher(kept)))


def _cells(run: RunInfo) -> dict[str, Text]:
    step = "" if run.step is None else f"{run.step}/{run.steps}" if run.steps else str(run.step)
    success = (run.numbers or {}).get("success")
    return {
        "State": plain(run.state),
        "Run": plain(run.name),
        "Environment": plain(run.env),
        "Step": plain(step),
        "Success": plain("" if success is None else f"{100 * success:.1f} %"),
        "Problem": plain(run.problem[:80]),
    }


class EpisodesScreen(Screen[None]):
    """The episodes of a store, page by page, with a search in their texts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search"),
        Binding("n", "turn(1)", "Next page"),
        Binding("p", "turn(-1)", "Previous page"),
        *BACK,
    ]

    def __init__(self, name: str, index: EpisodeIndex, searcher: Searcher) -> None:
        super().__init__()
        self._heading, self._index, self._searcher = name, index, searcher
        self._text, self._start_at, self._last = "", 0, Page([], 0, 0, 0, {}, ())
        self._looking = asyncio.Lock()

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Header()
        yield Input(placeholder="Text of the conversation; Enter searches")
        yield Static(id="status")
        yield DataTable[Text](cursor_type="row")
        yield Footer()

    async def on_mount(self) -> None:
        """Start to follow the store."""
        self.title = shown(self._heading)
        self.query_one(DataTable).add_columns("Verdict", "Episode", "Outcome", "Reward", "Turns", "Level")
        self.query_one(DataTable).focus()
        await self.look()
        self.set_interval(1.0, self.look)

    async def look(self) -> None:
        """Bring the rows up to date; each look continues a long search."""
        async with self._looking:
            query = Query({}, {}, text=self._text, offset=self._start_at, limit=LIMIT)
            try:
                found = await asyncio.to_thread(lambda: page(self._index.snapshot(OPENING), query, self._searcher))
            except TurnwiseError as error:
                self.query_one("#status", Static).update(plain(error))
                return
            left = f", {found.unsearched} not searched yet" if found.unsearched else ""
            left += f", {found.unread} files not read yet" if found.unread else ""
            first = min(self._start_at + 1, found.total)
            status = f"{first} – {min(self._start_at + LIMIT, found.total)} of {found.total} of {found.episodes}{left}"
            self.query_one("#status", Static).update(plain(status))
            if found.rows != self._last.rows:
                self._draw(found)
            self._last = found

    def _draw(self, found: Page) -> None:
        table = self.query_one(DataTable)
        at = table.cursor_row
        table.clear()
        for row in found.rows:
            verdict = {True: "solved", False: "not solved", None: "not scored"}[row["success"]]
            reward = "" if row["total_reward"] is None else f"{row['total_reward']:.4g}"
            cells = (verdict, row["episode_id"], row["outcome"], reward, row["turns"], row["level"])
            table.add_row(*map(plain, cells))
        table.move_cursor(row=min(at, max(0, len(found.rows) - 1)))

    def action_search(self) -> None:
        """Go to the field of the search."""
        self.query_one(Input).focus()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search."""
        self._text, self._start_at = event.value, 0
        self.query_one(DataTable).focus()
        await self.look()

    async def action_turn(self, by: int) -> None:
        """Go to another page."""
        offset = self._start_at + by * LIMIT
        if 0 <= offset < max(1, self._last.total):
            self._start_at = offset
            await self.look()

    async def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open an episode."""
        id = self._last.rows[event.cursor_row]["episode_id"]
        try:
            place = await asyncio.to_thread(lambda: place_of(self._index.snapshot(), id))
            episode = await asyncio.to_thread(load, place) if place is not None else None
        except (TurnwiseError, OSError) as error:
            self.notify(shown(str(error)), markup=False)
            return
        if episode is not None:
            learner = await asyncio.to_thread(learned, self._index.path, episode)
            self.app.push_screen(EpisodeScreen(episode, learner))


class EpisodeScreen(Screen[None]):
    """One episode: its conversation, rewards and checks, and what the learner knew about it."""

    BINDINGS: ClassVar[list[BindingType]] = BACK

    def __init__(self, episode: Episode, learner: Learned) -> None:
        super().__init__()
        self._episode, self._learner = episode, learner

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Header()
        with VerticalScroll():
            yield Static(conversation(self._episode, self._learner))
        yield Footer()

    def on_mount(self) -> None:
        """Scroll with the keys at once."""
        self.title = shown(self._episode.episode_id)
        self.query_one(VerticalScroll).focus()


def conversation(episode: Episode, learner: Learned | None = None) -> Text:
    """Return an episode as text for a terminal, with the learner's numbers of each turn if there are any."""
    found, known = Text(), learner or Learned()

    def add(text: str, style: str = "") -> None:
        found.append(shown(text) + "\n", style=style)

    reward = f", reward {episode.total_reward:.4g}" if episode.scored else ""
    add(f"{episode.outcome}{reward}, {len(episode.turns)} turns, {episode.task.template}, seed {episode.task.seed}")
    add(episode.error or "", "red")
    for name, passed in (episode.score.checks if episode.score else {}).items():
        add(f"{'✓' if passed else '✗'} {name}", "green" if passed else "red")
    if bars := known.bars():
        add(bars, "blue")
    for number, turn in enumerate(episode.turns, 1):
        add(f"\nTurn {number}: reward {turn.reward:.4g}", "bold")
        _observed(add, turn.observation)
        add("agent", "blue")
        add(said(turn.action))
        if words := known.in_words(number - 1):
            add(words, "dim")
    if episode.final_observation is not None:
        add("\nAfter the last action", "bold")
        _observed(add, episode.final_observation)
    return found


def _observed(add: Callable[..., None], observation: Observation) -> None:
    for message in observation.messages:
        add(speaker(message), "magenta")
        for kind, text in pieces(message):
            add("[image]" if kind == "image" else text)


class Viewer(App[None]):
    """The application.

    Args:
        runs: the runs to show.
        index: whether to keep the index of texts beside each store that is searched.
    """

    def __init__(self, runs: Runs, *, index: bool = False) -> None:
        super().__init__()
        self._runs, self.index = runs, index

    def on_mount(self) -> None:
        """Begin with the list of runs."""
        self.push_screen(RunsScreen(self._runs))
