"""Rounds of search self-play: who earns what, and that nothing but an answerable question earns anything."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from turnwise.agents.agent import Agent, Decision, EpisodeContext, Session
from turnwise.agents.scripted import NullAgent, OracleAgent
from turnwise.envs.messages import Action, ActionLike, Observation, ToolCall
from turnwise.errors import InfrastructureError, PromptTooLongError, UsageError
from turnwise.rollouts.options import RunOptions
from turnwise.trainers.collect.proposals import Round, SelfPlay

TOOLS, TAGS = "turnwise/Search-v1", "turnwise/SearchTags-v1"
PROPOSES, READS, SOLVES = "Write a question", "from the pages below", "Use search to find pages"
"""The rules of each seat."""


@dataclass
class Changed:
    """Plays as the oracle does, but says something else in the end."""

    change: Callable[[str, ToolCall], ActionLike]
    """From the first observation and the oracle's last call."""

    def start(self, context: EpisodeContext) -> Session:
        return _ChangedSession(context.oracle, self.change)


@dataclass
class _ChangedSession:
    oracle: Callable[[], Awaitable[Action]]
    change: Callable[[str, ToolCall], ActionLike]
    first: str = ""

    async def act(self, observation: Observation) -> Decision:
        self.first = self.first or observation.text
        action = Action.of(await self.oracle())
        last = next((one for one in action.tool_calls if one.name in ("propose", "answer")), None)
        return Decision(action if last is None else Action.of(self.change(self.first, last)))


async def played(agent: Agent, env: str = TOOLS, tasks: int = 3, **kwargs: Any) -> Round:
    actions = {"actions": "tags" if env == TAGS else "tools"}
    async with aclosing(SelfPlay(env, actions | kwargs, attempts=2, tries=3)) as game:
        specs = [game.family.spec(seed, level=1 + seed % 2) for seed in range(tasks)]
        return await game.round(agent, specs, RunOptions(seed=3, retries=0))


@pytest.mark.slow
@pytest.mark.parametrize("env", [TOOLS, TAGS])
async def test_a_question_that_everybody_solves_earns_its_proposer_nothing(env: str) -> None:
    round_ = await played(OracleAgent(), env)
    assert round_.extra["proposals/valid"] == 1
    assert round_.extra["proposals/verified"] == 3, "two attempts at an answer that ask the same are one question"
    assert [group.returns for group in round_.proposing.groups] == [(0.0, 0.0)] * 3
    assert [group.returns for group in round_.solving.groups] == [(1.0, 1.0, 1.0)] * 3
    seats = {turn.seat for group in round_.groups for one in group.members for turn in one.turns}
    assert seats == {"proposer", "solver"}


def after_first(spoil: Callable[[ToolCall], ActionLike], within: str) -> Changed:
    """Episodes whose first one about each question ends as ``spoil``, if the first observation has some words."""
    seen: set[str] = set()

    def change(first: str, last: ToolCall) -> ActionLike:
        if within not in first or first in seen:
            return last
        seen.add(first)
        return spoil(last)

    return Changed(change)


def gives_up(last: ToolCall) -> ActionLike:
    raise PromptTooLongError("the context is full")


def is_lost(last: ToolCall) -> ActionLike:
    raise InfrastructureError("the server is lost")


def is_wrong(last: ToolCall) -> ActionLike:
    return ToolCall("answer", {"text": "no idea"})


@pytest.mark.parametrize("spoil", [is_wrong, gives_up])
async def test_a_question_that_some_attempts_fail_earns_the_share_of_them(spoil: Callable[..., ActionLike]) -> None:
    round_ = await played(after_first(spoil, SOLVES))
    assert [group.returns for group in round_.proposing.groups] == [pytest.approx((1 / 3, 1 / 3))] * 3
    assert all(sum(turn.reward for turn in one.turns[:-1]) == 0 for g in round_.proposing.groups for one in g.members)
    assert round_.extra["proposals/solved"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("spoil", [is_wrong, gives_up])
@pytest.mark.parametrize("tasks", [1, 4])
async def test_a_question_that_nobody_solves_earns_nothing(spoil: Callable[..., ActionLike], tasks: int) -> None:
    """It may have no answer, or several, whatever its proposer meant by it."""
    round_ = await played(Changed(lambda first, last: spoil(last) if SOLVES in first else last), tasks=tasks)
    assert [group.returns for group in round_.proposing.groups] == [(0.0, 0.0)] * tasks
    assert round_.extra["proposals/verified"] == tasks


async def test_attempts_that_the_machinery_lost_count_for_nobody() -> None:
    round_ = await played(after_first(is_lost, SOLVES))
    assert [group.returns for group in round_.proposing.groups] == [(0.0, 0.0)] * 3, "both that were played solved it"
    assert all((len(group.members), group.excluded) == (2, 1) for group in round_.solving.groups)


async def test_a_reading_that_is_lost_is_not_a_right_one() -> None:
    async with aclosing(SelfPlay(TOOLS, {"actions": "tools"}, attempts=2, tries=3, readings=3)) as game:
        agent = after_first(is_lost, READS)
        round_ = await game.round(agent, [game.family.spec(seed) for seed in range(3)], RunOptions(seed=3, retries=0))
    assert round_.extra["proposals/verified"] == 0
    assert round_.extra["proposals/lost"] == 3
    assert [(group.members, group.excluded) for group in round_.proposing.groups] == [((), 2)] * 3
    assert round_.metrics()["reading/unscored"] == 3


async def test_the_same_words_for_different_answers_are_no_question() -> None:
    def change(first: str, last: ToolCall) -> ActionLike:
        return ToolCall("propose", {"question": "Which one is it?"}) if PROPOSES in first else last

    async with aclosing(SelfPlay(TOOLS, {"actions": "tools", "templates": ["fact-word"]}, attempts=2, tries=3)) as game:
        specs = [game.family.spec(64 * seed, level=1) for seed in range(3)]  # in one wiki
        assert len({game.family.generate(spec).answers for spec in specs}) > 1
        round_ = await game.round(Changed(change), specs, RunOptions(seed=3, retries=0))
    assert round_.extra["proposals/valid"] == 1
    assert round_.extra["proposals/different"] == 0
    assert {one for group in round_.proposing.groups for one in group.returns} == {0.0}


async def test_a_question_that_its_own_pages_do_not_answer_is_nobodys_task() -> None:
    def change(first: str, last: ToolCall) -> ActionLike:
        reads = READS in first
        return ToolCall("answer", {"text": "no idea"}) if reads else last

    round_ = await played(Changed(change))
    assert round_.extra["proposals/valid"] == 1
    assert round_.extra["proposals/verified"] == 0
    assert round_.solving.groups == ()
    assert {one for group in round_.proposing.groups for one in group.returns} == {0.0}
    assert "proposals/solved" not in round_.extra


async def test_a_question_that_tells_its_answer_earns_nothing() -> None:
    def change(first: str, last: ToolCall) -> ActionLike:
        _, gives, leaked = first.rpartition("Answer: ")
        return ToolCall("propose", {"question": f"Is it {leaked}?"}) if gives else last

    round_ = await played(Changed(change))
    assert (round_.extra["proposals/valid"], round_.solving.groups) == (0, ())


@pytest.mark.parametrize("grammar", [False, True])
async def test_a_question_with_two_answers_is_played_only_without_the_grammar(grammar: bool) -> None:
    def change(first: str, last: ToolCall) -> ActionLike:
        return ToolCall("propose", {"question": "Which one is it?"}) if PROPOSES in first else last

    async with aclosing(SelfPlay(TOOLS, {"actions": "tools"}, attempts=2, tries=2, grammar=grammar)) as game:
        round_ = await game.round(Changed(change), [game.family.spec(3)], RunOptions(seed=3, retries=0))
    assert round_.extra["proposals/valid"] == (0 if grammar else 1)
    assert bool(round_.solving.groups) is not grammar


async def test_silence_is_counted_and_earns_nothing() -> None:
    round_ = await played(NullAgent(), max_turns=2)
    assert round_.metrics()["proposals/valid"] == 0
    assert {one for group in round_.groups for one in group.returns} == {0.0}


async def test_the_same_round_is_the_same_round() -> None:
    def change(first: str, last: ToolCall) -> ActionLike:
        return ToolCall("answer", {"text": "no"}) if SOLVES in first and len(first) % 2 else last

    one, other = await played(Changed(change)), await played(Changed(change))
    assert [group.returns for group in one.groups] == [group.returns for group in other.groups]
    assert [group.group_id for group in one.groups] == [group.group_id for group in other.groups]


@pytest.mark.parametrize("lost", [READS, SOLVES])
async def test_what_the_machinery_lost_is_nobodys_fault(lost: str) -> None:
    """A reader or a solver whose episodes all die says nothing about the question."""

    def change(first: str, last: ToolCall) -> ActionLike:
        if lost in first:
            raise InfrastructureError("the server is lost")
        return last

    all_lost = (await played(Changed(change))).proposing.groups
    assert [(group.members, group.excluded) for group in all_lost] == [((), 2)] * 3

    def some(first: str, last: ToolCall) -> ActionLike:
        return change(first, last) if len(first.rpartition("Question: ")[2]) % 2 else last

    groups = (await played(Changed(some), tasks=8)).proposing.groups
    assert 0 < sum(group.excluded for group in groups) < 16
    assert {one for group in groups for one in group.returns} == {0.0}, "the others are solved by everybody"
    assert all(len(group.members) + group.excluded == 2 for group in groups)


def test_a_grammar_for_questions_of_your_own_is_refused_at_once(tmp_path: Path) -> None:
    page, asked = {"id": "1", "title": "Bel", "text": "Bel is a town."}, {"question": "Who?", "answers": ["Bel"]}
    files = {"corpus": page, "questions": {**asked, "evidence": [["1"]]}}
    for name, line in files.items():
        (tmp_path / f"{name}.jsonl").write_text(f"{json.dumps(line)}\n")
    own = {name: str(tmp_path / f"{name}.jsonl") for name in files}
    SelfPlay(TOOLS, own, attempts=2, tries=2)
    with pytest.raises(UsageError, match="grammar understands the pages of the fictional wiki"):
        SelfPlay(TOOLS, own, attempts=2, tries=2, grammar=True)


@pytest.mark.parametrize("env", ["turnwise/Maze-v0", "turnwise/SearchPropose-v1"])
def test_a_solver_that_is_asked_no_questions_is_refused_at_once(env: str) -> None:
    with pytest.raises(UsageError, match=rf"turnwise/SearchTags-v1; {env} is none"):
        SelfPlay(env, {}, attempts=2, tries=2)
