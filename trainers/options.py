"""The options of a training command: one grammar for ``turnwise train``, ``python -m`` and ``torchrun``.

A TOML file or the ``config.json`` of a run, then ``key=value`` words, of which one without ``=`` names the environment.
Nothing here imports torch before an algorithm is loaded.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import Config, load_config
from ..config_errors import contradiction, value_of
from ..config_help import describe
from ..envs.named import refuse_several
from ..errors import ConfigError, ModelError, UsageError
from .registry import ALGORITHMS, Entry, is_own, own

if TYPE_CHECKING:
    from .run.settings import TrainConfig

CONFIG = "config.json"
"""The settings of a run, in its folder."""
SHIPPED = Path(__file__).resolve().parent.parent / "configs"
PRETRAIN = "pretrain"
"""The run that is not an algorithm of ``turnwise train``."""


def arguments(
    words: Sequence[str],
    *,
    config_type: Callable[[], type[Config]],
    config: str | None = None,
    out: Path | str | None = None,
    resume: bool = False,
) -> tuple[Path | None, list[str]]:
    """Return the file of settings, if there is one, and the overrides that a command line asks for.

    Args:
        words: an environment and ``key=value`` words.
        config_type: Return the class of the settings. It is called only for a run to resume without a folder.
        config: ``--config``: a file, or the name of a shipped one.
        out: ``--out``.
        resume: ``--resume``; without ``config``, the settings are those of the run in ``out``, or in its default.

    Raises:
        ConfigError: There is no such configuration or run.
        UsageError: Several words name an environment, one is empty, or a setting has two values.
    """
    overrides = settled(words)
    options = {f"--out {out}": f"out={out}"} if out else {}
    options |= {"--resume": "resume=true"} if resume else {}
    if said := contradiction([*options.items(), *zip(words, overrides, strict=True)]):
        raise UsageError(said)
    overrides += [f"out={out}"] if out else []
    file = located(config) if config else None
    if resume and file is None:
        if (folder := overridden(overrides, "out")) is None:
            folder = config_type().model_fields["out"].default
            overrides.append(f"out={folder}")
        file = of_run(Path(folder))
    return file, [*overrides, *(["resume=true"] if resume else [])]


def named(word: str) -> Entry:
    """Return the algorithm with this name, or the ``module:Class`` of one that is not in Turnwise.

    Raises:
        ConfigError: there is no such algorithm; the message suggests similar names.
    """
    if word in ALGORITHMS:
        return ALGORITHMS[word]
    if is_own(word):
        return own(word)
    if "/" in word or word.endswith(".py"):
        raise ConfigError(f"{word!r} is not an algorithm; put one before the environment: turnwise train loop {word}")
    if word == PRETRAIN:
        raise ConfigError("pre-training is a command of its own: turnwise pretrain")
    if "=" in word:
        raise ConfigError(f"{word!r} is a setting; the algorithm comes first: turnwise train ALGORITHM {word}")
    module, _, name = word.rpartition(".") if "." in word else (word, "", "")
    if (file := Path(f"{module.replace('.', '/')}.py")).is_file():
        raise ConfigError(f"unknown algorithm {word!r}; a class of {file} is {module}:{name or 'CLASS'}")
    near = difflib.get_close_matches(word, ALGORITHMS, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"choose from {', '.join(ALGORITHMS)}"
    raise ConfigError(f"unknown algorithm {word!r}; {hint}")


def named_environment(path: Path | None, overrides: Sequence[str]) -> str | None:
    """Return the environment that a file or override names, or None if neither does or the file cannot be read."""
    if (given := overridden(overrides, "env")) is not None:
        return given
    try:
        env = tomllib.loads(path.read_text(encoding="utf-8")).get("env") if path is not None else None
    except (OSError, ValueError):
        return None  # load_config reports it
    return env if isinstance(env, str) else None


def settled(words: Sequence[str]) -> list[str]:
    """Return the words as overrides; a word without ``=`` names the environment.

    Raises:
        UsageError: several words name an environment, a setting lacks its ``=``, or a word is empty.
    """
    if not all(words):
        raise UsageError("an argument is empty; is a shell variable unset?")
    names = [word for word in words if not _sets(word)]
    refuse_several(names, model="model=", already=any(word.startswith("env=") for word in words))
    return [word if _sets(word) else f"env={word}" for word in words]


def _sets(word: str) -> bool:
    """Whether a word is a setting; a path such as ``envs/a=b.py`` is not one."""
    key, equals, _ = word.partition("=")
    return bool(equals) and not {"/", "\\", ":"} & set(key)


def overridden(overrides: Sequence[str], key: str) -> str | None:
    """Return the last value that the overrides set for a key, or None."""
    given = [text.strip() for name, _, text in (word.partition("=") for word in overrides) if name.strip() == key]
    if not given:
        return None
    value = value_of(given[-1])
    return value if isinstance(value, str) else given[-1]


def of_run(folder: Path) -> Path:
    """Return the settings file of the run in a folder.

    Raises:
        ConfigError: there is no run in the folder.
    """
    if not (folder / CONFIG).is_file():
        raise ConfigError(
            f"there is no run in {folder} to resume (no {CONFIG}); start one without --resume, or name a run's folder "
            "with --out"
        )
    return folder / CONFIG


def refuse_unresumed(overrides: Sequence[str]) -> None:
    """Refuse the words of a command that resumes a run, but for ``--resume``: they name its folder, no environment.

    Raises:
        UsageError: there is a run in the folder.
    """
    folder = overridden(overrides, "out")
    if folder and overridden(overrides, "env") is None and (Path(folder) / CONFIG).is_file():
        raise UsageError(f"{folder} holds a run already: continue it with --resume, or choose another --out")


def configured(
    word: str,
    path: Path | None = None,
    overrides: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    *,
    presets: Mapping[str, Any] | None = None,
) -> TrainConfig:
    """Return the configuration of an algorithm, from a file, overrides, settings and presets: see ``load_config``.

    Raises:
        ConfigError: a setting is wrong, or the file belongs to another algorithm.
        UsageError: no environment is named, and the output folder holds a run.
    """
    chosen = named(word)
    if path is None and "env" not in (settings or {}):
        refuse_unresumed(overrides)
    if path is not None and path.suffix == ".json":
        refuse_other_run(word, path, accepted=(word, chosen.algorithm))
    presets = {**chosen.presets, **(presets or {})}
    config: TrainConfig = load_config(chosen.load()[0], path, overrides, settings=settings, presets=presets)
    configures = (config.model_dump(include={"algorithm"}).get("algorithm") or {}).get("name")
    if chosen.algorithm is not None and configures != chosen.algorithm:
        other = next((each for each, row in ALGORITHMS.items() if row.algorithm == configures), configures)
        what = f"{path} sets algorithm.name" if path is not None else "algorithm.name is set"
        raise ConfigError(f"{what} to {configures!r}: use `turnwise train {other}`, not {word}")
    return config


def described(config_type: Any, presets: Mapping[str, Any]) -> list[str]:
    """Return one line per setting, with those of the algorithm that ``presets`` name.

    Raises:
        UsageError: the algorithm is not one of Turnwise, and there is no such class.
    """
    filled = dict(config_type.filled(presets))
    if is_own(name := filled.get("algorithm", {}).get("name")):
        from .algorithms.named import own_algorithm

        filled["algorithm"] = own_algorithm(name)
    return describe(config_type, filled)


def algorithm_of(path: Path) -> str:
    """Return the algorithm that a file is for.

    Raises:
        UsageError: the file does not show it.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            found = re.search(r'^ "algorithm": "([\w.:-]+)"', text, re.MULTILINE)
            name = found[1] if found else ""
        else:
            table = tomllib.loads(text).get("algorithm", {})
            name = table.get("name", "") if isinstance(table, dict) else ""
            shown = re.search(r"turnwise train ([\w-]+)", text)
            name = name or (shown[1] if shown else "")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read configuration {path}: {error}") from None
    for word, entry in ALGORITHMS.items():
        if name in (word, entry.algorithm):
            return word
    if is_own(name):
        return name
    raise UsageError(f"{path} does not show its algorithm: name it, as --algorithm loop")


def refuse_untrained_start(config: TrainConfig) -> None:
    """Refuse a new run whose model another shipped configuration has yet to train.

    Raises:
        ModelError: there is no such model; the message has the command that trains it.
    """
    model = getattr(config, "model", None)
    if model and not config.resume and not Path(model).exists() and (command := maker_of(model)):
        raise ModelError(f"there is no model at {model}; train it with `{command}`, or name another with model=")


def maker_of(model: Path | str) -> str | None:
    """Return the command that trains a model if its path is the output of a shipped configuration."""
    for path in sorted(SHIPPED.glob("*.toml")):
        out = tomllib.loads(path.read_text(encoding="utf-8")).get("out")
        if out is not None and Path(out, "model") == Path(model):
            return f"turnwise train {algorithm_of(path)} --config {path.stem}"
    return None


def refuse_other_run(asked: str, path: Path, *, accepted: Collection[str | None]) -> None:
    """Refuse the ``config.json`` of a run of another algorithm.

    Args:
        asked: The algorithm or script that the user named, for the message.
        path: The file.
        accepted: Names of algorithms whose runs are accepted.

    Raises:
        ConfigError: the run used another algorithm; the message names it.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        name = data["config"].get("algorithm", {}).get("name", data["algorithm"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return  # not the file of a run; load_config reports what is wrong with it
    if name not in accepted:
        other = next((each for each, row in ALGORITHMS.items() if name in (each, row.algorithm)), name)
        command = PRETRAIN if name == PRETRAIN else f"train {other}"
        raise ConfigError(f"{path} belongs to a run of {name!r}: use `turnwise {command}`, not {asked!r}")


def located(name: str) -> Path:
    """Return a configuration file by its path, or by its name if it comes with Turnwise.

    Raises:
        ConfigError: there is no such file; the message has the closest names.
    """
    path, shipped = Path(name), SHIPPED / f"{name.removesuffix('.toml')}.toml"
    if path.is_file() or (path.suffix in (".toml", ".json") and not shipped.is_file()):
        return path
    if shipped.is_file():
        return shipped
    known = sorted(file.stem for file in SHIPPED.glob("*.toml"))
    own = path / "config.json"
    near = [str(own)] if own.is_file() else difflib.get_close_matches(path.stem, known, n=3)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ConfigError(
        f"there is no configuration {name!r}: name a TOML file, or one of the {len(known)} configurations in {SHIPPED}"
        f"{hint}"
    )
