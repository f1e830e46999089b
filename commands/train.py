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

from ..agents.train_extra import train_extra
from ..config import describe, load_config
from ..envs.named import environment
from ..errors import ConfigError, UsageError
from .completion import environment_ids
from .terminal import remark, resumable

if TYPE_CHECKING:
    from ..trainers.run.settings import RunResult, TrainConfig

CONFIG = "config.json"
"""The settings of a run, in its folder."""
SHIPPED = Path(__file__).resolve().parent.parent / "configs"


@dataclass(frozen=True, slots=True)
class Trained:
    """What a word after ``turnwise train`` stands for.

    Args:
        script: a module of ``trainers/`` with a function ``train``.
        config: the class of its configuration.
        says: what it is, in a line.
        algorithm: the ``algorithm.name`` that the word sets, in a script that has several.
    """

    script: str
    config: str
    says: str
    algorithm: str | None = None

    @property
    def presets(self) -> Mapping[str, Any]:
        """The settings that the word makes."""
        return {"algorithm": {"name": self.algorithm}} if self.algorithm else {}

    def load(self) -> tuple[type[TrainConfig], Callable[[Any], RunResult]]:
        """Import the configuration and the function, and with them torch.

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
    "bc": Trained("behaviour_cloning", "CloningConfig", "behaviour cloning of demonstrations, all or the best"),
    "loop": Trained("loop", "LoopConfig", "leave-one-out PPO (arXiv 2502.01600)"),
    "archer": Trained("archer", "ArcherConfig", "a critic over utterances, an actor over tokens (arXiv 2402.19446)"),
    "ppo": _on_policy("ppo", "generalised advantages over turns or tokens, with a critic (arXiv 1707.06347)"),
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
"""Everything that can be trained with, by the word for it."""


def _algorithms(incomplete: str) -> list[str]:
    return [word for word in ALGORITHMS if word.startswith(incomplete)]


Word = Annotated[
    str,
    typer.Argument(
        help=f"What to train with: {', '.join(ALGORITHMS)}.", show_default=False, autocompletion=_algorithms
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ENV] [KEY=VALUE]...",
        help="An environment's id, or a Python file that registers one; then settings, e.g. steps=50.",
        show_default=False,
        autocompletion=environment_ids,
    ),
]


def train(
    algorithm: Word,
    overrides: Overrides = None,
    config: Annotated[
        str | None,
        typer.Option(help="A TOML file of settings, the name of one that comes with Turnwise, or a run's config.json."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out from its newest whole checkpoint.")
    ] = False,
    settings: Annotated[bool, typer.Option("--settings", help="List every setting, and train nothing.")] = False,
) -> None:
    """Train a model on an environment: metrics, checkpoints and the model land in the run's folder.

    Ctrl-C stops at a state from which --resume goes on to the same parameters, bit for bit.

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
    from ..trainers.run.interrupts import at_once

    again = (
        f"turnwise: stopped at once. The same command with --resume goes on from the newest checkpoint in {wanted.out}."
    )
    hint = f"The run in {wanted.out} is whole: the same command with --resume goes on."
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
    """What a word stands for.

    Raises:
        ConfigError: nothing; the message has the nearest words.
    """
    if word in ALGORITHMS:
        return ALGORITHMS[word]
    near = difflib.get_close_matches(word, ALGORITHMS, n=3, cutoff=0.5)
    if "/" in word or word.endswith(".py"):
        raise ConfigError(f"{word!r} is not an algorithm; name one before the environment: turnwise train loop {word}")
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are: {', '.join(ALGORITHMS)}"
    raise ConfigError(f"nothing is trained with {word!r}; {hint}")


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
    """Return the words as overrides: one without ``=`` names the environment.

    Raises:
        UsageError: there are several of these, or a word is empty.
    """
    if not all(words):
        raise UsageError("a word on the command line is empty; is a variable of the shell not set?")
    names = [word for word in words if not _sets(word)]
    if len(names) > 1:
        raise UsageError(f"one environment at a time; got {' and '.join(names)}")
    return [word if _sets(word) else f"env={word}" for word in words]


def _sets(word: str) -> bool:
    """Whether a word is a setting; the ``=`` of a path such as ``envs/a=b.py`` makes none."""
    key, equals, _ = word.partition("=")
    return bool(equals) and not {"/", "\\", ":"} & set(key)


def overridden(overrides: Sequence[str], key: str) -> str | None:
    """Return the last value that overrides give a setting, or None."""
    given = [text.strip() for name, _, text in (word.partition("=") for word in overrides) if name.strip() == key]
    if not given:
        return None
    try:
        value = tomllib.loads(f"value = {given[-1]}")["value"]
    except tomllib.TOMLDecodeError:
        value = given[-1]
    return value if isinstance(value, str) else given[-1]


def of_run(folder: Path) -> Path:
    """Return the settings of the run in a folder.

    Raises:
        ConfigError: there is no run.
    """
    if not (folder / CONFIG).is_file():
        raise ConfigError(
            f"there is no run in {folder} to resume (no {CONFIG}); start one without --resume, or name a run's folder "
            "with --out"
        )
    return folder / CONFIG


def configured(word: str, path: Path | None = None, overrides: list[str] | None = None) -> TrainConfig:
    """The configuration of an algorithm, from a file and words.

    Raises:
        ConfigError: a setting is wrong, or the file is another algorithm's.
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
    """Refuse the ``config.json`` of a run that another word trained.

    Raises:
        ConfigError: it is another algorithm's; the message names the word.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        name = data["config"].get("algorithm", {}).get("name", data["algorithm"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return  # not the file of a run: what is wrong with it is said where it is read
    if name not in (word, ALGORITHMS[word].algorithm):
        other = next((each for each, row in ALGORITHMS.items() if name in (each, row.algorithm)), name)
        raise ConfigError(f"{path} is of a run of {name!r}: use `turnwise train {other}`, not {word!r}")


def located(name: str) -> Path:
    """A configuration file by its path, or by the name of one that is shipped.

    Raises:
        ConfigError: there is neither; the message lists what is shipped.
    """
    path, shipped = Path(name), SHIPPED / f"{name.removesuffix('.toml')}.toml"
    if path.is_file() or (path.suffix in (".toml", ".json") and not shipped.is_file()):
        return path
    if shipped.is_file():
        return shipped
    known = sorted(file.stem for file in SHIPPED.glob("*.toml"))
    near = difflib.get_close_matches(path.stem, known, n=2)
    hint = f"did you mean {' or '.join(map(repr, near))}? There are: " if near else ""
    raise ConfigError(
        f"there is no configuration {name!r}: name a TOML file, or one that comes with Turnwise; "
        f"{hint}{', '.join(known) or 'none'}"
    )
