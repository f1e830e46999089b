"""``turnwise export``: write episodes as chat messages in JSON lines, for supervised fine-tuning elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..envs.named import environment
from ..envs.registry import make
from ..envs.tools import Tool
from ..errors import TurnwiseError, UsageError
from ..rollouts.annotations import read_annotations
from ..rollouts.chat_jsonl import exportable, to_chat
from ..rollouts.episode import Episode
from ..rollouts.store import read_episodes
from .stores import naming_env_option, store_in
from .terminal import remark


def export(
    source: Annotated[Path, typer.Argument(help="Folder of an evaluation, or an episode store.", show_default=False)],
    to: Annotated[Path, typer.Argument(help="JSONL file to write.", show_default=False)],
    success: Annotated[bool, typer.Option("--success", help="Export only successful episodes.")] = False,
    env: Annotated[
        str | None, typer.Option(help="File or folder of the environment whose tools to export, if not installed.")
    ] = None,
) -> None:
    """Write episodes as chat messages, one conversation per line, in the format of OpenAI's API and TRL.

    Omits unscored episodes and episodes with an unreadable action. An episode that was labeled in the viewer has
    its label and comment as "annotation".

    Examples:

        turnwise export runs/eval demonstrations.jsonl --success

        turnwise export runs/data chats.jsonl --env my_env.py
    """
    if env is not None:
        environment(env)
    episodes, offers, counts = read_episodes(store_in(source)), _Offers(), Counter[str]()
    notes = read_annotations(store_in(source))
    try:
        opened = to.open("x", encoding="utf-8")
    except FileExistsError:
        raise UsageError(f"{to} already exists; name another file, or remove it") from None
    with opened as file:
        for episode in episodes:
            kept = exportable(episode) and (episode.success or not success)
            counts["written" if kept else "left out"] += 1
            if kept:
                noted = notes.get(episode.episode_id)
                judged = {"annotation": {"label": noted.label, "comment": noted.comment}} if noted is not None else {}
                file.write(json.dumps(to_chat(episode, offers.of(episode)) | judged) + "\n")
    for unknown in offers.missing:
        remark().print(f"without tools: {unknown}", markup=False)
    remark().print(", ".join(f"{count} episodes {what}" for what, count in counts.items()), markup=False)
    typer.echo(to)


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
