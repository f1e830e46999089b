"""Laws of going back: replays and forks are the same episode, and forks share nothing."""

from __future__ import annotations

from typing import Any

from ...verdicts import NotApplicable
from ..base import TurnEnv
from ..messages import Action
from .findings import Broken
from .harness import Harness
from .law import Law
from .over_the_wire import fork as fork_of
from .trace import Beat, Trace, again, difference, plain, player


def replay_equals_original(harness: Harness) -> None:
    """The recorded actions, on a new instance."""
    for spec in harness.few:
        for who in harness.players:
            original = harness.whole(who, spec)
            repeat = harness.play(again(original.actions()), spec, turns=len(original.beats))
            if found := difference(original, repeat):
                raise Broken(f"a replay of the recorded actions differs: {found}", spec, policy=who)


def sync_and_async_agree(harness: Harness) -> None:
    """The same episode through ``step`` and through ``astep``."""
    import asyncio

    from .trace import script

    for spec in harness.few:
        for who in harness.players:
            env = harness.make()
            episode = script(player(who), env, turns=harness.effort.turns, options={"task": spec})
            if found := difference(harness.play(who, spec), asyncio.run(harness.arun(env, episode))):
                raise Broken(f"areset/astep play differently from reset/step: {found}", spec, policy=who)


def fork_equals_original(harness: Harness) -> None:
    """A fork, at several turns, goes on as the original does."""
    harness.need_places(4)
    for spec in harness.few:
        for who in harness.players:
            original = harness.play(who, spec)
            for turn in _turns(original):
                env = _at(harness, spec, original, turn)
                fork = fork_of(env)
                if fork.turn != turn or fork.task != spec or fork.state_key() != env.state_key():
                    raise Broken(f"a fork at turn {turn} reports turn {fork.turn}, task {fork.task}", spec, policy=who)
                _same(harness, fork, original, turn, f"a fork at turn {turn} goes on differently", spec, who)


def fork_is_independent(harness: Harness) -> None:
    """A fork does not change the original, nor the original the fork."""
    harness.need_places(4)
    for spec in harness.few:
        for who in harness.players:
            original = harness.play(who, spec)
            for turn in _turns(original):
                env = _at(harness, spec, original, turn)
                _disturb(harness, fork_of(env))
                text = f"playing in a fork of turn {turn} changes the original"
                _same(harness, env, original, turn, text, spec, who)
                env = _at(harness, spec, original, turn)
                fork = fork_of(env)
                _disturb(harness, env)
                env.reset(options={"task": harness.specs[-1]})
                text = f"playing on and resetting after a fork at turn {turn} changes the fork"
                _same(harness, fork, original, turn, text, spec, who)


def _turns(trace: Trace) -> list[int]:
    """Turns to fork at: the beginning, the middle, and just before the last action."""
    last = len(trace.beats) - 1
    return sorted({0, last // 2, last})


def _at(harness: Harness, spec: Any, trace: Trace, turn: int) -> TurnEnv:
    """A new environment, ``turn`` actions into an episode."""
    env = harness.make()
    env.reset(options={"task": spec})
    for action in trace.actions()[:turn]:
        harness.answer(env, ("step", {"action": action}))
    return env


def _disturb(harness: Harness, env: TurnEnv) -> None:
    """Play something else: random actions, then whatever the oracle likes, to the end or for some turns."""
    for who in ("random", "oracle") if harness.has_oracle else ("random",):
        play = player(who)
        for _ in range(5):
            _, _, terminated, truncated, _ = harness.answer(env, ("step", {"action": play(env)}))
            if terminated or truncated:
                return


def _same(harness: Harness, env: TurnEnv, original: Trace, turn: int, text: str, spec: Any, who: str) -> None:
    """The environment, ``turn`` actions into ``original``, goes on with the actions and answers of ``original``."""
    beats: list[Beat] = []
    for action in original.actions()[turn:]:
        try:
            observation, reward, terminated, truncated, info = harness.answer(env, ("step", {"action": action}))
        except (Broken, NotApplicable):  # also ``OutOfTime``: the environment did nothing wrong
            raise
        except Exception as error:
            raise Broken(f"{text}: step() raised {type(error).__name__}: {error}", spec, policy=who) from error
        beats.append(Beat(plain(Action.of(action)), plain(observation), reward, terminated, truncated, plain(info)))
        if terminated or truncated:
            break
    if found := difference(Trace(None, original.beats[turn:]), Trace(None, tuple(beats))):
        raise Broken(f"{text}; counted from there, {found}", spec, policy=who)


FORK_LAWS = (
    Law("replay_equals_original", "recorded actions reproduce every observation and reward", replay_equals_original),
    Law("sync_and_async_agree", "areset/astep and reset/step play the same episode", sync_and_async_agree),
    Law("fork_equals_original", "a fork at any turn goes on as the original does", fork_equals_original),
    Law("fork_is_independent", "a fork and its original do not reach each other", fork_is_independent),
)
"""Laws of going back."""
