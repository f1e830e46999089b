"""The files around the package say what is so: compose, Makefile, scripts, CI, changelog."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from turnwise.cli import COMMANDS
from turnwise.commands.train import located

ROOT = Path(__file__).resolve().parent.parent
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]


def test_compose_has_the_four_services() -> None:
    assert set(SERVICES) == {"policy", "trainer", "workers", "tensorboard"}


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_confined_and_watched(name: str) -> None:
    service = SERVICES[name]
    assert service["healthcheck"]["test"], "somebody must notice when it hangs"
    assert service["user"].split(":")[0] not in ("0", "root"), "nothing runs as root"
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    for limit in ("mem_limit", "cpus", "pids_limit"):
        assert service[limit], f"{name} needs a {limit}"
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), "ports are for this machine only"


@pytest.mark.parametrize("name", [name for name in SERVICES if SERVICES[name]["command"][0] == "turnwise"])
def test_compose_runs_commands_that_exist(name: str) -> None:
    command, *words = SERVICES[name]["command"][1:]
    assert command in COMMANDS
    if "--config" in words:
        assert located(words[words.index("--config") + 1]).is_file()
    assert SERVICES[name]["network_mode"] == "none", "what acts in environments reaches no network"


def test_makefile_targets() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    assert {"quickstart", "test", "test-fast", "lint", "types", "docs-check", "certify", "clean"} <= targets
    for script in re.findall(r"scripts/([a-z-]+)", text):
        assert (ROOT / "scripts" / script).is_file(), f"the Makefile calls scripts/{script}"


@pytest.mark.parametrize("path", ["scripts/install", "scripts/lint", "scripts/test", "scripts/smoke", ".ci/run"])
def test_scripts_stop_at_the_first_failure(path: str) -> None:
    script = ROOT / path
    assert script.stat().st_mode & 0o111, f"{path} must be executable"
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")


def test_ci_calls_what_people_call() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_changelog_knows_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{version}]" in text or "## [Unreleased]" in text


def test_license_is_the_whole_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
