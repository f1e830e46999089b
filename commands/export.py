"""``turnwise export``: write episodes for other programs: chat messages for SFT, ATIF trajectories, inspect's logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..envs.named import environment
from ..envs.plain_json import plain
from ..envs.registry import make
from ..envs.tools import Tool
from ..errors import TurnwiseError, UsageError
from ..rollouts.annotations import read_annotations
from ..rollouts.atif import to_atif
from ..rollouts.chat_jsonl import exportable, to_chat
from ..rollouts.episode import Episode
from ..rollouts.inspect_eval import write_eval
from ..rollouts.store import read_episodes
from .new_file import new_file
from .stores import naming_env_option, store_in
from .terminal import remark


class Format(StrEnum):
    """Format of an export."""

    CHAT = "chat"
    """Chat messages in JSON lines, of OpenAI's API and TRL, for supervised fine-tuning."""
    ATIF = "atif"
    """ATIF 1.8 in JSON lines, a trajectory with its tokens per line."""
    INSPECT = "inspect"
    """A log of inspect, a file that ends in .eval."""


def export(
    source: Annotated[Path, typer.Argument(help="Folder of an evaluation, or an episode store.", show_default=False)],
    to: Annotated[Path, typer.Argument(help="File to write.", show_default=False)],
    success: Annotated[bool, typer.Option("--success", help="Export only successful episodes.")] = False,
    env: Annotated[
        str | None, typer.Option(help="File or folder of the environment whose tools to export, if not installed.")
    ] = None,
    format: Annotated[
        Format, typer.Option("--format", "-f", help="chat: for SFT; atif: with tokens; inspect: a log for its viewer.")
    ] = Format.CHAT,
) -> None:
    """Write episodes for other programs: chat messages for SFT, ATIF trajectories, or a log of inspect.

    The chat format has one conversation per line, and omits unscored episodes and those with an unreadable action. The
    others keep every episode; a failure of the infrastructure has no score there, never 0.
    Where an episode was labeled in the viewer, its conversation has the label and the comment as "annotation".

    Examples:

        turnwise export runs/eval demonstrations.jsonl --success

        turnwise export runs/data chats.jsonl --env my_env.py

        turnwise export runs/eval trajectories.jsonl --format atif

        turnwise export runs/eval run.eval --format inspect
    """
    if env is not None:
        environment(env)
    counts, offers = Counter[str](), _Offers()
    episodes = _chosen(read_episodes(store_in(source)), format, success, counts)
    notes = read_annotations(store_in(source))

    def chat(episode: Episode, tools: Sequence[Tool]) -> dict[str, Any]:
        noted = notes.get(episode.episode_id)
        judged = {"annotation": {"label": noted.label, "comment": noted.comment}} if noted is not None else {}
        return to_chat(episode, tools) | judged

    if format is Format.INSPECT:
        _require_suffix(to)
    with new_file(to) as partial:
        if format is Format.INSPECT:
            write_eval(partial, episodes)
        else:
            write = chat if format is Format.CHAT else to_atif
            with partial.open("x", encoding="utf-8") as file:
                for episode in episodes:
                    file.write(json.dumps(write(episode, offers.of(episode)), default=plain) + "\n")
        if not counts["written"]:
            wanted = ["a score and readable actions"] * (format is Format.CHAT) + ["success"] * success
            reason = f"none of its {left} has {' and '.join(wanted)}" if (left := counts["left out"]) else "it is empty"
            raise UsageError(f"no episode of {source} was written: {reason}")
    for unknown in offers.missing:
        remark().print(f"without tools: {unknown}", markup=False)
    remark().print(", ".join(f"{count} episodes {what}" for what, count in counts.items()), markup=False)
    typer.echo(to)


def _chosen(episodes: Iterator[Episode], format: Format, success: bool, counts: Counter[str]) -> Iterator[Episode]:
    """Yield the episodes to write, and count all."""
    for episode in episodes:
        fits = exportable(episode) if format is Format.CHAT else True
        kept = fits and (not success or (episode.scored and episode.success))
        counts["written" if kept else "left out"] += 1
        if kept:
            yield episode


def _require_suffix(to: Path) -> None:
    if to.suffix != ".eval":
        raise UsageError(f"inspect reads only files that end in .eval; write {to.with_suffix('.eval')}")


class _Offers:
    """The tools of environments, looked up once each."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Sequence[Tool]] = {}
        self.missing: list[str] = []
        """Reasons why the tools of an environment are unknown."""

    def of(self, episode: Episode) -> Sequence[Tool]:
        """Return the tools that the episode's environment offers, or none if it cannot be created here."""
        key = (episode.env_id, episode.fingerprints.get("env_kwargs", "{}"))
        if key not in self._known:
            self._known[key] = self._asked(*key)
        return self._known[key]

    def _asked(self, env_id: str, kwargs: str) -> Sequence[Tool]:
        try:
            with naming_env_option():
                env = make(env_id, **json.loads(kwargs))
        except (TurnwiseError, ValueError) as error:
            self.missing.append(str(error))
            return ()
        try:
            return tuple(env.get_wrapper_attr("tools"))
        finally:
            env.close()
