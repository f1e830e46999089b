"""A healthy text environment, and the ways to spoil it: one class, one fault, and the law that must name it."""

from __future__ import annotations

import asyncio
import math
import os
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import gymnasium
import numpy as np

import turnwise as tw
from turnwise.envs.base import NearMiss, Stepped
from turnwise.envs.messages import ActionLike
from turnwise.tasks.family import SeededFamily


class Password(tw.TurnEnv):
    """Ask for the three parts of a password, then say it."""

    max_turns = 8
    contract = tw.Contract(max_observation_chars=300, max_seconds=5.0)
    word: str
    shown: int
    notes: list[str]

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        self.word = "".join(rng.pick("bdfgklmnprst") + rng.pick("aeiou") for _ in range(3))
        self.shown, self.notes = 0, []
        return "Say the password. 'hint' tells you its next two letters."

    def act(self, action: tw.Action) -> Any:
        said = action.word()
        if said == self.word:
            return tw.success("The door opens.")
        if said != "hint":
            return tw.running("The door stays shut.")
        self.notes.append(self.word[2 * self.shown : 2 * self.shown + 2])
        self.shown = min(3, self.shown + 1)
        return tw.running(f"So far: {' '.join(self.notes[-3:])}", notes=len(self.notes))

    def oracle(self) -> ActionLike:
        return "hint" if self.shown < 3 else self.word

    def random_action(self, rng: tw.Rng) -> ActionLike:
        return rng.pick(("hint", "please", "bababa", "sesame"))

    def secrets(self) -> tuple[str, ...]:
        return (self.word,)

    def best_return(self) -> float | None:
        return 1.0

    def near_misses(self) -> Mapping[str, NearMiss]:
        return {"backwards": [self.word[::-1]], "two parts of three": [self.word[:4]], "hints only": lambda env: "hint"}

    def state_key(self) -> str | None:
        return f"{self.word} {len(self.notes)}"


FAULTS: list[tuple[type[tw.TurnEnv], str, str]] = []
"""Faulty class, the law that must fail, and words that its verdict must have."""


def fault(law: str, words: str = "") -> Any:
    """Plant a fault."""

    def plant(cls: type[tw.TurnEnv]) -> type[tw.TurnEnv]:
        FAULTS.append((cls, law, words))
        return cls

    return plant


# -- beginning ---------------------------------------------------------------------------------------------------


@fault("begins", "KeyError")
class CannotBegin(Password):
    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        return dict[str, str]()["world"]


class Numbered(gymnasium.spaces.Discrete):
    pass


@fault("gymnasium_check", "check_env")
class WrongSpace(Password):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.observation_space: Any = Numbered(3)


@fault("seeds_matter", "the seed is ignored")
class IgnoredSeed(Password):
    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        return super().start(task, tw.Rng("always the same"))


@fault("same_seed_same_episode", "a used instance")
class DirtyReset(Password):
    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        kept = getattr(self, "notes", [])
        observation = super().start(task, rng)
        self.notes = kept
        return observation


@fault("group_identical_reset", "member 1 of a group")
class PlayerNumbers(Password):
    players: ClassVar[int] = 0

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        type(self).players += 1
        return f"{super().start(task, rng)} You are player {self.players}."


class UnpicklableFamily(SeededFamily):
    def spec(self, *args: Any, **kwargs: Any) -> tw.TaskSpec:
        class Hidden(tw.TaskSpec):
            pass

        plain = super().spec(*args, **kwargs)
        return Hidden(plain.family, plain.template, plain.level, plain.seed, plain.split)


@fault("specs_travel", "cannot pickle or serialize")
class UnpicklableSpec(Password):
    family = UnpicklableFamily("UnpicklableSpec")


@fault("two_processes_agree", "PYTHONHASHSEED")
class SetOrder(Password):
    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        return f"{super().start(task, rng)} Not among: {' '.join({'ab', 'cd', 'ef', 'gh', 'ij', 'kl', 'mn', 'op'})}"


# -- worth -------------------------------------------------------------------------------------------------------


@fault("oracle_solves", "without success|turn limit")
class HopelessOracle(Password):
    def oracle(self) -> ActionLike:
        return "hint" if self.shown < 3 else self.word[::-1]


@fault("oracle_solves", "only 1, but best_return.. is 2")
class OracleBelowMaximum(Password):
    def best_return(self) -> float | None:
        return 2.0


@fault("oracle_solves", "no oracle")
class NoOracle(Password):
    oracle = tw.TurnEnv.oracle


@fault("oracle_changes_nothing", "calling the oracle|called twice")
class OraclePeeks(Password):
    def oracle(self) -> ActionLike:
        self.shown = 3
        self.notes.append("peeked")
        return self.word


@fault("judge_changes_nothing", "judge")
class JudgeResets(Password):
    def judge(self) -> tw.Score:
        self.notes.clear()
        return tw.Score(success=False)


@fault("null_at_floor", "says nothing returns")
class PaidForNothing(Password):
    unparsed_reward = 0.1


@fault("null_at_floor", "says nothing succeeds")
class SilenceIsConsent(Password):
    def act(self, action: tw.Action) -> Any:
        return tw.success("Fine.") if not action.text else super().act(action)


@fault("random_at_floor", "random play succeeds")
class TooEasy(Password):
    def act(self, action: tw.Action) -> Any:
        return tw.success("Fine.") if action.text == "sesame" else super().act(action)


@fault("near_misses_fail", "'two parts of three'")
class PrefixIsEnough(Password):
    def act(self, action: tw.Action) -> Any:
        said = action.word()
        return tw.success("Good enough.") if self.word.startswith(said) else super().act(action)


@fault("rewards_finite", "nan")
class NotANumber(Password):
    def _stepped(self, step: tw.Step) -> Stepped:
        observation, _, terminated, truncated, info = super()._stepped(step)
        return observation, math.nan, terminated, truncated, info


@fault("judged_at_the_end", "the last turn has no score")
class Unjudged(Password):
    def _stepped(self, step: tw.Step) -> Stepped:
        return super()._stepped(replace(step, score=None))


# -- turns -------------------------------------------------------------------------------------------------------


@fault("episodes_play", "step.. has not answered within max_seconds = 1 s")
class HangingStep(Password):
    contract = replace(Password.contract, max_seconds=1.0)

    def act(self, action: tw.Action) -> Any:
        time.sleep(3)
        return super().act(action)


@fault("episodes_play", "step.. has not answered")
class HangingCoroutine(Password):
    contract = replace(Password.contract, max_seconds=1.0)

    async def act(self, action: tw.Action) -> Any:
        await asyncio.sleep(3)
        return super().act(action)


@fault("turns_counted", "info.'turn'. is -1")
class NegativeTurn(Password):
    def act(self, action: tw.Action) -> Any:
        step = super().act(action)
        return replace(step, info={"turn": -1})


@fault("limits_end", "the limit is reported as .*terminated.: True.*max_turns_truncates is True")
class TruncatedAsTerminated(Password):
    max_turns_truncates = True

    def act(self, action: tw.Action) -> Any:
        step = super().act(action) if action.text else tw.running("Say something.")
        return tw.failure("Out of time.") if self.turn >= self.max_turns and not step.done else step


@fault("limits_end", "the limit is reported as .*truncated.: True.*max_turns_truncates is False")
class OwnLimitTruncates(Password):
    def act(self, action: tw.Action) -> Any:
        step = super().act(action) if action.text else tw.running("Say something.")
        return tw.truncation("Out of time.") if self.turn >= self.max_turns and not step.done else step


@fault("limits_end", "speaks of '8 turns', so the limit is part of the task.*remove max_turns_truncates")
class StatedLimitTruncates(Password):
    max_turns_truncates = True

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        return f"{super().start(task, rng)} You have {self.max_turns} turns."


@fault("limits_end", "speaks of 'eight turns', so the limit is part of the task")
class SpelledLimitTruncates(Password):
    max_turns_truncates = True

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        return f"{super().start(task, rng)} You have eight turns."


@fault("limits_end", "solved at turn 4, but reported as truncated")
class TerminatedAsTruncated(Password):
    def act(self, action: tw.Action) -> Any:
        step = super().act(action)
        return replace(step, terminated=False, truncated=True) if step.terminated else step


@fault("over_means_over", "after the end")
class StepAfterEnd(Password):
    def _enter(self, action: ActionLike) -> Any:
        object.__setattr__(self, "_over", self._over and self.turn == 0)  # a plain assignment is refused
        return super()._enter(action)


@fault("any_action_is_answered", "raised ValueError")
class TrustsItsInput(Password):
    def act(self, action: tw.Action) -> Any:
        if action.text[:1] in "-19":
            return tw.running("even" if int(action.text or 0) % 2 == 0 else "odd")
        return super().act(action)


@fault("observations_bounded", "100,0.. characters")
class Echo(Password):
    def act(self, action: tw.Action) -> Any:
        step = super().act(action)
        return tw.running(f"You said {action.text}.") if not step.done and action.text != "hint" else step


@fault("observations_bounded", "observation after turn")
class GrowingLog(Password):
    def act(self, action: tw.Action) -> Any:
        step = super().act(action) if action.text else tw.running("Silence.")
        return replace(step, observation=tw.Observation((tw.message("user", "and so on " * 10 * self.turn),)))


@fault("answer_not_leaked", "contains the secret")
class LeakedAnswer(Password):
    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        return f"{super().start(task, rng)} (debug: {self.word.upper()})"


@fault("answers_keep_still", "changed later in the episode")
class LivingInfo(Password):
    def act(self, action: tw.Action) -> Any:
        step = super().act(action)
        return replace(step, info={"notes": self.notes})


@fault("answers_keep_still", "is not JSON")
class UnrecordableInfo(Password):
    def act(self, action: tw.Action) -> Any:
        return replace(super().act(action), info={"world": object()})


# -- going back --------------------------------------------------------------------------------------------------


@fault("replay_equals_original", "a replay of the recorded actions differs")
class CountsItsCalls(Password):
    calls: ClassVar[int] = 0

    def act(self, action: tw.Action) -> Any:
        type(self).calls += 1
        return replace(super().act(action), info={"calls": self.calls})


@fault("sync_and_async_agree", "areset/astep play differently")
class OnlySyncPays(Password):
    def step(self, action: ActionLike) -> Stepped:
        observation, reward, *rest = super().step(action)
        return observation, reward - 0.01, *rest  # type: ignore[return-value]

    def best_return(self) -> float | None:
        return None


@fault("fork_is_independent", "changes")
class AliasAfterFork(Password):
    forks = tw.Forks.SNAPSHOT

    def snapshot(self) -> Any:
        return self.word, self.shown, self.notes

    def restore(self, snapshot: Any) -> None:
        self.word, self.shown, self.notes = snapshot


@fault("fork_equals_original", "goes on differently")
class ForgetfulFork(Password):
    forks = tw.Forks.SNAPSHOT

    def snapshot(self) -> Any:
        return self.word, list(self.notes)

    def restore(self, snapshot: Any) -> None:
        self.word, notes = snapshot
        self.notes, self.shown = list(notes), 0


# -- isolation ---------------------------------------------------------------------------------------------------


@fault("no_global_rng", r"random.getrandbits\(\) at .*faults_text.py")
class GlobalRng(Password):
    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        observation = super().start(task, rng)
        self.word = random.choice(("bababa", "dedede", "kikiki"))
        return observation


@fault("no_global_rng", "numpy.random")
class GlobalNumpyRng(Password):
    def act(self, action: tw.Action) -> Any:
        np.random.rand()
        return super().act(action)


@fault("no_global_rng", "without a seed|urandom")
class OwnUnseededRng(Password):
    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        random.Random().random()
        return super().start(task, rng)


@fault("no_clock", r"time.monotonic\(\) at .*faults_text.py:\d+ in ClockWatcher.act")
class ClockWatcher(Password):
    def act(self, action: tw.Action) -> Any:
        self.began = time.monotonic()
        return super().act(action)


@fault("no_environment_variables", "os.environ at .*faults_text.py")
class AsksTheShell(Password):
    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        self.easy = os.environ.get("TURNWISE_EASY") == "1"
        return super().start(task, rng)


@fault("instances_are_separate", "SharedList.said")
class SharedList(Password):
    said: ClassVar[list[str]] = []

    def act(self, action: tw.Action) -> Any:
        self.said.append(action.text)
        return replace(super().act(action), info={"said": len(self.said)})


@fault("instances_are_separate", "a default argument of SharedDefault.act")
class SharedDefault(Password):
    def act(self, action: tw.Action, said: list[str] = []) -> Any:  # noqa: B006 - the fault
        said.append(action.text)
        return replace(super().act(action), info={"said": len(said)})


@fault("seeds_do_not_interfere", "interleaved")
class LastResetWins(Password):
    now: ClassVar[str] = ""

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        observation = super().start(task, rng)
        type(self).now = self.word
        return observation

    def act(self, action: tw.Action) -> Any:
        self.word = self.now
        return super().act(action)


# -- housekeeping ------------------------------------------------------------------------------------------------


@fault("leaks_nothing", r"memory grows .*faults_text.py:\d+")
class Archive(Password):
    archive: ClassVar[list[str]] = []

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        observation = super().start(task, rng)
        self.archive.append(self.word * 100)
        return observation


@fault("leaks_nothing", "files are left open")
class OpenFiles(Password):
    files: ClassVar[list[int]] = []

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        self.files.append(os.open(os.devnull, os.O_RDONLY))
        return super().start(task, rng)

    @classmethod
    def tidy(cls) -> None:
        while cls.files:
            os.close(cls.files.pop())


class Exempt(LeakedAnswer):
    """Faulty, and says why it may be."""

    contract = tw.Contract(exempt={"answer_not_leaked": "it is a copying task"})

    def __iter__(self) -> Iterator[Self]:
        yield self
