from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from turnwise.errors import CheckpointError
from turnwise.trainers.run.checkpoint import Checkpoints, file_digest
from turnwise.trainers.run.generators import capture_generators, restore_generators


def write_model(folder: Path) -> None:
    folder.mkdir()
    (folder / "weights").write_bytes(b"\x01" * 100)


def save(checkpoints: Checkpoints, step: int, **extra: Any) -> Path:
    return checkpoints.save(
        step,
        write_model=write_model,
        progress={"cursor": step * 10},
        tensors={"optimizer": {"m": torch.arange(3) + step}},
        **extra,
    )


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "c", run="loop")

    def pending(folder: Path) -> None:
        folder.mkdir()
        (folder / "part").write_text("episodes")

    save(checkpoints, 3, write_pending=pending)
    found = checkpoints.latest()
    assert (found.step, found.progress, found.passed_over) == (3, {"cursor": 30}, ())
    assert found.tensors["optimizer"]["m"].tolist() == [3, 4, 5]
    assert (found.model / "weights").read_bytes() == b"\x01" * 100
    assert (found.pending / "part").read_text() == "episodes"


def test_the_newest_are_kept_and_the_same_step_may_be_saved_again(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, run="loop", keep=2)
    for step in (1, 2, 10):
        save(checkpoints, step)
    again = save(checkpoints, 10)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000010", "step-00000010-01"]
    assert checkpoints.latest().path == again


@pytest.mark.parametrize("victim", ["model/weights", "tensors.pt", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_checkpoint_is_named_and_the_older_one_is_used(tmp_path: Path, victim: str, damage: str) -> None:
    checkpoints = Checkpoints(tmp_path, run="loop")
    save(checkpoints, 1)
    file = save(checkpoints, 2) / victim
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(data[: len(data) // 2] if damage == "cut" else bytes([data[0] ^ 255]) + data[1:])
    found = checkpoints.latest()
    assert found.step == 1
    (problem,) = found.passed_over
    assert "step-00000002" in problem
    assert "\n" not in problem
    assert victim.split("/")[-1] in problem
    with pytest.raises(CheckpointError, match="step-00000002"):
        checkpoints.load(tmp_path / "step-00000002")


def test_when_none_is_whole_the_error_names_each(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, run="loop")
    for step in (1, 2):
        (save(checkpoints, step) / "tensors.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* is whole: .*00000002.*; .*00000001") as caught:
        checkpoints.latest()
    assert "\n" not in str(caught.value)
    assert "; restore one from a copy, or start a new run with another --out" in str(caught.value)


def test_when_none_is_whole_the_error_names_the_newest_model_without_damage(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints", run="loop")
    older, newer = (save(checkpoints, step) for step in (1, 2))
    best, empty = tmp_path / "best", tmp_path / "model"
    for folder in (best, empty):
        folder.mkdir()
    (best / "config.json").write_text("{}")
    for damaged, named in [
        ([older / "tensors.pt", newer / "state.json"], newer / "model"),
        ([newer / "model" / "weights"], older / "model"),
        ([older / "model" / "weights"], best),
    ]:
        for file in damaged:
            file.write_bytes(b"")
        with pytest.raises(CheckpointError, match=f"start from its last whole model: model={named}$"):
            checkpoints.latest([empty, best])
    with pytest.raises(CheckpointError, match=r"another --out$"):
        checkpoints.latest([empty])


def test_a_model_with_its_weights_in_shards_is_not_named_as_whole(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, run="loop")

    def write_shards(folder: Path) -> dict[str, str]:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "0").write_text("weights")
        return {"0": file_digest(folder / "0")}

    (save(checkpoints, 1, write_shards=write_shards) / "tensors.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"is whole: .*another --out$"):
        checkpoints.latest()


def test_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no checkpoint in"):
        Checkpoints(tmp_path / "nowhere", run="loop").latest()
    assert not Checkpoints(tmp_path / "nowhere", run="loop").any()


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path, run="bc"), 1)
    with pytest.raises(CheckpointError, match="belongs to run 'bc', not 'loop'"):
        Checkpoints(tmp_path, run="loop").latest()


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path) -> None:
    path = save(Checkpoints(tmp_path, run="loop"), 1)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | {"format": "turnwise-checkpoint/99"}))
    with pytest.raises(CheckpointError, match="format 'turnwise-checkpoint/99'"):
        Checkpoints(tmp_path, run="loop").latest()


def test_a_save_that_dies_half_way_leaves_what_there_was(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, run="loop")
    save(checkpoints, 1)

    def dies(folder: Path) -> None:
        write_model(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(2, write_model=dies, progress={}, tensors={})
    (tmp_path / ".writing-stray").mkdir()  # what a SIGKILL would leave
    assert checkpoints.latest().step == 1
    save(checkpoints, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000001", "step-00000002"]


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(CheckpointError, match=r"cannot write checkpoint .*No space left"):
        Checkpoints(tmp_path, run="loop").save(1, write_model=full, progress={}, tensors={})


def test_tensors_that_do_not_fit_on_the_disk_are_one_line(tmp_path: Path, small_files: None) -> None:
    checkpoints = Checkpoints(tmp_path, run="loop")
    with pytest.raises(
        CheckpointError, match=r"cannot write checkpoint .* does not fit: [\d,]+ MiB of its disk are free"
    ):
        checkpoints.save(1, write_model=write_model, progress={}, tensors={"x": torch.zeros(100_000)})
    assert not list(tmp_path.iterdir()), "nothing half written is left"


def test_loading_runs_no_code(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "executed",))

    checkpoints = Checkpoints(tmp_path / "c", run="loop")
    checkpoints.save(1, write_model=write_model, progress={}, tensors={"x": Payload()})
    with pytest.raises(CheckpointError, match="cannot be read"):
        checkpoints.latest()
    assert not (tmp_path / "executed").exists()


def test_random_generators_round_trip_through_a_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, run="loop")
    before = capture_generators()
    try:
        checkpoints.save(1, write_model=write_model, progress={}, tensors={"generators": before})
        drawn = [torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random(), np.random.normal()]
        restore_generators(checkpoints.latest().tensors["generators"])
        again = [torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random(), np.random.normal()]
        assert again == drawn
    finally:
        restore_generators(before)
