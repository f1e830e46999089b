"""Pytest plugin that writes what each test took, its fixtures, and the processor: ``pytest --seconds FILE``.

Processor seconds are those of the test process and of children that it has waited for. Where processes share two
cores, a test takes longer when others run beside it, and its processor seconds stay.

``benchmarks/suite_seconds.py`` adds the lines of such files up by folder, file, function or fixture.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

NOTED = 0.01
"""Seconds that a fixture must take to be written down."""


class FixtureSeconds:
    """Time fixtures where they run, in a worker process, and send the seconds along with the test's report."""

    item: pytest.Item | None = None
    start = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Remember which test asks for fixtures."""
        self.item, self.start = item, processor_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """Send the processor seconds with the last report of a test."""
        if call.when == "teardown":
            item.user_properties.append(("processor", round(processor_seconds() - self.start, 3)))
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        """Time one fixture, including the fixtures that it asks for itself."""
        start = time.perf_counter()
        try:
            return (yield)
        finally:
            seconds = time.perf_counter() - start
            if self.item is not None and seconds > NOTED:
                self.item.user_properties.append(("fixture", (fixturedef.argname, fixturedef.scope, round(seconds, 3))))


def processor_seconds() -> float:
    """Return the processor time of this process and of its ended children."""
    return sum(os.times()[:4])


class TestSeconds:
    """Write a line for each test once it has ended."""

    __test__ = False

    def __init__(self, file: Path) -> None:
        self.file, self.phases = file, dict[str, dict[str, float]]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the phases of a test, and write them after the last."""
        phases = self.phases.setdefault(report.nodeid, {})
        phases[report.when] = round(report.duration, 4)
        if report.when == "teardown":
            fixtures = [value for name, value in report.user_properties if name == "fixture"]
            processor = dict(report.user_properties).get("processor")
            took = {**self.phases.pop(report.nodeid), "processor": processor}
            line = {"test": report.nodeid, **took, "fixtures": fixtures}
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(line) + "\n")


def register(config: pytest.Config) -> None:
    """Add the plugin where ``--seconds`` asks for it; only the main process writes."""
    file = config.getoption("seconds")
    if file is not None:
        config.pluginmanager.register(FixtureSeconds(), "fixture-seconds")
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(TestSeconds(Path(file).resolve()), "test-seconds")
