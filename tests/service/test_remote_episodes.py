"""Episodes of harnesses elsewhere: opened and judged over HTTP, written down with their exact tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import turnwise as tw
from turnwise.rollouts.store import EpisodeStore, load_episodes
from turnwise.service.endpoint import Endpoint
from turnwise.service.remote_episodes import RemoteEpisodes
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import grouped

from .fakes import Speaker, agent


class House:
    """An endpoint with an operator, a store, and a client without a key of its own."""

    http: httpx.AsyncClient

    def __init__(self, path: Path) -> None:
        self.policy = Speaker(lambda prompt: "Good day.")
        self.path, self.endpoint = path, Endpoint()
        self.store = EpisodeStore(path)
        self.episodes = RemoteEpisodes(self.endpoint, agent(self.policy), self.store)

    async def post(self, path: str, body: Any, key: str = "") -> Any:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return await self.http.post(path, json=body, headers=headers)

    async def end(self, key: str, body: Any) -> Any:
        return await self.post(f"/episodes/{key}/end", body, self.episodes.key)

    async def ask(self, key: str, *texts: str) -> None:
        messages = [{"role": "user", "content": text} for text in texts]
        response = await self.post("/v1/chat/completions", {"model": "m", "messages": messages}, key)
        assert response.status_code == 200, response.text


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = House(tmp_path / "store")
    async with httpx.AsyncClient(base_url=await made.endpoint.start()) as made.http:
        yield made
    made.episodes.close()
    await made.endpoint.close()
    made.store.__exit__(None, None, None)


async def test_a_judged_episode_can_be_trained_on(house: House) -> None:
    for reward in (1.0, 0.0):
        opened = (await house.post("/episodes", {"env_id": "their/Game", "group_id": "g"}, house.episodes.key)).json()
        assert opened["base_url"].startswith("http://127.0.0.1:")
        await house.ask(opened["api_key"], "hello")
        await house.ask(opened["api_key"], "hello", "and then?")
        ended = await house.end(opened["api_key"], {"reward": reward, "success": bool(reward)})
        assert (ended.json()["outcome"], ended.json()["turns"]) == ("completed", 2)
        assert (await house.post("/v1/chat/completions", {}, opened["api_key"])).status_code == 401
    house.store.flush()
    won, lost = load_episodes(house.path)
    assert (won.success, won.total_reward, lost.success) == (True, 1.0, False)
    assert [turn.action_ids for turn in won.turns] == [said.token_ids for said in house.policy.said[:2]]
    assert (won.env_id, won.group_id, won.turns[-1].terminated) == ("their/Game", "g", True)
    assert Batch.of(grouped([won, lost])).rows.tokens == sum(len(said.token_ids) for said in house.policy.said)


async def test_what_nobody_judged_is_kept_and_never_scored(house: House) -> None:
    await house.ask(house.episodes.key, "hello")
    opened = (await house.post("/episodes", {}, house.episodes.key)).json()
    await house.ask(opened["api_key"], "hello")
    (await house.post("/episodes", {}, house.episodes.key)).json()  # asked nothing: leaves nothing
    house.episodes.close()
    house.store.flush()
    episodes = load_episodes(house.path)
    assert [episode.outcome for episode in episodes] == [tw.Outcome.CANCELLED] * 2
    assert all(len(episode.turns) == 1 for episode in episodes)


async def test_only_the_operator_opens_and_only_open_episodes_end(house: House) -> None:
    opened = (await house.post("/episodes", {}, house.episodes.key)).json()
    for key in ("", "tw-guess", opened["api_key"]):
        assert (await house.post("/episodes", {}, key)).status_code == 401
    for key in ("tw-guess", house.episodes.key):
        assert (await house.end(key, {})).status_code == 404
    judged = {"reward": 1.0, "success": True}
    mine = opened["api_key"]
    assert (await house.end(mine, judged)).status_code == 409, "cannot be scored"
    await house.ask(mine, "hello")
    wrong: Any
    for wrong in ({"reward": 1.0}, {"reward": "1", "success": True}, {"reward": True, "success": True}, [], {"x": 1}):
        assert (await house.end(mine, wrong)).status_code == 400, wrong
    assert (await house.end(mine, judged)).status_code == 200
    for wrong in ({"task": {"seed": 1}}, {"env_id": 3}, {"other": 1}):
        assert (await house.post("/episodes", wrong, house.episodes.key)).status_code == 400, wrong


async def test_a_program_neither_scores_its_own_episode_nor_withdraws_it(house: House) -> None:
    mine = (await house.post("/episodes", {}, house.episodes.key)).json()["api_key"]
    await house.ask(mine, "hello")
    for key in ("", "tw-guess", mine):
        for body in ({"reward": 1.0, "success": True}, {}):
            assert (await house.post(f"/episodes/{mine}/end", body, key)).status_code == 401, (key, body)
    assert (await house.end(mine, {"reward": 0.0, "success": False})).json()["outcome"] == "completed"


async def test_of_two_ends_at_a_time_one_counts(house: House) -> None:
    mine = (await house.post("/episodes", {}, house.episodes.key)).json()["api_key"]
    await house.ask(mine, "hello")
    first_asks, release = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        first_asks.set()
        await release.wait()
        yield b'{"reward": 1.0, "success": true}'

    headers = {"Authorization": f"Bearer {house.episodes.key}"}
    late = asyncio.create_task(house.http.post(f"/episodes/{mine}/end", content=slow(), headers=headers))
    await first_asks.wait()
    await house.http.get("/health")  # the server has read the head of the slow request by now
    assert (await house.end(mine, {"reward": 0.0, "success": False})).status_code == 200
    release.set()
    assert (await late).status_code == 404, "the episode has ended meanwhile"
