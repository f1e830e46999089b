"""Search at inference: in each state, play on from forks, and take the action whose rollouts returned the most.

One step of policy improvement by rollouts (Tesauro and Galperin, 1996; searches over states of an environment as in
SWE-Search, arXiv 2410.20285): ``a = argmax_a Q̂(s, a)``, with ``Q̂`` the mean return of the rollouts from s that begin
with a. The policy proposes each action and plays each rollout to its end, so nothing is learned and nothing judges but
the environment. What an environment draws by itself forks with it: the rewards that a rollout receives are those that
the same actions would be paid in the episode. An evaluation with this strategy measures planning with a simulator, and
should be compared with the best of as many whole attempts as the same tokens buy (``benchmarks/tree_search.py``).

The rollouts stay in the record, so ``step_values`` of the visited states can be exported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pydantic

from ..agents.agent import Decision, Recalling
from ..config import Config
from ..envs.messages import Action
from ..errors import UsageError
from .branching import Paths, together
from .costs import lookahead
from .episode import Episode, Lookahead, Turn
from .episode_request import EpisodeRequest
from .episode_state import EpisodeState
from .slot import Slot


class RolloutSearch(Config):
    """Choose each action by the returns of rollouts from the state."""

    strategy: Literal["search"] = "search"
    """Name of the strategy."""
    rollouts: int = pydantic.Field(default=8, ge=2)
    """Rollouts from each state; each proposes its first action."""
    gamma: float = pydantic.Field(default=1.0, ge=0, le=1)
    """Discount per turn of a rollout's rewards."""

    async def play(self, paths: Paths, size: int) -> list[Episode]:
        """Play all episodes of a task, each with a search of its own.

        Raises:
            UsageError: the agent's sessions cannot continue an action that another session sampled.
        """
        return await together(self._path(paths, paths.request(member)) for member in range(size))

    async def _path(self, paths: Paths, request: EpisodeRequest) -> Episode:
        episode, observer = await paths.play(
            request, paths.pool, watch=lambda slot: _Searcher(paths, self, request, slot)
        )
        return replace(episode, lookaheads=tuple(observer.found)) if observer is not None else episode


def best(actions: Sequence[Action | None], returns: Sequence[float]) -> int | None:
    """Return the index of the first rollout that begins with the best action; ``None`` if no rollout counts.

    The best action has the highest mean return; of equals, the one with more rollouts, then the one proposed first.

    Args:
        actions: first action of each rollout; ``None`` for a rollout that does not count.
        returns: return of each rollout.
    """
    found: list[tuple[Action, list[float], int]] = []
    for index, (action, value) in enumerate(zip(actions, returns, strict=True)):
        if action is None:
            continue
        known = next((values for other, values, _ in found if other == action), None)
        if known is not None:
            known.append(value)
        else:
            found.append((action, [value], index))
    ranked = [(sum(values) / len(values), len(values), -index) for _, values, index in found]
    return -max(ranked)[2] if ranked else None


class _Searcher:
    """Observes one attempt at an episode, and chooses its actions."""

    def __init__(self, paths: Paths, settings: RolloutSearch, request: EpisodeRequest, slot: Slot) -> None:
        self.found: list[Lookahead] = []
        self._paths, self._settings, self._request, self._slot = paths, settings, request, slot
        self._followed = False
        """Whether the last action was a rollout's, which then has read the prompt of this state."""

    async def reached(self, state: EpisodeState) -> Decision | None:
        """Play rollouts from this state, and return the first action of the best; ``None`` if all were lost."""
        if not isinstance(state.session, Recalling):
            raise UsageError(
                f"a {type(self._paths.agent).__name__} cannot search: a search needs a policy that samples tokens "
                "(the folder of a model, http://host:port), and sessions that have recall()"
            )
        played = await self._slot.lent(self._paths.rollouts(state, self._request, self._settings.rollouts))
        firsts = [_first(episode) for episode in played]
        returns = self._returns(played)
        chosen = best([turn.action if turn is not None else None for turn in firsts], returns)
        reader = None if self._followed else int(chosen == 0)  # the rollout that counts as the prompt's first reader
        aheads = [lookahead(episode, first=number == reader) for number, episode in enumerate(played)]
        self._followed = chosen is not None
        if chosen is None:
            self.found += aheads
            return None
        turn = firsts[chosen]
        assert turn is not None
        aheads[chosen] = _without(aheads[chosen], turn)
        self.found += aheads
        sampled = (turn.prompt_ids, turn.action_ids, turn.logprobs, turn.versions, turn.finish)
        decision = Decision(turn.action, *sampled, turn.seconds_policy, turn.thoughts)
        state.session.recall([(state.observation, decision)])
        return decision

    async def decided(self, state: EpisodeState, decision: Decision) -> None:
        """Do nothing: the action is that of ``reached``."""

    async def stop(self) -> None:
        """Do nothing: no rollout is left running."""

    def _returns(self, played: Sequence[Episode]) -> list[float]:
        """Return the return of each rollout; of one that the policy failed, at most the worst of those that ended.

        To leave it out would favor actions after which the policy often fails.
        """
        returns = [self._return(episode) for episode in played]
        ended = [value for value, episode in zip(returns, played, strict=True) if episode.trainable]
        pairs = zip(returns, played, strict=True)
        return [value if episode.trainable else min([value, *ended]) for value, episode in pairs]

    def _return(self, episode: Episode) -> float:
        rewards = [turn.reward for turn in episode.own_turns]
        return sum(self._settings.gamma**later * paid for later, paid in enumerate(rewards))


def _first(episode: Episode) -> Turn | None:
    """Return the first turn of a rollout; ``None`` if the infrastructure failed, or there is no turn."""
    own = episode.own_turns
    if not episode.scored or not own:
        return None
    if not own[0].sent:
        raise UsageError(
            "the agent writes something before it acts (a plan or a draft), and a search repeats single actions: "
            "search with an agent that answers each observation with its action"
        )
    return own[0]


def _without(ahead: Lookahead, turn: Turn) -> Lookahead:
    """Return the cost of a rollout without the tokens of its first turn, which the episode's own record has."""
    prompt = len(turn.prompt_ids)
    return replace(
        ahead,
        sampled=ahead.sampled - len(turn.action_ids),
        prompted=ahead.prompted - prompt,
        reused=ahead.reused - max(prompt - 1, 0),
    )
