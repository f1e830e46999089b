"""Wrong declarations of an author: one message with the author's line, before anything is played."""

from __future__ import annotations

import re
from typing import Any

import pytest

import turnwise as tw
from turnwise.errors import ContractError, UsageError


class Numbers(tw.TaskFamily[int]):
    name = "numbers"

    def build(self, spec: tw.TaskSpec, rng: tw.Rng) -> int:
        return rng.randrange(9)


class Raises(Numbers):
    def build(self, spec: tw.TaskSpec, rng: tw.Rng) -> int:
        raise KeyError("gone")


class Short(Numbers):
    def build(self, spec: tw.TaskSpec) -> int:  # type: ignore[override]
        return 3


class Nameless(tw.TaskFamily[int]):
    def build(self, spec: tw.TaskSpec, rng: tw.Rng) -> int:
        return 3


class Say(tw.TurnEnv):
    max_turns = 3

    def start(self, task: Any, rng: tw.Rng) -> str:
        return "Say hi."

    def act(self, action: tw.Action) -> tw.Step:
        return tw.Step("Again.", reward=0.5)  # type: ignore[arg-type]


def declaring(**fields: Any) -> type[Say]:
    return type("Mine", (Say,), fields)


def family(**fields: Any) -> dict[str, Any]:
    return {"family": type("Few", (Numbers,), fields)()}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"family": Numbers}, r"Mine.family is <class .*Numbers.*>; write family = Numbers\(\)"),
        ({"family": "numbers"}, r"Mine.family is 'numbers'; write family = MyFamily\(\)"),
        ({"family": Nameless()}, r"Nameless.name must be text, .*\(at .*test_declared.py:\d+ in Nameless\)"),
        ({"family": Short()}, r"Short.build\(spec.* cannot be called with 2 .*; write build\(self, spec, rng\) \(at"),
        (family(levels=2), r"Few.levels must be a tuple of integers, such as \(1, 2\); got 2"),
        (family(splits=("train", "tset_iid")), r"Few.splits must be a tuple of tw.Split \(train, .*got .*tset_iid"),
        ({"max_turns": "3"}, r"Mine.max_turns must be a positive integer; got '3'"),
        ({"max_turns": 0}, r"Mine.max_turns must be a positive integer; got 0"),
    ],
)
def test_a_wrong_declaration_is_named(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ContractError, match=f"^{said}"):
        declaring(**fields)()


def test_a_task_that_cannot_be_built_names_the_line_of_build() -> None:
    with pytest.raises(ContractError, match=r"Raises.build\(\) raised KeyError: 'gone' .* in train \(at .*declared.py"):
        Raises().generate(Raises().spec())


def test_no_message_names_a_line_of_gymnasium() -> None:
    with pytest.raises(UsageError, match="max_turns must be an integer of at least 1; got 0") as caught:
        tw.make("turnwise/Maze-v0", max_turns=0)
    assert "registration.py" not in str(caught.value)


@pytest.mark.parametrize("given", ["three", [3]])
def test_an_argument_of_another_type_is_named(given: Any) -> None:
    said = f"turnwise/Maze-v0: the argument 'max_turns' must be an integer; got {given!r}"
    with pytest.raises(UsageError, match=re.escape(said)):
        tw.make("turnwise/Maze-v0", max_turns=given)


def test_a_step_may_be_written_out_with_text() -> None:
    env = declaring()()
    env.reset(seed=0)
    observation, reward, *_ = env.step("hi")
    assert (observation.text, reward) == ("Again.", 0.5)
