"""The settings of a configuration as text: what ``--settings`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .config import Config, config_types_in, discriminator_of, tag_of


def describe(config_type: type[Config], presets: Mapping[str, Any] | None = None, prefix: str = "") -> list[str]:
    """Return one line per setting: its name, default and meaning.

    If a table may be one of several kinds, list the settings of each after the name of the kind, or only those of the
    kind that ``presets`` names, or of the class that it has in place of the table.

    Args:
        config_type: class of the configuration to describe.
        presets: defaults that replace the class's own.
        prefix: text before every name, e.g. ``"optimizer."``.
    """
    lines: list[str] = []
    presets = presets or {}
    for name, field in config_type.model_fields.items():
        preset = presets.get(name, {})
        kinds = config_types_in(field.annotation)
        if len(kinds) == 1 and kinds[0] is field.annotation:
            lines += describe(kinds[0], preset, f"{prefix}{name}.")
            continue
        chosen = [
            kind
            for kind in kinds
            if isinstance(preset, Mapping) and tag_of(kind) and tag_of(kind).items() <= preset.items()
        ]
        if isinstance(preset, type):
            chosen, preset = [preset], None
        default = "(required)" if field.is_required() else f"[{_shown(field, presets.get(name))}]"
        if not chosen:
            lines.append(f"  {prefix}{name} {default}  {field.description or ''}".replace("\n", " ").replace("``", "`"))
        for kind in chosen or kinds:
            described = describe(kind, preset if chosen else None, f"{prefix}{name}.")
            label = f"({discriminator_of(kind)}) " if len(kinds) > 1 and not chosen else ""
            lines += [line.replace("]  ", f"]  {label}", 1) for line in described]
    return lines


def _shown(field: Any, preset: Any) -> Any:
    default = field.get_default(call_default_factory=True) if preset is None else preset
    return discriminator_of(type(default)) or default if isinstance(default, Config) else default
