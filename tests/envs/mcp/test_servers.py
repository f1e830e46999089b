"""Servers as programs: started when needed, one per episode, and never left behind."""

from __future__ import annotations

import asyncio
import copy
import gc
import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents.scripted import FunctionAgent
from turnwise.envs.mcp import connection
from turnwise.envs.mcp.listing import listing
from turnwise.envs.mcp.spec import ServerSpec
from turnwise.errors import (
    ContractError,
    EnvironmentDiedError,
    EnvironmentTimeoutError,
    InfrastructureError,
    UsageError,
)
from turnwise.rollouts.episode import Outcome
from turnwise.rollouts.runner import run

from .around import HERE, Around, gone, raw, said

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mcp") is None, reason="NOT TESTED: pip install 'turnwise[mcp]'"
)


def test_tools_stand_beside_the_authors_own_and_are_asked_for_once(env: Around) -> None:
    assert [tool.name for tool in env.tools][:3] == ["stop", "add", "echo"]
    assert env.tools[1].parameters["properties"] == {"n": {"type": "integer"}}
    assert "add" in env.action_space.tool_names  # type: ignore[attr-defined]
    before = listing.__globals__["_listing"].cache_info().misses
    Around(servers=[raw()]).close()
    assert listing.__globals__["_listing"].cache_info().misses == before


def test_a_server_is_started_by_its_first_call_and_serves_one_episode(env: Around) -> None:
    assert env.start_seconds == {}
    assert said(env, "count") == "1"
    assert said(env, "count") == "2"
    assert 0 < env.start_seconds["raw"] < 60
    first = int(said(env, "pid"))
    env.reset(seed=0)
    assert said(env, "count") == "1", "the next episode has a server of its own"
    assert gone(first)


def test_a_stateless_server_is_shared() -> None:
    one, other = (Around(servers=[raw(name="shared", stateless=True)]) for _ in range(2))
    pids = set()
    for env in (one, other, one):
        env.reset(seed=0)
        pids.add(said(env, "pid"))
        env.close()
    assert len(pids) == 1
    one.reset(seed=0)
    assert said(one, "die") == "Error: die: the server dies of this call; it is started again"
    assert said(one, "pid") not in pids, "one that died is replaced: it had nothing to lose"


def test_the_same_in_the_async_form_on_any_loop(env: Around) -> None:
    async def twice() -> list[str]:
        await env.areset(seed=1)
        return [(await env.astep(tw.ToolCall("count")))[0].text for _ in range(2)]

    assert asyncio.run(twice()) == ["1", "2"]
    assert said(env, "count") == "3"


def test_a_fork_repeats_the_calls_on_servers_of_its_own(env: Around) -> None:
    said(env, "count")
    fork = env.fork()
    assert (said(fork, "count"), said(fork, "count"), said(env, "count")) == ("2", "3", "2")
    assert said(fork, "pid") != said(env, "pid")
    fork.close()


def test_what_has_no_episode_yet_can_be_copied() -> None:
    env = Around(servers=[raw()])
    clone = copy.deepcopy(env)
    clone.reset(seed=0)
    assert said(clone, "count") == "1"
    clone.close()


def test_the_episodes_folder_has_one_name_for_agents_and_is_gone_after_it(env: Around) -> None:
    (env.folder / "given.txt").write_text("by the author")
    said(env, "write")
    folder = env.folder
    assert (folder / "left.txt").read_text() == "by the server", "a server runs in the folder"
    assert said(env, "echo", path="/episode/given.txt", paths=["/episode", "/episodes"], uri="file:///episode/x") == (
        '{"path": "/episode/given.txt", "paths": ["/episode", "/episodes"], "uri": "file:///episode/x"}'
    )
    env.reset(seed=0)
    assert env.folder != folder
    for _ in range(200):
        if not folder.exists():
            break
        asyncio.run(asyncio.sleep(0.05))
    assert not folder.exists()


# -- what is the infrastructure's fault, for what is the agent's see test_attacks.py -----------------------------


def test_a_server_that_dies_by_itself_is_infrastructure_and_its_last_words_are_told(env: Around) -> None:
    assert said(env, "misbehave", how="last words") == "done"
    os.kill(int(said(env, "pid")), signal.SIGKILL)
    with pytest.raises(EnvironmentDiedError, match=r"'raw' died .*'add'.*famous last words"):
        said(env, "add")


@pytest.mark.slow
def test_a_server_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PROBE", 0.2)
    env = Around(servers=[raw(timeout=1.0)])
    env.reset(seed=0)
    pid = int(said(env, "pid"))
    said(env, "hang")
    env.close()
    assert gone(pid), "one that does not go by itself is killed"


def test_an_episode_whose_server_does_not_start_is_infra_failed_after_its_retries(tmp_path: Path) -> None:
    spec = raw("--until", str(tmp_path / "then"))
    Around(servers=[spec]).close()  # what its tools are is known from now on
    (tmp_path / "then").touch()
    agent = FunctionAgent(lambda _: tw.ToolCall("count"))
    [episode] = run(lambda: Around(servers=[spec]), agent, [tw.TaskSpec("Around")], retries=1, backoff=0.0)
    assert (episode.outcome, episode.attempts) == (Outcome.INFRA_FAILED, 2)
    assert "it is too late to start" in (episode.error or "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "kind", "words"),
    [
        (raw("--refuse"), EnvironmentDiedError, "did not start.*I do not want to"),
        (raw("--slow", start_timeout=1.0), EnvironmentTimeoutError, "had not started after 1 s"),
        (raw("--endless"), InfrastructureError, "without end"),
        (ServerSpec("none", ("no-such-program",)), UsageError, "there is no program 'no-such-program'"),
        (ServerSpec("far", url="http://127.0.0.1:9/mcp"), EnvironmentDiedError, "did not start"),
        (raw(inherit=["NO_SUCH_VARIABLE"]), UsageError, "NO_SUCH_VARIABLE, which is not set"),
    ],
    ids=["refuses", "slow", "endless", "missing", "unreachable", "variable"],
)
def test_what_cannot_be_started_says_why(spec: ServerSpec, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=f"(?s){words}"):
        Around(servers=[spec])


# -- what is the author's fault -----------------------------------------------------------------------------------


def test_specs_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="either a command"):
        ServerSpec("none")
    with pytest.raises(UsageError, match="either a command"):
        ServerSpec("both", ("x",), url="http://localhost")
    with pytest.raises(UsageError, match="list of words"):
        ServerSpec("words", "npx server")
    with pytest.raises(UsageError, match="timeout -1"):
        ServerSpec("late", ("x",), timeout=-1)
    assert "secret" not in repr(ServerSpec("key", url="http://localhost", headers={"Authorization": "secret"}))


def test_name_clashes_say_what_to_do() -> None:
    two = [raw(), raw(name="other")]
    with pytest.raises(ContractError, match="'raw' and 'other' both offer 'add': give one of them a prefix"):
        Around(servers=two)
    with pytest.raises(ContractError, match="two MCP servers are called 'raw'"):
        Around(servers=[raw(), raw("--other")])
    with pytest.raises(ContractError, match="no tool 'subtract'; it has add"):
        Around(servers=[raw(allow=["subtract"])])

    class Adds(Around):
        @tw.tool
        def add(self) -> str:
            """Add."""
            return "mine"

    with pytest.raises(ContractError, match="offers 'add', and so does the environment"):
        Adds(servers=[raw()])
    env = Adds(servers=[raw(prefix="a_", deny=["die", "hang"]), raw(name="other", prefix="b_", allow=["count"])])
    names = [tool.name for tool in env.tools]
    assert names[:3] == ["stop", "add", "a_add"]
    assert names[-1] == "b_count"
    assert "a_die" not in names
    env.reset(seed=0)
    assert (said(env, "add"), said(env, "a_count"), said(env, "b_count"), said(env, "a_count")) == (
        "mine",
        "1",
        "1",
        "2",
    )
    env.close()


# -- nothing is left ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_forgotten_environment_takes_its_servers_with_it() -> None:
    env = Around(servers=[raw()])
    env.reset(seed=0)
    pid = int(said(env, "pid"))
    del env
    gc.collect()
    assert gone(pid)


@pytest.mark.slow
def test_the_end_of_the_process_is_the_end_of_its_servers(tmp_path: Path) -> None:
    script = f"""
        import sys
        sys.path.insert(0, {str(HERE)!r})
        from turnwise.envs.mcp.spec import ServerSpec
        from turnwise.envs.mcp.tools import McpTools
        import turnwise as tw

        class Env(McpTools):
            servers = (ServerSpec("raw", (sys.executable, "-S", {str(HERE / "raw_server.py")!r})),)
            def start(self, task, rng):
                return "Go."

        env = Env()
        env.reset(seed=0)
        print(env.step(tw.ToolCall("pid"))[0].text, env.folder, flush=True)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    pid, folder = done.stdout.split()
    assert gone(int(pid), 5.0)
    assert not Path(folder).exists()


def test_the_sdk_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    find: Any = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "mcp" else find(name))
    with pytest.raises(UsageError, match=r"pip install 'turnwise\[mcp\]'"):
        Around(servers=[raw(name="fresh")])
