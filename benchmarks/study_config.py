"""The TOML file of a study: the task, its learners, the sweep and the comparison."""

from __future__ import annotations

import math
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self

import pydantic
from study_ranks import RankConfig

from turnwise.config import Config, load_config
from turnwise.errors import ConfigError, UsageError

STUDIES = Path(__file__).resolve().parent / "studies"
Curve = Literal["return", "success"]
REPORT = "report"
"""Word in the place of a study's name with which ``study.py`` writes the page of results."""


class Scale(Config):
    """LMRL-Gym's normalized score: ``min`` is 0, the dataset's mean return is 50, ``max`` is 100, linear between."""

    min: float
    """The lowest return that counts as play."""
    max: float
    """The highest possible mean return."""
    hard: bool = False
    """Whether no return can lie outside, as with a reward for success alone: intervals then end there."""

    @property
    def ends(self) -> tuple[float, float]:
        """The values beyond which no interval of a return reaches."""
        return (self.min, self.max) if self.hard else (-math.inf, math.inf)


class DataConfig(Config):
    """The offline data that all learners of a study share."""

    episodes: int = pydantic.Field(ge=1)
    """Number of episodes to play."""
    skills: tuple[float, ...] = ()
    """Each episode draws one: the share of its turns that the oracle takes; the others are random."""
    weights: tuple[float, ...] = ()
    """Relative frequency of each skill."""
    habits: float = pydantic.Field(default=0.0, ge=0, le=1)
    """Share of messages at which all demonstrators make the same mistake: it is not sharpened away."""
    seed: int = 0
    """Seed of tasks and play."""
    example: str = ""
    """Script in ``examples/`` that writes the task's files and plays the episodes, instead of ``skills``. Settings of
    the study name its folder of files as ``{files}``."""
    demonstrator: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Settings of that script's demonstrator."""

    @pydantic.model_validator(mode="after")
    def _one_source(self) -> Self:
        if bool(self.skills) == bool(self.example):
            raise ValueError("data come from demonstrators of some skills or from an example: set one of them")
        return self

    @property
    def described(self) -> dict[str, Any]:
        """Return the settings as digests count them: without those that do nothing, so that earlier results stay."""
        unused = {"skills", "weights"} if self.example else {"example", "demonstrator"}
        return self.model_dump(exclude=unused if self.habits else unused | {"habits"})


class MeasureConfig(Config):
    """The final measurement of every trained model: the same tasks and the same luck for all."""

    split: str = "train"
    """Split of the tasks."""
    tasks: int = pydantic.Field(default=100, ge=1)
    """Number of tasks; a family with fewer gives all it has."""
    attempts: int = pydantic.Field(default=4, ge=1)
    """Episodes per task."""
    seed: int = 1000
    """Seed of tasks and luck."""
    sweep_seed: int = 2000
    """The same in a sweep, so that no rate is chosen by the luck that is reported."""

    @pydantic.model_validator(mode="after")
    def _apart(self) -> Self:
        if self.seed == self.sweep_seed:
            raise ValueError(f"sweep and report are both measured with the seed {self.seed}: choose two")
        return self


class SweepConfig(Config):
    """The sweep, the same for every learner that is swept: the best mean return over its seeds is then run.

    The seeds are 100, 101, …: none of them is reported. Of two rates that do equally well, the smaller is taken.
    """

    values: list[float] = pydantic.Field(min_length=1)
    """Learning rates."""
    seeds: int = pydantic.Field(default=2, ge=1)
    """Seeds per rate."""


class SequentialConfig(Config):
    """Comparisons that stop when they are decided (``study_sequential.py``): their learners run no seeds beyond it."""

    pairs: list[tuple[str, str]] = pydantic.Field(min_length=1)
    """Learners that are compared by their returns, paired by seed."""
    looks: list[int] = pydantic.Field(default=[5, 10, 15, 20], min_length=1)
    """Numbers of seeds after which it is seen whether a comparison is decided; the last one ends it. Five seeds are
    too few for a decision, unless ``alpha`` is large."""
    alpha: float = pydantic.Field(default=0.05, gt=0, lt=1)
    """Probability that any of the comparisons is decided where its learners are alike; each pair has an equal part."""

    @pydantic.model_validator(mode="after")
    def _rising(self) -> Self:
        if self.looks != sorted(set(self.looks)) or self.looks[0] < 1:
            raise ValueError(f"looks = {self.looks} are numbers of seeds in rising order, from 1 on")
        return self


class StartConfig(Config):
    """When learners may start from a clone; ``study_start.py`` measures it."""

    gate: bool = True
    """Whether to refuse a clone that is not a fair start. Its measurements are kept in any case."""
    success: tuple[float, float] = (0.1, 0.4)
    """Least and largest share of episodes that the clone may solve at temperature 1."""
    sharper: float = pydantic.Field(default=0.2, ge=0, le=1)
    """Largest difference between the shares at temperature 0 and 1; beyond it, learning would mostly sharpen."""
    tasks: int = pydantic.Field(default=40, ge=5)
    """Number of tasks, or all that the family has."""
    attempts: int = pydantic.Field(default=4, ge=1)
    """Episodes per task, at each temperature."""
    shadow: Literal["actions", "oracle"] = "actions"
    """The one who acts in the other task, whose answers the blind player sees: the player, or, where an answer depends
    on the action alone, as in a search, that task's oracle."""


class LearnerConfig(Config):
    """One learner of a study."""

    name: str
    """Name in the tables."""
    like: str | None = None
    """An ablation: the same as this learner, at the rate that was chosen for it, but for ``settings``."""
    script: str = ""
    """Script of ``turnwise.trainers``: ``behavior_cloning``, ``loop``, …"""
    config: str = ""
    """The shipped configuration, e.g. ``ppo-maze``; without one, everything is in ``settings``."""
    after: str | None = None
    """Learner whose model of the same seed it starts from."""
    teacher: str | None = None
    """Learner whose model of the same seed is its ``algorithm.teacher``."""
    data: bool = False
    """Whether it reads the study's offline data."""
    swept: str | None = None
    """The setting that is swept, e.g. ``optimizer.lr``; none, if the configuration's is kept."""
    control: Literal["noise"] | None = None
    """Replace a part of the learner by something that knows nothing; ``noise``: the advantages of ArCHer's critic."""
    seeds: int | None = pydantic.Field(default=None, ge=1)
    """Fewer seeds than the study's others, for what costs much and decides little."""
    settings: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Settings in place of the configuration's."""


class Study(Config):
    """A study: one task, its learners in order, and how they are compared."""

    title: str
    """Title of its section."""
    env: str
    """The environment's id."""
    levels: list[int] | None = None
    """Levels of its tasks (default: all)."""
    env_kwargs: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Constructor arguments of the environment."""
    thresholds: list[float]
    """Returns; what is counted is the environment episodes until a learner's curve first reaches them."""
    curve: Curve = "return"
    """Number of the evaluations during training that makes a curve: ``success`` where learners have different units."""
    against: tuple[str, ...] = pydantic.Field(default=("ppo", "archer"), min_length=2)
    """Learners whose episodes to each threshold are divided by those of the last one, the slowest first."""
    scale: Scale
    """The bounds of the normalized score."""
    data: DataConfig
    """The offline data."""
    measure: MeasureConfig = MeasureConfig()
    """The final measurement."""
    start: StartConfig = StartConfig()
    """When the others may start from a learner."""
    also: tuple[str, ...] = ()
    """Further learners that those of ``against`` are compared with, in the place of its last one."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Further ratios of episodes: two learners each, the first divided by the second."""
    drawn: tuple[str, ...] = ()
    """Learners in the image of curves (default: all); more than six are hard to tell apart."""
    together: dict[str, str] = pydantic.Field(default_factory=dict)
    """Names of learners in the tables of several tasks, and those that they have in this study; equal ones can be left
    out."""
    sequential: SequentialConfig | None = None
    """Comparisons that stop when they are decided; none, where all learners run all seeds."""
    rank: RankConfig | None = None
    """Measurements of ArCHer's critics along their runs; none, if they are not measured."""
    sweep: SweepConfig | None = None
    """The sweep; none, where every learner keeps its configuration's rate."""
    shared: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Settings of every learner."""
    learner: list[LearnerConfig]
    """The learners, in the order of the table."""

    @pydantic.model_validator(mode="after")
    def _swept(self) -> Self:
        if self.sweep is None and any(learner.swept for learner in self.learner):
            raise ValueError("a learner is to be swept, and there is no [sweep] that says over what")
        return self

    @pydantic.model_validator(mode="after")
    def _shown(self) -> Self:
        for learner in self.learner:
            above = self[learner.like].settings if learner.like else self.shared
            for table, mine in learner.settings.items():
                theirs = above.get(table)
                if isinstance(theirs, dict) and isinstance(mine, dict) and (hidden := theirs.keys() - mine.keys()):
                    where = learner.like or "[shared]"
                    raise ValueError(
                        f"the table {table!r} of {learner.name} replaces that of {where} and hides {sorted(hidden)}: "
                        "repeat them"
                    )
        return self

    def __getitem__(self, name: str) -> LearnerConfig:
        """A learner, an ablation completed from what it is like.

        Raises:
            UsageError: there is none of that name.
        """
        for found in self.learner:
            if found.name == name:
                if found.like is None:
                    return found
                base = self[found.like]
                kept = {"name": name, "like": found.like, "settings": base.settings | found.settings}
                own = {key: value for key in ("seeds", "control") if (value := getattr(found, key)) is not None}
                own["data"] = base.data or found.data
                return base.model_copy(update=kept | own)
        raise UsageError(f"the study has no learner {name!r}; there are {', '.join(one.name for one in self.learner)}")

    @property
    def starts(self) -> set[str]:
        """Names of the learners from which others start."""
        return {learner.after for learner in self.learner if learner.after is not None}

    @property
    def needed(self) -> set[str]:
        """Names of the learners whose models others read."""
        return self.starts | {learner.teacher for learner in self.learner if learner.teacher is not None}

    def reads_data(self, name: str) -> bool:
        """Whether a learner, or one whose model it reads, reads the study's offline data."""
        learner = self[name]
        return learner.data or any(self.reads_data(other) for other in (learner.after, learner.teacher) if other)

    def normalized(self, value: float, dataset: float) -> float:
        """A return on the study's scale, given the dataset's mean return; below ``min`` it is negative."""
        return normalized(value, self.scale.min, dataset, self.scale.max)


def load_study(name: str) -> Study:
    """A study by its file's name in ``studies/``, or by a path.

    Raises:
        ConfigError: there is none, or it is not as it must be.
    """
    path = Path(name) if name.endswith(".toml") else STUDIES / f"{name}.toml"
    if not path.exists():
        known = sorted(study.stem for study in STUDIES.glob("*.toml"))
        near = get_close_matches(name, [*known, REPORT], n=2)
        said = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(known)}"
        raise ConfigError(f"there is no study {name!r}; {said}")
    study = load_config(Study, path)
    for learner in study.learner:
        for other in (learner.like, learner.after, learner.teacher):
            study[other or learner.name]
    compared = chain.from_iterable(study.sequential.pairs) if study.sequential else ()
    for name in (*study.drawn, *study.together.values(), *compared):
        study[name]
    return study


def normalized(value: float, low: float, middle: float, high: float) -> float:
    """LMRL-Gym's score (arXiv 2311.18232, §5): ``low`` is 0, ``middle`` is 50, ``high`` is 100, linear between."""
    if value <= middle:
        return 50 * (value - low) / (middle - low)
    return 50 + 50 * (value - middle) / (high - middle)
