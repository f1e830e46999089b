"""Laws of every template: its own solution solves it in several ways, and nothing that is almost right does."""

from __future__ import annotations

from turnwise.envs.apps.near_misses import near_misses
from turnwise.errors import TaskError
from turnwise.tasks.apps.family import APPS_FAMILY, open_world
from turnwise.tasks.apps.simulators.catalogue import IDLE
from turnwise.tasks.apps.templates.plan import plan
from turnwise.tasks.apps.templates.play import played
from turnwise.tasks.rng import Rng
from turnwise.tasks.spec import TaskSpec


def holds(spec: TaskSpec) -> str:
    """Return the faults of a task; empty if there are none."""
    try:
        task = APPS_FAMILY.generate(spec)
    except TaskError as error:
        return str(error)
    world, rng = open_world(spec, task), Rng("laws", spec.digest)
    if task != APPS_FAMILY.generate(spec):
        return f"{spec}: it is another task the second time"
    acts = plan(task, world, rng.child(0), curious=False)
    for number in range(2):
        way = plan(task, world, rng.child("way", number), curious=bool(number))
        score = played(task, world.fork(), way, IDLE)
        if not score.success:
            return f"{spec}: {task.prompt!r} is not solved by {way}: {score}"
    if played(task, world.fork(), (), IDLE).success:
        return f"{spec}: {task.prompt!r} is solved by nothing"
    for name, miss in near_misses(task, world, acts, world.simulators, rng).items():
        score = played(task, world.fork(), miss, IDLE)
        if score.success:
            return f"{spec}: {task.prompt!r} is solved although it is a near miss ({name}): {miss}"
    asked = task.prompt.casefold()
    leaked = [secret for secret in task.secrets if secret.casefold() in asked]
    return f"{spec}: the prompt {task.prompt!r} tells {leaked}" if leaked else ""
