"""Build a repair task set: inject faults into a package, and keep those that its own tests catch in real sandboxes.

A fault counts if tests of its module that pass on the original fail with it, in two sandboxes. The first sandbox
screens several faults one after the other. The second one runs the full tests in another order and ends with the
original, which has to pass again. A fault is left out if a run exceeds its time limit or the two sandboxes disagree.
"""

from __future__ import annotations

import asyncio
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...sandboxes.backend import Backend
from ...sandboxes.spec import SandboxSpec
from ...tasks.code.repair.mutation import Mutation, mutate, mutations
from ...tasks.code.repair.packages import (
    HEADER,
    LIBRARIES,
    SOURCES,
    TASKS,
    TRIED,
    Fault,
    Header,
    Suite,
    digest_of,
    line_of,
    lines_of,
    source_digest,
)
from ...tasks.rng import stable_hash
from .backends import with_libraries
from .build_sources import Opened, libraries, suites_of
from .driving import driven, suite_job

BATCH = 16
"""Faults that one sandbox screens."""
PATIENCE = 120.0
"""Seconds for the tests of one module on the original."""
Outcomes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a build.

    Args:
        kept: number of verified faults.
        tried: number of faults tried, including those of earlier runs.
        total: number of possible faults.
    """

    kept: int
    tried: int
    total: int


class Builder:
    """Builds one task set, or continues a build.

    Args:
        package: the package and tests to build from.
        folder: the output folder.
        backend: creates the sandboxes.
        spec: specification of the sandboxes.
        name: name of the backend, as the user gave it.
        more: distributions that the tests need besides pytest.
    """

    def __init__(
        self,
        package: Opened,
        folder: Path,
        backend: Backend,
        spec: SandboxSpec,
        name: str | None,
        more: Sequence[str] = (),
    ) -> None:
        self.package, self.folder, self.backend = package, folder.resolve(), backend
        self._write(SOURCES, package.files)
        self._write(LIBRARIES, libraries(more))
        self.spec = with_libraries(spec, self.folder / LIBRARIES, name)

    async def build(self, limit: int | None, jobs: int, on_progress: Callable[[Progress], None]) -> Progress:
        """Try faults until all were tried, or ``limit`` are verified.

        Args:
            limit: maximum number of faults to verify; ``None`` for all.
            jobs: number of sandboxes that run at the same time.
            on_progress: callback that receives the progress after each batch.

        Raises:
            UsageError: the folder holds another task set, or no module has tests that pass.
            SandboxError: a sandbox could not be created.
        """
        suites = await self._suites(jobs)
        candidates = [(suite, batch) for suite in suites for batch in self._batches(suite)]
        candidates.sort(key=lambda pair: stable_hash(pair[0].module, pair[1][0][0]))  # cover every module early
        kept = {(line["module"], line["number"]) for line in lines_of(self.folder / TASKS)}
        tried = kept | {(line["module"], line["number"]) for line in lines_of(self.folder / TRIED)}
        total = sum(len(batch) for _, batch in candidates)
        state = Progress(len(kept), len(tried), total)
        on_progress(state)
        waiting = iter(candidates)

        async def work() -> None:
            nonlocal state
            for suite, batch in waiting:
                if limit is not None and state.kept >= limit:
                    return
                left = [(number, fault) for number, fault in batch if (suite.module, number) not in tried]
                found = await self._verified(suite, left) if left else []
                if limit is not None:  # a later run with a higher limit finds the others untried
                    room = max(0, limit - state.kept)
                    over, found = {fault.number for fault in found[room:]}, found[:room]
                    left = [pair for pair in left if pair[0] not in over]
                self._keep(suite, left, found)
                state = Progress(state.kept + len(found), state.tried + len(left), total)
                on_progress(state)

        await asyncio.gather(*(work() for _ in range(jobs)))
        return state

    async def _suites(self, jobs: int) -> tuple[Suite, ...]:
        """Return the modules whose tests pass on the original, from the folder if it has them, or by running them."""
        digest = digest_of(self.package.files)
        known = self.folder / HEADER
        if known.is_file():
            data = json.loads(known.read_text(encoding="utf-8"))
            if data["digest"] != digest:
                raise UsageError(f"{self.folder} has a task set from other sources; choose another folder")
            return tuple(Suite(**{**suite, "files": tuple(suite["files"])}) for suite in data["suites"])
        gate = asyncio.Semaphore(jobs)

        async def one(module: str, files: tuple[str, ...]) -> Suite | None:
            async with gate:
                return await self._suite(module, files)

        found = await asyncio.gather(*(one(*pair) for pair in suites_of(self.package.files).items()))
        suites = tuple(suite for suite in found if suite is not None)
        if not suites:
            raise UsageError(f"no module of {self.package.name} has its own tests that pass on the original code")
        header = Header(
            self.package.name, self.package.version, self.package.licence, digest, platform.python_version(), suites
        )
        known.write_text(json.dumps(asdict(header), indent=1) + "\n", encoding="utf-8")
        return suites

    async def _suite(self, module: str, files: tuple[str, ...]) -> Suite | None:
        """Run a module's tests on the original; return ``None`` if none passes, or if two runs differ."""
        began = asyncio.get_running_loop().time()
        job = suite_job(files, PATIENCE)
        first, second = await driven([job, job], self.package.files, self.backend, self.spec)
        seconds = (asyncio.get_running_loop().time() - began) / 2
        outcomes = _outcomes(first)
        if outcomes is None or outcomes != _outcomes(second) or "passed" not in outcomes.values():
            return None
        return Suite(module, files, outcomes, round(seconds, 2))

    def _batches(self, suite: Suite) -> list[list[tuple[int, Mutation]]]:
        numbered = list(enumerate(mutations(self.package.files[suite.module].decode("utf-8"))))
        numbered.sort(key=lambda pair: stable_hash(suite.module, pair[0]))
        return [numbered[start : start + BATCH] for start in range(0, len(numbered), BATCH)]

    async def _verified(self, suite: Suite, batch: Sequence[tuple[int, Mutation]]) -> list[Fault]:
        """Return those faults of a batch that the tests of their module catch twice."""
        source = self.package.files[suite.module].decode("utf-8")
        broken = {number: mutate(source, [fault]) for number, fault in batch}
        screened = await self._run(suite, [broken[number] for number, _ in batch], first=True)
        caught = [pair for pair, outcomes in zip(batch, screened, strict=True) if failing(suite, outcomes)]
        if not caught:
            return []
        caught.reverse()
        *again, original = await self._run(suite, [*(broken[number] for number, _ in caught), source], first=False)
        if original != suite.outcomes:
            return []
        return [
            Fault(suite.module, number, fault.operator, fault.scope, names, source_digest(broken[number]))
            for (number, fault), outcomes in zip(caught, again, strict=True)
            if (names := failing(suite, outcomes))
        ]

    async def _run(self, suite: Suite, sources: Sequence[str], first: bool) -> list[Outcomes | None]:
        """Run the tests on each of several versions of the module, one after the other in one sandbox."""
        seconds = 2 + 3 * suite.seconds
        jobs = [suite_job(suite.files, seconds, {suite.module: source}, first) for source in sources]
        return [_outcomes(report) for report in await driven(jobs, self.package.files, self.backend, self.spec)]

    def _keep(self, suite: Suite, batch: Sequence[tuple[int, Mutation]], found: Sequence[Fault]) -> None:
        """Record the results of a batch: verified faults first, so that an interruption loses none."""
        kept = {fault.number for fault in found}
        with open(self.folder / TASKS, "a", encoding="utf-8") as file:
            file.writelines(line_of(fault) for fault in found)
        with open(self.folder / TRIED, "a", encoding="utf-8") as file:
            lines = ({"module": suite.module, "number": number} for number, _ in batch if number not in kept)
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)

    def _write(self, part: str, files: Mapping[str, bytes]) -> None:
        for path, data in files.items():
            target = self.folder / part / path
            if not target.is_file() or target.read_bytes() != data:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)


def failing(suite: Suite, outcomes: Outcomes | None) -> tuple[str, ...]:
    """Return the tests that pass on the original and fail here; empty if they did not run or did not finish."""
    if outcomes is None:
        return ()
    return tuple(
        name for name, outcome in suite.outcomes.items() if outcome == "passed" and outcomes.get(name) == "failed"
    )


def _outcomes(report: Mapping[str, Any]) -> Outcomes | None:
    outcomes = report.get("outcomes")
    return outcomes if isinstance(outcomes, dict) else None
