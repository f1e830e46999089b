"""Programs play episodes: their policy's tokens are recorded turn by turn, and nothing of them is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents.chat import ChatAgent
from turnwise.agents.scripted import OracleAgent
from turnwise.errors import InfrastructureError, PromptTooLongError, UsageError
from turnwise.rollouts.options import RunOptions, run_options
from turnwise.rollouts.replay import replay
from turnwise.rollouts.rows import merge
from turnwise.rollouts.runner import run_episodes
from turnwise.rollouts.store import EpisodeStore, load_episodes
from turnwise.service.process import ProgramConfig
from turnwise.service.program import ProgramAgent, program_agent

from ..rollouts.fakes import Count, faulty, raises, tasks
from .fakes import BYTES, LOOP, Speaker, agent, calls, program, spelt, text_of

Play = Callable[..., Any]


class Shop(tw.ToolEnv):
    """The agent may ask for two prices, then buys at one."""

    blocking = False
    max_turns = 4

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.prices, self.bought = {"a": 3 + task.seed, "b": 5}, 0
        return "Buy at the lowest price: a or b?"

    @tw.tool
    def price(self, shop: str) -> int:
        """Ask for a price."""
        return self.prices[shop]

    @tw.tool(ends=True)
    def buy(self, price: int) -> str:
        """Buy at a price."""
        self.bought = price
        return "bought"

    def judge(self) -> tw.Score:
        return tw.Score(success=self.bought == min(self.prices.values()))


def shopper(prompt: str) -> str:
    """The responses of a trained model."""
    offers = [int(part) for part in prompt.split("<tool>")[1:] for part in part.split("<")[0].split() if part.isdigit()]
    return calls("price", shop="ab"[len(offers)]) if len(offers) < 2 else calls("buy", price=min(offers))


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Plays tasks 0, 1, … of an environment with a program of this source."""

    async def played(source: str, policy: Any, env: Any = Shop, n: int = 1, **more: Any) -> list[tw.Episode]:
        config: dict[str, Any] = {"command": program(tmp_path / "program.py", source), "grace": 5.0}
        config |= more.pop("program", {})
        acting = ProgramAgent(agent(policy, **more.pop("sampling", {})), ProgramConfig(**config))
        options = run_options(**{"retries": 0, "backoff": 0.0, "isolation": "inline", **more})
        episodes = [e async for e in run_episodes(env, acting, tasks(n, env.__qualname__), options=options)]
        assert not acting.endpoint._clients, "no key outlives its episode"
        return sorted(episodes, key=lambda episode: episode.task.seed)

    return played


async def test_a_plain_loop_over_tools_solves_a_tool_environment(play: Play) -> None:
    policy = Speaker(shopper)
    (episode,) = await play(LOOP, policy)
    assert (episode.outcome, episode.success, episode.total_reward) == (tw.Outcome.COMPLETED, True, 1.0)
    assert [turn.action.tool_calls[0].name for turn in episode.turns] == ["price", "price", "buy"]
    for turn, (prompt, _), said in zip(episode.turns, policy.asked, policy.said, strict=True):
        assert turn.prompt_ids == prompt, "exactly what the policy read"
        assert (turn.action_ids, turn.logprobs, turn.versions) == (said.token_ids, said.logprobs, said.versions)
    (row,) = merge(episode)
    assert sum(row.mask) == sum(len(said.token_ids) for said in policy.said), "each sampled token is trained once"
    assert replay(episode, Shop).ok


async def test_a_program_is_answered_as_a_chat_agent_would_be(play: Play) -> None:
    """The same seeds, prompts and tokens: it makes no difference to training which side runs the loop."""
    seeds: dict[str, list[Any]] = {}
    for who in ("program", "chat"):
        policy = Speaker(lambda prompt: f"say {len(prompt)}")
        if who == "program":
            (episode,) = await play(LOOP, policy, env=Count)
        else:
            options = RunOptions(isolation="inline")
            (episode,) = [e async for e in run_episodes(Count, agent(policy), tasks(1, "Count"), options=options)]
        asked = [(prompt, sampling.seed) for prompt, sampling in policy.asked]
        seeds[who] = [asked, [turn.action.text for turn in episode.turns], [turn.reward for turn in episode.turns]]
        seeds[who] += [[turn.observation for turn in episode.turns], episode.final_observation, episode.episode_id]
    assert seeds["program"] == seeds["chat"]


async def test_answers_before_the_one_acted_on_are_unsent_turns(play: Play) -> None:
    source = """
state = env()
plan = ask([{"role": "user", "content": "plan: " + state["text"]}])["content"]
doubt = ask([{"role": "user", "content": "doubt " + plan}])["content"]
while not state["done"]:
    said = ask(state["messages"])
    state = env({"text": said["content"]})
"""
    policy = Speaker(lambda prompt: "hm")
    (episode,) = await play(source, policy, env=Count)
    assert [turn.sent for turn in episode.turns] == [False, False, True, True, True]
    assert [turn.observation.text for turn in episode.turns[:2]] == ["plan: begin 505", "doubt hm"]
    assert episode.turns[2].observation.text == "begin 505", "the turn that acts holds what the environment showed"
    assert episode.total_reward == 1.25
    assert [turn.prompt_ids for turn in episode.turns] == [prompt for prompt, _ in policy.asked], "nothing is lost"
    assert len(merge(episode)) == 5, "every answer is trained under exactly what was read for it"


async def test_one_message_with_two_calls_may_be_two_steps(play: Play) -> None:
    source = """
said = ask(env()["messages"], tools=env()["tools"])
for function in [call["function"] for call in said["tool_calls"]]:
    state = http(os.environ["TURNWISE_TOOLS_URL"] + "/" + function["name"], json.loads(function["arguments"]))
assert state["done"] and state["text"] == "bought", state
"""
    (episode,) = await play(source, Speaker([calls("price", shop="a") + calls("buy", price=3)]))
    assert episode.success
    assert [bool(turn.action_ids) for turn in episode.turns] == [True, False], "the tokens count once, where they acted"


async def test_what_a_program_writes_is_its_answer_if_it_took_no_step(play: Play) -> None:
    source = 'print(ask([{"role": "user", "content": os.environ["TURNWISE_TASK"]}])["content"].upper())'
    policy = Speaker(["best 1"])
    (episode,) = await play(source, policy, env=Count, env_kwargs={"length": 1})
    assert episode.outcome is tw.Outcome.COMPLETED
    (turn,) = episode.turns
    assert (turn.action.text, text_of(turn.action_ids)) == ("BEST 1", "best 1<end>")
    assert text_of(turn.prompt_ids) == "<user>begin 505<ai>"


async def test_a_task_may_stand_in_the_command(play: Play, tmp_path: Path) -> None:
    command = (*program(tmp_path / "p.py", "print(sys.argv[1])"), "task: {task}")
    (episode,) = await play("", Speaker([]), env=Count, env_kwargs={"length": 1}, program={"command": command})
    assert episode.turns[0].action.text == "task: begin 505"


async def test_a_program_that_ends_early_is_silent_from_then_on(play: Play) -> None:
    """Its choice, and so judged by the environment and trained on: failing early must not look cheap."""
    source = 'ask(env()["messages"]); env({"text": "one"}); ask(env()["messages"])'
    policy = Speaker(lambda prompt: "I give up")
    (episode,) = await play(source, policy, env=Count, env_kwargs={"length": 9, "turn_limit": 3})
    assert (episode.outcome, episode.trainable) == (tw.Outcome.TRUNCATED, True)
    assert [turn.action.text for turn in episode.turns] == ["one", "", ""]
    assert text_of(episode.turns[1].action_ids) == "I give up<end>", "the last answer is what led to the silence"
    last = episode.turns[1]
    assert episode.final_prompt_ids == (*last.prompt_ids, *last.action_ids)


async def test_what_would_have_been_read_next_is_known(play: Play) -> None:
    (episode,) = await play(
        """
messages = env()["messages"]
while True:
    said = ask(messages)
    state = env({"text": said["content"]})
    messages += [said, *state["messages"]]
""",
        Speaker(lambda prompt: "x"),
        env=Count,
        env_kwargs={"length": 9, "turn_limit": 2},
    )
    assert episode.outcome is tw.Outcome.TRUNCATED
    last = episode.turns[-1]
    assert episode.final_observation is not None
    expected = (*last.prompt_ids, *last.action_ids, *spelt(f"<user>{episode.final_observation.text}<ai>"))
    assert episode.final_prompt_ids == expected, "the prompt that came too late is where the episode would have gone on"
    assert episode.error is None, "that it then failed is nobody's concern"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            'ask(env()["messages"]); raise KeyError("no such thing")',
            "exit code 1 in turn 0; .* KeyError: 'no such thing'",
        ),
        ('env({"text": "x"}); os.kill(os.getpid(), 9)', "ended by signal 9 in turn 1"),
        ("pass", "without requesting an answer"),
        ('print("x" * 3000)', "more than 2000 bytes"),
        ("import time; time.sleep(60)", "did not finish within 1.5 s"),
        ('ask("nonsense")', "exit code 1 .* 400"),
    ],
    ids=["exception", "signal", "nothing", "flood", "timeout", "bad request"],
)
async def test_a_program_that_fails_fails_the_episode(source: str, said: str, play: Play) -> None:
    limits = {"timeout": 1.5 if "sleep" in source else 60.0, "max_output": 2000}
    (episode,) = await play(source, Speaker(lambda prompt: "x"), env=Count, program=limits, retries=2)
    assert (episode.outcome, episode.success, episode.attempts) == (tw.Outcome.POLICY_FAILED, False, 1)
    assert episode.error is not None
    assert re.search(said, episode.error), episode.error
    assert "\n" not in episode.error
    if "raise KeyError" in source:
        assert [turn.sent for turn in episode.turns] == [False], "what was sampled before the failure is kept"


async def test_running_out_of_context_is_called_by_its_name(play: Play) -> None:
    policy = Speaker([])
    policy.error = PromptTooLongError("the prompt has 9 tokens")
    (episode,) = await play(LOOP, policy, env=Count)
    assert episode.error == "PromptTooLongError: the prompt has 9 tokens"


async def test_failures_of_the_machinery_are_retried_and_never_scored(play: Play) -> None:
    policy = Speaker(lambda prompt: "x")
    policy.error = InfrastructureError("the server is lost")
    (episode,) = await play(LOOP, policy, env=Count, retries=1)
    assert (episode.outcome, episode.attempts) == (tw.Outcome.INFRA_FAILED, 2)
    assert "the server is lost" in (episode.error or "")
    policy.error = None
    env = faulty({0: [(2, raises)]})
    env.__qualname__ = "Count"
    (episode,) = await play(LOOP, policy, env=env, retries=1)
    assert (episode.outcome, episode.attempts) == (tw.Outcome.COMPLETED, 2)


async def test_a_bug_of_the_policy_stops_the_run(play: Play) -> None:
    policy = Speaker([])
    policy.error = ZeroDivisionError("a bug")
    with pytest.raises(tw.TurnwiseError, match="ZeroDivisionError: a bug"):
        await play(LOOP, policy, env=Count)


@pytest.mark.slow
async def test_many_programs_share_one_endpoint_and_mix_nothing_up(play: Play, tmp_path: Path) -> None:
    policy = Speaker(lambda prompt: prompt.split("<user>")[1].split("<")[0])  # the number that only the task knows
    episodes = await play(LOOP, policy, env=Count, n=6, group_size=2, concurrency=12)
    assert len(episodes) == 12
    for episode in episodes:
        assert episode.outcome is tw.Outcome.COMPLETED
        first = episode.turns[0].observation.text
        assert {turn.action.text for turn in episode.turns} == {first}
    with EpisodeStore(tmp_path / "store") as store:
        for episode in episodes:
            store.append(episode)
    assert [e.turns for e in load_episodes(tmp_path / "store")] == [e.turns for e in episodes]


async def test_a_step_after_the_end_is_refused(play: Play, tmp_path: Path) -> None:
    source = f"""
while not env({{"text": "x"}})["done"]:
    pass
try:
    env({{"text": "more"}})
except urllib.error.HTTPError as error:
    open({str(tmp_path / "answer")!r}, "w").write(error.read().decode())
"""
    (episode,) = await play(source, Speaker([]), env=Count)
    assert len(episode.turns) == 3
    assert "the episode is over" in (tmp_path / "answer").read_text()


def alive(pid: int) -> bool:
    """Whether the process runs; one that is dead and not yet waited for does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def told_in(path: Path) -> list[int]:
    """The process ids that a program wrote down."""
    return [int(pid) for pid in path.read_text(encoding="utf-8").split()]


STUBBORN = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", deaf])
open({path!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
os.rename({path!r}, {path!r} + ".done")
time.sleep(600)
"""


async def test_nothing_is_left_when_a_run_is_stopped(play: Play, tmp_path: Path) -> None:
    path = tmp_path / "pids"
    playing = asyncio.ensure_future(play(STUBBORN.format(path=str(path)), Speaker([]), env=Count))
    done = path.with_name("pids.done")
    await until(done.exists)
    pids = told_in(done)
    assert all(map(alive, pids))
    playing.cancel()
    await asyncio.gather(playing, return_exceptions=True)
    await until(lambda: not any(map(alive, pids)))


RUN = """
import asyncio, sys
from turnwise.service.process import Process
async def main():
    await Process.start(sys.argv[1:], {}, max_output=1000)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_nothing_is_left_when_turnwise_itself_is_killed(tmp_path: Path) -> None:
    words = program(tmp_path / "program.py", STUBBORN.format(path=str(tmp_path / "pids")))
    done = tmp_path / "pids.done"
    run = subprocess.Popen([sys.executable, "-c", RUN, *words])
    asyncio.run(until(done.exists))
    left = told_in(done)
    assert all(map(alive, left))
    run.send_signal(signal.SIGKILL)
    run.wait()
    asyncio.run(until(lambda: not any(map(alive, left))))


async def until(true: Callable[[], bool]) -> None:
    """Wait for something that happens in another process."""
    while not true():  # noqa: ASYNC110 - nobody here could set an event
        await asyncio.sleep(0.02)


def test_commands_are_read_as_a_shell_would() -> None:
    assert ProgramConfig.model_validate(f"{sys.executable} 'my agent.py' {{task}}").command[1:] == (
        "my agent.py",
        "{task}",
    )
    with pytest.raises(ValueError, match="there is no executable program 'no-such-program'"):
        ProgramConfig.model_validate("no-such-program --now")
    with pytest.raises(ValueError, match="names no program"):
        ProgramConfig(command=())


def test_only_a_model_can_stand_behind_a_program() -> None:
    with pytest.raises(UsageError, match="OracleAgent is not one"):
        program_agent(OracleAgent(), ProgramConfig(command=(sys.executable,)))


def test_settings_that_a_program_makes_ineffective_are_named() -> None:
    config = ProgramConfig(command=(sys.executable,))
    assert ProgramAgent(agent(Speaker(["x"])), config).remarks(()) == ()
    chat = ChatAgent(Speaker(["x"]), BYTES, context="last:1", system="Be brief.")
    (remark,) = ProgramAgent(chat, config).remarks(())
    assert remark.endswith("without effect here: agent.context = 'last:1', agent.system")
