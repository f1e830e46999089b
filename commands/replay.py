"""``turnwise replay``: do the environments still answer as they did?"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track

from ..envs.named import environment
from ..errors import StoreError
from ..evals.summary import SUMMARY, Summary
from ..rollouts.episode import Episode
from ..rollouts.options import ENV_TIMEOUT
from ..rollouts.replay import Difference, ReplayResult
from ..rollouts.replay import replay as replay_episode
from ..rollouts.store import contradicted, load_episodes
from .stores import EPISODES, naming_env_option, store_in
from .terminal import complain, remark, screen, stdout_for_protocol

SHOWN = 20
"""How many differing episodes are listed; the rest is counted."""


def replay(
    store: Annotated[
        Path, typer.Argument(help="The folder of an evaluation, or an episode store.", show_default=False)
    ],
    episode: Annotated[
        list[str] | None, typer.Option("--episode", "-e", help="Only this episode id; may be repeated.")
    ] = None,
    env: Annotated[str | None, typer.Option(help="Replay on this id or file instead of the recorded id.")] = None,
    env_timeout: Annotated[
        float, typer.Option(min=0, help="Seconds that an environment has for one call; beyond them it differs.")
    ] = ENV_TIMEOUT,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Execute the recorded actions again and compare every observation, reward, flag and score.

    Exit code 1 if an episode comes out differently (the turn and the two values are named), if it is there twice, or if
    some are gone that the evaluation counted.

    Examples:

        turnwise replay runs/eval

        turnwise replay runs/eval-mine --env my_env.py
    """
    folder = store_in(store)
    chosen = load_episodes(folder)
    records = Counter(each.episode_id for each in chosen)
    gone = 0 if episode else counted(folder) - len(records)
    if episode:
        missing = set(episode) - records.keys()
        if missing:
            raise StoreError(f"{store} has no episode {', '.join(sorted(missing))}; it holds {len(chosen)} others")
        chosen = [e for e in chosen if e.episode_id in episode]
    if not chosen:
        raise StoreError(f"{store} holds no episodes; there is nothing to replay")
    source, console = environment(env) if env else None, remark()
    watched = track(chosen, "replaying", console=console, transient=True, disable=not console.is_terminal)
    columns = {id: (name, told, is_so) for id, name, told, is_so in contradicted(folder)}
    with stdout_for_protocol() if as_json else nullcontext(), naming_env_option():
        results = [
            _also(
                replay_episode(e, source, env_timeout=env_timeout), e, columns.get(e.episode_id), records[e.episode_id]
            )
            for e in watched
        ]
    tell(results, as_json)
    if gone > 0:
        complain(f"{gone} of {len(records) + gone} episodes that the evaluation counted are not in {folder}")
    if gone > 0 or not all(result.ok for result in results):
        raise typer.Exit(1)


def counted(folder: Path) -> int:
    """How many episodes the evaluation of a store had when it was summarised; 0 where there is no summary."""
    summary = folder.parent / SUMMARY
    return Summary.load(summary).episodes if folder.name == EPISODES and summary.is_file() else 0


def _also(result: ReplayResult, episode: Episode, column: tuple[str, Any, Any] | None, records: int) -> ReplayResult:
    """A replay that agrees on every turn, of a record whose summary of itself does not, or that is there twice."""
    if result.ok and records > 1:
        return replace(result, difference=Difference(0, "the number of its records", 1, records))
    if not result.ok or column is None:
        return result
    name, told, is_so = column
    return replace(result, difference=Difference(len(episode.turns), f"the column {name}", told, is_so))


def tell(results: list[ReplayResult], as_json: bool) -> None:
    """Print what the replays found."""
    wrong = [result for result in results if not result.ok]
    if as_json:
        lines = [
            {"episode": r.episode_id, "ok": r.ok, "turns": r.turns, "difference": r.difference and str(r.difference)}
            for r in results
        ]
        typer.echo(json.dumps(lines, indent=2))
        return
    console = screen()
    for result in wrong[:SHOWN]:
        console.print(f"{result.episode_id}: {result.difference}", markup=False)
    if len(wrong) > SHOWN:
        console.print(f"… and {len(wrong) - SHOWN} more")
    console.print(f"{len(results) - len(wrong)} of {len(results)} episodes replay exactly")
