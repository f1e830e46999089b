from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from turnwise.errors import DivergedError
from turnwise.trainers.learning.diverged import diverged

BATCH = {"ids": torch.arange(3)}


def test_the_batch_is_saved_and_the_error_says_where_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "new" / "diverged.pt"
    said = f"after 2 updates the loss is nan; the batch of 3 tokens is saved as {path}. The weights are as before"
    with pytest.raises(DivergedError, match=re.escape(said) + r".* with a lower optimizer\.lr$"):
        diverged("after 2 updates the loss is nan", "3 tokens", BATCH, path, rate="optimizer.lr")
    assert torch.load(path, weights_only=True)["ids"].tolist() == [0, 1, 2]


def test_without_a_path_nothing_is_saved_and_the_error_says_so() -> None:
    with pytest.raises(DivergedError, match="is not saved: the critic has no dump path"):
        diverged("it happened", "3 tokens", BATCH, None, rate="values.lr", learns="critic")


def test_a_process_that_does_not_write_names_the_file_of_the_one_that_does(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match=r"saved as .*diverged\.pt"):
        diverged("it happened", "3 tokens", BATCH, tmp_path / "diverged.pt", rate="optimizer.lr", writes=False)
    assert not list(tmp_path.iterdir())
