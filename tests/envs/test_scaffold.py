"""The skeleton of a new package: it certifies as it is written, and its own tests pass."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from turnwise.envs.certify.certify import certify
from turnwise.envs.scaffold import Kind, scaffold
from turnwise.errors import UsageError

from ..shifts import core_sample


def loaded(file: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location(f"scaffolded_{file.parent.name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", core_sample(list(Kind), 1, key="scaffold"))
@pytest.mark.slow
def test_what_is_written_certifies_as_it_is(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = scaffold("my_env", kind, tmp_path)
    certificate = certify(loaded(files[0], monkeypatch).MyEnv)
    assert certificate.passed, str(certificate)
    skipped = {verdict.law for verdict in certificate.verdicts if verdict.status == "skip"}
    tools = {"tools_described", "tools_never_raise", "bad_calls_change_nothing"}
    remarks = [verdict.reason for verdict in certificate.verdicts if verdict.status == "pass" and verdict.reason]
    assert not remarks, "a new environment certifies without a remark: its splits share no task"
    assert skipped == {"answer_not_leaked"} | (tools if kind is Kind.TURN else set())


def test_an_unreadable_reply_is_no_cheaper_than_a_wrong_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = loaded(scaffold("my_env", Kind.TURN, tmp_path)[0], monkeypatch).MyEnv()
    env.reset(seed=0)
    wrong, unreadable = env.step("0")[1], env.step("I do not know")[1]
    assert unreadable <= wrong < 0, "or a learner that seldom succeeds learns to be unreadable"


@pytest.mark.slow
@pytest.mark.shift
def test_the_tests_that_it_writes_pass_in_a_project_of_its_own(tmp_path: Path) -> None:
    scaffold("Tidy-Up", "tool", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error"],
        cwd=tmp_path / "tidy_up",
        env={**os.environ, "PYTHONPATH": str(tmp_path / "tidy_up")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_the_entry_point_names_what_was_written(tmp_path: Path) -> None:
    files = scaffold("my_env", "turn", tmp_path)
    project = tomllib.loads((tmp_path / "my_env" / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["turnwise.envs"] == {"my_env/MyEnv-v0": "my_env.env:MyEnv"}
    assert "class MyEnv(" in files[0].read_text()
    assert all(file.is_file() for file in files)
    assert not any("$" in file.read_text() for file in files), "every placeholder is filled"


@pytest.mark.parametrize("name", ["", "1st", "my env", "class", "../up", "turnwise", "é", "json", "Test"])
def test_a_name_that_is_no_package_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a valid name for a Python package|belongs to a module"):
        scaffold(name, "turn", tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'web'; choose one of turn, tool"):
        scaffold("my_env", "web", tmp_path)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "my_env").mkdir()
    (tmp_path / "my_env" / "precious").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        scaffold("my_env", "turn", tmp_path)
    assert [path.name for path in (tmp_path / "my_env").iterdir()] == ["precious"]
