"""The contract of each wrapper."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnwise as tw
from turnwise.envs.wrappers.check_reward import CheckReward
from turnwise.envs.wrappers.history import History
from turnwise.envs.wrappers.multi_attempt import MultiAttempt
from turnwise.envs.wrappers.observation_budget import LONGEST_MARK, ObservationBudget, cut, mark, shares
from turnwise.envs.wrappers.turn_limit import TurnLimit
from turnwise.errors import ContractError, UsageError

from ..certify.faults_text import Password
from ..certify.faults_tools import Shelf

texts = st.text(max_size=400)
words = st.lists(st.sampled_from(["a", "bb", "cccc"]), max_size=120).map(" ".join)


def count_words(text: str) -> int:
    return len(text.split())


# -- TurnLimit ---------------------------------------------------------------------------------------------------


@given(own=st.integers(1, 9), limit=st.integers(1, 9))
def test_the_lower_limit_ends_the_episode_in_its_way_and_it_is_judged(own: int, limit: int) -> None:
    env = TurnLimit(Password(max_turns=own), limit)
    env.reset(seed=0)
    assert env.max_turns_truncates == (limit < own)
    for turn in range(1, min(own, limit) + 1):
        _, _, terminated, truncated, info = env.step("hint")
        assert (terminated or truncated) == (turn == min(own, limit)) == ("score" in info) == ("out_of_turns" in info)
    assert (terminated, truncated) == (own <= limit, limit < own), "the task's own limit ends it, the run's cuts it off"
    assert info["success"] is False
    assert env.max_turns == min(own, limit)


def test_a_limit_of_the_run_bounds_what_wrappers_add() -> None:
    env = tw.make("turnwise/MazeU-v0", turn_limit=2, wrappers=[partial(MultiAttempt, attempts=3)])
    env.reset(seed=0)
    assert [env.step("nonsense")[3] for _ in range(2)] == [False, True]


def test_whether_the_limit_truncates_is_a_bool() -> None:
    class Unsure(Password):
        max_turns_truncates = "no"  # type: ignore[assignment]

    with pytest.raises(ContractError, match="max_turns_truncates must be True or False; got 'no'"):
        Unsure()


def test_an_end_of_the_task_at_the_limit_stays_a_termination() -> None:
    env: Any = TurnLimit(Password(), 1)
    env.reset(seed=0)
    assert env.step(env.unwrapped.word)[1:4] == (1.0, True, False)


@pytest.mark.parametrize("turns", [0, -1, True, 2.5, "3"])
def test_a_limit_without_a_turn_is_refused(turns: Any) -> None:
    with pytest.raises(UsageError, match="must be an integer of at least 1"):
        TurnLimit(Password(), turns)


# -- ObservationBudget -------------------------------------------------------------------------------------------


@given(text=texts, limit=st.integers(0, 300), head=st.floats(0, 1))
def test_a_cut_keeps_the_longest_head_and_tail_and_says_exactly_how_much_is_gone(
    text: str, limit: int, head: float
) -> None:
    result = cut(text, limit, head=head)
    if len(text) <= limit:
        assert result == text, "what fits is untouched"
    elif result is None:
        assert len(mark(len(text))) > limit
    else:
        assert len(result) <= limit
        gone = next(
            n for n in range(len(text) + 1) if mark(n) in result and len(result) == len(text) - n + len(mark(n))
        )
        first = round((len(text) - gone) * head)
        assert result == text[:first] + mark(gone) + text[first + gone :], "head, mark, tail; nothing else"
        assert len(text) - gone + 1 + len(mark(gone - 1)) > limit, "not one more character would have fitted"


@given(sizes=st.lists(st.integers(0, 50), max_size=8), limit=st.integers(0, 200))
def test_shares_never_exceed_the_limit_or_the_need_and_waste_nothing(sizes: list[int], limit: int) -> None:
    allowed = shares(sizes, limit)
    assert all(share <= size for share, size in zip(allowed, sizes, strict=True))
    assert sum(allowed) <= limit
    if sum(sizes) <= limit:
        assert allowed == sizes
    elif sizes:
        cut_down = [share for share, size in zip(allowed, sizes, strict=True) if share < size]
        assert max(cut_down) - min(cut_down) <= 1, "those that are cut are cut alike"
        assert limit - sum(allowed) == 0


@given(messages=st.lists(words, min_size=1, max_size=30), limit=st.integers(5, 60), by_words=st.booleans())
@settings(deadline=None)
def test_an_observation_never_exceeds_its_budget_and_every_message_stays(
    messages: list[str], limit: int, by_words: bool
) -> None:
    count = count_words if by_words else len
    limit = max(limit, count(LONGEST_MARK))
    env = ObservationBudget(Password(), limit, count)
    given = tw.Observation(
        tuple(tw.Message("tool", (tw.TextPart(text),), name=f"t{i}") for i, text in enumerate(messages))
    )
    fitted = env.fitted(given)
    assert sum(count(message.text) for message in fitted.messages) <= limit
    assert [message.name for message in fitted.messages] == [message.name for message in given.messages]
    if sum(map(count, messages)) <= limit:
        assert fitted == given
    else:
        assert "characters cut" in fitted.text, "a cut is always marked"


def test_images_and_short_messages_stay_whole() -> None:
    picture = tw.ImagePart(b"png")
    long = tw.Message("user", (tw.TextPart("x" * 500), picture))
    short = tw.message("user", "short")
    fitted = ObservationBudget(Password(), 100).fitted(tw.Observation((long, short)))
    assert fitted.messages[1] == short
    assert fitted.messages[0].parts[-1] == picture


def test_first_and_later_observations_are_cut() -> None:
    env = ObservationBudget(Password(), 45)
    assert "characters cut" in env.reset(seed=0)[0].text
    env.step("hint")
    assert env.step("hint")[0].text.startswith("So far")


@pytest.mark.parametrize(("limit", "head", "words"), [(5, 0.5, "no room"), (100, 1.5, "must be a share")])
def test_an_impossible_budget_is_refused(limit: int, head: float, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ObservationBudget(Password(), limit, head=head)


# -- MultiAttempt ------------------------------------------------------------------------------------------------


class Paying(Shelf):
    """Every turn costs as much as its text is long; saying 'end' ends the attempt."""

    max_turns = 4

    def said(self, text: str) -> Any:
        return tw.failure("Over.", -0.5) if text == "end" else tw.running("On.", -float(len(text)))


@pytest.mark.slow
@given(says=st.lists(st.sampled_from(["", "a", "bbb", "end"]), min_size=1, max_size=14), attempts=st.integers(1, 4))
def test_rewards_sum_to_the_last_or_the_best_attempt(says: list[str], attempts: int) -> None:
    totals = {"last": 0.0, "best": 0.0}
    for mode in ("last", "best"):
        env = MultiAttempt(Paying(), attempts, mode)
        env.reset(seed=0)
        returns, finished, over = [0.0], [False], False
        for text in says:
            now = env.attempt
            _, reward, terminated, truncated, info = env.step(text)
            totals[mode] += reward
            returns[-1] += -0.5 if text == "end" else -float(len(text))
            over = terminated or truncated
            if over or env.attempt != now:
                finished[-1] = True
                if not over:
                    returns.append(0.0)
                    finished.append(False)
            assert ("score" in info) == over
            if over:
                break
        done = [value for value, end in zip(returns, finished, strict=True) if end]
        open_part = 0.0 if finished[-1] else returns[-1]
        worth = open_part + (returns[-1] - open_part if mode == "last" else max(done, default=0.0))
        assert totals[mode] == pytest.approx(worth), "the rewards so far sum to what the episode is worth so far"
        assert len(returns) <= attempts


def test_a_failed_attempt_is_told_and_the_same_task_begins_again() -> None:
    env: Any = MultiAttempt(Password(max_turns=2), 2)
    first, _ = env.reset(seed=5)
    word = env.unwrapped.word
    env.step("hint")
    observation, _, terminated, truncated, info = env.step("nonsense")
    assert (terminated, truncated) == (False, False)
    assert [m.text for m in observation.messages][-2:] == ["That attempt failed. Attempt 2 of 2 begins.", first.text]
    assert env.unwrapped.word == word
    assert info["attempt"] == 1
    assert "success" not in info
    assert info["failed_checks"] == {}
    assert env.state_key().startswith("attempt 2: ")
    assert env.step(word)[1:4] == (1.0, True, False)
    assert env.max_turns == 4


def test_success_needs_no_second_attempt() -> None:
    env: Any = MultiAttempt(Password(), 3)
    env.reset(seed=5)
    _, reward, terminated, _, info = env.step(env.unwrapped.word)
    assert (reward, terminated, info["success"], info["attempt"]) == (1.0, True, True, 1)


@pytest.mark.parametrize(("attempts", "reward"), [(0, "last"), (2, "mean")])
def test_impossible_attempts_are_refused(attempts: int, reward: Any) -> None:
    with pytest.raises(UsageError, match="attempts"):
        MultiAttempt(Password(), attempts, reward)


# -- History -----------------------------------------------------------------------------------------------------


@given(turns=st.integers(0, 4), says=st.lists(st.sampled_from(["hint", "no", "never"]), max_size=7))
def test_history_is_the_last_turns_in_order(turns: int, says: list[str]) -> None:
    env, bare = History(Password(), turns), Password()
    seen = [bare.reset(seed=2)[0]]
    assert env.reset(seed=2)[0] == seen[0]
    for i, text in enumerate(says):
        observation = env.step(text)[0]
        seen.append(bare.step(text)[0])
        expected: list[tw.Message] = []
        for j in range(max(0, i + 1 - turns), i + 1):
            expected += [*seen[j].messages, tw.message("assistant", says[j])]
        assert list(observation.messages) == [*expected, *seen[-1].messages]


def test_history_forgets_at_reset_and_cannot_be_negative() -> None:
    env = History(Password(), 2)
    env.reset(seed=2)
    env.step("hint")
    assert len(env.reset(seed=2)[0].messages) == 1
    with pytest.raises(UsageError, match="-1"):
        History(Password(), -1)


# -- CheckReward -------------------------------------------------------------------------------------------------


class Chores(tw.ToolEnv):
    """Three things to do, each of which can be undone."""

    max_turns = 12

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.done = {"dishes": False, "bins": rng.random() < 0.5, "floor": False}
        return "Do the chores."

    @tw.tool
    def toggle(self, chore: str) -> str:
        """Do a chore, or undo it."""
        if chore not in self.done:
            raise tw.ToolError(f"there is no chore {chore!r}")
        self.done[chore] = not self.done[chore]
        return "ok"

    def judge(self) -> tw.Score:
        return tw.Score(all(self.done.values()), self.done)


toggles = st.lists(st.sampled_from(["dishes", "bins", "floor", "nothing"]), max_size=12)
weights = st.dictionaries(st.sampled_from(["dishes", "bins", "floor"]), st.floats(0.1, 10))


@given(chores=toggles, weights=weights, seed=st.integers(0, 20))
def test_differences_telescope(chores: list[str], weights: dict[str, float], seed: int) -> None:
    env: Any = CheckReward(Chores(), weights=weights)
    env.reset(seed=seed)
    start = env.potential(env.judge())
    total = 0.0
    for chore in chores:
        _, reward, terminated, truncated, _ = env.step(tw.ToolCall("toggle", {"chore": chore}))
        total += reward
        assert total == pytest.approx(env.potential(env.judge()) - start), "going in circles pays nothing"
        if terminated or truncated:
            break


@given(chores=toggles)
def test_at_the_end_the_share_is_paid_once(chores: list[str]) -> None:
    env: Any = CheckReward(Chores(max_turns=max(1, len(chores))), "end")
    env.reset(seed=0)
    rewards = [env.step(tw.ToolCall("toggle", {"chore": chore}))[1] for chore in chores]
    assert all(reward == 0 for reward in rewards[:-1])
    if rewards:
        assert rewards[-1] == pytest.approx(sum(env.unwrapped.done.values()) / 3)


def test_without_checks_success_is_all_there_is() -> None:
    env: Any = CheckReward(Password())
    env.reset(seed=0)
    assert [env.step("hint")[1], env.step(env.unwrapped.word)[1]] == [0.0, 1.0]


def test_weights_of_zero_leave_success() -> None:
    assert CheckReward(Chores(), weights={"a": 0}).potential(tw.Score(True, {"a": False})) == 1.0


@pytest.mark.parametrize(
    ("arguments", "words"), [({"when": "now"}, "'now'"), ({"weights": {"a": -1}}, "'a' is negative")]
)
def test_impossible_check_rewards_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        CheckReward(Chores(), **arguments)
