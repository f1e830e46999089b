"""The base model in the repository loads as any other, and reads what the page says that it reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from turnwise.inference.models import load_model
from turnwise.inference.transformers_policy import TransformersPolicy
from turnwise.trainers.pretraining.probes import probe_policy, probe_scores, probe_suite

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "models" / "base-2m"
PROBES = 20
"""Exercises of each skill, the first of those that the page counts."""
if not MODEL.is_dir():
    pytest.skip("the base model is not part of a source distribution", allow_module_level=True)


@pytest.mark.slow
def test_it_reads_what_the_page_says() -> None:
    page = (ROOT / "docs" / "pretraining.md").read_text()
    said = {name: float(share) / 100 for name, share in re.findall(r"^\| `(\w+)` \| ([\d.]+) % \(", page, re.MULTILINE)}
    model, tokenizer = load_model(MODEL)
    exercises = probe_suite(PROBES)
    scores = probe_scores(exercises, probe_policy(TransformersPolicy(model, tokenizer), tokenizer, exercises))
    assert scores.keys() == said.keys()
    for name, score in scores.items():
        error = (said[name] * (1 - said[name]) / PROBES) ** 0.5
        assert abs(score.share - said[name]) <= 4 * error + 0.04, f"{name}: {score.share:.0%}, not {said[name]:.0%}"
    assert sum(path.stat().st_size for path in MODEL.iterdir()) <= 16e6
