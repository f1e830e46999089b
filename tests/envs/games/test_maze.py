"""Walking mazes: published returns, what is seen, and a first level that needs no memory."""

from __future__ import annotations

import re

import pytest

import turnwise as tw
from turnwise.envs.games.maze import MazeBlindEnv, MazeEnv, MazeFO, MazePO
from turnwise.tasks.games.maze import MAZES, reactive_move

STATE = re.compile(r"You are at (\d+), (\d+)\. The goal is at (\d+), (\d+): ([^.]+)\. Open: ([^.]+)\.")


def read(text: str) -> tuple[tuple[int, int], tuple[int, int], tuple[str, ...]]:
    """Cell, goal and open directions, from the words alone."""
    found = STATE.search(text)
    assert found, f"not a state: {text}"
    row, column, goal_row, goal_column = (int(found[i]) for i in range(1, 5))
    return (row, column), (goal_row, goal_column), tuple(found[6].split(", "))


@pytest.mark.parametrize("env", [MazeFO(), MazePO()], ids=["FO", "PO"])
def test_the_oracle_reaches_the_published_maximum(env: MazeEnv) -> None:
    returns = []
    for seed in range(25):
        env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, info = env.step(env.oracle())
            total, over = total + reward, terminated or truncated
        assert info["success"]
        returns.append(total)
    assert sum(returns) / 25 == -6.84, "LMRL-Gym's published maximum over the 25 starts of double_t"


def test_rewards_are_the_published_ones() -> None:
    env = MazeFO()
    observation, _ = env.reset(seed=0)
    assert observation.messages[0].role == "system"
    assert observation.messages[1].text == "You are at 1, 1. The goal is at 8, 6: down 7, right 5. Open: right."
    observation, reward, *_ = env.step("move up")
    assert reward == -1.0, "a move into a wall costs a turn, no more"
    assert read(observation.text)[0] == (1, 1)
    observation, reward, *_, info = env.step("jump")
    assert reward == -4.0, "what is no move costs 4"
    assert info["unparsed"]
    assert read(observation.text)[0] == (1, 1), "the answer to nonsense still tells the state"
    assert env.step(tw.Action(problem="unreadable"))[1] == -4.0
    assert env.step("move right")[1] == -1.0
    assert env.cell == (1, 2)


@pytest.mark.parametrize("text", ["move right", "right", " Move  RIGHT ", "right."])
def test_a_move_may_be_said_in_several_ways(text: str) -> None:
    env = MazeFO()
    env.reset(seed=0)
    env.step(text)
    assert env.cell == (1, 2)


def test_a_hundred_turns_end_it_without_success() -> None:
    env = MazeFO()
    env.reset(seed=0)
    for turn in range(100):
        _, _, terminated, truncated, info = env.step("move up")
        assert not truncated, "the limit is the task's own"
        assert terminated == (turn == 99)
    assert not info["success"]


def test_the_blind_see_only_what_is_next_to_them() -> None:
    env = MazeBlindEnv()
    observation, _ = env.reset(seed=3, options={"level": 2})
    for _ in range(5):
        assert re.fullmatch(r"Open: (up|down|left|right)(, (up|down|left|right))*\.", observation.messages[-1].text)
        observation, *_ = env.step(env.oracle())


def success(split: tw.Split, choose: str, n: int = 120) -> float:
    """Share of level-1 mazes that a policy solves; it reads the last observation and nothing else."""
    env, solved = MazeEnv(), 0
    for spec in MAZES.sample(n, split=split, level=1):
        observation, _ = env.reset(options={"task": spec})
        rng, over = tw.Rng(choose, spec.digest), False
        while not over:
            if choose == "reactive":
                move = reactive_move(*read(observation.text))
            elif choose == "weak" and rng.random() < 0.35:
                move = env.oracle()
            else:
                move = env.random_action(rng)
            observation, _, terminated, truncated, info = env.step(move)
            over = terminated or truncated
        solved += info["success"]
    return solved / n


@pytest.mark.slow
@pytest.mark.parametrize(
    "split", ["train", *(pytest.param(each, marks=pytest.mark.shift) for each in MAZES.splits[1:])]
)
def test_level_one_needs_skill_but_no_memory(split: tw.Split) -> None:
    assert success(split, "reactive") == 1.0, "what the last observation says is enough"
    assert success(split, "random") <= MazeEnv.contract.random_floor
    assert 0.1 <= success(split, "weak") <= 0.4, "a weak mixture (35 % oracle) sometimes arrives: there is a signal"


def test_the_words_are_few() -> None:
    env, words = MazeEnv(), set[str]()
    for level in MAZES.levels:
        for spec in MAZES.sample(5, level=level):
            observation, _ = env.reset(options={"task": spec})
            words |= set(re.findall(r"\w+|[^\w\s]", observation.text))
            words |= set(re.findall(r"\w+|[^\w\s]", env.step("move up")[0].text))
    assert len(words) <= 70, sorted(words)


def test_the_maze_can_be_looked_at() -> None:
    env = MazeFO()
    env.reset(seed=0)
    picture = env.render().splitlines()[1:]
    assert picture[1][1] == "@"
    assert picture[8][6] == "G"


def test_only_procedural_mazes_say_where_one_came_from() -> None:
    for env, expected in ((MazeEnv(), True), (MazeFO(), False)):
        env.reset(seed=0)
        observation, *_ = env.step(env.oracle())
        assert ("You came from" in observation.text) is expected, "LMRL-Gym's observations are kept as published"
