"""Live pages are up to date within two seconds, and streams end with the viewer."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import StreamingResponse

from turnwise.service.server import LoopServer
from turnwise.view.app import build_app
from turnwise.view.routes import Routes
from turnwise.view.runs import Runs

from .conftest import TOKEN
from .fakes import line
from .test_runs import taken

sleep = asyncio.sleep


class Clock:
    """A clock that only pauses move on."""

    def __init__(self) -> None:
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await sleep(0)


@pytest.mark.parametrize(("page", "names"), [("run", {"run", "points"}), ("list", {"runs"})])
async def test_a_step_is_sent_within_two_seconds(
    runs: Path, monkeypatch: pytest.MonkeyPatch, page: str, names: set[str]
) -> None:
    found, clock = Runs([runs]), Clock()
    id = next(run.id for run in found.list() if run.name == "runs/live")
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    answer = await (Routes(found).live_run(id) if page == "run" else Routes(found).live())
    assert isinstance(answer, StreamingResponse)
    events: Any = answer.body_iterator
    async with aclosing(events):
        assert {name for name, _ in await taken(events, len(names))} == names
        written = clock.now  # just after a look, so that the whole pause passes before the next
        with (runs / "live" / "metrics.jsonl").open("a") as file:
            file.write(line(6))
        sent = dict(await taken(events, len(names)))
    assert 0 < clock.now - written <= 2, "seconds from a step to its event, without those of the work itself"
    shown = sent["run"] if page == "run" else next(run for run in sent["runs"] if run["id"] == id)
    assert shown["step"] == 6


async def test_a_viewer_that_closes_ends_its_streams_in_silence(runs: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = await LoopServer.open(build_app(Runs([runs]), TOKEN), host="127.0.0.1", port=0)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
        await client.get("/", params={"token": TOKEN})
        async with client.stream("GET", "/api/live") as followed, client.stream("GET", "/api/live") as stopped:
            lines = followed.aiter_lines()
            assert await anext(lines) == "event: runs"
            assert stopped.status_code == 200, "and nothing of it is read"
            await server.close()
            with pytest.raises(httpx.HTTPError):
                [_ async for _ in lines]
    assert asyncio.all_tasks() == {asyncio.current_task()}, "no answer is left, which the end of the loop would cancel"
    assert caplog.records == [], "and no traceback is printed"
