"""``turnwise replay``: do the environments still answer as they did?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track

from ..errors import StoreError
from ..rollouts.replay import ReplayResult
from ..rollouts.replay import replay as replay_episode
from ..rollouts.store import load_episodes
from .names import environment
from .stores import store_in
from .terminal import remark, screen

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
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Execute the recorded actions again and compare every observation, reward, flag and score.

    Exit code 1 if an episode comes out differently; the turn and the two values are named.

    Examples:

        turnwise replay runs/eval

        turnwise replay runs/eval-mine --env my_env.py
    """
    chosen = load_episodes(store_in(store))
    if episode:
        missing = set(episode) - {e.episode_id for e in chosen}
        if missing:
            raise StoreError(f"{store} has no episode {', '.join(sorted(missing))}; it holds {len(chosen)} others")
        chosen = [e for e in chosen if e.episode_id in episode]
    if not chosen:
        raise StoreError(f"{store} holds no episodes; there is nothing to replay")
    source, console = environment(env) if env else None, remark()
    watched = track(chosen, "replaying", console=console, transient=True, disable=not console.is_terminal)
    results = [replay_episode(e, source) for e in watched]
    tell(results, as_json)
    if not all(result.ok for result in results):
        raise typer.Exit(1)


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
