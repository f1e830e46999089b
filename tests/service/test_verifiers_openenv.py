"""verifiers' own taskset ``openenv`` plays a served environment, with a policy behind our endpoint as its model.

::

    python3.12 -m venv v && v/bin/pip install "verifiers[openenv]==0.4.0" uv
    VERIFIERS_PYTHON=v/bin/python pytest --shift all tests/service/test_verifiers_openenv.py
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.messages import Action
from turnwise.envs.remote.frames import action_to_json
from turnwise.evals.audit.logs import find_logs
from turnwise.rollouts.store import EpisodeStore, load_episodes
from turnwise.service.endpoint import Endpoint
from turnwise.service.remote_episodes import RemoteEpisodes

from .environment_servers import APPS, LOOP, TOKEN, serving
from .fakes import Speaker, agent

MAZE = "turnwise/Maze-v0"
SEEDS = (3, 4)
CONFIG = """
model = "any"
num_rollouts = 1
output_dir = {out}

[client]
base_url = {model}
api_key_var = "KEY"

[env.player.harness]
id = "null"

[env.player.runtime]
type = "subprocess"

[env.taskset]
id = "openenv"
base_url = {url}
resets = [{resets}]
"""


@dataclass
class Script:
    """The oracle's replies to each first observation, as a model of verifiers would write them."""

    replies: dict[str, list[str]]
    returns: dict[int, float]

    @classmethod
    def of(cls, id: str) -> Script:
        """Play the tasks in this process."""
        env = tw.make(id)
        replies: dict[str, list[str]] = {}
        returns: dict[int, float] = {}
        for seed in SEEDS:
            observation, _ = env.reset(seed=seed)
            said = replies[json.dumps(observation.text, ensure_ascii=False)] = []
            total, over = 0.0, False
            while not over:
                action = Action.of(env.oracle())
                said.append(action.text if not env.tools else json.dumps(_as_openenv(action)))
                _, reward, terminated, truncated, _ = env.step(action)
                total, over = total + reward, terminated or truncated
            returns[seed] = total
        env.close()
        return cls(replies, returns)

    def reply(self, prompt: str) -> str:
        """Return the reply to a prompt, which contains the whole conversation."""
        said = next(said for first, said in self.replies.items() if first in prompt)
        return said[prompt.count('"action_schema": ') - 1]


def _as_openenv(action: Action) -> dict[str, Any]:
    """An action in the schema of OpenEnv's tools; a text, or several calls at once, in ours."""
    if action.text or len(action.tool_calls) != 1:
        return action_to_json(action)
    (call,) = action.tool_calls
    return {"tool_name": call.name, "arguments": dict(call.arguments)}


@contextlib.contextmanager
def endpoint(policy: Speaker, store: Path) -> Iterator[tuple[str, str]]:
    """URL and key of a policy behind our endpoint; what it says is in the store afterward."""
    served = Endpoint()

    async def start(written: EpisodeStore) -> tuple[str, RemoteEpisodes]:
        return f"{await served.start()}/v1", RemoteEpisodes(served, agent(policy, max_tokens=4000), written)

    async def close() -> None:
        episodes.close()
        await served.close()

    with EpisodeStore(store) as written:
        url, episodes = LOOP.wait(start(written), 60)
        try:
            yield url, episodes.key
        finally:
            LOOP.wait(close(), 60)


def evaluated(config: str, folder: Path, key: str) -> subprocess.CompletedProcess[str]:
    """Run verifiers' own command."""
    python = Path(os.environ["VERIFIERS_PYTHON"])
    path = folder / "eval.toml"
    path.write_text(config)
    env = {**os.environ, "KEY": key, "PATH": f"{python.parent}:{os.environ['PATH']}"}  # its harness runs uv
    env.pop("PYTHONPATH", None)
    command = [str(python.with_name("vf-eval")), "@", str(path), "--no-push", "--no-rich"]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.slow
@pytest.mark.skipif("VERIFIERS_PYTHON" not in os.environ, reason="NOT TESTED with verifiers' taskset; see above")
@pytest.mark.parametrize("id", [MAZE, APPS])
def test_verifiers_taskset_plays_our_server_with_our_endpoint_as_its_model(id: str, tmp_path: Path) -> None:
    script = Script.of(id)
    policy = Speaker(script.reply)
    with serving([MAZE, APPS], capacity=len(SEEDS)) as server, endpoint(policy, tmp_path / "said") as (url, key):
        base = server.address.replace("ws://", f"http://openenv:{TOKEN}@", 1) + f"/openenv/{id}"
        resets = ", ".join(f"{{seed = {seed}}}" for seed in SEEDS)
        fields = {"out": tmp_path / "out", "model": url, "url": base}
        config = CONFIG.format(**{name: json.dumps(str(value)) for name, value in fields.items()}, resets=resets)
        ran = evaluated(config, tmp_path, key)
        assert ran.returncode == 0, (ran.stdout + ran.stderr)[-3000:]
        assert server.episodes.places.load == 0
    (log,) = find_logs(tmp_path / "out")
    found = sorted((record.outcome, record.value, record.turns) for record in log.records)
    turns = [len(said) for said in script.replies.values()]
    assert found == sorted(("scored", total, n) for total, n in zip(script.returns.values(), turns, strict=True))
    (episode,) = load_episodes(tmp_path / "said")
    assert sorted(turn.action_ids for turn in episode.turns) == sorted(said.token_ids for said in policy.said)
    assert len(policy.said) == sum(turns), "each turn was asked for once"
