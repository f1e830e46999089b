"""``turnwise import``: turn chat messages and ATIF trajectories into an episode store of demonstrations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..envs.named import environment
from ..errors import UsageError
from ..rollouts.chat_jsonl import from_chat
from ..rollouts.store import EpisodeStore
from ..tasks.spec import Split
from .terminal import remark


def import_chats(
    source: Annotated[
        Path,
        typer.Argument(help="JSONL file with a conversation per line, or .json.", show_default=False),
    ],
    env: Annotated[str, typer.Option(help="Environment of the conversations: an id, or a Python file.")],
    out: Annotated[Path, typer.Option(help="Episode store to write.")],
    split: Annotated[Split, typer.Option(help="Split of conversations that name no task.")] = Split.TRAIN,
) -> None:
    """Convert chat messages or ATIF trajectories to an episode store of demonstrations, for ``demonstrations.store``.

    Each line has "messages" in the format of OpenAI's chat API. It may have "success", "reward", "task" and "env",
    which must match --env. Or it is an ATIF trajectory. Files that `turnwise export` wrote keep their tasks.

    Examples:

        turnwise import logs.jsonl --env my_env.py --out runs/demonstrations

        turnwise import trajectory.json --env my_env.py --out runs/demonstrations

        turnwise train bc env=my_env.py demonstrations.store=runs/demonstrations
    """
    id = environment(env)
    episodes = list(from_chat(source, id, split))
    with EpisodeStore(out, run={"env": id, "imported": source.name}) as store:
        if len(store):
            raise UsageError(f"{out} already has {len(store)} episodes; name another folder")
        for episode in episodes:
            store.append(episode)
    remark().print(f"{len(episodes)} episodes", markup=False)
    typer.echo(out)
