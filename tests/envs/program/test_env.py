"""Environments acted in by programs: the same worlds, tasks and scores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.certify.certify import LAWS, certify
from turnwise.envs.fork import Forks
from turnwise.errors import SandboxError, UsageError

from .worlds import BookshopPrograms, Bookshops

pytestmark = pytest.mark.usefixtures("backend")
CERTIFIED_ALWAYS = {"oracle_solves", "replay_equals_original", "fork_equals_original", "judged_at_the_end"}
CERTIFIED_LONGEST = {"leaks_nothing", "fork_is_independent"}


def started(**kwargs: Any) -> Bookshops:
    env = Bookshops(**{"actions": "python", **kwargs})
    env.reset(seed=0)
    return env


def played(env: tw.TurnEnv, seed: int) -> tuple[Any, ...]:
    env.reset(seed=seed)
    over, rewards, info = False, list[float](), dict[str, Any]()
    while not over:
        _, reward, terminated, truncated, info = env.step(env.oracle())
        rewards.append(reward)
        over = terminated or truncated
    return rewards, info["score"]


@pytest.mark.parametrize("seed", [0, 1])
def test_calls_and_programs_solve_a_task_with_the_same_score(seed: int) -> None:
    assert played(Bookshops(), seed) == played(started(), seed)


def test_by_tools_it_is_the_environment_as_it_was() -> None:
    env = Bookshops()
    first, _ = env.reset(seed=0)
    assert [tool.name for tool in env.tools] == ["shop_price", "shop_names", "note", "shop_buy"]
    assert "Python" not in first.text
    assert env.forks is Forks.COPY
    assert env.oracle() == tw.ToolCall("shop_price", {"shop": "Adler"})


def test_the_first_observation_tells_what_a_program_can_call() -> None:
    env = Bookshops(actions="python")
    first, _ = env.reset(seed=0)
    assert [message.role for message in first.messages] == ["system", "user"]
    assert "apis.shop.price(shop: str, copies: int = 1): Ask a shop for its price." in first.text
    assert [tool.name for tool in env.tools] == ["python"]


@pytest.mark.parametrize(
    "text",
    [
        "print(6 * 7)",
        "First I compute.\n```python\nprint(6 * 7)\n```\nIt prints 43, and so\n```python\nprint(43)\n```",
        "```json\n{}\n```\n~~~py\nprint(6 * 7)\n~~~",
        "```\nprint(6 * 7)",
    ],
    ids=["all of it", "the first block", "the first of Python", "one that was cut off"],
)
def test_a_message_is_a_program(text: str) -> None:
    observation, _, over, _, _ = started().step(text)
    assert (observation.messages[0].role, observation.text, over) == ("user", "42\nExit code 0.", False)


@pytest.mark.parametrize("text", ["", " \n", "```json\n{}\n```"])
def test_a_message_without_a_program_is_unparsed(text: str) -> None:
    observation, _, _, _, info = started().step(text)
    assert (observation.text, info["unparsed"]) == ("Write a program in Python.", True)


def test_a_whole_task_in_one_program() -> None:
    env = started()
    code = "apis.shop.buy(min(apis.shop.price(name)['price'] for name in apis.shop.names()))\nprint('bought')"
    observation, reward, over, _, info = env.step(f"```python\n{code}\n```")
    assert (reward, over, info["success"]) == (1.0, True, True)
    assert observation.text == "bought\nExit code 0."
    assert info["calls"][-1] == {"name": "shop_buy", "arguments": {"price": env.lowest}}


def test_of_several_programs_none_is_run_after_the_end() -> None:
    env = started()
    calls = [tw.ToolCall("python", {"code": f"apis.shop.buy({n})"}) for n in (1, 2)]
    observation, _, over, _, info = env.step(tw.Action(tool_calls=tuple(calls)))
    assert (len(observation.messages), over, env.bought, info["success"]) == (1, True, [1], False)


def test_errors_are_observations_and_are_counted() -> None:
    env = started()
    _, _, over, _, info = env.step("try: apis.shop.price('Dunn')\nexcept ApiError: pass")
    assert (over, info["tool_errors"]) == (False, ["shop_price"])
    observation, *_ = env.step(tw.ToolCall("shop_price", {"shop": "Blum"}))
    assert observation.text.startswith("Error: there is no tool 'shop_price'. You have: python.")


def test_a_fork_runs_the_programs_again_and_is_apart() -> None:
    env = started()
    env.step("seen = [apis.shop.price('Adler')]")
    fork = env.fork()
    assert (fork.asked, fork.state_key()) == (["Adler"], env.state_key())
    env.step("seen.append(apis.shop.price('Blum'))")
    assert fork.step("len(seen)")[0].text == "1\nExit code 0."
    assert (env.asked, fork.asked) == (["Adler", "Blum"], ["Adler"])


def test_programs_are_part_of_the_state() -> None:
    one, other = started(), started()
    before = one.state_key()
    one.step("x = 1")
    assert one.state_key() != before, "its variables are what the next program begins with"
    other.step("x = 1")
    assert one.state_key() == other.state_key()


def test_sets_have_the_same_order_in_every_session() -> None:
    code = "''.join(set('abcdefghijklmnopqrstuvwxyz'))"
    assert started().step(code)[0].text == started().step(code)[0].text, "a replay could differ otherwise"


def test_near_misses_and_random_actions_are_programs() -> None:
    env = started()
    for play in env.near_misses().values():
        env.reset(seed=0)
        action = play(env) if callable(play) else play[0]
        _, _, over, _, info = env.step(action)
        assert (over, info["success"]) == (True, False)
        assert info["calls"][0]["name"] == "shop_buy"
    chosen = tw.Action.of(env.random_action(tw.Rng("a", 1)))
    assert chosen.tool_calls[0].arguments["code"].startswith("print(apis.")


async def test_the_machinery_fails_out_and_the_next_episode_has_another_sandbox() -> None:
    env = Bookshops(actions="python")
    await env.areset(seed=0)
    with pytest.raises(ConnectionError):
        await env.astep("apis.note('broken')")
    await env.areset(seed=0)
    await (await env.episode_sandbox.sandbox()).destroy()
    with pytest.raises(SandboxError):
        await env.astep("1")
    await env.areset(seed=0)
    assert (await env.astep("apis.shop.names()"))[0].text.startswith("['Adler'")


async def test_episodes_side_by_side_share_nothing() -> None:
    envs = [Bookshops(actions="python") for _ in range(3)]
    await asyncio.gather(*(env.areset(seed=n) for n, env in enumerate(envs)))
    code = "mine = {n: apis.shop.price(n)['price'] for n in apis.shop.names()}\nmine"
    answers = await asyncio.gather(*(env.astep(code) for env in envs))
    assert [answer[0].text.splitlines()[0] for answer in answers] == [str(env.prices) for env in envs]


def test_a_program_that_does_not_end_is_stopped() -> None:
    env = started(seconds=0.5)
    observation, *_ = env.step("while True: apis.note('a')")
    assert "Error: no more requests" in observation.text or "Stopped" in observation.text
    assert "Stopped: it did not finish within 0.5 seconds." in env.step("while True: pass")[0].text


def test_other_ways_to_act_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown actions 'words'"):
        Bookshops(actions="words")  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    "laws",
    [
        pytest.param(CERTIFIED_ALWAYS, id="always"),
        pytest.param(CERTIFIED_LONGEST, id="longest", marks=pytest.mark.shift),
        pytest.param(
            {law.name for law in LAWS} - CERTIFIED_ALWAYS - CERTIFIED_LONGEST, id="others", marks=pytest.mark.shift
        ),
    ],
)
def test_it_is_certified(laws: set[str]) -> None:
    certificate = certify(BookshopPrograms, quick=True, laws=laws)
    assert certificate.passed, str(certificate)
