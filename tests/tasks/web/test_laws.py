"""Laws of every template of the web: its own solution solves it, and nothing that is almost right does."""

from __future__ import annotations

import hashlib
import inspect
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.web.env import WebEnv
from turnwise.tasks.score import Score
from turnwise.tasks.spec import Split, TaskSpec
from turnwise.tasks.web.family import WEB_FAMILY
from turnwise.tasks.web.levels import LEVELS
from turnwise.tasks.web.simulators.accounts import account_of
from turnwise.tasks.web.simulators.catalogue import SITES
from turnwise.tasks.web.simulators.http import Request, Values
from turnwise.tasks.web.simulators.sites import BEGUN, host_of
from turnwise.tasks.web.templates.catalogue import BASE, TEMPLATES

from ...shifts import sampled

COMPOSED = sorted(set(TEMPLATES) - set(BASE))
LEADS_OUT = "a way out"
"""Near misses that do not depend on the template; a few are enough."""
QUICK = {name: number % 5 + 1 for number, name in enumerate(sorted(TEMPLATES))}
"""The level at which the core plays a template."""


def belongs(name: str) -> list[Split]:
    """Return the splits of a template, without those that repeat another split's templates."""
    mine = [split for split in Split if name in WEB_FAMILY.templates(split)]
    return [split for split in mine if split not in (Split.DEV, Split.TEST_IID)]


def cases(names: list[str], core: list[str]) -> list[Any]:
    """Return templates with levels: one level in the core, the others in shifts.

    Args:
        names: all templates to try.
        core: templates with a case in the core; a shift plays all levels of the others.
    """
    found = []
    for name in names:
        quick = (QUICK[name],) if name in core else ()
        rest = tuple(level for level in LEVELS if level not in quick)
        found += [pytest.param(name, quick, id=name)] if quick else []
        found.append(pytest.param(name, rest, id=f"{name}-rest", marks=pytest.mark.shift))
    return found


def task(name: str, level: int) -> TaskSpec:
    """A task of a template; its split and its seed follow from the level."""
    splits = belongs(name)
    return WEB_FAMILY.spec(level * 7, split=splits[level % len(splits)], level=level, template=name)


@pytest.fixture(scope="module")
def made() -> Any:
    env = tw.make("turnwise/WebHTML-v1")
    yield env
    env.close()


def own(env: Any) -> WebEnv:
    """The environment inside of its wrappers."""
    inside = env.unwrapped
    assert isinstance(inside, WebEnv)
    return inside


def played(
    env: Any, spec: TaskSpec, act: Callable[[Any], Any], before_end: Callable[[WebEnv], None] | None = None
) -> Score:
    """An episode from its beginning to its end.

    Args:
        env: environment to play in.
        spec: the task.
        act: function that returns the next act.
        before_end: done once the next act of the solution is its last.
    """
    env.reset(options={"task": spec})
    for number in range(200):
        if before_end is not None and number == len(own(env).plan()) - 1:
            before_end(own(env))
        _, _, terminated, truncated, info = env.step(act(env))
        if terminated or truncated:
            score = info["score"]
            assert isinstance(score, Score)
            return score
    raise AssertionError(f"{spec} has no end")


def solution(env: Any) -> Any:
    """The next act of the solution."""
    return own(env).oracle()


def stray(site: type[Any]) -> Callable[[WebEnv], None]:
    """One unrequested change by the task's user."""

    def post(env: WebEnv) -> None:
        path, form = site.stray
        sites = env.sites
        visits = dict(sites.visits)
        sites.enter(site.name, int(str(account_of(sites.db, site.name)["id"])))
        writes = sites.db.writes
        sites.handle(Request("POST", host_of(site), path, form=Values(form.items()), cookies={"session": BEGUN}))
        sites.visits = visits
        assert sites.db.writes > writes, f"what is stray on {site.name} changes nothing"

    return post


def misses(env: Any, spec: TaskSpec, *, ways_out: bool) -> list[str]:
    """The near misses of a task that solve it."""
    env.reset(options={"task": spec})
    found = own(env).near_misses()
    wrong = []
    for name, play in found.items():
        if ways_out or not name.startswith(LEADS_OUT):
            assert callable(play)
            score = played(env, spec, play)
            if score.success:
                wrong.append(f"{name}: {score}")
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize(("name", "levels"), cases(sorted(TEMPLATES), [*BASE, *sampled(COMPOSED, 12, key="web laws")]))
def test_a_template_is_solved_by_its_solution_and_by_nothing_less(
    made: Any, name: str, levels: tuple[int, ...]
) -> None:
    faults = [fault for level in levels if (fault := unfair(made, task(name, level)))]
    assert not faults, "\n".join(faults)


def unfair(env: Any, spec: TaskSpec) -> str:
    """Return what is wrong with a task, or nothing."""
    score = played(env, spec, solution)
    work = own(env).work
    assert work is not None
    said = f"{spec}: {work.prompt!r} is"
    if not score.success:
        return f"{said} not solved by its solution: {score}"
    if WEB_FAMILY.generate(spec) != work:
        return f"{said} another task the second time"
    if wrong := misses(env, spec, ways_out=False):
        return f"{said} solved by near misses: {wrong}"
    env.reset(options={"task": spec})
    return f"{said} solved by nothing" if own(env).judge().success else ""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "levels"), cases(sorted(BASE), sorted(BASE)))
def test_one_change_too_many_is_named_and_fails(made: Any, name: str, levels: tuple[int, ...]) -> None:
    faults = []
    for spec in (task(name, level) for level in levels):
        for site in (site for site in SITES if site.name in BASE[name].needs):
            score = played(made, spec, solution, before_end=stray(site))
            if score.success:
                faults.append(f"{spec}: succeeds in spite of a stray change on {site.name}")
            if not any(one.startswith(f"{site.name}_") for one in score.collateral):
                faults.append(f"{spec}: the score does not name the stray change on {site.name}: {score}")
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_the_first_observation_does_not_contain_the_secrets(made: Any) -> None:
    faults = []
    for spec in (task(name, level) for name in sorted(BASE) for level in (1, 5)):
        observation, _ = made.reset(options={"task": spec})
        work = own(made).work
        assert work is not None
        leaked = [secret for secret in work.secrets if secret.casefold() in observation.text.casefold()]
        faults += [f"{spec}: {work.prompt!r} begins with its secrets {leaked}"] if leaked else []
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_ways_out_of_the_sites_solve_nothing(made: Any) -> None:
    for name in sorted(BASE)[::9]:
        assert not misses(made, task(name, 2), ways_out=True)


def digest(names: list[str]) -> str:
    """Describe the tasks of some templates, as one text."""
    read = hashlib.sha256()
    for number, name in enumerate(names):
        work = WEB_FAMILY.generate(task(name, number % 5 + 1))
        may = sorted((one.table, one.kind, *sorted(one.columns)) for one in work.may)
        read.update(f"{replace(work, may=())}{may}".encode())
    return read.hexdigest()


@pytest.mark.slow
def test_tasks_are_the_same_in_another_process() -> None:
    names = sorted(TEMPLATES)[::3]
    here = "\n".join(inspect.getsource(one) for one in (belongs, task, digest))
    head = "\n".join(
        (
            "from __future__ import annotations",
            "import hashlib",
            "from dataclasses import replace",
            "from turnwise.tasks.spec import Split, TaskSpec",
            "from turnwise.tasks.web.family import WEB_FAMILY",
        )
    )
    code = f"{head}\n{here}\nprint(digest({names!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest(names), "a task depends on the process that makes it"
