from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from turnwise.trainers.critics.polyak import follow


def test_the_copy_moves_by_its_share_and_what_learns_stays() -> None:
    online = nn.Linear(2, 2)
    target = copy.deepcopy(online).requires_grad_(False)
    with torch.no_grad():
        online.weight.add_(1.0)
    before, learnt = target.weight.clone(), online.weight.detach().clone()
    follow(target, online, 0.25)
    assert torch.allclose(target.weight, 0.75 * before + 0.25 * learnt)
    assert torch.equal(online.weight, learnt)
    follow(target, online, 1.0)
    assert torch.equal(target.weight, learnt)


def test_values_without_targets_follow_nothing() -> None:
    online = nn.Linear(2, 2)
    before = online.weight.detach().clone()
    follow(online, online, 0.3)
    assert torch.equal(online.weight, before)


def test_a_copy_of_another_shape_is_no_copy() -> None:
    with pytest.raises(ValueError, match="argument"):
        follow(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.Linear(2, 2), 0.5)
