"""Laws of worth: what can be won, what cannot, and what the numbers look like."""

from __future__ import annotations

import json
import math

from ...tasks.score import Score
from ...verdicts import NotApplicable
from ..author_line import at, defined_at
from ..background import resolve
from ..base import NearMiss, TurnEnv
from ..messages import Action
from ..step import OUT_OF_TURNS
from .findings import Broken
from .harness import Harness
from .law import Law
from .over_the_wire import NAMES
from .trace import Play, Trace, again, difference, player

TOLERANCE = 1e-9
BLIND, BLIND_TASKS, BLIND_SOLUTIONS = 0.2, 6, 3
"""Share of tasks above which blind play is remarked on; the fewest tasks and the most solutions that are tried."""
CHANCE = 1e-3
"""Random play that succeeds too often breaks the law only if chance explains it with a smaller probability."""


def oracle_solves(harness: Harness) -> str | None:
    """The oracle succeeds on every sampled task within the limit, with the largest return where one is declared."""
    if harness.wire is not None and harness.wire.no_oracle:
        raise NotApplicable(harness.wire.no_oracle)
    if not harness.has_oracle:
        place = at(defined_at(type(harness.sample.unwrapped))) if harness.wire is None else ""
        raise Broken(f"there is no oracle: write oracle() to prove that the tasks can be solved{place}")
    for spec in harness.specs:
        env = harness.make()
        trace = harness.whole("oracle", spec, env=env)
        if not trace.success:
            how = (
                "was stopped by the turn limit"
                if trace.over and trace.beats[-1].info.get(OUT_OF_TURNS)
                else "ended without success"
            )
            refused = _refused(trace)
            cure = f"{refused or 'check what ends the episode'}; check oracle(){harness.at('oracle')}"
            raise Broken(f"the oracle {how} after {len(trace.beats)} turns; {cure}", spec, policy="oracle")
        if harness.wire is not None:
            continue
        env.reset(options={"task": spec})
        best = env.best_return()
        if best is not None and abs(trace.total - best) > TOLERANCE:
            side = "only" if trace.total < best else "more than the largest possible:"
            raise Broken(
                f"the oracle returns {side} {trace.total:g}, but best_return() is {best:g}", spec, policy="oracle"
            )
    return "the largest return stays on the server, and was not compared" if harness.wire is not None else None


def _refused(trace: Trace) -> str:
    """Return the first call of the oracle that was refused, or ``""``."""
    for turn, beat in enumerate(trace.beats, 1):
        if beat.info.get("tool_errors") or beat.info.get("unparsed"):
            answer = json.dumps(beat.observation, ensure_ascii=False)
            return f"its action of turn {turn} was refused: {json.dumps(beat.action)[:120]} was answered {answer[:300]}"
    return ""


def oracle_changes_nothing(harness: Harness) -> None:
    """The oracle has no side effect: it repeats its answer, and the episode continues as without the call."""
    harness.need_oracle()

    def ask(env: object) -> Action:
        answers = [Action.of(player("oracle")(env)) for _ in range(2)]  # type: ignore[arg-type]
        if answers[0] != answers[1]:
            raise Broken(f"called twice in one state, the oracle answers {answers[0]} and then {answers[1]}", spec)
        return answers[0]

    for spec in harness.few:
        for who in ("oracle", "random"):
            actions = harness.play(who, spec).actions()
            plain = harness.play(again(actions), spec, turns=len(actions))
            asked = harness.play(again(actions), spec, turns=len(actions), before=ask)
            if found := difference(plain, asked):
                raise Broken(f"calling the oracle changes the episode: {found}", spec, policy=who)


def judge_changes_nothing(harness: Harness) -> None:
    """Judging early is free too; wrappers and trainers judge states on the way."""

    def judged(env: object) -> str:
        Score.of(resolve(env.judge()))  # type: ignore[attr-defined]
        return ""

    for spec in harness.few:
        for who in harness.players:
            if found := difference(harness.play(who, spec), harness.play(who, spec, before=judged)):
                raise Broken(f"calling judge() between turns changes the episode: {found}", spec, policy=who)


def null_at_floor(harness: Harness) -> None:
    """Saying nothing never succeeds, and returns nothing."""
    floor = harness.sample.contract.null_floor
    for spec in harness.few:
        trace = harness.whole("null", spec)
        if trace.success:
            raise Broken(f"an agent that says nothing succeeds{harness.at('act')}", spec, policy="null")
        if trace.total > floor + TOLERANCE:
            raise Broken(
                f"an agent that says nothing returns {trace.total:g} (null_floor is {floor:g})", spec, policy="null"
            )


def random_at_floor(harness: Harness) -> str | None:
    """Random play succeeds no more often than declared, up to chance."""
    floor, n = harness.sample.contract.random_floor, harness.effort.random_episodes
    who = player("random")
    tasks = [harness.specs[i % len(harness.specs)] for i in range(n)]
    won = [spec for spec in tasks if harness.whole(who, spec).success]
    if harness.wire is not None and (protocol := NAMES.get(harness.wire.protocol)):
        return f"random play succeeds in {len(won)} of {n} episodes; {protocol} declares no floor to compare with"
    if won and _at_least(len(won), n, floor) < CHANCE:
        text = (
            f"random play succeeds in {len(won)} of {n} episodes; random_floor declares at most {floor:g} of them. "
            f"Make luck rarer, or declare contract = tw.Contract(random_floor={min(1.0, len(won) / n + 0.1):.1f})"
            f"{harness.at('random_action')}"
        )
        raise Broken(text, won[0], policy="random")
    env = harness.sample.unwrapped
    if type(env).random_action is TurnEnv.random_action and not env.tools:  # type: ignore[attr-defined]
        return "random_action() is not written, so random play was a few fixed words; write one that knows the rules"
    return None


def _at_least(k: int, n: int, p: float) -> float:
    """P(X ≥ k) for X ~ Binomial(n, p)."""
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


def blind_play(harness: Harness) -> str:
    """Play at random, and play the solutions of other tasks; report, since a fixed world is allowed."""
    first = harness.specs[0]
    n = max(BLIND_TASKS, 2 * harness.effort.few)
    drawn = harness.family.sample(n, split=first.split, level=first.level, first_seed=harness.seed)
    tasks = tuple(dict.fromkeys(drawn))
    if len(tasks) < 2:
        raise NotApplicable("there is only one task")
    chance = player("random")
    scores = {"random play": [harness.whole(chance, spec).success for spec in tasks]}
    for spec in tasks[: min(BLIND_SOLUTIONS, harness.effort.few)] if harness.has_oracle else ():
        actions = harness.whole("oracle", spec).actions()
        others = [harness.whole(again(actions), other).success for other in tasks if other != spec]
        scores["the solution of one task"] = max(scores.get("the solution of one task", []), others, key=sum)
    high = [f"{who} solves {sum(won)} of {len(won)}" for who, won in scores.items() if sum(won) > BLIND * len(won)]
    cure = "make what has to be done depend on what is observed, or report these scores beside your results"
    return f"{' and '.join(high)} tasks of level {first.level} without reading any: {cure}" if high else ""


def near_misses_fail(harness: Harness) -> None:
    """The near misses and cheats that the author declares do not succeed."""
    tried = 0
    for spec in harness.few:
        env = harness.make()
        env.reset(options={"task": spec})
        for name, miss in env.near_misses().items():
            tried += 1
            if harness.whole(_played(miss), spec).success:
                cure = f"make act() or judge() refuse it, or take it out of near_misses(){harness.at('near_misses')}"
                raise Broken(f"near miss {name!r} succeeds; {cure}", spec, policy=name)
    if not tried:
        raise NotApplicable("near_misses() declares none")


def _played(miss: NearMiss) -> Play:
    return miss if callable(miss) else again([Action.of(action) for action in miss])


def rewards_finite(harness: Harness) -> None:
    """Every reward is a finite float."""
    for spec in harness.few:
        for who in harness.players:
            for turn, beat in enumerate(harness.whole(who, spec).beats, 1):
                if not isinstance(beat.reward, float) or not math.isfinite(beat.reward):
                    raise Broken(f"the reward of turn {turn} is {beat.reward!r}, not a finite float", spec, policy=who)


def judged_at_the_end(harness: Harness) -> None:
    """The last info, and no other, has the score and whether the task was solved."""
    for spec in harness.few:
        for who in harness.players:
            trace: Trace = harness.whole(who, spec)
            for turn, beat in enumerate(trace.beats, 1):
                last = beat.terminated or beat.truncated
                if last != ("score" in beat.info) or last != isinstance(beat.info.get("success"), bool):
                    where = "the last turn has no" if last else f"turn {turn}, which is not the last, has a"
                    raise Broken(f"{where} score and success in its info", spec, policy=who)


REWARD_LAWS = (
    Law("oracle_solves", "the oracle solves a sample of every split and level, with the largest return", oracle_solves),
    Law("oracle_changes_nothing", "asking the oracle has no effect and gives one answer", oracle_changes_nothing),
    Law("judge_changes_nothing", "judging a state has no effect on it", judge_changes_nothing),
    Law("null_at_floor", "saying nothing never succeeds and never pays", null_at_floor),
    Law("random_at_floor", "random play succeeds no more often than declared", random_at_floor),
    Law("blind_play", "certification says what policies score that read no observation", blind_play),
    Law("near_misses_fail", "declared near misses and cheats do not succeed", near_misses_fail),
    Law("rewards_finite", "every reward is a finite float", rewards_finite),
    Law("judged_at_the_end", "exactly the last turn carries the score", judged_at_the_end),
)
"""Laws of worth."""
