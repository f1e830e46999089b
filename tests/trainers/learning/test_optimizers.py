from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from turnwise.errors import CheckpointError, UsageError
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.optimizers import adamw
from turnwise.trainers.learning.parallel_config import ParallelConfig

from ..fakes import Bigram


def steps(kind: Any, count: int = 20) -> torch.Tensor:
    """Minimize the distance to 1 from a random start, of a tensor that is large enough to be quantized."""
    weight = torch.nn.Parameter(torch.randn(96, 64, generator=torch.Generator().manual_seed(0)))
    optimizer = adamw(kind, [weight], lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
    for _ in range(count):
        optimizer.zero_grad()
        ((weight - 1) ** 2).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return weight.detach()


def test_the_fused_update_is_the_plain_one() -> None:
    assert torch.allclose(steps("adamw"), steps("adamw-fused"), atol=1e-6)


def test_the_update_in_8_bits_is_near_the_plain_one() -> None:
    pytest.importorskip("bitsandbytes")
    plain, short = steps("adamw"), steps("adamw-8bit")
    assert not torch.equal(plain, short), "it did quantize"
    assert (plain - short).abs().mean() < 0.01, "of 0.2 that the weights moved"
    kept = Learner(Bigram(), OptimizerConfig(kind="adamw-8bit")).state_dict()
    Learner(Bigram(), OptimizerConfig(kind="adamw-8bit")).load_state_dict(kept)
    with pytest.raises(CheckpointError, match="written by adamw-8bit and cannot be read by adamw"):
        Learner(Bigram(), OptimizerConfig()).load_state_dict(kept)


def test_8_bits_without_their_package_are_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", None)
    with pytest.raises(UsageError, match=r"needs the package bitsandbytes .*pip install turnwise\[8bit\]"):
        Learner(Bigram(), OptimizerConfig(kind="adamw-8bit"))


def test_the_moments_of_an_older_version_are_plain_ones() -> None:
    kept = Learner(Bigram(), OptimizerConfig()).state_dict()
    old = {name: value for name, value in kept.items() if name != "kind"}
    Learner(Bigram(), OptimizerConfig(kind="adamw-fused")).load_state_dict(old)


@pytest.mark.parametrize(
    ("settings", "processes", "autocast", "kind", "reason"),
    [
        ({"offload": True}, 1, None, "adamw", "parallel.offload is for several processes"),
        ({"replicas": 2}, 1, None, "adamw", "parallel.replicas = 2 is for several processes"),
        ({"replicas": 2}, 3, None, "adamw", "3 processes cannot hold 2 copies"),
        ({"mixed_precision": "bfloat16"}, 2, None, "adamw", "set optimizer.autocast = bfloat16 too"),
        ({}, 2, None, "adamw-8bit", "several processes divide the 32-bit moments"),
    ],
)
def test_settings_that_do_not_fit_the_processes_are_refused(
    settings: dict[str, Any], processes: int, autocast: str | None, kind: str, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        ParallelConfig(**settings).check(processes, autocast, kind)
