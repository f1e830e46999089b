"""``turnwise train``: run a training script on a configuration."""

from __future__ import annotations

import difflib
import importlib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config import describe, load_config
from ..envs.named import environment
from ..errors import ConfigError, UsageError
from ..inference.train_extra import train_extra
from .completion import environment_ids
from .terminal import remark, resumable

if TYPE_CHECKING:
    from ..trainers.runs.setup import RunResult, TrainConfig

CONFIG = "config.json"
"""The settings of a run, in its folder."""
SHIPPED = Path(__file__).resolve().parent.parent / "configs"


@dataclass(frozen=True, slots=True)
class Trained:
    """An algorithm as named after ``turnwise train``.

    Args:
        script: module of ``trainers/`` with a function ``train``.
        config: name of the configuration class in that module.
        says: one-line description.
        algorithm: value of ``algorithm.name``, for a script with several algorithms.
    """

    script: str
    config: str
    says: str
    algorithm: str | None = None

    @property
    def presets(self) -> Mapping[str, Any]:
        """Settings that the name of the algorithm implies."""
        return {"algorithm": {"name": self.algorithm}} if self.algorithm else {}

    def load(self) -> tuple[type[TrainConfig], Callable[[Any], RunResult]]:
        """Import the configuration class and the training function, and with them torch.

        Raises:
            UsageError: The packages of ``turnwise[train]`` are not installed.
        """
        with train_extra("training"):
            module = importlib.import_module(f"..trainers.{self.script}", __package__)
        return getattr(module, self.config), module.train


def _on_policy(name: str, says: str) -> Trained:
    return Trained("on_policy", "OnPolicyConfig", says, name)


def _value_based(name: str, says: str) -> Trained:
    return Trained("value_based", "ValueBasedConfig", says, name)


ALGORITHMS: Mapping[str, Trained] = {
    "bc": Trained("behaviour_cloning", "CloningConfig", "behavior cloning of demonstrations, all or the best"),
    "loop": Trained("loop", "LoopConfig", "leave-one-out PPO (arXiv 2502.01600)"),
    "archer": Trained("archer", "ArcherConfig", "a critic over utterances, an actor over tokens (arXiv 2402.19446)"),
    "ppo": _on_policy("ppo", "generalized advantages over turns or tokens, with a critic (arXiv 1707.06347)"),
    "reinforce": _on_policy("reinforce", "Monte-Carlo returns, with a baseline or none"),
    "rloo": _on_policy("rloo", "REINFORCE over trajectories, leave-one-out (arXiv 2402.14740)"),
    "grpo": _on_policy("grpo", "group-relative advantages, clipped (arXiv 2402.03300)"),
    "m-grpo": _on_policy("m-grpo", "GRPO as a mean over tokens, turns, trajectories (arXiv 2505.16421)"),
    "gigpo": _on_policy("gigpo", "groups of attempts, and of turns in the same state (arXiv 2505.10978)"),
    "turn-credit": _on_policy("turn-credit", "returns from each turn on, compared turn by turn (arXiv 2505.11821)"),
    "arpo": _on_policy("arpo", "GRPO over attempts that branch where entropy rises (arXiv 2507.19849)"),
    "vine-ppo": _on_policy("vine-ppo", "PPO with values of fresh rollouts from each state (arXiv 2410.01679)"),
    "ilql": _value_based("ilql", "implicit language Q-learning from demonstrations (arXiv 2206.11871)"),
    "mc": _value_based("monte_carlo", "values of tokens by Monte-Carlo returns, from demonstrations"),
    "self-play": Trained("self_play", "SelfPlayConfig", "questions from one's own searches, solved (arXiv 2510.18821)"),
}
"""Every algorithm, by its name on the command line."""


def _algorithms(incomplete: str) -> list[str]:
    return [word for word in ALGORITHMS if word.startswith(incomplete)]


Word = Annotated[
    str,
    typer.Argument(help=f"Algorithm: {', '.join(ALGORITHMS)}.", show_default=False, autocompletion=_algorithms),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ENV] [KEY=VALUE]...",
        help="Environment id, or a Python file that registers one; then settings, e.g. steps=50.",
        show_default=False,
        autocompletion=environment_ids,
    ),
]


def train(
    algorithm: Word,
    overrides: Overrides = None,
    config: Annotated[
        str | None,
        typer.Option(help="TOML file of settings, name of a configuration in Turnwise, or a run's config.json."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Output folder of the run.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the run in --out from its newest complete checkpoint.")
    ] = False,
    settings: Annotated[bool, typer.Option("--settings", help="List every setting and exit.")] = False,
) -> None:
    """Train a model on an environment; metrics, checkpoints and the model go to the output folder.

    After Ctrl-C, --resume continues the run and ends with the same parameters, bit for bit.

    Examples:

        turnwise train bc --config bc-maze

        turnwise train loop --config loop-maze steps=50 optimizer.lr=1e-4 --out runs/first

        turnwise train loop --out runs/first --resume

        turnwise train loop --config runs/first/config.json seed=1 --out runs/second
    """
    chosen = named(algorithm)
    file, words = located(config) if config else None, settled(overrides or [])
    words += [f"out={out}"] if out else []
    if resume and file is None and (folder := overridden(words, "out")) is not None:
        file = of_run(Path(folder))
    if (wanted_env := named_environment(file, words)) is not None:
        environment(wanted_env)  # before torch is imported, which takes seconds
    config_type, run = chosen.load()
    if settings:
        typer.echo("\n".join(describe(config_type, config_type.filled(chosen.presets))))
        return
    words += ["resume=true"] if resume else []
    wanted = configured(algorithm, file, words)
    wanted = wanted.model_copy(update={"env": environment(wanted.env)})
    from ..trainers.runs.interrupts import at_once

    again = f"turnwise: stopped at once. To resume from the newest checkpoint in {wanted.out}, add --resume."
    hint = f"The run in {wanted.out} is complete up to here: add --resume to the same command to resume it."
    with resumable(hint), at_once(again):
        result = run(wanted)
    if result.note:
        remark().print(result.note, markup=False)
    success = " ".join(filter(None, (result.success, _last_interval(result.folder))))
    remark().print("; ".join(filter(None, (f"trained {result.steps} steps", success))), markup=False)
    typer.echo(result.model)


def _last_interval(folder: Path) -> str:
    """Return the interval of the last evaluation's success: ``"(75.8 – 94.2, Wilson 95 %)"``; empty without any."""
    from ..evals.curves import curve, read_run
    from ..evals.words import interval, method

    found = curve([read_run(folder)], "eval/success")
    if found is None or (last := found.points[-1].estimate).low is None:
        return ""
    return f"({interval(last, rate=True)}, {method(last)})"


def named(word: str) -> Trained:
    """Return the algorithm with this name.

    Raises:
        ConfigError: there is no such algorithm; the message suggests similar names.
    """
    if word in ALGORITHMS:
        return ALGORITHMS[word]
    near = difflib.get_close_matches(word, ALGORITHMS, n=3, cutoff=0.5)
    if "/" in word or word.endswith(".py"):
        raise ConfigError(f"{word!r} is not an algorithm; put one before the environment: turnwise train loop {word}")
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
        UsageError: several words have no ``=``, or a word is empty.
    """
    if not all(words):
        raise UsageError("an argument is empty; is a shell variable unset?")
    names = [word for word in words if not _sets(word)]
    if len(names) > 1:
        raise UsageError(f"give one environment at a time, not {' and '.join(names)}")
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
    try:
        value = tomllib.loads(f"value = {given[-1]}")["value"]
    except tomllib.TOMLDecodeError:
        value = given[-1]
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


def configured(word: str, path: Path | None = None, overrides: list[str] | None = None) -> TrainConfig:
    """Return the configuration of an algorithm, from a file and overrides.

    Raises:
        ConfigError: a setting is wrong, or the file belongs to another algorithm.
    """
    chosen = named(word)
    if path is not None and path.suffix == ".json":
        _refuse_other_run(word, path)
    config = load_config(chosen.load()[0], path, overrides or [], presets=chosen.presets)
    configures = getattr(getattr(config, "algorithm", None), "name", None)
    if chosen.algorithm is not None and configures != chosen.algorithm:
        other = next((each for each, row in ALGORITHMS.items() if row.algorithm == configures), configures)
        what = f"{path} sets algorithm.name" if path is not None else "algorithm.name is set"
        raise ConfigError(f"{what} to {configures!r}: use `turnwise train {other}`, not {word}")
    return config


def _refuse_other_run(word: str, path: Path) -> None:
    """Refuse the ``config.json`` of a run of another algorithm.

    Raises:
        ConfigError: the run used another algorithm; the message names it.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        name = data["config"].get("algorithm", {}).get("name", data["algorithm"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return  # not the file of a run; load_config reports what is wrong with it
    if name not in (word, ALGORITHMS[word].algorithm):
        other = next((each for each, row in ALGORITHMS.items() if name in (each, row.algorithm)), name)
        raise ConfigError(f"{path} belongs to a run of {name!r}: use `turnwise train {other}`, not {word!r}")


def located(name: str) -> Path:
    """Return a configuration file by its path, or by its name if it comes with Turnwise.

    Raises:
        ConfigError: there is no such file; the message lists the names.
    """
    path, shipped = Path(name), SHIPPED / f"{name.removesuffix('.toml')}.toml"
    if path.is_file() or (path.suffix in (".toml", ".json") and not shipped.is_file()):
        return path
    if shipped.is_file():
        return shipped
    known = sorted(file.stem for file in SHIPPED.glob("*.toml"))
    near = difflib.get_close_matches(path.stem, known, n=2)
    hint = f"did you mean {' or '.join(map(repr, near))}? All: " if near else ""
    raise ConfigError(
        f"there is no configuration {name!r}: name a TOML file, or a configuration that comes with Turnwise; "
        f"{hint}{', '.join(known) or 'none'}"
    )
