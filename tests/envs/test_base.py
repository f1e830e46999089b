"""``TurnEnv``: what is derived from start and act, in both forms."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.certify.trace import plain
from turnwise.errors import ContractError, TaskError, UsageError


class Counter(tw.TurnEnv):
    """Add numbers until the sum is ten."""

    max_turns = 4
    unparsed_reward = -0.25

    def start(self, task: Any, rng: tw.Rng) -> Any:
        self.sum = 0
        self.lucky = rng.randint(0, 10**9)
        return "Make ten."

    def act(self, action: tw.Action) -> Any:
        self.sum += action.integer()
        if self.sum == 10:
            return tw.success("Ten.")
        if self.sum > 10:
            return tw.failure("Too much.", -1.0)
        return f"{self.sum}"

    def judge(self) -> tw.Score | Any:
        return tw.Score(False, {"half way": self.sum >= 5})

    def state_key(self) -> str | None:
        return str(self.sum)


class AsyncCounter(Counter):
    """The same, written with coroutines that really wait."""

    async def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        await asyncio.sleep(0)
        return super().start(task, rng)

    async def act(self, action: tw.Action) -> Any:
        await asyncio.sleep(0)
        return super().act(action)

    async def judge(self) -> tw.Score:
        await asyncio.sleep(0)
        return super().judge()


class Family(tw.TaskFamily[int]):
    name = "counting"
    levels = (1, 3)
    splits = (tw.Split.TRAIN, tw.Split.DEV)
    seeds = 5

    def build(self, spec: tw.TaskSpec, rng: tw.Rng) -> int:
        return rng.randrange(100)


class Familiar(Counter):
    family = Family()


def sync(cls: type[tw.TurnEnv], actions: list[Any], **reset: Any) -> list[Any]:
    env = cls()
    return [plain(env.reset(**(reset or {"seed": 1}))), *(plain(env.step(action)) for action in actions)]


def through_async(cls: type[tw.TurnEnv], actions: list[Any], **reset: Any) -> list[Any]:
    async def play() -> list[Any]:
        env = cls()
        answers = [plain(await env.areset(**(reset or {"seed": 1})))]
        return answers + [plain(await env.astep(action)) for action in actions]

    return asyncio.run(play())


EPISODES = {
    "solved": ["3", "7"],
    "failed": ["3", "8"],
    "out of turns": ["1", "1", "1", "1"],
    "unparseable": ["one", tw.Action(problem="No tags."), "10"],
    "unparseable at the limit": ["", "", "", ""],
}


@pytest.mark.parametrize("play", [sync, through_async])
@pytest.mark.parametrize("actions", EPISODES.values(), ids=EPISODES)
def test_an_author_writes_one_form_and_both_work(play: Callable[..., Any], actions: list[Any]) -> None:
    for cls in (Counter, AsyncCounter):
        cls_task = {"options": {"task": tw.TaskSpec(cls.__name__).to_json()}}
        expected = sync(Counter, actions, options={"task": tw.TaskSpec("Counter")})
        got = play(cls, actions, **cls_task)
        assert got[1:] == expected[1:]
        assert got[0][0] == expected[0][0]


def test_the_async_form_does_not_block_the_loop_of_its_caller() -> None:
    gate = asyncio.Event()

    class Waiting(Counter):
        async def act(self, action: tw.Action) -> Any:
            await gate.wait()
            return tw.success("Done.")

    async def play() -> list[Any]:
        envs = [Waiting() for _ in range(3)]
        for env in envs:
            await env.areset(seed=0)
        steps = [asyncio.create_task(env.astep("1")) for env in envs]
        await asyncio.sleep(0)
        gate.set()
        return await asyncio.gather(*steps)

    assert [answer[2] for answer in asyncio.run(play())] == [True] * 3


def test_the_sync_form_of_a_coroutine_works_inside_a_running_loop() -> None:
    async def play() -> Any:
        return sync(AsyncCounter, ["10"])[-1]

    assert asyncio.run(play())[2] is True


def test_a_coroutine_that_calls_its_own_sync_form_is_told_instead_of_waiting_for_itself() -> None:
    class Inward(AsyncCounter):
        async def act(self, action: tw.Action) -> Any:
            return AsyncCounter().reset(seed=1)

    env = Inward()
    env.reset(seed=0)
    with pytest.raises(ContractError, match="await areset"):
        env.step("1")


def test_all_sync_forms_share_one_background_thread() -> None:
    for _ in range(3):
        sync(AsyncCounter, ["10"])
    assert sum(thread.name == "turnwise-sync" for thread in threading.enumerate()) == 1


# -- endings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [False, True])
def test_the_turn_limit_ends_the_episode_and_the_world_is_judged_then(cuts: bool) -> None:
    env = Counter()
    env.max_turns_truncates = cuts
    env.reset(seed=0)
    answers = [env.step(text) for text in ("1", "2", "3", "1")]
    assert [answer[2:4] for answer in answers] == [(False, False)] * 3 + [(not cuts, cuts)]
    assert ["out_of_turns" in answer[4] for answer in answers] == [False] * 3 + [True]
    assert "score" not in answers[2][4]
    assert answers[3][4]["score"] == tw.Score(False, {"half way": True})
    assert answers[3][4]["success"] is False


def test_an_end_at_the_limit_is_an_end() -> None:
    answers = sync(Counter, ["1", "1", "1", "7"])
    assert answers[-1][2:4] == [True, False]
    assert "out_of_turns" not in answers[-1][4], "it would have ended without a limit"


def test_an_end_with_a_score_is_not_judged_again() -> None:
    class Unjudgeable(Counter):
        def judge(self) -> tw.Score:
            raise AssertionError("judge() must not be called")

    assert sync(Unjudgeable, ["10"])[-1][4]["success"] is True


@pytest.mark.parametrize("limit", [0, -3, 1.5, True])
def test_a_limit_without_turns_is_refused(limit: Any) -> None:
    with pytest.raises(UsageError, match="max_turns must be an integer of at least 1"):
        Counter(max_turns=limit)


def test_an_instance_may_have_another_limit_than_its_class() -> None:
    env = Counter(max_turns=1)
    env.reset(seed=0)
    assert env.step("1")[2:4] == (True, False)
    assert Counter.max_turns == 4


@pytest.mark.parametrize("ended", [False, True])
def test_no_step_before_a_reset_or_after_an_end(ended: bool) -> None:
    env = Counter()
    if ended:
        env.reset(seed=0)
        env.step("10")
    with pytest.raises(ContractError, match=r"call reset\(\) first"):
        env.step("1")
    with pytest.raises(ContractError, match=r"call reset\(\) first"):
        asyncio.run(env.astep("1"))


def test_no_step_after_a_reset_that_failed() -> None:
    class Picky(Counter):
        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
            if task.seed == 13:
                raise RuntimeError("not this one")
            return super().start(task, rng)

    env = Picky()
    env.reset(seed=0)
    with pytest.raises(RuntimeError, match="not this one"):
        env.reset(seed=13)
    with pytest.raises(ContractError, match=r"call reset\(\) first"):
        env.step("1")  # it would be a step in the world of the episode before
    env.reset(seed=0)
    assert env.step("1")[4]["turn"] == 1


# -- actions -----------------------------------------------------------------------------------------------------


def test_what_cannot_be_read_costs_a_turn_and_is_explained() -> None:
    env = Counter()
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step("ten")
    assert "whole number" in observation.text
    assert (reward, terminated, truncated) == (-0.25, False, False)
    assert info["unparsed"] is True
    assert env.turn == info["turn"] == 1
    observation, *_ = env.step(tw.Action(problem="The tags do not match."))
    assert observation.text == "The tags do not match."
    assert env.sum == 0


def test_what_is_no_action_is_an_error_of_the_caller() -> None:
    env = Counter()
    env.reset(seed=0)
    bad: Any = 7
    with pytest.raises(TypeError, match="an action must be text"):
        env.step(bad)


def test_what_is_no_observation_is_an_error_of_the_author() -> None:
    class Mute(Counter):
        def act(self, action: tw.Action) -> Any:
            return None

    env = Mute()
    env.reset(seed=0)
    with pytest.raises(ContractError, match=r"Mute.act\(\) returned nothing; return text, .*test_base.py:\d+ in .*act"):
        env.step("1")


@pytest.mark.parametrize("name", ["start", "act"])
def test_what_lacks_a_method_cannot_be_made(name: str) -> None:
    lacking = type("Lacking", (Counter,), {name: getattr(tw.TurnEnv, name)})
    with pytest.raises(ContractError, match=rf"Lacking has no {name}\(\); write {name}\(self, "):
        lacking()


# -- tasks -------------------------------------------------------------------------------------------------------


def test_a_seed_names_a_task_and_the_task_says_everything() -> None:
    env, twin = Familiar(), Familiar()
    _, info = env.reset(seed=3, options={"split": "dev", "level": 3})
    spec = tw.TaskSpec("counting", level=3, seed=3, split=tw.Split.DEV)
    assert env.task == spec
    assert info["task"] == spec.to_json()
    twin.reset(options={"task": spec})
    assert twin.lucky == env.lucky
    env.reset(seed=8)
    assert env.task.seed == 3, "a family with five instances counts its seeds modulo five"


def test_without_a_seed_resets_differ_and_follow_the_last_seed() -> None:
    def tasks(env: Counter) -> list[int]:
        seeds = []
        for seed in (11, None, None):
            env.reset(seed=seed)
            seeds.append(env.task.seed)
        return seeds

    one = tasks(Counter())
    assert len(set(one)) == 3
    assert tasks(Counter()) == one, "Gymnasium's rule: one seed fixes all resets that follow without one"


BAD_RESETS: dict[str, tuple[dict[str, Any], str]] = {
    "negative seed": ({"seed": -1}, "seed must be .* got -1"),
    "float seed": ({"seed": 1.5}, "seed must be .* got 1.5"),
    "true seed": ({"seed": True}, "seed must be .* got True"),
    "unknown option": ({"options": {"splitt": "dev"}}, "unknown reset option 'splitt'"),
    "no options": ({"options": "train"}, "must be a dict such as {'split': 'dev'}; got 'train'"),
    "task and more": ({"options": {"task": tw.TaskSpec("counting"), "level": 1}}, "also"),
    "another family": ({"options": {"task": tw.TaskSpec("chess")}}, "'chess'.*'counting'"),
    "no such level": ({"options": {"level": 2}}, "no level 2"),
    "no such split": ({"options": {"split": "challenge"}}, "no split 'challenge'"),
    "no split at all": ({"options": {"split": "trian"}}, "'trian'"),
    "no such template": ({"options": {"template": "x"}}, "no template 'x'"),
    "no such seed": ({"options": {"task": tw.TaskSpec("counting", seed=5)}}, "seeds 0 to 4; got 5"),
    "not a spec": ({"options": {"task": {"game": "chess"}}}, "not a task spec"),
}


@pytest.mark.parametrize(("reset", "words"), BAD_RESETS.values(), ids=BAD_RESETS)
def test_a_task_that_does_not_exist_is_refused_with_its_value(reset: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        Familiar().reset(**reset)


def test_there_is_no_task_before_reset() -> None:
    with pytest.raises(ContractError, match="no task before reset"):
        _ = Counter().task


# -- the rest ----------------------------------------------------------------------------------------------------


def test_an_environment_without_an_oracle_says_what_to_write() -> None:
    with pytest.raises(ContractError, match=r"Counter has no oracle; write oracle\(\)"):
        Counter().oracle()


def test_render_shows_the_episode() -> None:
    env = Counter(render_mode="ansi")
    env.reset(seed=0)
    env.step("3")
    assert env.render() == "Counter turn 1/4\n> 3"


def test_an_instance_travels_by_pickle_in_the_middle_of_an_episode() -> None:
    env = Counter()
    env.reset(seed=0)
    env.step("4")
    twin = pickle.loads(pickle.dumps(env))
    assert plain(twin.step("6")) == plain(env.step("6"))


def test_info_keeps_the_turn_and_the_key_of_the_state() -> None:
    env = Counter()
    assert env.reset(seed=0)[1]["obs_key"] == "0"
    assert env.step("4")[4] == {"turn": 1, "obs_key": "4"}
