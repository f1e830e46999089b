"""Profiles fill what a user left out, only on a GPU, and what they chose is reported and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pydantic
import pytest
import torch

from turnwise.config import load_config
from turnwise.errors import ConfigError, UsageError
from turnwise.inference import hardware
from turnwise.inference.hardware import GPUS, ProfileName, detected_profile, profile_of, serving_settings
from turnwise.inference.serving.launch.process import ServerOptions
from turnwise.trainers.learning.learner import OptimizerConfig
from turnwise.trainers.loop import LoopConfig
from turnwise.trainers.run import hardware as run_hardware
from turnwise.trainers.run.hardware import HardwareConfig, matrix_precision, profile_remark, profiled
from turnwise.trainers.run.may_change import MAY_CHANGE
from turnwise.trainers.run.run_folder import differences

from ..small import looping, run

NEEDED: dict[str, Any] = {"env": "turnwise/MazeU-v0", "model": "m"}
PROFILES = [name for name in get_args(ProfileName) if name not in ("auto", "cpu")]


def configured(**settings: Any) -> LoopConfig:
    return LoopConfig.model_validate(NEEDED | settings)


def on(profile: str, **settings: Any) -> LoopConfig:
    return configured(hardware={"profile": profile}, **settings)


def test_without_a_gpu_nothing_changes() -> None:
    plain = configured()
    assert plain.hardware == HardwareConfig(profile="cpu")
    assert plain.optimizer == OptimizerConfig()
    assert profile_remark(plain.hardware) == ""
    assert on("cpu") == plain


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_fills_what_was_not_set(profile: str) -> None:
    found = on(profile)
    assert found.optimizer.autocast == "bfloat16"
    assert found.optimizer.recompute
    assert found.optimizer.microbatch_tokens >= 8192
    assert found.optimizer.layout == "packed", "no padding is computed, and no mask is built"
    assert found.hardware.attention == "auto"
    assert found.hardware.tf32
    assert found.dtype == "float32", "updates of 1e-6 are lost in bfloat16"
    assert found.hardware.chosen["optimizer.recompute"] is True


def test_a_profile_leaves_what_was_set() -> None:
    mine = OptimizerConfig(microbatch_tokens=999, lr=1e-6)
    found = on("h100", optimizer=mine)
    assert (found.optimizer.microbatch_tokens, found.optimizer.lr) == (999, 1e-6)
    assert found.optimizer.autocast == "bfloat16"
    assert "optimizer.microbatch_tokens" not in found.hardware.chosen
    tables = configured(hardware={"profile": "h100", "tf32": False}, optimizer={"recompute": False})
    assert (tables.hardware.tf32, tables.optimizer.recompute) == (False, False)
    assert {"hardware.tf32", "optimizer.recompute"}.isdisjoint(tables.hardware.chosen)


def test_layers_are_compiled_where_a_gpu_has_measured_it() -> None:
    """All weights, and kernels of attention that ran under the compiler; what a profile decided is written down."""
    assert on("h100").optimizer.compiled
    assert on("h100").hardware.chosen["optimizer.compiled"] is True
    adapted = on("h100", lora={"rank": 4}, dtype="bfloat16")
    assert not adapted.optimizer.compiled
    assert adapted.hardware.chosen["optimizer.compiled"] is False
    assert "optimizer.compiled=false" in profile_remark(adapted.hardware)
    for kernel, compiles in (("sdpa", True), ("flash", False), ("flex", False)):
        assert configured(hardware={"profile": "h100", "attention": kernel}).optimizer.compiled is compiles
    for wanted in (True, False):
        mine = on("h100", optimizer={"compiled": wanted}, lora={"rank": 4} if wanted else None, dtype="float32")
        assert mine.optimizer.compiled is wanted, "a user's own setting holds"
        assert "optimizer.compiled" not in mine.hardware.chosen


def test_a_machine_without_a_c_compiler_compiles_nothing_unasked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run_hardware, "detected_profile", lambda device: "h100")
    for can in (True, False):
        monkeypatch.setattr(run_hardware, "can_compile", lambda can=can: can)
        assert configured().optimizer.compiled is can
        assert on("h100").optimizer.compiled, "a named profile is the same on every machine, as in a plan"
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": str(tmp_path)})
    there: set[str] = set()
    monkeypatch.setattr("shutil.which", lambda name: name if name in there else None)
    for compiler, installed, can in (
        ("", "", False),
        ("", "gcc", True),
        ("mycc -m64", "gcc", False),
        ("mycc -m64", "mycc", True),
    ):
        there = {installed}
        monkeypatch.setenv("CC", compiler)
        assert hardware.can_compile() is can
    (tmp_path / "Python.h").unlink()
    assert not hardware.can_compile(), "launchers need the headers of Python, too"


def test_an_engine_is_given_its_limits_only_where_there_is_one() -> None:
    assert on("h100").server is None
    served = on("h100", server={"urls": ["http://localhost:1"]}).server
    assert served is not None
    assert (served.dtype, served.engine) == ("bfloat16", None)
    inside = on("h100", server={"engine": {"max_seqs": 7}}).server
    assert inside is not None
    assert inside.engine is not None
    assert (inside.engine.max_seqs, inside.engine.memory_share, inside.engine.eager) == (7, 0.4, False)
    options = inside.engine.options(longest=4096, dtype="bfloat16")
    assert (options.context_length, options.cache_megabytes) == (4096, None)


def test_what_was_chosen_is_reported_and_survives_being_written_and_read() -> None:
    found = on("h100")
    said = profile_remark(found.hardware)
    assert "hardware profile h100 (docs/hardware.md says what was measured): optimizer.autocast=bfloat16" in said
    assert "optimizer.recompute=true" in said
    again = LoopConfig.model_validate(json.loads(found.model_dump_json()))
    assert again == found
    assert "hardware" in MAY_CHANGE
    assert not differences(found.model_dump(mode="json"), on("h200").model_dump(mode="json"), MAY_CHANGE)


def test_a_run_without_a_gpu_refuses_a_profile_of_one_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"hardware.profile = h100 is for a GPU, and this run's device is cpu") as said:
        run(looping(tmp_path / "run", tmp_path / "model", hardware={"profile": "h100"}))
    assert "\n" not in str(said.value)
    assert not (tmp_path / "run").exists(), "nothing is half-started"


def test_a_profile_that_does_not_exist_is_one_line_with_those_that_do(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('env = "e"\nmodel = "m"\n[hardware]\nprofile = "h1000"\n')
    with pytest.raises(ConfigError, match=r"line 4: setting 'hardware.profile' cannot be 'h1000'; did you mean 'h100'"):
        load_config(LoopConfig, file)
    for wrong in ("fast", 3, {"profile": 5}):
        with pytest.raises(ConfigError, match="hardware"):
            load_config(LoopConfig, settings=NEEDED | {"hardware": wrong})
    assert profiled({"hardware": 3}) == {"hardware": 3}


@pytest.mark.parametrize(
    ("name", "gib", "profile"),
    [
        ("NVIDIA H100 80GB HBM3", 79.1, "h100"),
        ("NVIDIA H100 PCIe", 79.1, "h100"),
        ("NVIDIA H200", 139.8, "h200"),
        ("NVIDIA GH200 480GB", 94.5, "gpu"),
        ("NVIDIA A100-SXM4-80GB", 79.1, "a100"),
        ("NVIDIA A100-PCIE-40GB", 39.4, "a100-40gb"),
        ("NVIDIA L40S", 44.4, "l40s"),
        ("NVIDIA GeForce RTX 4090", 23.6, "gpu"),
    ],
)
def test_a_gpu_is_known_by_its_name(name: str, gib: float, profile: str) -> None:
    assert profile_of(name, gib) == profile
    assert profile_of(name, gib, bfloat16=False) == "cpu"


class Properties:
    name, total_memory, major = "NVIDIA H100 80GB HBM3", 85 * 10**9, 9


def test_auto_takes_the_profile_of_the_runs_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    assert detected_profile() == "h100"
    assert detected_profile("cuda:1") == "h100"
    assert detected_profile("cpu") == "cpu"
    assert configured(device="cpu").hardware.profile == "cpu"
    with pytest.raises(pydantic.ValidationError, match="device 'cuda' is not available"):  # this torch has no CUDA
        configured(device="cuda")


def test_matrix_products_are_as_precise_as_before_after_the_run() -> None:
    before = torch.get_float32_matmul_precision()
    with matrix_precision(HardwareConfig(tf32=True)):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before
    with matrix_precision(HardwareConfig()):
        assert torch.get_float32_matmul_precision() == before


@pytest.mark.slow
def test_attention_is_a_setting(cloned: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"steps": 1, "eval": {"episodes": 0}}
    eager = run(looping(tmp_path / "eager", cloned / "model", hardware={"attention": "eager"}, **settings))
    plain = run(looping(tmp_path / "plain", cloned / "model", **settings))
    assert eager.metrics["loss"] == pytest.approx(plain.metrics["loss"], abs=1e-4)
    for name in ("flash", "flex", "flash_attention_2"):
        with pytest.raises(UsageError, match=f"attention = {name}.*choose auto or sdpa"):
            run(looping(tmp_path / name, cloned / "model", hardware={"attention": name}, **settings))


@pytest.mark.parametrize("profile", PROFILES)
def test_the_options_of_a_server_are_those_of_the_launcher(profile: str) -> None:
    options = ServerOptions.model_validate(serving_settings(profile))
    words = options.command("m", 5)
    assert words[words.index("--gpu-memory-utilization") + 1] == "0.9"
    assert words[words.index("--dtype") + 1] == "bfloat16"
    assert "--kv-cache-memory-bytes" not in words
    assert "--enforce-eager" not in words
    assert ServerOptions(memory_share=0.3, kv_megabytes=5).cache_megabytes == 5


def test_gpus_and_profiles_agree() -> None:
    assert set(GPUS) | {"auto", "cpu", "gpu"} == set(get_args(ProfileName))
    assert set(hardware.NAMES.values()) | {"a100-40gb"} == set(GPUS)
    assert set(hardware.MICROBATCH) <= {*GPUS, "gpu"}
