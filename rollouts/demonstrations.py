"""Offline datasets of mixed skill, like LMRL-Gym's (2311.18232) for each game, to start offline RL and cloning from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ..agents.scripted import MixedAgent
from ..envs.registry import make
from ..errors import UsageError
from ..stop_signals import run_until_stopped
from ..tasks.spec import Split, TaskSpec
from .episode import Episode
from .options import RunOptions
from .progress import RunProgress
from .recording import record_episodes
from .stats import RunStats
from .store import EpisodeStore, load_episodes

SEED_STRIDE = 1_000_000
"""Datasets with different seeds use task seeds that differ by at least this much."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Demonstrators of a dataset.

    Args:
        skills: for each kind of demonstrator, the share of its turns in which it follows the oracle.
        weights: for each kind, how often it plays; equally if empty.
        habits: share of messages at which all of them have the same wrong habit instead; see ``MixedAgent``.
    """

    skills: tuple[float, ...]
    weights: tuple[float, ...] = ()
    habits: float = 0.0

    @property
    def agent(self) -> MixedAgent:
        """Return the agent that plays as these demonstrators."""
        return MixedAgent(self.skills, self.weights or None, self.habits)

    @property
    def described(self) -> dict[str, Any]:
        """Return the fields for a store's description; habits of 0 are left out, so that earlier stores can grow."""
        return {name: value for name, value in asdict(self).items() if name != "habits" or value}


PRESETS: dict[str, Mixture] = {
    "random": Mixture((0.0,)),
    "weak": Mixture((0.0, 0.1, 0.3)),
    "mixed": Mixture((0.0, 0.25, 0.5, 0.75, 1.0)),
    "good": Mixture((0.6, 0.8, 1.0)),
    "expert": Mixture((1.0,)),
}
"""Mixtures that mean the same for every environment."""

LMRL = "lmrl"
PUBLISHED: dict[str, tuple[Mixture, float, float]] = {
    # In Maze and Guess My City the published means are below those of random play here: nearly random play is closest.
    "turnwise/MazeFO-v0": (Mixture((0.0, 0.3), (0.95, 0.05)), -83.0, -79.3),
    "turnwise/MazePO-v0": (Mixture((0.0, 0.3), (0.9, 0.1)), -83.0, -80.5),
    "turnwise/TextNavFO-v0": (Mixture((0.0, 0.3, 0.5, 0.8)), 0.26, 0.27),
    "turnwise/TextNavPO-v0": (Mixture((0.0, 0.3, 0.5, 0.8)), 0.26, 0.29),
    "turnwise/TwentyQuestions-v1": (Mixture((0.0, 0.2, 0.3, 0.6)), -17.3, -17.3),
    "turnwise/GuessMyCity-v1": (Mixture((0.0,)), -18.8, -18.2),
}
"""Per game, for the preset ``lmrl``: the mixture whose mean return is nearest to that of LMRL-Gym's dataset; that
published mean; and ours, measured over 150 training tasks for each skill."""


def mixture_of(name: str | Mixture, env_id: str) -> Mixture:
    """Return a mixture by its name: one of ``PRESETS``, or ``lmrl`` for the games with an LMRL-Gym dataset.

    Raises:
        UsageError: there is no such preset.
    """
    if isinstance(name, Mixture):
        return name
    if name == LMRL and env_id in PUBLISHED:
        return PUBLISHED[env_id][0]
    if name == LMRL:
        raise UsageError(f"preset 'lmrl' exists only for {', '.join(PUBLISHED)}, not for {env_id}")
    if name not in PRESETS:
        raise UsageError(f"there is no preset {name!r}; choose one of {', '.join([*PRESETS, LMRL])}, or give a Mixture")
    return PRESETS[name]


def make_demonstrations(
    env_id: str,
    n: int,
    store: Path | str,
    *,
    mixture: str | Mixture = "mixed",
    split: Split | str = Split.TRAIN,
    levels: Sequence[int] = (),
    seed: int = 0,
    options: RunOptions | None = None,
    quiet: bool = True,
) -> list[Episode]:
    """Play ``n`` scripted episodes into a store; called again, continue where it stopped.

    Args:
        env_id: a registered id whose environment has an oracle.
        n: number of episodes, one per task.
        store: folder of the store.
        mixture: a preset's name, or a mixture of demonstrators.
        split: split of the tasks.
        levels: levels of the tasks, in turn; all of the family's if empty.
        seed: seed of the tasks and of the play.
        options: options of the run; this function sets ``seed`` and ``group_size``.
        quiet: whether to hide progress.

    Returns:
        Every episode of the store, in the order of their ids.

    Raises:
        UsageError: no such id, preset, split or level, or ``n`` is not positive.
        StoreError: the store belongs to another dataset.
    """
    if n < 1:
        raise UsageError(f"n must be at least 1; got {n}")
    chosen = mixture_of(mixture, env_id)
    base = options or RunOptions()
    settings = base.model_copy(update={"seed": seed, "group_size": 1})
    tasks = list(islice(demonstration_tasks(env_id, split, levels, seed, base.env_kwargs), n))
    run = {"env": env_id, "mixture": chosen.described, "split": str(split), "levels": list(levels), "seed": seed}

    async def play() -> None:
        stats = RunStats()
        with (
            EpisodeStore(store, run={**run, "env_kwargs": base.env_kwargs}) as opened,
            RunProgress(stats, total=n, done=len(opened), quiet=quiet) as progress,
        ):
            playing = record_episodes(env_id, chosen.agent, tasks, opened, options=settings, stats=stats)
            async with aclosing(playing) as episodes:
                async for _ in episodes:
                    progress.tick()

    run_until_stopped(play())
    return sorted(load_episodes(store), key=lambda episode: episode.episode_id)


def demonstration_tasks(
    env_id: str,
    split: Split | str = Split.TRAIN,
    levels: Sequence[int] = (),
    seed: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
) -> Iterator[TaskSpec]:
    """Yield the endless tasks of a dataset: consecutive seeds, levels in turn, for the environment as it will be made.

    Raises:
        UsageError: no such id, split or level.
    """
    env = make(env_id, **(env_kwargs or {}))
    family = env.get_wrapper_attr("tasks")()
    env.close()
    turns = tuple(levels) or family.usual
    number = 0
    while True:
        yield family.spec(seed * SEED_STRIDE + number, split=split, level=turns[number % len(turns)])
        number += 1
