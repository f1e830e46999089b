"""The site shows every page, and its generated references cover every setting, command and public name."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from turnwise.cli import COMMANDS, build_app
from turnwise.config import config_types_in
from turnwise.rollouts.store import READABLE, VERSION
from turnwise.trainers.registry import ALGORITHMS
from turnwise.trainers.run.checkpoint import FORMAT, SHARDED_FORMAT

from ..test_structure import FACADES, modules, tree

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts" / "docs_site.py")
assert SPEC is not None
assert SPEC.loader is not None
site: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(site)


def settings_classes() -> set[str]:
    """Every class of the package that extends ``Config``, by dotted name, as the sources say."""
    bases = {
        f"turnwise.{module}.{node.name}": {ast.unparse(base) for base in node.bases}
        for module, path in modules().items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    }
    found: set[str] = set()
    while (
        more := {
            name for name, above in bases.items() if above & {"Config", *(each.rpartition(".")[2] for each in found)}
        }
        - found
    ):
        found |= more
    return found


def test_every_page_is_in_the_navigation() -> None:
    shown = re.findall(r"^ +- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    pages |= {place for place in site.ROOT_PAGES.values() if place.endswith(".md")}
    assert sorted(shown) == sorted(pages), "mkdocs.yml lists every page, and each once"


@pytest.mark.parametrize("name", site.ROOT_PAGES)
def test_pages_of_the_root_exist(name: str) -> None:
    assert (ROOT / name).is_file()


def test_every_reference_has_a_page_and_is_found() -> None:
    asked = [
        name
        for path in (ROOT / "docs").rglob("*.md")
        for name in site.GENERATED.findall(path.read_text(encoding="utf-8"))
    ]
    assert sorted(asked) == sorted(site.REFERENCES)


def test_links_of_the_repository_become_links_of_the_site() -> None:
    def shown(text: str, source: str, place: str) -> str:
        return str(site.relinked(text, source, place))

    assert shown("[a](../README.md#install)", "docs/training.md", "training.md") == "[a](overview.md#install)"
    assert shown("[a](docs/apps.md)", "README.md", "overview.md") == "[a](apps.md)"
    assert shown("[a](../../CHANGELOG.md)", "docs/reference/api.md", "reference/api.md") == "[a](../changelog.md)"
    assert shown("[a](docs/apps.md)", "CONTRIBUTING.md", "developers/contributing.md") == "[a](../apps.md)"
    for unchanged in ("[a](https://example.org/x.md)", "[a](#here)", "```\n[a](../README.md)\n```"):
        assert shown(unchanged, "docs/training.md", "training.md") == unchanged


@pytest.mark.slow
def test_the_configuration_reference_has_every_settings_class() -> None:
    documented = {site.anchor(model) for model in site.settings_models()}
    assert settings_classes() <= documented, f"not documented: {sorted(settings_classes() - documented)}"


def test_every_setting_has_type_default_and_meaning() -> None:
    for model in site.settings_models():
        text = "\n".join(site._model(model))
        inherited = {name for base in site._bases(model)[1:] for name in base.model_fields}
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name} needs a docstring below it"
            row = re.search(rf"^\| `{name}` \| (.+) \| (.+) \| (.+) \|$", text, re.MULTILINE)
            assert row or name in inherited, f"{model.__name__}.{name} is missing from the reference"
            for table in config_types_in(field.annotation) if row else ():
                assert f"(#{site.anchor(table)})" in text, f"{model.__name__}.{name} leads to its table"


def test_the_configuration_reference_names_every_algorithm() -> None:
    text = site.configuration()
    for word in ALGORITHMS:
        assert re.search(rf"^## `turnwise train .*\b{re.escape(word)}\b", text, re.MULTILINE), word
    anchors = re.findall(r"\{#(\S+)\}", text)
    assert len(anchors) == len(set(anchors)), "a class has one section"
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= set(anchors), "links lead to sections"


def test_the_command_line_reference_has_every_option() -> None:
    text, group = site.command_line(), typer.main.get_command(build_app())
    assert all(option in text.partition("\n## `turnwise envs`")[0] for param in group.params for option in param.opts)
    for command in COMMANDS:
        section = text.partition(f"## `turnwise {command}`\n")[2].partition("\n## ")[0]
        for param in group.commands[command].params:  # type: ignore[attr-defined]
            if getattr(param, "hidden", False):  # it exists to be refused with a hint
                continue
            named = (*param.opts, *param.secondary_opts) if param.param_type_name == "option" else [param.help]
            for words in named:
                assert words in section, f"turnwise {command}: {words}"


def test_the_api_reference_has_every_public_name() -> None:
    text = site.api()
    assert {"turnwise", "turnwise.errors", *(f"turnwise.{facade}" for facade in FACADES)} == set(site.facades())
    for module in site.facades():
        for name in getattr(importlib.import_module(module), "__all__", ["TurnwiseError", "ToolError"]):
            assert f"::: {module}.{name}\n" in text


def test_the_page_on_versions_has_those_of_the_code() -> None:
    page = " ".join((ROOT / "docs" / "versioning.md").read_text(encoding="utf-8").split())
    assert f"writes version {VERSION} and reads {', '.join(map(str, READABLE[:-1]))} and {READABLE[-1]};" in page
    assert f"`{FORMAT}`" in page
    assert f"`{SHARDED_FORMAT}`" in page
