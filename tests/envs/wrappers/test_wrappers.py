"""The contract of all wrappers: sync and async, forks, composition, Gymnasium's make, certification."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import registry as gymnasium_registry
from hypothesis import given, settings
from hypothesis import strategies as st

import turnwise as tw
from turnwise.envs import registry
from turnwise.envs.certify.certify import LAWS, certify
from turnwise.envs.certify.trace import plain
from turnwise.envs.wrappers.base import TurnWrapper
from turnwise.envs.wrappers.check_reward import CheckReward
from turnwise.envs.wrappers.history import History
from turnwise.envs.wrappers.multi_attempt import MultiAttempt
from turnwise.envs.wrappers.observation_budget import ObservationBudget
from turnwise.envs.wrappers.tool_faults import ToolFaults
from turnwise.envs.wrappers.turn_limit import TurnLimit
from turnwise.errors import ContractError

from ..certify.faults_text import Password
from ..certify.faults_tools import Shelf

Wrap = Callable[[Any], Any]
LONG_LAWS = {"two_processes_agree", "leaks_nothing"}
WRAPS: dict[str, Wrap] = {
    "nothing": lambda env: TurnWrapper(env),
    "turn limit": partial(TurnLimit, max_turns=3),
    "budget": partial(ObservationBudget, limit=60),
    "attempts": partial(MultiAttempt, attempts=2),
    "history": partial(History, turns=2),
    "checks": CheckReward,
    "faults": partial(ToolFaults, timeouts=0.2, errors=0.2, lost=0.2, seed=4),
    "several": lambda env: ObservationBudget(History(MultiAttempt(TurnLimit(env, 3), 3, "best"), 1), 200),
}
actions = st.lists(st.sampled_from(["hint", "bababa", "", "please"]), max_size=12)
calls = st.lists(
    st.sampled_from(
        [tw.ToolCall("look"), tw.ToolCall("done"), tw.ToolCall("nothing")]
        + [tw.ToolCall("move", {"thing": t, "place": p}) for t in ("cup", "lamp") for p in ("box", "bin", "shelf")]
    ),
    max_size=8,
)


class AsyncPassword(Password):
    """The same world, written with coroutines."""

    async def act(self, action: tw.Action) -> Any:
        await asyncio.sleep(0)
        return super().act(action)

    async def judge(self) -> tw.Score:
        await asyncio.sleep(0)
        return tw.Score(success=False, checks={"hinted": bool(self.notes)})


def played(env: Any, actions: list[Any], seed: int = 3) -> list[Any]:
    """Everything that an episode answers."""
    answers = [plain(env.reset(seed=seed))]
    for action in actions:
        answer = env.step(action)
        answers.append(plain(answer))
        if answer[2] or answer[3]:
            break
    return answers


async def aplayed(env: Any, actions: list[Any], seed: int = 3) -> list[Any]:
    answers = [plain(await env.areset(seed=seed))]
    for action in actions:
        answer = await env.astep(action)
        answers.append(plain(answer))
        if answer[2] or answer[3]:
            break
    return answers


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@given(texts=actions)
@settings(max_examples=15, deadline=None)
def test_sync_and_async_are_the_same(wrap: Wrap, texts: list[str]) -> None:
    sync = played(wrap(Password()), texts)
    assert asyncio.run(aplayed(wrap(Password()), texts)) == sync


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_an_environment_of_coroutines_can_be_wrapped_and_stepped_both_ways(wrap: Wrap) -> None:
    texts = ["hint"] * 6
    assert asyncio.run(aplayed(wrap(AsyncPassword()), texts)) == played(wrap(AsyncPassword()), texts)


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@given(texts=calls, at=st.integers(0, 7))
@settings(max_examples=15, deadline=None)
def test_a_fork_goes_on_alike_and_alone(wrap: Wrap, texts: list[tw.ToolCall], at: int) -> None:
    whole = played(wrap(Shelf()), texts)
    if at >= len(whole) - 1:
        return
    env = wrap(Shelf())
    env.reset(seed=3)
    for action in texts[:at]:
        env.step(action)
    fork, other = env.fork(), env.fork()
    other.step(tw.ToolCall("move", {"thing": "book", "place": "bin"}))
    other.reset(seed=9)
    for each in (env, fork):
        rest = [plain(each.step(action)) for action in texts[at : len(whole) - 1]]
        assert rest == whole[at + 1 :], "neither a fork nor its original may feel what another fork did"


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_a_deep_copy_is_possible_before_the_first_reset_and_later_is_a_fork(wrap: Wrap) -> None:
    env = wrap(Password())
    twin = copy.deepcopy(env)
    assert played(twin, ["hint", "hint"]) == played(env, ["hint", "hint"])
    env.reset(seed=3)
    env.step("hint")
    copied, forked = copy.deepcopy(env), env.fork()
    assert plain(copied.step("please")) == plain(forked.step("please")) == plain(env.step("please"))


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_what_the_environment_has_shines_through(wrap: Wrap) -> None:
    env = wrap(Shelf())
    env.reset(seed=3)
    inner = env.unwrapped
    assert [tool.name for tool in env.tools] == ["move", "look", "done"]
    assert env.task == inner.task
    assert env.oracle() == inner.oracle()
    assert env.random_action(tw.Rng(1)) == inner.random_action(tw.Rng(1))
    assert env.state_key() == inner.state_key()
    assert env.tasks().name == "Shelf"
    assert env.turn == 0
    with pytest.raises(AttributeError, match="has no attribute"):
        _ = env.no_such_thing
    assert isinstance(pickle.loads(pickle.dumps(TurnLimit(Shelf(), 3))), TurnLimit)


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_turns_are_those_that_this_wrapper_has_seen(wrap: Wrap) -> None:
    env = wrap(Password())
    env.reset(seed=1)
    for turn in (1, 2, 3):
        info = env.step("bababa")[4]
        assert info["turn"] == env.turn == turn


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_no_step_before_reset_or_after_the_end(wrap: Wrap) -> None:
    env = wrap(Password(max_turns=1))
    with pytest.raises(ContractError, match="call reset"):
        env.step("hint")
    env.reset(seed=1)
    while not any(env.step("hint")[2:4]):
        pass
    with pytest.raises(ContractError, match="call reset"):
        env.step("hint")
    with pytest.raises(ContractError, match="call reset"):
        env.fork().step("hint")


@pytest.mark.parametrize(
    "laws",
    [
        pytest.param({law.name for law in LAWS} - LONG_LAWS, id="short"),
        pytest.param(LONG_LAWS, id="long", marks=[pytest.mark.slow, pytest.mark.shift]),
    ],
)
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_a_wrapped_environment_keeps_the_laws_that_its_wrapper_leaves_in_force(wrap: Wrap, laws: set[str]) -> None:
    # The limit law does not apply to wrappers; a limit of three turns ends before the oracle of Password can win.
    certificate = certify(lambda: wrap(Shelf()), quick=True, laws=laws)
    assert set(certificate.broken) <= {"oracle_solves"}, str(certificate)


@pytest.fixture
def shelf_id() -> Iterator[str]:
    id = "wrapped/Shelf-v0"
    tw.register(id, Shelf)
    yield id
    registry._entries.pop(id)
    gymnasium_registry.pop(id)


def test_turnwise_make_applies_wrappers_in_order(shelf_id: str) -> None:
    env: Any = tw.make(shelf_id, wrappers=[partial(TurnLimit, max_turns=2), partial(History, turns=1)])
    assert isinstance(env, History)
    assert isinstance(env.env, TurnLimit)
    env.reset(seed=0)
    env.step(tw.ToolCall("look"))
    _, _, terminated, truncated, info = env.step(tw.ToolCall("look"))
    assert (terminated, truncated, info["success"]) == (False, True, False)


@pytest.mark.filterwarnings("ignore:.*observation returned by the `.*` method is not within")
def test_gymnasium_make_and_its_wrappers_go_with_ours(shelf_id: str) -> None:
    inside: Any = TurnLimit(gymnasium.make(shelf_id), 2)  # Gymnasium's checker below: it has no async form and no fork
    assert asyncio.run(aplayed(inside, [tw.ToolCall("look")] * 3)) == played(inside, [tw.ToolCall("look")] * 3)
    inside.reset(seed=0)
    inside.step(tw.ToolCall("look"))
    fork = inside.fork()
    assert fork.step(tw.ToolCall("look"))[3]
    assert inside.turn == 1, "the original does not feel its fork"
    outside = gymnasium.wrappers.RecordEpisodeStatistics(TurnLimit(tw.make(shelf_id), 1))
    outside.reset(seed=0)
    assert outside.step("x")[4]["episode"]["l"] == 1


def test_a_wrapped_environment_is_made_again_from_its_spec(shelf_id: str) -> None:
    env = History(TurnLimit(tw.make(shelf_id), max_turns=2), turns=1)
    assert env.spec is not None
    again: Any = gymnasium.make(env.spec, disable_env_checker=True)
    assert isinstance(again, History)
    assert played(again, [tw.ToolCall("look")] * 2) == played(env, [tw.ToolCall("look")] * 2)


def test_only_turn_environments_are_wrapped() -> None:
    with pytest.raises(ContractError, match="wraps turn environments"):
        TurnLimit(gymnasium.make("CartPole-v1"), 3)
