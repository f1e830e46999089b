"""Shell tasks: a folder of files, something to do with them, and the required final state.

The agent's text does not count. Files that must change are compared by content (and permissions, and the content of an
archive), and files that must be deleted must be absent. Every other file must be unchanged, or the change is
collateral.

A job describes what it depends on, a state, a word or an extension, by a measure of the files (``clues``), such as the
state with the largest sum of numbers. In ``turnwise/CodeShell-v0`` the prompt named it, and copying it into one of nine
commands solved four tasks out of five. Now test splits pair jobs with measures that training never pairs them with.

A level determines the size: files, depth of folders, spaces in names, and from level 4 on two jobs, each with a folder
of its own. ``test_template`` holds jobs that no other split has, ``test_entity`` the words. Means over 40 training
tasks:

| level | files | lines | checks | words of prompt |
|------:|------:|------:|-------:|----------------:|
|     1 |     5 |    11 |    1.7 |              63 |
|     2 |     8 |    25 |    2.9 |              63 |
|     3 |    11 |    48 |    3.8 |              63 |
|     4 |    29 |   155 |   11.4 |             133 |
|     5 |    41 |   301 |   16.6 |             134 |
"""

from __future__ import annotations

from collections.abc import Mapping

from ....errors import TaskError
from ...family import TaskFamily
from ...rng import Rng
from ...spec import Split, TaskSpec
from ..databases import READERS, readers
from ..task import WHOLE, Attempt, Check, CodeTask, FileCheck, ValueCheck, case, text_files
from .jobs import JOBS, Job, job
from .world import FOLDERS, OTHER_WORDS, SIZES, WORDS, folder

HELD = ("archive", "total")
"""Templates that only ``test_template`` and ``challenge`` use."""
TRIES = 5000
"""Most folders to draw for a seed; usually fewer than a hundred are needed."""


class ShellFamily(TaskFamily[CodeTask]):
    """Jobs on files."""

    name = "code-shell"
    levels = tuple(SIZES)
    splits = tuple(Split)

    def templates(self, split: Split) -> tuple[str, ...]:
        if split in (Split.TEST_TEMPLATE, Split.CHALLENGE):
            return HELD
        return tuple(name for name in JOBS if name not in HELD)

    def build(self, spec: TaskSpec, rng: Rng) -> CodeTask:
        words = OTHER_WORDS if spec.split in (Split.TEST_ENTITY, Split.CHALLENGE) else WORDS
        names = rng.sample(FOLDERS, 2 if spec.level >= 4 else 1)
        kinds = [spec.template, *(rng.pick(self.templates(spec.split)) for _ in names[1:])]
        files: dict[str, str] = {}
        jobs = []
        for name, kind in zip(names, kinds, strict=True):
            tree, made = _drawn(kind, name, spec, words, rng)
            files |= tree
            jobs.append(made)
        return _task(files, jobs)


SHELL = ShellFamily()


def _drawn(kind: str, name: str, spec: TaskSpec, words: tuple[str, ...], rng: Rng) -> tuple[Mapping[str, str], Job]:
    """Return a folder, and a job in it whose clue is unambiguous."""
    for number in range(TRIES):
        draw = rng.child("folder", name, number)
        tree = folder(name, SIZES[spec.level], draw, words)
        made = job(kind, name, tree, spec.split, draw.child("job"))
        if made is not None:
            return tree, made
    raise TaskError(f"no folder of {TRIES} has a clear clue for {spec}; take another seed")


def _task(files: Mapping[str, str], jobs: list[Job]) -> CodeTask:
    done = tuple(command for job in jobs for command in job.commands)
    wrong = {name: commands for job in jobs[-1:] for name, commands in job.mistakes.items()}
    before = tuple(command for job in jobs[:-1] for command in job.commands)
    archives = [job.archive for job in jobs if job.archive is not None]
    cheats = {
        **{name: Attempt(commands=(*before, *commands)) for name, commands in wrong.items()},
        "and one file too many": Attempt(commands=(*done, "echo done > done.txt")),
        "and one change too many": Attempt(commands=(*done, "echo more >> other.txt")),
        "says that it is done": Attempt(commands=("echo All done. The task is complete.",)),
    }
    prompts = [job.prompt for job in jobs]
    return CodeTask(
        prompt=prompts[0] if len(prompts) == 1 else "Do both:\n" + "\n".join(f"- {prompt}" for prompt in prompts),
        files=text_files({**files, "other.txt": "This file has nothing to do with it.\n"}),
        checks=tuple(check for job in jobs for check in _checks(job)),
        solution=Attempt(commands=done),
        taken=tuple(path for path, _ in archives),
        hidden={READERS: readers()} if archives else {},
        cheats=cheats,
        ask="Answer with the commands for the shell, and nothing else.",
        perform=WHOLE,
        strict=True,
        turns=8 + 4 * len(jobs),
    )


def _checks(job: Job) -> list[Check]:
    found: list[Check] = []
    for path, text in job.after.items():
        content = None if text is None else text.encode()
        found.append(FileCheck(path, path, content, job.modes.get(path)))
    if job.archive is not None:
        path, tree = job.archive
        expected = {name: text.encode() for name, text in tree.items()}
        module = READERS.removesuffix(".py")
        found.append(ValueCheck(path, (case(f"members({path!r})", expected),), module))
    return found
