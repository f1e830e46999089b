"""Two lines on a terminal, in the words of the design; plain when piped; text of episodes is never markup."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from turnwise import Episode, Outcome
from turnwise.evals.compare import compare
from turnwise.evals.formatting import interval, plain, seconds, whole_percent
from turnwise.evals.leaderboard import standings
from turnwise.evals.statistics import Estimate
from turnwise.evals.summary import summarise
from turnwise.evals.terminal import print_comparison, print_standing, print_summary

Make = Callable[..., Episode]


def shown(show: Callable[[Console], None], *, terminal: bool = False) -> str:
    out = io.StringIO()
    show(Console(file=out, force_terminal=terminal, highlight=False, width=120))
    return out.getvalue()


def episodes(make_episode: Make) -> list[Episode]:
    run = [make_episode(i % 5 != 0, seed=i) for i in range(190)]
    run += [make_episode(False, seed=200 + i, outcome=Outcome.TRUNCATED) for i in range(10)]
    return [*run, *[make_episode(seed=300 + i, outcome=Outcome.INFRA_FAILED) for i in range(5)]]


def test_the_two_lines_of_the_design(make_episode: Make) -> None:
    text = shown(lambda console: print_summary(summarise(episodes(make_episode)), console, report="x/report.html"))
    first, second = text.splitlines()
    assert first == (
        "  success 76.0 %  (69.6 – 81.4, Wilson 95 %)   return 0.76   turns 2   tokens 4   "
        "policy 60 % · environment 20 % · turnwise 20 %"
    )
    assert second == (
        "  failures: 38 wrong answer · 10 turn limit · 5 infrastructure (retried, not scored)   report: x/report.html"
    )


def test_a_leaderboard_counts_the_episodes_that_no_average_has(make_episode: Make, tmp_path: Path) -> None:
    summarise(episodes(make_episode)).save(tmp_path / "summary.json")
    (table,) = standings(tmp_path).tables
    _, heading, row, *_ = shown(lambda console: print_standing(table, console)).splitlines()
    assert heading.split()[4:6] == ["episodes", "unscored"]
    assert row.split(" 0.76 ")[1].split()[:2] == ["200", "5"], row


def test_piped_output_has_no_escape_codes_and_a_terminal_has(make_episode: Make) -> None:
    summary = summarise(episodes(make_episode))
    assert "\x1b[" not in shown(lambda console: print_summary(summary, console))
    assert "\x1b[" in shown(lambda console: print_summary(summary, console), terminal=True)


def test_groups_levels_and_notes_are_shown(make_episode: Make) -> None:
    run = [make_episode(a < s % 4, seed=s, attempt=a, level=1 + s % 2) for s in range(8) for a in range(4)]
    text = shown(lambda console: print_summary(summarise(run, notes=["[red]not markup[/red]"]), console))
    assert "pass@4 " in text
    assert "pass^4 " in text
    assert "note: [red]not markup[/red]" in text
    assert text.splitlines()[-2].split()[:2] == ["1", "16"]


def test_comparison_is_shown_in_words(make_episode: Make) -> None:
    a = [make_episode(i % 4 == 0, seed=i, level=1 + i % 2) for i in range(80)]
    b = [make_episode(True, seed=i, level=1 + i % 2) for i in range(80)]
    text = shown(lambda console: print_comparison(compare(a, b, names=("base", "new")), console))
    assert text.startswith("  success: new better: +75.0 points (")
    assert "level 2: new better: +100.0 points" in text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (-0.001, "0.00"), (6.24, "6.24"), (-12.34, "−12.3"), (1234.5, "1,234"), (128.4, "128")],
)
def test_plain_numbers(number: float, text: str) -> None:
    assert plain(number) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0.0004, "0.4 ms"), (0.25, "250 ms"), (3.14, "3.1 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_durations(amount: float, text: str) -> None:
    assert seconds(amount) == text


def test_small_shares_are_not_rounded_away() -> None:
    assert (whole_percent(0.0), whole_percent(0.001), whole_percent(0.714)) == ("0 %", "<1 %", "71 %")


def test_a_missing_interval_is_said() -> None:
    assert interval(Estimate(1.0, None, None, 1, "unknown")) == "no interval from one value"
