"""A package of its own brings an environment: installed by pip, found, made and certified."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "examples" / "plugin_package"
ID = "lights/LightsOut-v0"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a process that has the package, installed by pip without any network."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--target", str(target)]
    done = subprocess.run([*pip, *offline, str(PACKAGE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {**os.environ, "PYTHONPATH": str(target)}


def turnwise(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "turnwise.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_turnwise_envs_finds_it(environment: dict[str, str]) -> None:
    done = turnwise(environment, "envs", "lights", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["id"] == ID
    assert row["source"] == "turnwise-lights", "an environment says which distribution it is from"
    assert row["problem"] is None


@pytest.mark.slow
def test_it_is_unknown_without_the_package() -> None:
    done = turnwise(dict(os.environ), "envs", "lights", "--json")
    assert done.returncode == 2
    assert "no environment matches 'lights'" in done.stderr


@pytest.mark.slow
def test_it_makes_and_solves(environment: dict[str, str]) -> None:
    code = f"""
import turnwise
env = turnwise.make({ID!r})
for seed in range(30):
    env.reset(seed=seed)
    over = False
    while not over:
        *_, terminated, truncated, info = env.step(env.oracle())
        over = terminated or truncated
    assert info["success"] and terminated, seed
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_finding_it_imports_nothing_of_it(environment: dict[str, str]) -> None:
    listing = f"import sys, turnwise; assert {ID!r} in [entry.id for entry in turnwise.entries()]"
    code = f"{listing}; print('turnwise_lights' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", "listing ids must not import anybody's code: " + done.stderr
