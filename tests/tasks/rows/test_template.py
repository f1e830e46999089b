"""Templates of apps and sites: their names and needs agree with the simulators that exist."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import turnwise
from turnwise.tasks.apps.simulators.catalogue import APPS
from turnwise.tasks.apps.templates.catalogue import TEMPLATES as OF_APPS
from turnwise.tasks.rows.template import Template
from turnwise.tasks.web.simulators.catalogue import SITES
from turnwise.tasks.web.templates.catalogue import BASE as OF_SITES

TASKS = Path(turnwise.__path__[0]) / "tasks"
FAMILIES = [
    pytest.param("apps", OF_APPS, {app.name for app in APPS}, id="apps"),
    pytest.param("web", OF_SITES, {site.name for site in SITES}, id="web"),
]


@pytest.mark.parametrize(("family", "catalogue", "simulators"), FAMILIES)
def test_every_template_is_in_the_catalogue(family: str, catalogue: dict[str, Template], simulators: set[str]) -> None:
    written: dict[str, Template] = {}
    for path in sorted((TASKS / family / "templates").rglob("*.py")):
        module = importlib.import_module(".".join(("turnwise.tasks", *path.relative_to(TASKS).with_suffix("").parts)))
        for one in vars(module).values():
            if isinstance(one, Template) and one.make.__module__ == module.__name__:
                assert one.name not in written, f"two templates are called {one.name}"
                written[one.name] = one
    assert written == catalogue, "the catalogue has every template"


@pytest.mark.parametrize(("family", "catalogue", "simulators"), FAMILIES)
def test_templates_need_simulators_that_exist(
    family: str, catalogue: dict[str, Template], simulators: set[str]
) -> None:
    for name, one in catalogue.items():
        assert one.needs, name
        assert set(one.needs) <= simulators, name
        assert name.startswith(f"{one.needs[0] if one.kind != 'cross' else 'cross'}_"), name
