"""``turnwise retrieve``: serve a corpus by Search-R1's ``/retrieve`` protocol."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer

from ..envs.search.retrieval.engines import ENGINES, retriever_for
from ..envs.search.retrieval.retriever import Retriever
from ..errors import UsageError
from ..stop_signals import STOPS
from ..tasks.search.stored import StoredCorpus
from .terminal import remark


def retrieve(
    corpus: Annotated[Path, typer.Argument(help="File that turnwise tasks build-corpus wrote.")],
    engine: Annotated[
        str, typer.Option(help="Search engine: fts5, or tantivy, which builds its index in memory.")
    ] = "fts5",
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default accepts only this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 8000,
    topk: Annotated[int, typer.Option(min=1, max=100, help="Number of pages if a client does not say how many.")] = 3,
    concurrent: Annotated[int, typer.Option(min=1, help="Maximum number of searches at a time.")] = 4,
) -> None:
    """Serve a corpus to agents and trainers that use Search-R1's protocol. Ctrl-C stops it.

    Examples:

        turnwise tasks build-corpus wiki.jsonl wiki.corpus

        turnwise retrieve wiki.corpus --engine tantivy --port 8000

        curl -d '{"queries": ["lighthouse"], "topk": 3, "return_scores": true}' http://127.0.0.1:8000/retrieve
    """
    pages = StoredCorpus(corpus)
    if engine not in ENGINES:
        raise UsageError(f"cannot serve with the engine {engine!r}; choose from {', '.join(ENGINES)}")
    made = retriever_for(pages, engine)
    asyncio.run(_serve(made, pages, host, port, topk, concurrent))


async def _serve(engine: Retriever, pages: StoredCorpus, host: str, port: int, topk: int, concurrent: int) -> None:
    from ..service.retrieval import RetrievalService  # FastAPI, which nothing else here needs

    served = RetrievalService(engine, name=pages.name, host=host, port=port, topk=topk, concurrent=concurrent)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for kind in (signal.SIGINT, *STOPS):
        loop.add_signal_handler(kind, stop.set)
    async with served:
        typer.echo(f"{served.address}/retrieve")
        remark().print(f"{len(pages)} pages of {pages.name}; Ctrl-C stops the server", markup=False)
        await stop.wait()
