"""``examples/single_file_grpo.py`` is short, trains on what was sampled and on nothing else, and learns."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from types import ModuleType

import pytest
import torch

from .test_examples import EXAMPLES, load

FILE = EXAMPLES / "single_file_grpo.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load(FILE.name)


def test_it_is_one_short_file() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    assert "from turnwise" not in text, "it needs no more than the front door"


def test_the_mask_covers_the_sampled_tokens_and_nothing_else(example: ModuleType) -> None:
    torch.manual_seed(0)
    policy = example.Policy()
    episodes = example.play(partial(example.sample, policy), example.GuessNumber().tasks().sample(6), 2)
    log_ratio_BL, mask_BL = example.log_ratios(policy, episodes)
    assert len({len(episode.ids) for episode in episodes}) > 1, "rows of one length would prove nothing about padding"
    for row, episode in enumerate(episodes):
        acted = [logprob == logprob for logprob in episode.logprobs]
        assert not acted[0]
        assert mask_BL[row].tolist() == [*acted[1:], *[False] * (mask_BL.shape[1] - len(acted) + 1)]
    torch.testing.assert_close(log_ratio_BL, torch.zeros_like(log_ratio_BL), atol=1e-5, rtol=0)


def test_advantages_are_standardized_within_groups(example: ModuleType) -> None:
    episodes = [example.Episode(None, total_reward=value) for value in (1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0)]
    torch.testing.assert_close(example.advantages(episodes, 4), torch.tensor([1.0, -1, -1, 1, 0, 0, 0, 0]))


def test_the_clip_stops_what_moved_too_far(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = torch.tensor([[0.5, 0.0, 9.0], [-0.5, 0.1, 0.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    monkeypatch.setattr(example, "log_ratios", lambda policy, episodes: (moved, mask))
    loss = example.clipped_loss(None, [], torch.tensor([1.0, -1.0]))
    loss.backward()
    expected = -(1.2 + 1 - 0.8 - torch.tensor(0.1).exp() - 1) / 5
    torch.testing.assert_close(loss.detach(), expected)
    assert moved.grad is not None
    assert (moved.grad != 0).tolist() == [[False, True, False], [False, True, True]]


@pytest.mark.slow
@pytest.mark.shift
def test_it_learns_to_bisect() -> None:
    done = subprocess.run([sys.executable, str(FILE)], check=True, capture_output=True, timeout=800, text=True)
    before, after = map(float, re.findall(r"([\d.]+)%", done.stdout.splitlines()[-1]))
    assert before < 55, "the warm start must not teach the game"
    assert after > 80, done.stdout
