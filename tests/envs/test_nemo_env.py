"""Resources servers of NeMo Gym are environments: played, certified, and each fault of theirs named."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException

import turnwise as tw
from turnwise.cli import main
from turnwise.commands.export_nemo import Agent, export_nemo
from turnwise.envs.certify.certify import LAWS, certify
from turnwise.envs.certify.over_the_wire import NEMO
from turnwise.envs.certify.report import UNASKED
from turnwise.envs.messages import Action, ToolCall
from turnwise.envs.remote.address import nemo_place, token_variable
from turnwise.errors import EnvironmentFailedError, InfrastructureError, TaskError, UsageError
from turnwise.rollouts.pool import EnvPool
from turnwise.verdicts import Status

from ..service.environment_servers import APPS, ID, TOKEN, serving
from . import nemo_server as servers
from .nemo_server import Guesses, Sums, guess_row, gym, sum_row
from .openenv_server import playing

ROWS = [sum_row(target) for target in (5, 3, 12, 7)]
FAULTS = [
    (servers.DrawsLots, "same_seed_same_episode"),
    (servers.SharesTheSum, "seeds_do_not_interfere"),
    (servers.PaysForNothing, "null_at_floor"),
    (servers.Fails, "tools_never_raise"),
]
"""A server's fault, and the law that names it."""


def add(number: object, id: str = "c") -> ToolCall:
    return ToolCall("add", {"number": number}, id)


@pytest.fixture(scope="module")
def sums() -> Iterator[str]:
    with gym(Sums()) as id:
        yield id


def test_an_episode_of_tools_is_verified_at_its_end() -> None:
    server = Sums()
    with gym(server) as id:
        env = tw.make(id, rows=ROWS)
        first, _ = env.reset(seed=1)
        assert [(each.role, each.text) for each in first.messages] == [("system", "You add."), ("user", "Reach 3.")]
        assert [tool.name for tool in env.tools] == ["add"]
        both, reward, *_, info = env.step(Action("I add.", (add(1, "a"), ToolCall("verify", {}, "b"))))
        assert [(each.role, each.tool_call_id, each.text[:20]) for each in both.messages] == [
            ("tool", "a", '{"sum":1}'),
            ("tool", "b", "Error: there is no t"),
        ], "an agent reaches tools, and no other route"
        assert (reward, info["tool_errors"], server.verified) == (0.0, ["verify"], [])
        fork = env.fork()
        assert fork.step(add(2))[0].text == env.step(add(2))[0].text == '{"sum":3}'
        _, reward, terminated, truncated, info = env.step("done")
        assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
        assert info["verified"] == {"reward": 1.0, "mask_sample": False, "reached": True}
        assert fork.step("done")[1] == 1.0, "a fork is a session of its own"
        body = server.verified[0]
        kinds = [item["type"].removeprefix("function_") for item in body["response"]["output"]]
        assert kinds == ["message", "call", "call", *["call_output"] * 2, "call", "call_output", "message"]
        assert body["target"] == 3
        env.close()
        fork.close()


def test_the_last_turn_is_verified_too(sums: str) -> None:
    env = tw.make(sums, rows=ROWS, max_turns=2)
    env.reset(seed=1)
    assert env.step(add("x"))[4]["tool_errors"] == ["add"], "the server refuses the call, and the agent goes on"
    _, reward, terminated, truncated, info = env.step(add(3))
    assert (reward, terminated, truncated, info["success"], info["out_of_turns"]) == (1.0, False, True, True, True)
    env.close()


def test_an_episode_of_steps() -> None:
    server = Guesses()
    with gym(server) as id:
        env = tw.make(id, rows=[guess_row(4), guess_row(6)])
        assert env.reset(seed=0)[0].text == "Guess a number from 1 to 8.\nYou have 3 guesses."
        assert env.step("3")[:4] == (tw.Observation.of("No."), 0.0, False, False)
        answer = env.step(Action(tool_calls=(ToolCall("look", {}, "c1"),)))[0].messages[0]
        assert (answer.role, answer.tool_call_id, answer.text) == ("tool", "c1", "no look here")
        _, reward, terminated, truncated, info = env.step("4")
        assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
        env.reset(seed=1)
        assert len(server.left) == 1, "the server kept nothing of the episode before"
        ends = [env.step("1")[2:4] for _ in range(3)]
        assert ends == [(False, False), (False, False), (False, True)]
        env.close()
        assert server.left == {}
        limited = tw.make(id, rows=[guess_row(4)], max_turns=1)
        asyncio.run(limited.areset(seed=0))
        assert asyncio.run(limited.astep("1"))[2:4] == (False, True), "our own limit ends it, too"
        limited.close()


@pytest.mark.parametrize(
    ("server", "says"), [(servers.Masks, "could not verify: the judge is away"), (servers.PaysInWords, "not a number")]
)
def test_an_episode_without_a_reward_has_failed(server: type[Sums], says: str) -> None:
    with gym(server()) as id:
        env = tw.make(id, rows=ROWS)
        env.reset(seed=0)
        with pytest.raises(EnvironmentFailedError, match=says):
            env.step("done")
        env.close()


def test_what_cannot_be_played_is_refused(sums: str, tmp_path: Path) -> None:
    image = {"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}
    other = sum_row(1)["responses_create_params"] | {"tools": [servers.ADD | {"description": "else"}]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROWS[0]) + "\n{")
    wrong: Sequence[tuple[Any, str]] = (
        (None, "env_kwargs.rows=FILE.jsonl"),
        ([], "has no rows"),
        ("nowhere.jsonl", "cannot read the rows"),
        (tmp_path / "rows.jsonl", "line 2 is not a row"),
        ([{"responses_create_params": {}}], "row 0 is not a row"),
        ([{"responses_create_params": {"input": [image]}}], "a part of type input_image"),
        ([ROWS[0], {"responses_create_params": other}], "two rows have different tools named add"),
    )
    for rows, says in wrong:
        with pytest.raises(UsageError, match=says):
            tw.make(sums, rows=rows)
    with pytest.raises(UsageError, match="agent must be"):
        tw.make(sums, rows=ROWS, agent="claude")
    with pytest.raises(UsageError, match="at the root: write nemo://h:1"):
        tw.make("nemo://h:1/x", rows=ROWS)
    with playing() as other_id, pytest.raises(UsageError, match="not a resources server"):
        tw.make(other_id.replace("openenv", "nemo"), rows=ROWS)
    assert str(nemo_place("nemo+tls://h")) == "wss://h:443"
    assert token_variable("nemo://h:1") == {}


def test_rows_are_one_split_of_lines_with_any_character(sums: str, tmp_path: Path) -> None:
    text, rows = "a\u2028b\x85c", tmp_path / "rows.jsonl"
    row = {"responses_create_params": {"input": text}}
    rows.write_text(f"{json.dumps(row, ensure_ascii=False)}\n\n{json.dumps(ROWS[0])}\n", encoding="utf-8")
    env = tw.make(sums, rows=rows)
    assert env.reset(seed=0)[0].text == text
    family = env.get_wrapper_attr("tasks")()
    assert (family.splits, family.seeds) == (("train",), 2)
    with pytest.raises(TaskError, match="has no split 'dev'"):
        family.spec(0, split="dev")
    env.close()


def test_a_row_offers_its_own_tools_and_no_verdict(sums: str) -> None:
    other = {"responses_create_params": {"input": "x", "tools": [servers.ADD | {"name": "seed"}]}}
    claims = {"success": True, "mask_sample": True, "failure_reason": "none", "reward": 1.0}
    env = tw.make(sums, rows=[ROWS[0] | claims, other | {"target": 0}])
    env.reset(seed=1)
    assert [tool.name for tool in env.tools] == ["seed"]
    assert "there is no tool 'add'. You have: seed." in env.step(add(1))[0].text
    env.reset(seed=0)
    assert [tool.name for tool in env.tools] == ["add"]
    _, reward, *_, info = env.step("done")
    assert (reward, info["success"]) == (0.0, False)
    env.close()


class Refuses(Sums):
    """Answers one route with a status and a reason."""

    def __init__(self, path: str, status: int, reason: str = "no") -> None:
        super().__init__()
        self.answer = path, status, reason

    def routes(self, app: FastAPI) -> None:
        path, status, reason = self.answer

        @app.post(path)
        def refuse() -> None:
            raise HTTPException(status, reason)

        super().routes(app)


GONE = "there is no such episode here (it was closed, or the server restarted)"


@pytest.mark.parametrize(
    ("path", "status", "reason", "kind"),
    [
        ("/seed_session", 409, "no", UsageError),
        ("/seed_session", 429, "no", EnvironmentFailedError),
        ("/add", 404, GONE, EnvironmentFailedError),
        ("/add", 429, "no", EnvironmentFailedError),
        ("/add", 404, "no such file", None),
        ("/verify", 404, GONE, EnvironmentFailedError),
        ("/verify", 422, "no", EnvironmentFailedError),
    ],
)
def test_only_a_refused_row_is_the_users_fault(
    path: str, status: int, reason: str, kind: type[Exception] | None
) -> None:
    with gym(Refuses(path, status, reason)) as id:
        env = tw.make(id, rows=ROWS)
        with contextlib.nullcontext() if kind is None else pytest.raises(kind, match=f"HTTP {status}"):
            env.reset(seed=0)
            answer = env.step(add(1))[0].text
            env.step("done")
        assert kind or "no such file" in answer, "the model reads a tool's own refusal"
        env.close()


def test_a_server_out_of_reach_is_an_infrastructure_failure() -> None:
    with gym(Sums()) as id:
        env = tw.make(id, rows=ROWS)
    with pytest.raises(InfrastructureError, match="cannot reach"):
        env.reset(seed=0)
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize(("server", "law"), FAULTS, ids=[f"{server.__name__}-{law}" for server, law in FAULTS])
def test_a_fault_of_a_resources_server_is_named(server: type[Sums], law: str) -> None:
    with gym(server()) as id:
        (verdict,) = certify(id, quick=True, laws=[law], env_kwargs={"rows": ROWS}).verdicts
    assert verdict.status is Status.FAIL, f"{server.__name__} must break {law}: {verdict.reason}"


@pytest.mark.slow
def test_a_healthy_server_is_certified_and_each_untried_law_says_why(sums: str) -> None:
    chosen = [law.name for law in LAWS if law.name not in ("no_way_out", "observations_bounded", "blind_play")]
    certificate = certify(sums, quick=True, laws=chosen, env_kwargs={"rows": ROWS})
    assert certificate.passed, str(certificate)
    skipped = {verdict.law: verdict.reason for verdict in certificate.verdicts if verdict.status is Status.SKIP}
    assert all(skipped[law].startswith(UNASKED) for law in NEMO)
    assert set(skipped) == set(NEMO)


def test_the_commands_play_and_certify(sums: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    words = ["--policy", "random", "-n", "4", "--out", str(tmp_path / "run"), "--no-report", f"env_kwargs.rows={rows}"]
    with pytest.raises(SystemExit) as ended:
        main(["eval", sums, *words])
    assert not ended.value.code
    episodes = tw.load_episodes(tmp_path / "run" / "episodes")
    assert (len(episodes), {episode.env_id for episode in episodes}) == (4, {sums})
    assert all(episode.scored for episode in episodes)


@pytest.mark.parametrize("agent", list(Agent))
def test_our_own_server_is_a_resources_server_too(tmp_path: Path, agent: Agent) -> None:
    with serving([ID, APPS]) as server:
        tw.connect(server.address, token=TOKEN)
        rows = tmp_path / "rows.jsonl"
        export_nemo(APPS, out=rows, n=2, split="dev", level="", seed=0, agent=agent)
        local = tw.make(APPS)
        env = tw.make(server.address.replace("ws", "nemo", 1), rows=rows, agent=agent)
        task = tw.TaskSpec.from_json(json.loads(rows.read_text().splitlines()[1])["turnwise"]["task"])
        here, _ = local.reset(options={"task": task})
        there, _ = env.reset(seed=1)
        assert there.text == here.text
        success = False
        while not success:
            call = Action.of(local.oracle()).tool_calls[0]
            here, paid, over, _, info = local.step(call)
            there, reward, ended, _, seen = env.step(call)
            assert there.text == here.text or over
            success = info.get("success", False)
        if agent is Agent.SIMPLE:
            _, reward, ended, _, seen = env.step("done")
        assert (reward, ended, seen["success"]) == (paid, True, True)
        env.close()
        assert server.episodes.places.load == 0


@pytest.mark.parametrize("agent", list(Agent))
def test_an_abandoned_episode_frees_its_place_on_our_own_server(tmp_path: Path, agent: Agent) -> None:
    with serving([APPS]) as server:
        tw.connect(server.address, token=TOKEN)
        rows = tmp_path / "rows.jsonl"
        export_nemo(APPS, out=rows, n=2, split="dev", level="", seed=0, agent=agent)
        env = tw.make(server.address.replace("ws", "nemo", 1), rows=rows, agent=agent)
        for seed in (0, 1, 0):
            env.reset(seed=seed)
            assert server.episodes.places.load == 1, "a reset must end the episode before it"
        env.close()
        assert server.episodes.places.load == 0, "closing must end an episode that is not over"


async def test_a_server_that_hangs_holds_up_no_other_episode() -> None:
    server = servers.ClosesWhenLet()
    with gym(server) as id:
        pool = EnvPool.of(id, env_kwargs={"rows": [guess_row(4)]})
        host = await pool.take()
        await host.reset(tw.TaskSpec("NemoGym"))
        pool.give(host, reusable=False)
        await asyncio.to_thread(server.asked.wait, 20)
        server.let.set()
        await pool.close()
        await asyncio.to_thread(server.closed.wait, 20)
    assert server.in_time, "giving an environment back must not stop the event loop until its server answers"


REAL = """
import importlib, pathlib, sys, uvicorn
from unittest.mock import MagicMock
from nemo_gym.base_resources_server import SimpleResourcesServer
from nemo_gym.server_utils import ServerClient
name, port = sys.argv[1:]
module = importlib.import_module(f"resources_servers.{name}.app")
kinds = [kind for kind in vars(module).values() if getattr(kind, "__module__", "") == module.__name__]
(kind,) = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, SimpleResourcesServer)]
settings = {"host": "127.0.0.1", "port": int(port), "entrypoint": "", "name": name}
config = kind.model_fields["config"].annotation(**settings)
server = kind(config=config, server_client=MagicMock(spec=ServerClient))
print(pathlib.Path(module.__file__).parent / "data" / "example.jsonl", flush=True)
uvicorn.run(server.setup_webserver(), host="127.0.0.1", port=int(port), log_level="error")
"""
LAWS_THERE = [
    "begins",
    "same_seed_same_episode",
    "replay_equals_original",
    "seeds_do_not_interfere",
    "any_action_is_answered",
    "null_at_floor",
    "tools_never_raise",
]


@contextlib.contextmanager
def real(name: str) -> Iterator[tuple[str, str]]:
    """The id of one of NeMo Gym's own servers, and the file of its example rows."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [os.environ["NEMO_PYTHON"], "-c", REAL, name, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            rows, deadline = process.stdout.readline().strip(), time.monotonic() + 120
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                assert (time.monotonic() < deadline, process.poll()) == (True, None), "the server must start"
                time.sleep(0.1)
            yield f"nemo://127.0.0.1:{port}", rows
        finally:
            process.kill()


@pytest.mark.shift
@pytest.mark.skipif(
    "NEMO_PYTHON" not in os.environ, reason="NOT TESTED against NeMo Gym's own servers: see tests/service/test_nemo.py"
)
@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("example_session_state_mgmt", {}),
        ("example_multi_step", {}),
        ("blackjack", {"same_seed_same_episode": "", "replay_equals_original": "", "null_at_floor": ""}),
        ("blackjack", {"same_seed_same_episode": "it draws from a generator without a seed"}),
    ],
)
def test_nemo_gyms_own_servers(name: str, broken: dict[str, str]) -> None:
    with real(name) as (id, rows):
        certificate = certify(id, quick=True, laws=LAWS_THERE, env_kwargs={"rows": rows})
    found = {verdict.law: verdict.reason for verdict in certificate.verdicts if verdict.status is Status.FAIL}
    assert set(found) == set(broken), str(certificate)
