"""A chain of states with a goal at its end, walked at random, and tables that learn from the walks."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from turnwise import Episode
from turnwise.tasks.rng import Rng
from turnwise.trainers.algorithms.token_value import TokenValueAlgorithm
from turnwise.trainers.critics.token_learning import Estimates
from turnwise.trainers.critics.token_steps import Tokens, TokenSteps
from turnwise.trainers.learning.rows import pack

from ..fakes import episode, turn

GOAL, LEFT, RIGHT, VOCABULARY = 4, 5, 6, 7
"""States 0 to 3 and the goal are the tokens that prompts show; the actions are tokens too."""
GAMMA = 0.9


def moved(state: int, action: int) -> int:
    return min(state + 1, GOAL) if action == RIGHT else max(state - 1, 0)


def walks(count: int) -> list[Episode]:
    """Random walks from any state: −1 per step that does not reach the goal."""
    rng, made = Rng("chain", 0), []
    for number in range(count):
        state, turns = rng.randrange(GOAL), []
        while state != GOAL:
            action = LEFT if rng.random() < 0.5 else RIGHT
            after = moved(state, action)
            turns.append(turn((state,), (action,), 0.0 if after == GOAL else -1.0))
            state = after
        made.append(episode(turns, name=str(number), group=str(number)))
    return made


def optimum() -> list[float]:
    """V* by value iteration."""
    return _iterated(max)


def uniform() -> list[float]:
    """V of the random walk, likewise."""
    return _iterated(lambda both: sum(both) / 2)


def fit(algorithm: TokenValueAlgorithm, episodes: Sequence[Episode]) -> tuple[list[tuple[float, float]], list[float]]:
    """Q (left, right) and V of states 0 to 3, as tables that the algorithm's loss has fitted."""
    rows = pack(episodes)
    steps = TokenSteps.of(episodes, rows, gamma=algorithm.gamma, per=algorithm.discount_per)
    rows = rows.with_weight(rows.mask.float() / rows.tokens)
    tokens = steps.tokens(rows)
    state_N = rows.ids[rows.mask.nonzero()[:, 0] - 1]
    q = torch.zeros(algorithm.critics, GOAL + 1, VOCABULARY, requires_grad=True)
    v = torch.zeros(GOAL + 1, requires_grad=True)
    optimizer = torch.optim.Adam([q, v], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1200)
    shown_P = torch.tensor([prompt[0] for prompt in steps.prompts], dtype=torch.long)
    for _ in range(1200):
        target_KN = q.detach()[:, state_N, tokens.ids_N]
        next_N = tokens.following(v.detach()[state_N], v.detach()[shown_P])
        loss, _ = algorithm.loss(Estimates(q[:, state_N], v[state_N], target_KN, next_N), tokens)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    least = q.detach().amin(0)
    return [(float(least[s, LEFT]), float(least[s, RIGHT])) for s in range(GOAL)], v.detach()[:GOAL].tolist()


def tokens_of(
    *,
    ids: Sequence[int],
    reward: Sequence[float] = (),
    discount: Sequence[float] = (),
    returns: Sequence[float] = (),
    weight: Sequence[float],
) -> Tokens:
    zeros = (0.0,) * len(ids)
    return Tokens(
        torch.tensor(ids),
        torch.tensor(reward or zeros),
        torch.tensor(discount or zeros),
        torch.tensor(returns or zeros),
        torch.full((len(ids),), -2),
        torch.tensor(weight),
    )


def _iterated(of: object) -> list[float]:
    assert callable(of)
    value = [0.0] * (GOAL + 1)
    for _ in range(500):
        value = [
            of([(0.0 if moved(s, a) == GOAL else -1.0) + GAMMA * value[moved(s, a)] for a in (LEFT, RIGHT)])
            for s in range(GOAL)
        ] + [0.0]
    return value[:GOAL]
