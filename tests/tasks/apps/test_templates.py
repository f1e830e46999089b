"""Every template at every level, in every split that it belongs to."""

from __future__ import annotations

import pytest

from turnwise.tasks.apps.family import APPS_FAMILY
from turnwise.tasks.apps.templates.catalogue import TEMPLATES
from turnwise.tasks.spec import Split

from .laws import holds

ALIKE = (Split.DEV, Split.TEST_IID, Split.TEST_ENTITY)
"""Splits whose templates are those of ``train``."""
CASES = [
    pytest.param(split, name, seed, marks=() if seed == 0 and split not in ALIKE else pytest.mark.shift)
    for split in Split
    for name in APPS_FAMILY.templates(split)
    for seed in range(2)
]


def test_every_template_belongs_to_a_split() -> None:
    assert {name for split in Split for name in APPS_FAMILY.templates(split)} == set(TEMPLATES)


@pytest.mark.slow
@pytest.mark.parametrize(("split", "name", "seed"), CASES, ids=str)
def test_a_template_holds_what_it_promises(split: Split, name: str, seed: int) -> None:
    wrong = [
        fault
        for level in APPS_FAMILY.levels
        if (fault := holds(APPS_FAMILY.spec(seed, split=split, level=level, template=name)))
    ]
    assert not wrong, "\n".join(wrong[:3])
