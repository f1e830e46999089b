"""Certification on an idle machine, whatever else runs beside the tests."""

from __future__ import annotations

import pytest

from turnwise.envs.certify import harness


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "machine_load", lambda: 0.0)
