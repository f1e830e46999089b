"""An environment as an MCP server: one session is one episode, for the official client and for ours."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.mcp.spec import ServerSpec
from turnwise.envs.mcp.tools import McpTools
from turnwise.envs.messages import ImagePart, TextPart
from turnwise.errors import EnvironmentFailedError, UsageError
from turnwise.rollouts.episode import Episode, Outcome
from turnwise.rollouts.store import load_episodes
from turnwise.service.mcp.server import RESOURCE, McpConfig, McpService

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mcp") is None, reason="NOT TESTED: pip install 'turnwise[mcp]'"
)
EXAMPLE = Path(__file__).parents[2] / "examples" / "tool_env.py"


class Shops(tw.ToolEnv):
    """Buy at the lowest price."""

    max_turns = 8

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.prices = {shop: rng.randint(5, 99) for shop in ("Adler", "Blum")}
        self.asked: list[str] = []
        self.bought: int | None = None
        return f"Buy at the lowest price: {', '.join(self.prices)} \ud83d"

    @tw.tool
    def price(self, shop: str) -> int:
        """Ask for a price."""
        if shop not in self.prices:
            raise tw.ToolError(f"there is no shop {shop}")
        self.asked.append(shop)
        return self.prices[shop]

    @tw.tool
    def look(self) -> tuple[TextPart, ImagePart]:
        """Look at the shop."""
        return TextPart("a shop"), ImagePart(b"pixels")

    @tw.tool
    def burn(self) -> str:
        """Break the infrastructure."""
        raise EnvironmentFailedError("the shop burned down")

    @tw.tool(ends=True)
    def buy(self, price: int) -> str:
        """Buy."""
        self.bought = price
        return "Bought."

    def judge(self) -> tw.Score:
        return tw.Score(self.bought == min(self.prices.values()), {"bought": self.bought is not None})

    def oracle(self) -> tw.ToolCall:
        left = [shop for shop in self.prices if shop not in self.asked]
        return (
            tw.ToolCall("price", {"shop": left[0]})
            if left
            else tw.ToolCall("buy", {"price": min(self.prices.values())})
        )


class Listens(Shops):
    """It may also be talked to."""

    def said(self, text: str) -> str:
        return f"You said {text!r}."


@pytest.fixture(autouse=True)
def registered() -> None:
    tw.register("test/Shops-v0", Shops)
    tw.register("test/Listens-v0", Listens)


@asynccontextmanager
async def client(service: McpService) -> AsyncIterator[Any]:
    """The official client, in this process."""
    import mcp

    async with mcp.Client(service._server(), mode="legacy") as connected:
        yield connected


async def text_of(connected: Any, tool: str, /, **arguments: Any) -> tuple[str, bool]:
    """The texts of an answer, and whether it is an error."""
    answer = await connected.call_tool(tool, arguments)
    return "\n".join(block.text for block in answer.content if block.type == "text"), answer.is_error


def twin(id: str, seed: int) -> tw.TurnEnv:
    """The same episode here, whose oracle knows what to do there."""
    env = tw.make(id)
    env.reset(seed=seed, options={"split": "train"})
    return env


async def play(connected: Any, env: tw.TurnEnv) -> list[tuple[str, bool]]:
    """Have the oracle play over the wire."""
    answers, over = [], False
    while not over:
        action = tw.Action.of(env.oracle())
        observation, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
        if action.tool_calls:
            call = action.tool_calls[0]
            answers.append(await text_of(connected, call.name, **call.arguments))
        else:
            answers.append(await text_of(connected, "say", text=action.text))
        assert answers[-1][0].startswith(observation.text)
    return answers


@pytest.mark.slow
async def test_the_oracle_plays_an_episode_and_succeeds() -> None:
    records: list[Episode] = []
    async with client(McpService(McpConfig("test/Shops-v0", seed=5), records.append)) as connected:
        listed = (await connected.list_tools()).tools
        assert [tool.name for tool in listed] == ["price", "look", "burn", "buy"], "no say: it does not listen"
        assert listed[0].input_schema["properties"] == {"shop": {"type": "string"}}
        answers = await play(connected, twin("test/Shops-v0", 5))
        assert answers[-1] == ("Bought.\nThe episode is over.", False), "and no word of the score"
        assert await text_of(connected, "price", shop="Adler") == ("The episode is over.", True)
    [record] = records
    assert record.outcome is Outcome.COMPLETED
    assert record.score is not None
    assert record.score.success
    assert [turn.action.tool_calls[0].name for turn in record.turns] == ["price", "price", "buy"]


async def test_the_first_observation_is_told_in_three_ways() -> None:
    async with client(McpService(McpConfig("test/Shops-v0"))) as connected:
        text = "Buy at the lowest price: Adler, Blum ?"
        assert connected.instructions == text
        [resource] = (await connected.list_resources()).resources
        assert str(resource.uri) == RESOURCE
        assert (await connected.read_resource(RESOURCE)).contents[0].text == text
        [prompt] = (await connected.list_prompts()).prompts
        assert (await connected.get_prompt(prompt.name)).messages[0].content.text == text
        import mcp

        with pytest.raises(mcp.MCPError, match="the only resource is"):
            await connected.read_resource("turnwise://answer")
        with pytest.raises(mcp.MCPError, match="the only prompt is"):
            await connected.get_prompt("answer")


async def test_the_score_is_said_at_the_end_and_only_if_asked_for() -> None:
    async with client(McpService(McpConfig("test/Shops-v0", show_score=True))) as connected:
        assert "Score" not in (await text_of(connected, "price", shop="Adler"))[0]
        text, _ = await text_of(connected, "buy", price=1)
        assert text.endswith('The episode is over.\nScore: {"success": false, "checks": {"bought": true}}')


async def test_bad_calls_are_observations() -> None:
    records: list[Episode] = []
    async with client(McpService(McpConfig("test/Shops-v0"), records.append)) as connected:
        assert await text_of(connected, "price", shop=3) == (
            "Error: price: argument 'shop': Input should be a valid string; got 3.",
            True,
        )
        assert (await text_of(connected, "price"))[1]
        assert await text_of(connected, "price", shop="Zoo") == ("Error: there is no shop Zoo", True)
        assert (await text_of(connected, "say", text="hello"))[0].startswith("Error: there is no tool 'say'")
        answer = await connected.call_tool("look", None)
        assert [block.type for block in answer.content] == ["text", "image"]
    assert [record.outcome for record in records] == [Outcome.POLICY_FAILED], "it left before the end"
    assert records[0].error is not None
    assert "the client left" in records[0].error


async def test_an_environment_that_listens_is_spoken_to() -> None:
    async with client(McpService(McpConfig("test/Listens-v0"))) as connected:
        assert [tool.name for tool in (await connected.list_tools()).tools][-1] == "say"
        assert await text_of(connected, "say", text="hello") == ("You said 'hello'.", False)
        assert (await text_of(connected, "say", words="hello"))[0].startswith("Error: say takes one argument")
        assert (await text_of(connected, "say", text=3))[0].startswith("Error: say takes one argument")


async def test_an_environment_without_tools_is_played_by_speaking() -> None:
    async with client(McpService(McpConfig("turnwise/MazeFO-v0", seed=2))) as connected:
        assert [tool.name for tool in (await connected.list_tools()).tools] == ["say"]
        answers = await play(connected, twin("turnwise/MazeFO-v0", 2))
        assert "The episode is over." in answers[-1][0]


async def test_a_turn_limit_ends_it_too() -> None:
    records: list[Episode] = []
    config = McpConfig("test/Shops-v0", env_kwargs={"max_turns": 2})
    async with client(McpService(config, records.append)) as connected:
        await text_of(connected, "price", shop="Adler")
        assert "The episode is over." in (await text_of(connected, "price", shop="Adler"))[0]
    assert records[0].out_of_turns


async def test_broken_machinery_voids_the_episode() -> None:
    records: list[Episode] = []
    async with client(McpService(McpConfig("test/Shops-v0"), records.append)) as connected:
        text, failed = await text_of(connected, "burn")
        assert failed
        assert text.startswith("The episode is void: EnvironmentFailedError: the shop burned down")
        assert (await text_of(connected, "price", shop="Adler"))[1]
    assert [record.outcome for record in records] == [Outcome.INFRA_FAILED]


async def test_calls_at_once_are_taken_one_after_another() -> None:
    records: list[Episode] = []
    async with client(McpService(McpConfig("test/Shops-v0"), records.append)) as connected:
        await asyncio.gather(*(text_of(connected, "price", shop=shop) for shop in ("Adler", "Blum") * 3))
        await text_of(connected, "buy", price=1)
    assert len(records[0].turns) == 7


async def test_each_session_is_an_episode_with_the_next_seed() -> None:
    records: list[Episode] = []
    service = McpService(McpConfig("test/Shops-v0", seed=3), records.append)
    server = service._server()
    import mcp

    async with mcp.Client(server, mode="legacy") as one, mcp.Client(server, mode="legacy") as other:
        await play(other, twin("test/Shops-v0", 4))
        await play(one, twin("test/Shops-v0", 3))
    assert [record.task.seed for record in records] == [4, 3]
    assert len({record.episode_id for record in records}) == 2


def test_what_cannot_be_served_is_said_at_once() -> None:
    for config in (McpConfig("test/Nothing-v0"), McpConfig("test/Shops-v0", level=77)):
        with pytest.raises(UsageError):
            McpService(config)


# -- over the wire ------------------------------------------------------------------------------------------------


class Served(McpTools):
    """The example's tools, by way of the protocol."""

    max_turns = 20

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return "Buy."


@pytest.fixture
def turnwise() -> list[str]:
    return [sys.executable, "-m", "turnwise.cli", "mcp", str(EXAMPLE)]


def bought(env: tw.TurnEnv) -> str:
    """Ask every shop and buy at the lowest price; the last answer."""

    def said(tool: str, **arguments: Any) -> str:
        return env.step(tw.ToolCall(tool, arguments))[0].text

    assert said("price", shop="Nowhere").startswith("Error: price: argument 'shop'")
    prices = [int(said("price", shop=shop)) for shop in ("Adler", "Blum", "Cole")]
    return said("buy", price=min(prices))


@pytest.mark.slow
def test_the_round_trip_over_standard_streams(turnwise: list[str], tmp_path: Path) -> None:
    command = [*turnwise, "--show-score", "--seed", "7", "--out", str(tmp_path)]
    inherit = [name for name in ("PYTHONPATH",) if name in os.environ]
    env = Served(servers=[ServerSpec("shops", command, inherit=inherit, cwd=tmp_path)])
    assert [tool.name for tool in env.tools] == ["price", "buy"]
    env.reset(seed=0)
    assert bought(env) == 'done\nThe episode is over.\nScore: {"success": true, "checks": {}}'
    asyncio.run(env._running.close())
    outcomes = [str(episode.outcome) for episode in load_episodes(tmp_path / "episodes")]
    assert outcomes == ["completed"], "whoever asked what the tools are played no episode"


@pytest.fixture
def served(turnwise: list[str], tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server over HTTP, and where it is."""
    command = [*turnwise, "--http", "0", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_the_round_trip_over_http(served: tuple[subprocess.Popen[str], str], tmp_path: Path) -> None:
    process, url = served
    one, other = (Served(servers=[ServerSpec("shops", url=url)]) for _ in range(2))
    one.reset(seed=0)
    other.reset(seed=0)
    assert bought(one) == bought(other) == "done\nThe episode is over."
    asyncio.run(one._running.close())
    asyncio.run(other._running.close())
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    outcomes = [str(episode.outcome) for episode in load_episodes(tmp_path / "episodes")]
    assert outcomes == ["completed", "completed"]


@pytest.mark.slow
def test_ctrl_c_ends_a_server_that_waits_for_input(turnwise: list[str]) -> None:
    process = subprocess.Popen(turnwise, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    process.stdin.flush()
    assert b'"id":1' in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("greeted", [True, False], ids=["after it has begun", "at once"])
def test_a_client_that_closes_its_end_ends_the_server(turnwise: list[str], greeted: bool) -> None:
    hello = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},'
        '"clientInfo":{"name":"a","version":"1"}}}\n'
    )
    done = subprocess.run(turnwise, input=hello if greeted else "", capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.shift
def test_without_an_input_there_is_nothing_to_serve(turnwise: list[str]) -> None:
    done = subprocess.run(turnwise, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_port_in_use_is_one_line(turnwise: list[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [*turnwise, "--http", str(taken.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("turnwise: cannot listen on 127.0.0.1:")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_what_an_environment_prints_is_not_the_protocols(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    (tmp_path / "chatty.py").write_text("print('imported')\n" + text + "\nprint('defined')\n")
    command = [sys.executable, "-m", "turnwise.cli", "mcp", str(tmp_path / "chatty.py")]
    process = subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 1
    out, err = process.communicate()
    assert (out, err) == ("", "imported\ndefined\n")
