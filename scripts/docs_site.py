"""Build the parts of the documentation site that do not stand in docs/: a hook of mkdocs (mkdocs.yml names it).

- Pages of the repository's root (README, CONTRIBUTING, …) appear on the site, and links to them lead there.
- A line ``<!-- generated: NAME -->`` in a page becomes that reference, made from the code: ``configuration``,
  ``command line`` or ``api``. In the repository the page says where to read the same on a terminal.

Only ``on_files`` needs mkdocs, so tests read the references without it.
"""

from __future__ import annotations

import enum
import functools
import importlib
import posixpath
import re
import shutil
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = {
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "developers/contributing.md",
    "CODE_OF_CONDUCT.md": "developers/code_of_conduct.md",
    "LICENSE": "license.txt",
    "CITATION.cff": "citation.txt",
}
"""Files beside docs/ that the site shows, and where."""
SOURCES = ROOT / "build" / "docs_sources" / "turnwise"
"""The package as mkdocstrings reads it: every folder has an ``__init__.py`` there, which folders lack here."""
GENERATED = re.compile(r"^<!-- generated: ([\w ]+) -->$", re.MULTILINE)
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s:#]+)(#[^)\s]*)?(\))")


def on_startup(command: str, dirty: bool) -> None:
    """Lay out the package for mkdocstrings, which looks for its sources once, before the first build."""
    shutil.rmtree(SOURCES, ignore_errors=True)
    package = ROOT / "src" / "turnwise"
    for item in package.iterdir():
        for path in [item] if item.is_file() else (ROOT / item.name).rglob("*.py"):
            copy = SOURCES / (item.name if item.is_file() else path.relative_to(ROOT))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.symlink_to(path.resolve())
    for folder in [SOURCES, *SOURCES.rglob("*")]:
        if folder.is_dir() and not (folder / "__init__.py").exists():
            (folder / "__init__.py").touch()


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the repository's root."""
    from mkdocs.structure.files import File

    for name, place in ROOT_PAGES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Insert the references, and make links work on the site that work in the repository."""
    place = page.file.src_uri
    source = next((name for name, shown in ROOT_PAGES.items() if shown == place), f"docs/{place}")
    return GENERATED.sub(lambda found: REFERENCES[found[1]](), relinked(markdown, source, place))


def relinked(markdown: str, source: str, place: str) -> str:
    """Return a page with the links of the site instead of those of the repository.

    Args:
        markdown: the page.
        source: its path in the repository.
        place: its path on the site.
    """

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[2]))
        shown = ROOT_PAGES.get(target, target.removeprefix("docs/"))
        return f"{found[1]}{posixpath.relpath(shown, posixpath.dirname(place) or '.')}{found[3] or ''}{found[4]}"

    parts = FENCED.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def configuration() -> str:
    """Describe every settings model: a table of its fields with type, default and meaning."""
    return "\n".join(line for model in settings_models() for line in _model(model))


@functools.cache
def settings_models() -> tuple[type[Any], ...]:
    """Return every ``Config`` class of the package: of commands first, then of their tables, then the others."""
    config = importlib.import_module("turnwise.config")
    registry = importlib.import_module("turnwise.trainers.registry")
    commands = ("commands.certify", "commands.eval_servers")
    for name in (*commands, "inference.serving.launch.process", "sandboxes.spec", "service.environments.settings"):
        importlib.import_module(f"turnwise.{name}")
    tops = [importlib.import_module("turnwise.evals.evaluate").EvalConfig]
    tops += [entry.load()[0] for entry in registry.ALGORITHMS.values()]
    tops.append(importlib.import_module("turnwise.trainers.pretraining.settings").PretrainConfig)
    found = dict.fromkeys(each for top in tops for each in reversed(_bases(top)))
    found |= dict.fromkeys(table for top in tops for table in _tables(top))
    found |= dict.fromkeys(_subclasses(config.Config))
    return tuple(model for model in found if model.__module__.startswith("turnwise."))


def _subclasses(model: type[Any]) -> Iterator[type[Any]]:
    for each in model.__subclasses__():
        yield each
        yield from _subclasses(each)


def _bases(model: type[Any]) -> list[type[Any]]:
    """Return a model and the models that it extends, but not ``Config``."""
    root = importlib.import_module("turnwise.config").Config
    return [each for each in model.__mro__ if issubclass(each, root) and each is not root]


def _tables(model: type[Any]) -> Iterator[type[Any]]:
    """Yield the models of a model's fields, the outermost first."""
    config_types_in = importlib.import_module("turnwise.config").config_types_in
    for field in model.model_fields.values():
        for table in config_types_in(field.annotation):
            yield from reversed(_bases(table))
            yield from _tables(table)


def anchor(model: type[Any]) -> str:
    """Return the anchor of a model's section."""
    return f"{model.__module__}.{model.__qualname__}"


def _model(model: type[Any]) -> Iterator[str]:
    words = [word for word, entry in _entries() if entry.load()[0] is model]
    title = f"`turnwise train {' | '.join(words)}`" if words else f"`{model.__name__}`"
    if model.__module__.endswith("evals.evaluate"):
        title = "`turnwise eval`"
    yield f"\n## {title} {{#{anchor(model)}}}\n"
    yield f"{_prose((model.__doc__ or '').partition(chr(10) * 2)[0])} (`{anchor(model)}`)\n"
    base = _bases(model)[1:2]
    for each in base:
        yield f"Also takes the settings of [`{each.__name__}`](#{anchor(each)}).\n"
    own = [name for name in model.model_fields if not base or _differs(model, base[0], name)]
    if own:
        yield "| setting | type | default | meaning |\n|---|---|---|---|"
        yield from (f"| `{name}` | {' | '.join(_field(model, name))} |" for name in own)


def _entries() -> list[tuple[str, Any]]:
    return list(importlib.import_module("turnwise.trainers.registry").ALGORITHMS.items())


def _differs(model: type[Any], base: type[Any], name: str) -> bool:
    if name not in base.model_fields:
        return True
    ours, theirs = model.model_fields[name], base.model_fields[name]
    return bool(ours.annotation != theirs.annotation or ours.default != theirs.default)


def _field(model: type[Any], name: str) -> tuple[str, str, str]:
    field = model.model_fields[name]
    limits = [_limit(each) for each in field.metadata if _limit(each)]
    kind = _typed(field.annotation) + (f", {', '.join(limits)}" if limits else "")
    default = "required" if field.is_required() else _default(field.get_default(call_default_factory=True))
    return kind, default, _prose(field.description or "").replace("|", "\\|")


def _prose(docstring: str) -> str:
    return " ".join(docstring.replace("``", "`").split())


def _limit(constraint: Any) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    return " ".join(
        f"{sign} {getattr(constraint, name):g}" for name, sign in signs.items() if hasattr(constraint, name)
    )


def _typed(annotation: Any) -> str:
    """Return a type in words; a settings model links to its section."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _typed(parts[0])
    if origin is typing.Literal:
        return " or ".join(f'`"{part}"`' if isinstance(part, str) else f"`{part}`" for part in parts)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_typed(part) for part in parts)
    if origin is not None:
        return f"{_typed(origin)} of {', '.join(_typed(part) for part in parts if part is not Ellipsis)}"
    if annotation in (None, type(None)):
        return "none"
    if hasattr(annotation, "model_fields"):
        return f"[`{annotation.__name__}`](#{anchor(annotation)})"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return " or ".join(f'`"{member.value}"`' for member in annotation)
    return getattr(annotation, "__name__", str(annotation))


def _default(value: Any) -> str:
    if hasattr(type(value), "model_fields"):
        return "its defaults"
    if value is None:
        return "none"
    return f"`{getattr(value, 'value', value)!r}`".replace("'", '"').replace("|", "\\|")


def command_line() -> str:
    """Describe every command with its arguments and options."""
    import typer
    from typer.cli import get_docs_for_click

    app = importlib.import_module("turnwise.cli").build_app()
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="turnwise", indent=1)
    common, *sections = re.split(r"^##(?=# `turnwise )", text, flags=re.MULTILINE)
    return common.partition("**Commands**:")[0] + "".join(f"#{section}" for section in sections)


def facades() -> list[str]:
    """Return the public modules: the package, its folders with an ``__init__.py``, and the errors."""
    folders = sorted(path.parent.name for path in (ROOT / "src" / "turnwise").glob("*/__init__.py"))
    return ["turnwise", *(f"turnwise.{folder}" for folder in folders), "turnwise.errors"]


def public_names(module: str) -> list[str]:
    """Return the names in a module's ``__all__``, or the classes that it defines."""
    loaded = importlib.import_module(module)
    defined = [name for name, each in vars(loaded).items() if isinstance(each, type) and each.__module__ == module]
    return list(getattr(loaded, "__all__", defined))


def api() -> str:
    """Return one entry for mkdocstrings for every public name."""
    lines = []
    for module in facades():
        lines.append(f"\n## `{module}`\n")
        names = sorted(public_names(module), key=str.lower)
        lines += [f"::: {module}.{name}\n    options:\n      heading_level: 3\n" for name in names]
    return "\n".join(lines)


REFERENCES: dict[str, Callable[[], str]] = {
    "configuration": configuration,
    "command line": command_line,
    "api": api,
}
"""The references that a page can include, by name."""
