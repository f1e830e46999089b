"""The package of ``turnwise new --serve``: a container's server, and the verdict of OpenEnv's own validation."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from turnwise.commands.new import new
from turnwise.envs.scaffold import Kind, scaffold

from ..shifts import core_sample
from .environment_servers import OPENENV, TOKEN

ID = "my_env/MyEnv-v0"


def instruction(root: Path, name: str) -> str:
    """The last instruction of this name in the Dockerfile, as a line starts with it."""
    return str(re.findall(rf"^{name} (.*)$", (root / "Dockerfile").read_text(), re.MULTILINE)[-1])


@pytest.mark.parametrize("kind", list(Kind))
def test_the_files_agree_with_each_other(kind: Kind, tmp_path: Path) -> None:
    files = {
        file.relative_to(tmp_path / "my_env").as_posix(): file
        for file in scaffold("my_env", kind, tmp_path, serve=True)
    }
    root = tmp_path / "my_env"
    manifest = yaml.safe_load(files["openenv.yaml"].read_text())
    assert (manifest["spec_version"], manifest["name"], manifest["type"]) == (1, "my_env", "space")
    card = yaml.safe_load(files["README.md"].read_text().split("---")[1])
    assert card["tags"] == ["openenv"]
    ports = {manifest["port"], card["app_port"], int(instruction(root, "EXPOSE"))}
    assert ports == {8000}, "one port everywhere"
    command = instruction(root, "CMD")
    assert command.startswith(f"exec turnwise serve {ID} --host 0.0.0.0 --port 8000 ")
    validation = manifest["validation"]
    assert (root / validation["execution"]["dockerfile"]).is_file()
    probe = json.loads((root / validation["execution"]["probe_path"]).read_text())
    low, high = validation["reward"]["range"]
    assert low <= 0 < 1 <= high
    if kind is Kind.TOOL:
        assert {action["tool_name"] for action in probe["actions"]} < set(validation["capabilities"]["declared_tools"])
    else:
        assert all(set(action) == {"text"} for action in probe["actions"])


def test_the_command_says_how_to_build_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new("My-Env", Kind.TURN, tmp_path, serve=True)
    said = capsys.readouterr().out
    assert f"docker build -t my-env {tmp_path / 'my_env'} && docker run -p 8000:8000 my-env" in said
    assert str(tmp_path / "my_env" / "openenv.yaml") in said


@contextlib.contextmanager
def container(kind: Kind, folder: Path, **variables: str) -> Iterator[tuple[Path, str]]:
    """Write a package, "install" it, and start the Dockerfile's command on a free port: its folder and URL."""
    scaffold("my_env", kind, folder, serve=True)
    root = folder / "my_env"
    installed = folder / "site"
    info = installed / "my_env-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my_env\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[turnwise.envs]\n{ID} = my_env.env:MyEnv\n")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("TURNWISE_")}
    environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environ["PATH"]))
    environ["PYTHONPATH"] = os.pathsep.join((str(installed), str(root), environ.get("PYTHONPATH", "")))
    command = instruction(root, "CMD").replace("--port 8000", "--port 0").replace("0.0.0.0", "127.0.0.1")
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], env=environ | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    watch = threading.Timer(600, process.kill)
    watch.start()
    try:
        line = process.stdout.readline().strip()
        assert line.startswith("turnwise://"), process.communicate()[1]
        yield root, f"http://{line.removeprefix('turnwise://').partition('/')[0]}"
    finally:
        watch.cancel()
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("kind", core_sample(list(Kind), 1, key="container"))
def test_the_dockerfiles_command_serves_openenvs_address(kind: Kind, tmp_path: Path) -> None:
    with container(kind, tmp_path) as (root, url), httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        assert client.get("/health").json() == {"status": "healthy"}
        assert client.get("/metadata").json()["name"] == ID
        probe = json.loads((root / "validation" / "runtime.json").read_text())
        id = client.post("/reset", json={"seed": probe["reset"]["seed"]}).json()["metadata"]["episode_id"]
        step = client.post("/step", json={"episode_id": id, "action": probe["actions"][0]})
        assert step.status_code == 200
        low, high = yaml.safe_load((root / "openenv.yaml").read_text())["validation"]["reward"]["range"]
        assert low <= step.json()["reward"] <= high


@pytest.mark.slow
@pytest.mark.shift
def test_a_token_of_the_container_is_asked_for(tmp_path: Path) -> None:
    with container(Kind.TURN, tmp_path, TURNWISE_TOKEN=TOKEN) as (_, url):
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
        assert httpx.get(f"{url}/metadata", trust_env=False).status_code == 401
        known = httpx.get(f"{url}/metadata", trust_env=False, headers={"Authorization": f"Bearer {TOKEN}"})
        assert known.json()["name"] == ID


VALIDATION = """
import sys
from pathlib import Path
from openenv.validation import Level, run_validation
from openenv.validation.types import ProviderCapability

class Running:
    base_url = sys.argv[2]
    def inspect(self): return {}
    def logs(self, max_bytes=65536): return ""
    def stop(self): pass

class Provider:  # the command runs already, without an engine
    name = "beside"
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})
    supported_network_modes = frozenset({"public"})
    def build(self, root, execution): return "sha256:" + "0" * 64
    def start(self, spec): return Running()

print(run_validation(Path(sys.argv[1]), max_level=Level.RUNTIME, provider=Provider()).model_dump_json())
"""


def asked(*arguments: str) -> Any:
    """Return the JSON that OpenEnv's Python prints."""
    command = [os.environ["OPENENV_PYTHON"], *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert ran.stdout.startswith("{"), ran.stdout + ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.slow
@pytest.mark.shift
@OPENENV
def test_openenvs_own_command_accepts_the_folder(tmp_path: Path) -> None:
    scaffold("my_env", Kind.TOOL, tmp_path, serve=True)
    static = ("--level", "static", "--skip-build", "--json")
    assert asked("-m", "openenv.cli", "validate", str(tmp_path / "my_env"), *static)["verdict"] == "pass"


@pytest.mark.slow
@pytest.mark.shift
@OPENENV
@pytest.mark.parametrize("kind", list(Kind))
def test_openenvs_own_validation_accepts_what_the_container_serves(kind: Kind, tmp_path: Path) -> None:
    with container(kind, tmp_path) as (root, url):
        report = asked("-c", VALIDATION, str(root), url)
    found = {result["check_id"]: (result["status"], result["evidence"]) for result in report["results"]}
    runtime = {
        f"runtime.{check}" for check in ("startup", "reward_well_formed", "observation_schema", "state_contract")
    }
    for check in ("static.manifest", *sorted(runtime)):
        assert found[check][0] == "pass", (check, found[check])
    rest = {text for status, evidence in found.values() if status != "pass" for text in evidence}
    assert all("not implemented" in text or "provider capabilities" in text for text in rest), rest
