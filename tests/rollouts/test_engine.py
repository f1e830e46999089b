"""The place that plays episodes, and settings that have no effect there."""

from __future__ import annotations

import pytest

from turnwise.rollouts.engine import pool_of
from turnwise.rollouts.options import RolloutsConfig


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, []),
        ({"engine": "local"}, []),
        ({"workers": 2}, ["rollouts.workers"]),  # the default value, but its author expects an effect
        (RolloutsConfig().model_dump(), []),  # from the config.json of a run
        (RolloutsConfig(workers=3).model_dump(), ["rollouts.workers"]),
        ({"workers": 3}, ["rollouts.workers"]),
        ({"workers": 3, "address": "auto"}, ["rollouts.address", "rollouts.workers"]),
    ],
)
def test_settings_of_ray_without_ray_are_reported(
    settings: dict[str, object], named: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    pool_of(RolloutsConfig.model_validate(settings), "turnwise/Maze-v0")
    found = [record.getMessage().partition("no effect: ")[2].split(", ") for record in caplog.records]
    assert found == ([named] if named else [])
