"""VinePPO: its credit against the definition, its values and advantages against the exact ones of a maze."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise import Episode, Outcome
from turnwise.rollouts.branching import branch_episodes
from turnwise.rollouts.branching_vine import StateValues
from turnwise.rollouts.episode import Lookahead
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.tasks.games.maze import U_SHAPED_MAZE, Maze, step
from turnwise.tasks.games.maze_layouts import MOVES, Cell
from turnwise.trainers.algorithms.vine_ppo import VinePPO, state_values
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import grouped

from ...rollouts.walkers import Walker
from .batches import Rewards, batch, mean, per_turn, reward, tasks

AHEAD = st.builds(
    Lookahead,
    st.just(0),
    st.lists(reward, min_size=1, max_size=3).map(tuple),
    st.sampled_from([*[Outcome.COMPLETED, Outcome.TRUNCATED] * 3, *Outcome]),
)


def looked_ahead(given_: Batch, ahead: list[list[Lookahead]]) -> Batch:
    """The batch with lookaheads for its turns, in order."""
    left = iter(ahead)
    episodes = [
        replace(
            episode,
            lookaheads=tuple(replace(each, turn=turn) for turn in range(len(episode.turns)) for each in next(left)),
        )
        for episode in given_.episodes
    ]
    return Batch.of(grouped(episodes))


def discounted(paid: tuple[float, ...], gamma: float) -> float:
    return sum(gamma**later * each for later, each in enumerate(paid))


def valued(ahead: list[list[Lookahead]], gamma: float) -> list[list[float]]:
    """The returns that count of each state of an episode; a failure of the policy counts as the worst end."""
    ends = [[discounted(each.rewards, gamma) for each in some if each.outcome.trainable] for some in ahead]
    found = []
    for some, mine in zip(ahead, ends, strict=True):
        paid = [discounted(each.rewards, gamma) for each in some if each.outcome is Outcome.POLICY_FAILED]
        worst = min(mine or itertools.chain.from_iterable(ends), default=math.inf)
        found.append(mine + [min(each, worst) for each in paid])
    return found


@pytest.mark.slow
@given(tasks, st.data(), st.sampled_from([0.0, 0.5, 1.0]))
def test_credit_is_the_reward_and_what_the_state_gained(rewards: Rewards, data: st.DataObject, gamma: float) -> None:
    """``r + γ V(s′) − V(s)`` by its definition, turn by turn; 0 where a value is unknown."""
    turns = [len(paid) for tries in rewards for paid in tries]
    ahead = [data.draw(st.lists(AHEAD, max_size=3)) for _ in range(sum(turns))]
    given_ = looked_ahead(batch(rewards), ahead)
    wanted, place = [], 0
    for paid in (paid for tries in rewards for paid in tries):
        values = [mean(found) if found else None for found in valued(ahead[place : place + len(paid)], gamma)]
        mine = [*values, 0.0]
        place += len(paid)
        for each, here, there in zip(paid, mine, mine[1:], strict=False):
            wanted.append(0.0 if here is None or there is None else each + gamma * there - here)
    assert per_turn(VinePPO(gamma=gamma, whiten=False), given_) == pytest.approx(wanted, abs=1e-5)


def test_what_is_unknown_is_not_among_what_is_whitened() -> None:
    paid: Rewards = [[[1.0, 0.0], [0.0]]]
    lost = Lookahead(0, (9.0,), Outcome.INFRA_FAILED)
    ahead = [[Lookahead(0, (0.5,), Outcome.COMPLETED)], [lost, lost], [Lookahead(0, (2.0,), Outcome.COMPLETED)]]
    given_ = looked_ahead(batch(paid), ahead)
    assert per_turn(VinePPO(), given_) == [0.0, 0.0, 0.0], (
        "one known advantage differs from nothing: its deviation is 0"
    )
    assert VinePPO().credit(given_, None).skipped_U.tolist() == [True, True, False]  # type: ignore[union-attr]
    ahead[1] = [Lookahead(0, (1.0,), Outcome.COMPLETED), lost]
    raw = torch.tensor([1.0 + 1.0 - 0.5, 0.0 - 1.0, 0.0 - 2.0])
    wanted = (raw - raw.mean()) / raw.std(correction=0)
    assert per_turn(VinePPO(), looked_ahead(batch(paid), ahead)) == pytest.approx(wanted.tolist(), abs=1e-5)


def test_rounding_is_not_whitened() -> None:
    """Rewards have 32 bits and values 64: a difference of 1e-8 became an advantage of 0.4."""
    paid: Rewards = [[[0.7, 0.2], [0.2, 0.7]]]
    ahead = [[Lookahead(0, tuple(each[turn:]), Outcome.COMPLETED)] for each in paid[0] for turn in range(2)]
    assert per_turn(VinePPO(), looked_ahead(batch(paid), ahead)) == [0.0] * 4


def test_a_rollout_that_the_policy_failed_counts_as_the_worst_from_its_state() -> None:
    """It was paid for a part of the way; left out, the state would be worth what the others say."""
    ended = [Lookahead(0, (-2.0,), Outcome.COMPLETED), Lookahead(0, (-5.0, -1.0), Outcome.TRUNCATED)]
    failed = Lookahead(0, (-1.0,), Outcome.POLICY_FAILED)
    assert state_values(looked_ahead(batch([[[0.0]]]), [[*ended, failed]]), 1.0).tolist() == [(-2.0 - 6.0 - 6.0) / 3]


def test_nothing_to_give_credit_to_is_no_error() -> None:
    assert state_values(Batch.of([]), 1.0).numel() == 0


# -- the maze, exactly -------------------------------------------------------------------------------------------------

STARTS = [U_SHAPED_MAZE.spec(seed) for seed in range(3)]
MAZE = U_SHAPED_MAZE.generate(STARTS[0])
TURNS = 7
GAMMA = 0.9
WORDS = tuple(f"move {move}" for move in MOVES)


def table(observation: str) -> Mapping[str, float]:
    """A policy of the cell alone: uneven, and different everywhere, with some inclination towards the goal."""
    found = re.search(r"You are at (\d+), (\d+)", observation)
    assert found
    row, column = map(int, found.groups())
    best = MAZE.best((row, column))
    weights = [1 + (3 * row + 5 * column + 7 * place) % 4 + 4 * (move == best) for place, move in enumerate(MOVES)]
    return {word: weight / sum(weights) for word, weight in zip(WORDS, weights, strict=True)}


def exact(maze: Maze, gamma: float) -> dict[tuple[Cell, int], tuple[float, float]]:
    """Mean and variance of the return from each cell with so many turns left, by dynamic programming."""
    cells = [cell for cell in maze.distance if cell != maze.goal]
    first = {(cell, 0): 0.0 for cell in cells} | {(maze.goal, left): 0.0 for left in range(TURNS + 1)}
    second = dict(first)
    for left in range(1, TURNS + 1):
        for cell in cells:
            chances = table(f"You are at {cell[0]}, {cell[1]}")
            first[cell, left] = second[cell, left] = 0.0
            for move in MOVES:
                there = step(cell, move) if move in maze.open(cell) else cell
                paid = 0.0 if there == maze.goal else -1.0
                ahead, square = first[there, left - 1], second[there, left - 1]
                chance = chances[f"move {move}"]
                first[cell, left] += chance * (paid + gamma * ahead)
                second[cell, left] += chance * (paid**2 + 2 * paid * gamma * ahead + gamma**2 * square)
    return {key: (first[key], max(0.0, second[key] - first[key] ** 2)) for key in first}


async def maze_episodes(count: int, rollouts: int, seed: int) -> list[Episode]:
    options = RunOptions(group_size=count, seed=seed, env_kwargs={"max_turns": TURNS}, isolation="inline")
    async with EnvPool.of("turnwise/MazeU-v0", isolation="inline", env_kwargs=options.env_kwargs) as pool:
        played = branch_episodes(pool, Walker(table), STARTS, strategy=StateValues(rollouts=rollouts), options=options)
        return [episode async for episode in played]


def cell_of(turn: tw.Turn) -> Cell:
    assert turn.obs_key is not None
    row, column = turn.obs_key.split(",")
    return int(row), int(column)


@pytest.mark.slow
@pytest.mark.shift
async def test_values_are_unbiased_against_dynamic_programming() -> None:
    """From every state that is met, and with so many turns left, the mean of all rollouts is the exact value.

    The seed is fixed, so the test passes always or never; the bound is 4 standard errors, known exactly, per state.
    """
    known = exact(MAZE, GAMMA)
    met: dict[tuple[Cell, int], list[float]] = {}
    for episode in await maze_episodes(15, 9, seed=1):
        for ahead in episode.lookaheads:
            state = cell_of(episode.turns[ahead.turn]), TURNS - ahead.turn
            met.setdefault(state, []).append(discounted(ahead.rewards, GAMMA))
    assert len(met) > 15, "many states are met"
    assert sum(map(len, met.values())) > 1000
    for state, returns in met.items():
        value, variance = known[state]
        bound = 4 * math.sqrt(variance / len(returns)) + 1e-9
        assert abs(mean(returns) - value) <= bound, f"{state}: {mean(returns)} of {len(returns)}, exactly {value}"
    errors = [
        (mean(returns) - known[state][0]) * math.sqrt(len(returns) / known[state][1])
        for state, returns in met.items()
        if known[state][1] > 1e-6
    ]
    spread = mean([error**2 for error in errors])
    assert abs(spread - 1) < 4 * math.sqrt(2 / len(errors)), "as far off as independent samples are, no nearer"
    assert len(errors) > 15
    assert abs(mean(errors)) < 4 / math.sqrt(len(errors)), "no common bias"


@pytest.mark.slow
async def test_advantages_are_unbiased_against_dynamic_programming() -> None:
    """The credit of a move in a state, over all who made it there, is ``Q(s, a) − V(s)`` exactly, on average."""
    known = exact(MAZE, GAMMA)
    given_ = Batch.of(grouped(await maze_episodes(60, 2, seed=2)))
    found = per_turn(VinePPO(gamma=GAMMA, whiten=False), given_)
    credit: dict[tuple[Cell, int, str], list[float]] = {}
    turns = [(turn, place) for episode in given_.episodes for place, turn in enumerate(episode.turns)]
    for (turn, place), advantage in zip(turns, found, strict=True):
        credit.setdefault((cell_of(turn), TURNS - place, turn.action.text.removeprefix("move ")), []).append(advantage)
    often = {key: values for key, values in credit.items() if len(values) >= 20}
    assert len(often) > 8
    for (cell, left, move), values in often.items():
        there = step(cell, move) if move in MAZE.open(cell) else cell
        gained = (0.0 if there == MAZE.goal else -1.0) + GAMMA * known[there, left - 1][0] - known[cell, left][0]
        variance = (GAMMA**2 * known[there, left - 1][1] + known[cell, left][1]) / 2
        assert abs(mean(values) - gained) <= 4 * math.sqrt(variance / len(values)) + 1e-6, (cell, left, move)
