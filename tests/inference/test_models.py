"""Loading and saving: local, whole, and with errors that say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from turnwise.errors import ModelError
from turnwise.inference.models import available_device, load_model, load_tokenizer, save_model
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer

TOKENIZER = build_tokenizer("word", ["go left or right"])


def nano(seed: int = 0, **changes: Any) -> Any:
    return build_model(NanoConfig(size="0.1M", **changes), TOKENIZER, seed)


@pytest.mark.parametrize("tied", [False, True])
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, tied: bool) -> None:
    model = nano(tie_embeddings=tied)
    save_model(model, TOKENIZER, tmp_path / "a" / "model")
    loaded, read = load_model(tmp_path / "a" / "model")
    for (name, before), (_, after) in zip(model.state_dict().items(), loaded.state_dict().items(), strict=True):
        assert torch.equal(before, after), f"{name} changed on disk"
    assert not loaded.training
    for text in ("go left", "<user>right<ai>"):
        assert read.encode(text) == TOKENIZER.encode(text)
    assert read.chat_template == TOKENIZER.chat_template
    assert (read.eos_token_id, read.pad_token_id) == (TOKENIZER.eos_token_id, TOKENIZER.pad_token_id)
    assert read.decode(read.encode("go left")) == "go left"


@pytest.mark.parametrize("name", ["nowhere", "cuda:77"])
def test_a_device_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(ModelError, match=f"device '{name}' is not available here"):
        available_device(name)


def test_the_type_of_the_weights_can_be_chosen(tmp_path: Path) -> None:
    save_model(nano(), TOKENIZER, tmp_path / "m")
    assert load_model(tmp_path / "m", dtype=torch.bfloat16)[0].dtype is torch.bfloat16


def test_a_folder_is_replaced_as_a_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "m"
    save_model(nano(0), TOKENIZER, target)
    (target / "stale.txt").write_text("from before")
    save_model(nano(1), TOKENIZER, target)
    assert not (target / "stale.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    loaded, _ = load_model(target)
    assert torch.equal(loaded.lm_head.weight, nano(1).lm_head.weight)


def test_a_save_that_fails_leaves_the_old_folder(tmp_path: Path) -> None:
    target = tmp_path / "m"
    save_model(nano(0), TOKENIZER, target)

    class Breaking:
        def save_pretrained(self, path: Path) -> None:
            path.mkdir(exist_ok=True)
            (path / "tokenizer.json").write_text("{")
            raise OSError("no space left on device")

    with pytest.raises(ModelError, match="no space left"):
        save_model(nano(1), Breaking(), target)
    assert torch.equal(load_model(target)[0].lm_head.weight, nano(0).lm_head.weight)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_disk_that_is_full_leaves_the_old_folder(tmp_path: Path, small_files: None) -> None:
    (tmp_path / "m").mkdir()
    with pytest.raises(ModelError, match="cannot save a model to"):
        save_model(nano(1), TOKENIZER, tmp_path / "m")
    assert [path.name for path in tmp_path.rglob("*")] == ["m"]


@pytest.mark.parametrize(
    "name", ["missing", "./missing", "some-org/some-model", "/nowhere/at/all", "a/b/c", "~/nothing"]
)
def test_a_path_that_is_not_there_is_never_looked_for_elsewhere(name: str) -> None:
    """No network: the fixture of this suite turns any attempt into another error than this one."""
    with pytest.raises(ModelError, match=r"there is no model at .*name a folder made by training"):
        load_model(name)


def test_a_model_that_is_not_there_is_answered_with_what_is_beside_it(tmp_path: Path) -> None:
    run = tmp_path / "loop"
    for step in (2, 4):
        save_model(nano(1), TOKENIZER, run / "checkpoints" / f"step-0000000{step}" / "model")
    (run / "_lock").touch()  # all that a killed run leaves for certain
    with pytest.raises(ModelError, match=r"the run in .*loop has not finished: resume it .*step-00000004/model$"):
        load_model(run / "model")
    (run / "config.json").write_text('{"algorithm": "loop"}')
    with pytest.raises(ModelError, match=r"the run in .*loop has not finished: resume it .*step-00000004/model$"):
        load_model(run)
    save_model(nano(1), TOKENIZER, run / "model")
    with pytest.raises(ModelError, match=r"there is no model at .*modle; did you mean .*loop/model\?"):
        load_model(run / "modle")


def test_a_model_behind_an_api_cannot_be_loaded_and_trained() -> None:
    with pytest.raises(ModelError, match="behind a chat API, so its weights cannot be trained"):
        load_model("openai:gpt-4o")


def test_what_is_no_model_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        load_model(tmp_path)
    file = tmp_path / "weights.bin"
    file.write_bytes(b"x")
    with pytest.raises(ModelError, match="is a file"):
        load_model(file)
    with pytest.raises(ModelError, match="is a file"):
        save_model(nano(), TOKENIZER, file)
    (tmp_path / "config.json").write_text("{not json")
    with pytest.raises(ModelError, match="no language model that transformers can load"):
        load_model(tmp_path)


def test_a_missing_tokenizer_is_a_whole_sentence(tmp_path: Path) -> None:
    save_model(nano(), TOKENIZER, tmp_path / "m")
    (tmp_path / "m" / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="has no tokenizer that transformers can load") as caught:
        load_model(tmp_path / "m")
    assert not str(caught.value).endswith(":"), "what follows a colon belongs to it"
    assert "\n" not in str(caught.value)


def test_a_damaged_file_of_weights_is_an_error(tmp_path: Path) -> None:
    save_model(nano(), TOKENIZER, tmp_path / "m")
    weights = tmp_path / "m" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match="no language model that transformers can load"):
        load_model(tmp_path / "m")


def test_a_tokenizer_without_its_settings_is_refused_and_not_guessed(tmp_path: Path) -> None:
    save_model(nano(), TOKENIZER, tmp_path / "m")
    (tmp_path / "m" / "tokenizer_config.json").unlink()
    with pytest.raises(ModelError, match=r"without tokenizer_config\.json"):
        load_tokenizer(tmp_path / "m")


def test_a_folder_without_a_tokenizer_is_named_as_such(tmp_path: Path) -> None:
    nano().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="has no tokenizer"):
        load_tokenizer(tmp_path)
