"""Actions that an author's own methods choose: a wrong one is an error that names its line."""

from __future__ import annotations

import warnings

import pytest

import turnwise as tw
from turnwise.envs.asked import asked


class Says(tw.TurnEnv):
    """An environment whose every action is right."""

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return "Say something."

    def act(self, action: tw.Action) -> tw.Step:
        return tw.success("Good.")


class AsProperty(Says):
    @property
    def oracle(self) -> str:  # type: ignore[override]
        return "yes"


class Async(Says):
    async def oracle(self) -> str:  # type: ignore[override]
        return "yes"


def test_a_property_is_not_a_method() -> None:
    with pytest.raises(
        TypeError, match=r"oracle is 'yes', not a method; write def oracle\(self, ...\) \(at .*test_asked"
    ):
        asked(AsProperty(), "oracle")


def test_an_async_oracle_is_refused_without_a_warning_of_python() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError, match=r"oracle\(\) is wrong: .*test_asked"):
            asked(Async(), "oracle")
