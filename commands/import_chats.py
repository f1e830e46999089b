"""``turnwise import``: demonstrations in chat messages become an episode store, to clone or to learn from offline."""

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
    source: Annotated[Path, typer.Argument(help="A JSONL file, one conversation per line.", show_default=False)],
    env: Annotated[str, typer.Option(help="The environment that they are of: an id, or a Python file.")],
    out: Annotated[Path, typer.Option(help="The store to write.")],
    split: Annotated[Split, typer.Option(help="The split of conversations that name no task.")] = Split.TRAIN,
) -> None:
    """Read demonstrations from chat messages into an episode store: what ``demonstrations.store`` takes.

    A line holds "messages" as OpenAI's chat API has them, and may hold "success", "reward", "task" and "env", which
    must be the one given. What `turnwise export` wrote comes back with its tasks.

    Examples:

        turnwise import logs.jsonl --env my_env.py --out runs/demonstrations

        turnwise train bc env=my_env.py demonstrations.store=runs/demonstrations
    """
    id = environment(env)
    episodes = list(from_chat(source, id, split))
    with EpisodeStore(out, run={"env": id, "imported": source.name}) as store:
        if len(store):
            raise UsageError(f"{out} holds {len(store)} episodes already; name another folder")
        for episode in episodes:
            store.append(episode)
    remark().print(f"{len(episodes)} episodes", markup=False)
    typer.echo(out)
