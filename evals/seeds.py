"""Sort training runs into trainings whose runs differ only in their seed, each seed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .curves import Run


@dataclass(slots=True)
class SeedGroup:
    """Seeds of one training.

    Args:
        runs: runs with different seeds; a run without saved settings counts as a seed of its own.
        repeats: one sentence for each run that is left out because it repeats one of ``runs``.
    """

    runs: list[Run] = field(default_factory=list)
    repeats: list[str] = field(default_factory=list)

    def accepts(self, run: Run) -> bool:
        """Whether the run is another seed of this training."""
        return run.kind == self.runs[0].kind and (run.seed is None or run.seed not in {r.seed for r in self.runs})


def seed_groups(runs: Sequence[Run]) -> list[SeedGroup]:
    """Group runs into trainings, and leave out runs that repeat a seed with the same settings.

    The run with the most steps stays. Runs with the same seed and another starting model are different trainings, since
    an interval over seeds needs a different seed in every run.

    Args:
        runs: training runs with different names.
    """
    alike: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        key = (run.name,) if run.seed is None else (run.kind, run.seed, run.start)
        alike.setdefault(key, []).append(run)
    groups: list[SeedGroup] = []
    for same in alike.values():
        kept = max(same, key=lambda run: len(run.records))
        fitting = [group for group in groups if group.accepts(kept)]
        fitting.sort(key=lambda group: all(run.start != kept.start for run in group.runs))  # the same start first
        if not fitting:
            fitting = [SeedGroup()]
            groups += fitting
        fitting[0].runs.append(kept)
        fitting[0].repeats += [
            f"Left out: {run.name} repeats seed {run.seed} of {kept.name}, with the same settings."
            for run in same
            if run is not kept
        ]
    return groups
