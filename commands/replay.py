"""``turnwise replay``: check that environments still behave as recorded."""

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
from ..errors import StoreError, TaskError, UsageError
from ..evals.lost_episodes import counted
from ..rollouts.episode import Episode
from ..rollouts.options import ENV_TIMEOUT
from ..rollouts.replay import Difference, ReplayResult
from ..rollouts.replay import replay as replay_episode
from ..rollouts.store import contradicted, load_episodes
from .stores import naming_env_option, store_in
from .terminal import complain, remark, screen, stdout_for_protocol

SHOWN = 20
"""Maximum number of differing episodes to list; the rest are counted."""


def replay(
    store: Annotated[Path, typer.Argument(help="Folder of an evaluation, or an episode store.", show_default=False)],
    episode: Annotated[
        list[str] | None, typer.Option("--episode", "-e", help="Replay only this episode id; may be repeated.")
    ] = None,
    env: Annotated[str | None, typer.Option(help="Environment id or file to use instead of the recorded id.")] = None,
    env_timeout: Annotated[
        float,
        typer.Option(min=0, help="Seconds that an environment may take for one call before it counts as different."),
    ] = ENV_TIMEOUT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Execute recorded actions again, and compare every observation, reward, flag and score.

    The exit code is 1 if an episode differs (the output names the turn and both values), occurs twice, or is missing
    although the evaluation counted it.

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
            raise StoreError(f"{store} has no episode {', '.join(sorted(missing))}; it has {len(chosen)} others")
        chosen = [e for e in chosen if e.episode_id in episode]
    if not chosen:
        raise StoreError(f"{store} has no episodes to replay")
    source, console = environment(env) if env else None, remark()
    watched = track(chosen, "replaying", console=console, transient=True, disable=not console.is_terminal)
    columns = {id: (name, recorded, actual) for id, name, recorded, actual in contradicted(folder)}
    with stdout_for_protocol() if as_json else nullcontext(), naming_env_option():
        results = [
            _also(_replayed(e, source, env_timeout), e, columns.get(e.episode_id), records[e.episode_id])
            for e in watched
        ]
    tell(results, as_json)
    if gone > 0:
        complain(f"{gone} of {len(records) + gone} episodes that the evaluation counted are missing from {folder}")
    if gone > 0 or not all(result.ok for result in results):
        raise typer.Exit(1)


def _replayed(episode: Episode, source: str | None, env_timeout: float) -> ReplayResult:
    """Replay an episode; an environment that lacks its task is named beside the one that recorded it.

    Raises:
        UsageError: ``source`` is another environment, whose family cannot generate the recorded task.
    """
    try:
        return replay_episode(episode, source, env_timeout=env_timeout)
    except TaskError as error:
        if source is None or source == episode.env_id:
            raise
        raise UsageError(
            f"--env is {source}, but {episode.env_id} recorded episode {episode.episode_id}, and {source} has no such "
            f"task ({error}); name the file or id of {episode.env_id} with --env"
        ) from None


def _also(result: ReplayResult, episode: Episode, column: tuple[str, Any, Any] | None, records: int) -> ReplayResult:
    """Add to an exact replay what else is wrong: a duplicate record, or a column that contradicts the episode."""
    if result.ok and records > 1:
        return replace(result, difference=Difference(0, "the number of its records", 1, records))
    if not result.ok or column is None:
        return result
    name, recorded, actual = column
    return replace(result, difference=Difference(len(episode.turns), f"the column {name}", recorded, actual))


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
