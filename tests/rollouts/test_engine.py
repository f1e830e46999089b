"""The place that plays episodes, and settings that have no effect there."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from turnwise.rollouts.engine import pool_of
from turnwise.rollouts.options import RolloutsConfig
from turnwise.trainers.run.engine_settings import RayServersConfig


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


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"workers": 8, "workers_per_node": 4}, "workers = 8 in all and workers_per_node = 4 are two numbers"),
        ({"workers": 2, "workers_per_node": 4}, "workers = 2 in all"),  # the default value, but it is written
        ({"resources": {"CPU": -1.0}}, "CPU is below 0"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=said):
        RolloutsConfig(engine="ray", **settings)


def test_a_stored_configuration_names_both_numbers() -> None:
    stored = RolloutsConfig(engine="ray", workers_per_node=4).model_dump()
    assert RolloutsConfig(**stored).workers_per_node == 4
    shown = {name: value for name, value in stored.items() if value is not None}  # as TOML has it
    assert RolloutsConfig(**shown).workers_per_node == 4
    with pytest.raises(pydantic.ValidationError, match="workers = 3 in all"):
        RolloutsConfig(**{**stored, "workers": 3})


def test_servers_on_ray_refuse_a_negative_resource_too() -> None:
    with pytest.raises(pydantic.ValidationError, match="GPU is below 0"):
        RayServersConfig(resources={"GPU": -1.0})
