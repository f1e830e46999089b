"""Shell tasks: a folder of files, something to do with them, and the state that must come of it.

What the agent says is never looked at: the files that must change are compared by content (and permissions, and what is
in an archive), those that must be gone must be gone, and every other file must be as it was, or it is collateral.

A level is its size: files, depth of folders, spaces in names, and from level 4 on two things to do, each with a folder
of its own. ``test_template`` holds what is asked nowhere else, ``test_entity`` the words. Means over 40 training tasks:

===== ===== ===== ====== ===============
level files lines checks words of prompt
===== ===== ===== ====== ===============
1     5     11    1.5    25
2     8     26    1.9    25
3     11    46    3.0    25
4     29    156   7.4    58
5     41    304   11.7   59
===== ===== ===== ====== ===============
"""

from __future__ import annotations

from collections.abc import Mapping

from ...family import TaskFamily
from ...rng import Rng
from ...spec import Split, TaskSpec
from ..databases import READERS, readers
from ..task import WHOLE, Attempt, Check, CodeTask, FileCheck, ValueCheck, case, text_files
from .jobs import JOBS, Job
from .world import FOLDERS, OTHER_WORDS, SIZES, WORDS, folder

HELD = ("archive", "total")
"""Templates of ``test_template`` and ``challenge`` alone."""


class ShellFamily(TaskFamily[CodeTask]):
    """Things to do with files."""

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
            tree = folder(name, SIZES[spec.level], rng.child("folder", name), words)
            files |= tree
            jobs.append(JOBS[kind](name, tree, rng.child("job", name)))
        return _task(files, jobs)


SHELL = ShellFamily()


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
