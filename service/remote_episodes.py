"""``RemoteEpisodes``: episodes that external clients open and score over HTTP, written into a store."""

from __future__ import annotations

import asyncio
import importlib.metadata
import math
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from ..agents.chat import ChatAgent
from ..errors import ContractError, RequestError, TaskError
from ..rollouts.episode import Episode, Outcome, Turn
from ..rollouts.store import EpisodeStore
from ..rollouts.turns import recorded
from ..tasks.rng import Rng, stable_hash
from ..tasks.score import Score
from ..tasks.spec import TaskSpec
from .endpoint import Client, Endpoint
from .incoming import read_json
from .recorder import Recorder, Sampled

ENV_ID = "endpoint"
"""Environment id of episodes whose opener names none."""
OVER = "the episode is over"


@dataclass(slots=True, eq=False)
class RemoteEpisode:
    """One open episode.

    Args:
        episode_id: id, unique in the store.
        env_id: environment, as the opener named it.
        task: specification of the task.
        group_id: id shared by the attempts at one task.
        recorder: recorder that answers its client.
    """

    episode_id: str
    env_id: str
    task: TaskSpec
    group_id: str
    recorder: Recorder | None = None
    turns: list[Turn] = field(default_factory=list)
    started_at: float = field(default_factory=time.perf_counter)

    def answered(self, sampled: Sampled) -> None:
        """Record an answer of the policy as a turn."""
        self.turns.append(recorded(sampled.observation, sampled.decision, 0.0))

    def sealed(self, outcome: Outcome, *, score: Score | None = None, error: str | None = None) -> Episode:
        """Return the record of the episode."""
        fingerprints = {"task": self.task.digest, "turnwise": importlib.metadata.version("turnwise")}
        return Episode(
            self.episode_id,
            self.env_id,
            self.task,
            self.group_id,
            tuple(self.turns),
            outcome,
            score=score,
            error=error,
            seconds=time.perf_counter() - self.started_at,
            fingerprints=fingerprints,
        )


class RemoteEpisodes:
    """Episodes without a Turnwise environment: an external harness opens them, plays them and reports their rewards.

    ``POST /episodes`` with the operator's key opens one and answers with its ``id``, and with ``api_key`` and
    ``base_url`` for its client. ``POST /episodes/{api_key}/end`` with ``{"reward": 1.0, "success": true}``, also with
    the operator's key, ends it: the reward belongs to the last turn, and you may train on the episode. Without a reward
    it is ``cancelled``: kept, never scored. All requests to the policy with the operator's own key form one episode,
    from the start to the end of serving.

    Args:
        endpoint: server; this class creates the operator's key in it.
        agent: agent whose policy answers.
        store: store for every episode that has at least one turn.
        key: operator's key (default: a random one).
        fixed_temperature: whether to ignore clients' temperatures; see ``Recorder``.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        agent: ChatAgent,
        store: EpisodeStore,
        *,
        key: str | None = None,
        fixed_temperature: bool = True,
    ) -> None:
        self._endpoint, self._agent, self._store = endpoint, agent, store
        self._fixed_temperature = fixed_temperature
        self._open: dict[str, RemoteEpisode] = {}
        self._run = secrets.token_hex(4)
        self._number = 0
        self.key = self._register(TaskSpec(ENV_ID), ENV_ID, None, key)
        """The operator's key."""
        endpoint.app.add_api_route("/episodes", self._opened, methods=["POST"])
        endpoint.app.add_api_route("/episodes/{key}/end", self._ended, methods=["POST"])

    def close(self) -> None:
        """End every open episode without a score."""
        for key in list(self._open):
            self._end(key, None)

    def _register(self, task: TaskSpec, env_id: str, group: str | None, key: str | None = None) -> str:
        self._number += 1
        group_id = group or stable_hash("visit", self._run, env_id, task.digest).hex()[:16]
        remote = RemoteEpisode(f"{self._run}-{self._number}", env_id, task, group_id)
        remote.recorder = Recorder(
            self._agent,
            session=remote.episode_id,
            rng=Rng("visit", remote.episode_id),
            record=remote.answered,
            fixed_temperature=self._fixed_temperature,
        )
        made = self._endpoint.register(Client(remote.recorder), key)
        self._open[made] = remote
        return made

    def _end(self, key: str, judged: tuple[float, bool] | None) -> Episode:
        remote = self._open.pop(key)
        self._endpoint.unregister(key)
        assert remote.recorder is not None
        remote.recorder.end(OVER)
        if judged is None or not remote.turns:
            episode = remote.sealed(
                Outcome.CANCELLED, error="nobody judged it" if remote.turns else "nothing was asked"
            )
        else:
            reward, success = judged
            remote.turns[-1] = replace(remote.turns[-1], reward=reward, terminated=True)
            episode = remote.sealed(Outcome.COMPLETED, score=Score(success=success))
        if remote.turns:
            self._store.append(episode)
        return episode

    async def _opened(self, request: Request) -> Response:
        self._operators(request)
        body = await read_json(request, self._endpoint.max_body)
        known = {"env_id", "task", "group_id"}
        if not isinstance(body, dict) or set(body) - known:
            raise RequestError(f"open an episode with any of {', '.join(sorted(known))}")
        env_id, group = body.get("env_id", ENV_ID), body.get("group_id")
        if not isinstance(env_id, str) or not isinstance(group, str | None):
            raise RequestError("env_id and group_id must be strings")
        try:
            task = TaskSpec.from_json(body.get("task", {"family": env_id}))
        except TaskError as error:
            raise RequestError(str(error), param="task") from None
        key = self._register(task, env_id, group)
        address = await self._endpoint.start()
        remote = self._open[key]
        created = {"id": remote.episode_id, "group_id": remote.group_id, "api_key": key, "base_url": f"{address}/v1"}
        return JSONResponse(created)

    async def _ended(self, request: Request) -> Response:
        self._operators(request)  # its own key is what a program has that is to be scored
        judged = _judgement(await read_json(request, self._endpoint.max_body))
        key = str(request.path_params["key"])
        if key == self.key or key not in self._open:
            raise RequestError("there is no such open episode", status=404, code="no_such_episode")
        if judged is not None and not self._open[key].turns:
            raise RequestError("this episode has no request for an answer yet, so it cannot be scored", status=409)
        try:
            episode = self._end(key, judged)
        except ContractError as error:
            raise RequestError(f"the episode cannot be recorded: {error}", status=500, code="internal_error") from None
        return JSONResponse({"id": episode.episode_id, "outcome": str(episode.outcome), "turns": len(episode.turns)})

    def _operators(self, request: Request) -> None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if not secrets.compare_digest(given.encode(), self.key.encode()):
            raise RequestError("only the operator's key opens and ends episodes", status=401, code="invalid_api_key")


def _judgement(body: Any) -> tuple[float, bool] | None:
    """Return reward and success, or ``None`` if the episode ends without a score."""
    if body == {}:
        return None
    given: Mapping[str, Any] = body if isinstance(body, dict) else {}
    reward, success = given.get("reward"), given.get("success")
    number = isinstance(reward, int | float) and not isinstance(reward, bool) and math.isfinite(reward)
    if set(given) != {"reward", "success"} or not number or not isinstance(success, bool):
        raise RequestError(
            'end the episode with {"reward": number, "success": true or false}, or with {} to leave it unscored'
        )
    assert reward is not None
    return float(reward), success


async def serve(endpoint: Endpoint, episodes: RemoteEpisodes, stop: asyncio.Event) -> None:
    """Serve until ``stop`` is set; then end open episodes."""
    try:
        await endpoint.start()
        await stop.wait()
    finally:
        episodes.close()
        await endpoint.close()
