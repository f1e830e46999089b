"""One attempt at one episode: reset, then observe, decide, step, until something ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import replace
from time import perf_counter
from typing import Self, TypeVar

from ..agents.agent import Agent, Closable, Decision, EpisodeContext, Forkable, Repeatable, SelfTimed, Session
from ..envs.base import Stepped
from ..envs.messages import Observation
from ..errors import (
    EnvironmentFailedError,
    InfrastructureError,
    PolicyError,
    PolicyTimeoutError,
    UsageError,
)
from ..logs import event
from ..tasks.rng import Rng
from ..tasks.score import Score
from .agent_faults import asked, decision_of, opened, raised_by
from .deadlines import asked_to_stop, unhurried
from .episode import UNANSWERED, UNSENT, Episode, Outcome, Turn
from .episode_request import EpisodeRequest
from .episode_state import EpisodeState, HostProvider, RolloutObserver
from .hedging import Opened, open_hedged
from .hosts import Host, late
from .options import RunOptions
from .pool import EnvPool
from .repeating import repeated
from .turns import TYPED, judgement, one_line, recorded, unread

LOG = logging.getLogger(__name__)
T = TypeVar("T")
PASSED_ON = (PolicyError, InfrastructureError, UsageError)
"""Errors that an agent may raise. Anything else is a bug, not data, and stops the run."""


class EpisodeRun:
    """One attempt at a request. ``play`` returns the episode, or raises an error for the runner to handle.

    Args:
        request: request of the episode.
        number: number of the attempt, from 1.
        agent: agent that acts.
        options: options of the run.
        origin: state from which the attempt continues (default: a reset).
        observer: object that observes every state of the episode.
    """

    def __init__(
        self,
        request: EpisodeRequest,
        number: int,
        agent: Agent,
        options: RunOptions,
        *,
        origin: EpisodeState | None = None,
        observer: RolloutObserver | None = None,
    ) -> None:
        self._request = request
        self._origin = origin
        self._observer = observer
        self._deadline: asyncio.Timeout | None = None
        self._number = number
        self._agent = agent
        self._options = options
        self._turns: list[Turn] = list(origin.turns) if origin is not None else []
        self._observation: Observation | None = origin.observation if origin is not None else None
        self._seconds_env = 0.0
        self._started = perf_counter()
        self._host: Host | None = None
        self._held: Session | None = None
        self._opening: Opened | None = None
        self._asked: tuple[EpisodeState, Decision | None] | None = None
        """State of a failure that a retry can continue from, and the action that the environment received, if any."""
        self._begun = self._spending = False  # after the agent starts to decide, time counts for the agent
        self.after_action = self.redrawn = 0

    def retry(self) -> EpisodeRun:
        """Return the next attempt after an infrastructure failure, for an episode that started with a reset.

        If an action got no answer, or the policy's server failed and the agent can continue, the next attempt repeats
        the recorded actions on another environment. The agent continues from there, and nothing is sampled again.
        """
        if self._asked is None:
            return EpisodeRun(self._request, self._number + 1, self._agent, self._options).following(self)
        self._number += 1
        return self

    def following(self, failed: EpisodeRun) -> Self:
        """Return this attempt in place of a failed one, with its elapsed time and its failures."""
        self.after_action, self.redrawn = failed.after_action, failed.redrawn + failed._begun
        self._started = failed._started
        return self

    async def release(self) -> None:
        """Close the agent's session if a failure left it open for ``retry``."""
        held, self._held = self._held, None
        if held is not None and isinstance(held, Closable):
            await held.close()

    async def play(self, pool: HostProvider) -> Episode:
        """Play the episode on an environment of ``pool``; with an origin, on forks of its environment.

        Raises:
            InfrastructureError: environment or policy server failed; another attempt may succeed.
            ContractError: the agent has a bug.
            UsageError: the task or the agent's settings are wrong.
        """
        limit, self._spending = self._options.episode_timeout, False
        try:
            async with asyncio.timeout(limit) as deadline:
                self._deadline = deadline
                host = await self._taken(pool)
                reusable = False
                try:
                    episode = await self._turn_by_turn(host)
                    reusable = True
                finally:
                    pool.give(host, reusable=reusable)
                return episode
        except TimeoutError:
            if not deadline.expired():
                raise
            late = f"the episode was not over after {limit:g} s (episode_timeout), in turn {len(self._turns)}"
            if self._spending:
                return self.sealed(Outcome.POLICY_FAILED, score=Score(success=False), error=late)
            return self.sealed(Outcome.CANCELLED, error=late)

    def sealed(
        self,
        outcome: Outcome,
        *,
        score: Score | None = None,
        error: str | None = None,
        final_prompt_ids: tuple[int, ...] = (),
    ) -> Episode:
        """Return the record so far, ended by ``outcome``; an action without an answer is its last."""
        turns = self._turns
        state, decision = self._asked or (None, None)
        if state is not None and decision is not None and outcome is Outcome.INFRA_FAILED:
            turn = recorded(state.observation, decision, 0.0)
            info = {**decision.info, UNANSWERED: True}
            turns = [*turns, replace(turn, obs_key=state.obs_key, seconds_env=self._seconds_env, info=info)]
        return Episode(
            episode_id=self._request.episode_id,
            env_id=self._request.env_id,
            task=self._request.task,
            group_id=self._request.group_id,
            turns=tuple(turns),
            outcome=outcome,
            final_observation=self._observation,
            score=score,
            error=error,
            attempts=self._number,
            seconds=perf_counter() - self._started,
            fingerprints={**self._request.fingerprints, "task": self._request.task.digest},
            final_prompt_ids=final_prompt_ids,
            fork=self._request.fork,
            after_action=self.after_action,
            redrawn=self.redrawn,
        )

    async def _taken(self, pool: HostProvider) -> Host:
        fresh = self._origin is None and self._asked is None
        if not (fresh and self._options.hedge_resets and isinstance(pool, EnvPool)):
            if pool.queues:
                return await pool.take()
            return await self._env(pool.take(), "open" if self._origin is None else "fork")
        self._opening = await self._env(open_hedged(pool, self._request.task, pool.resets), "reset")
        return self._opening.host

    async def _turn_by_turn(self, host: Host) -> Episode:
        self._host = host
        state, decision = await self._resumed(host) or (await self._opened(host), None)
        self._held = state.session
        try:
            return await self._until_over(state, decision)
        finally:
            if self._asked is None:
                await self.release()

    async def _opened(self, host: Host) -> EpisodeState:
        """Return the first state of the episode, or the state from which it continues."""
        if self._origin is None:
            opening, self._opening = self._opening, None
            reset = opening.answer if opening else await self._env(host.reset(self._request.task), "reset")
            observation, info = reset
            self._observation, obs_key = observation, info.get("obs_key")
        else:
            observation, obs_key = self._origin.observation, self._origin.obs_key
        context = self._context(host)
        return EpisodeState(tuple(self._turns), observation, obs_key, host, self._session(context), context)

    async def _resumed(self, host: Host) -> tuple[EpisodeState, Decision | None] | None:
        """Return the state in which the last attempt failed, reached by its actions, and the unanswered action, if any.

        Return ``None`` if the attempt cannot continue, or the environment answers differently and all restarts.
        """
        if self._asked is None:
            return None
        state, decision = self._asked
        if await repeated(self._turns, state.observation, self._request.task, host, self._env):
            self._seconds_env = 0.0
            return replace(state, host=host), decision
        await self.release()
        self._asked, self._turns, self._begun = None, [], False
        self.redrawn += 1
        return None

    async def _until_over(self, state: EpisodeState, decision: Decision | None) -> Episode:
        session, observer = state.session, self._observer
        loop, others_ran = asyncio.get_running_loop(), list[None]()
        while True:
            loop.call_soon(others_ran.append, None)
            chosen = await unhurried(observer.reached(state), self._deadline) if observer is not None else None
            self._begun = self._begun or chosen is not None  # rollouts of the policy chose it
            observation, obs_key = state.observation, state.obs_key
            try:
                decision = decision or chosen or await self._decide(session, observation)
            except PolicyError as error:
                await self.release()  # samples until then are part of the record
                return self.sealed(Outcome.POLICY_FAILED, score=Score(success=False), error=one_line(error))
            except InfrastructureError:
                if isinstance(session, Repeatable) and self._origin is None:
                    self._asked = state, None
                raise
            if observer is not None:
                await observer.decided(state, decision)
            after, reward, terminated, truncated, info = await self._answered(state, decision)
            self._turns.append(
                replace(
                    recorded(observation, decision, reward),
                    terminated=terminated,
                    truncated=truncated,
                    seconds_env=self._seconds_env,
                    obs_key=obs_key,
                    info={key: value for key, value in info.items() if key not in TYPED} | dict(decision.info),
                )
            )
            self._seconds_env = 0.0
            self._observation = after
            if terminated or truncated:
                left = await unread(session, after, truncated=not terminated)
                if terminated:
                    return self.sealed(Outcome.COMPLETED, score=judgement(info))
                return self.sealed(Outcome.TRUNCATED, score=judgement(info), final_prompt_ids=left)
            if not others_ran:  # a scripted agent on a fast environment never waits: let others run
                await asyncio.sleep(0)
            others_ran.clear()
            turns = tuple(self._turns) if observer is not None else ()
            state = replace(state, turns=turns, observation=after, obs_key=info.get("obs_key"))
            decision = None

    async def _answered(self, state: EpisodeState, decision: Decision) -> Stepped:
        """Return the environment's answer; a failure counts as one after an action."""
        self._spending = True
        try:
            answer = await self._env(state.host.step(decision.action), "step")
        except InfrastructureError:
            self._asked, self.after_action = (state, decision), self.after_action + 1
            raise
        self._asked = None
        return answer

    def _context(self, host: Host) -> EpisodeContext:
        return EpisodeContext(
            episode_id=self._request.episode_id,
            env_id=self._request.env_id,
            task=self._request.task,
            tools=host.tools,
            rng=Rng("agent", self._options.seed, self._request.episode_id, 1),
            oracle=lambda: self._env((self._host or host).oracle(), "oracle"),
            random=lambda seed: self._env((self._host or host).random(seed), "random"),
            record=self._unsent,
            affinity=self._origin.context.policy_session if self._origin is not None else "",
        )

    def _session(self, context: EpisodeContext) -> Session:
        session = self._origin.session if self._origin is not None else None
        if session is not None and not isinstance(session, Forkable):
            raise UsageError(
                f"agent {type(self._agent).__name__} cannot continue from the middle of an episode: its sessions have "
                "no fork(); branching rollouts need an agent such as a ChatAgent"
            )
        try:
            found = self._agent.start(context) if session is None else session.fork(context)
        except PASSED_ON:
            raise
        except Exception as error:
            raise raised_by(self._who(), error) from error
        return opened(found, self._agent, self._who())

    def _unsent(self, observation: Observation, decision: Decision) -> None:
        self._turns.append(replace(recorded(observation, decision, 0.0), info={**decision.info, UNSENT: True}))

    async def _decide(self, session: Session, observation: Observation) -> Decision:
        own = session.patience if isinstance(session, SelfTimed) else None
        limit = self._options.turn_timeout if own is None else None
        self._begun, self._spending = True, own is None
        try:
            async with asyncio.timeout(limit) as deadline:
                decision = await asked(session, observation)
        except PASSED_ON:
            raise
        except asyncio.CancelledError as error:
            if asked_to_stop():
                raise
            raise raised_by(self._who(), error) from error
        except Exception as error:
            if deadline.expired():
                raise PolicyTimeoutError(f"no action after {limit:g} s (turn_timeout)") from None
            raise raised_by(self._who(), error) from error
        return decision_of(decision, session, self._who())

    async def _env(self, call: Awaitable[T], verb: str) -> T:
        limit, started = self._options.env_timeout, perf_counter()
        try:
            async with asyncio.timeout(limit) as deadline:
                return await call
        except EnvironmentFailedError as error:
            event(LOG, "environment failed", error.traceback or str(error), level=logging.DEBUG)
            raise
        except TimeoutError:
            if not deadline.expired():
                raise
            raise late(verb, limit) from None
        except asyncio.CancelledError:
            if asked_to_stop():
                raise
            raise EnvironmentFailedError(f"environment cancelled itself in {verb}") from None
        finally:
            self._seconds_env += perf_counter() - started

    def _who(self) -> str:
        return f"agent {type(self._agent).__name__}, in turn {len(self._turns)} of episode {self._request.episode_id},"
