"""Shell tasks: what a clue means can only be computed, and test splits ask for what training never shows."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from turnwise.tasks.code.shell.clues import MEASURES, clue, measures_of, rows, singled_out
from turnwise.tasks.code.shell.family import HELD, SHELL
from turnwise.tasks.code.shell.jobs import JOBS
from turnwise.tasks.code.shell.world import KINDS, SIZES, STATES, WORDS, folder
from turnwise.tasks.code.task import Attempt
from turnwise.tasks.rng import Rng
from turnwise.tasks.spec import Split, TaskSpec

TREE = {
    "in/a.txt": "ok amber 10\nok birch 20\nwarn birch 400\n",
    "in/b.log": "fail amber 7\nfail cedar 9\nfail amber 30\n",
}


@pytest.mark.parametrize(
    ("meant", "measure", "value"),
    [
        ("state", "most lines", "fail"),
        ("state", "fewest lines", "warn"),
        ("state", "largest sum", "warn"),
        ("state", "smallest sum", "ok"),
        ("state", "smallest number", "fail"),
        ("word", "largest number", "birch"),
        ("word", "fewest lines", "cedar"),
        ("kind", "largest sum", ".txt"),
        ("kind", "most lines", None),
    ],
)
def test_a_measure_singles_out_one_or_none(meant: str, measure: str, value: str | None) -> None:
    assert singled_out(rows(meant, TREE), MEASURES[measure]) == value


@pytest.mark.parametrize("meant", ["state", "word", "kind"])
@pytest.mark.parametrize("measure", MEASURES)
def test_a_clue_is_what_its_command_computes_and_what_no_other_measure_names(
    meant: str, measure: str, tmp_path: Path
) -> None:
    for number in range(400):
        tree = folder("in", SIZES[3], Rng("test", number), WORDS)
        found = clue(meant, "in", tree, [measure], Rng("test"))
        if found is not None:
            break
    assert found is not None, "no folder of 400 allows this clue"
    values = [singled_out(rows(meant, tree), each) for each in MEASURES.values()]
    assert values.count(found.value) == 1
    for path, text in tree.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for command, right in ((found.command, True), (found.mistake, False)):
        shown = subprocess.run(
            ["sh", "-c", f'{command}; echo "${meant}"'], cwd=tmp_path, capture_output=True, text=True
        )
        assert (shown.stdout.strip() == found.value) is right, shown


def test_jobs_and_measures_are_paired_in_tests_as_never_in_training() -> None:
    for name, (meant, _) in JOBS.items():
        parts = [set(measures_of(name, meant, split)) for split in (Split.TRAIN, Split.DEV, Split.TEST_IID)]
        assert all(parts)
        assert len(set().union(*parts)) == sum(map(len, parts)) == len(MEASURES)
    trained = [set(measures_of(name, JOBS[name][0], Split.TRAIN)) for name in SHELL.templates(Split.TRAIN)]
    assert set().union(*trained) == set(MEASURES), "every measure can be learned"


def test_no_prompt_says_what_is_meant() -> None:
    for spec in SHELL.sample(60):
        prompt = SHELL.generate(spec).prompt.replace(", ".join(KINDS), "")
        assert not set(prompt.split()) & {*WORDS, *STATES, *KINDS}, prompt


def left(attempt: Attempt, files: Mapping[str, bytes], root: Path) -> dict[str, tuple[int, object]]:
    """Return permissions and content of all files after an attempt."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text)
    for command in attempt.commands:
        subprocess.run(["sh", "-c", command], cwd=root, capture_output=True)
    found: dict[str, tuple[int, object]] = {}
    for path in filter(Path.is_file, root.rglob("*")):
        content: object = path.read_bytes()
        if path.suffix == ".tar":
            with tarfile.open(path) as packed:
                content = {each.name: each.size for each in packed.getmembers()}
        found[str(path.relative_to(root))] = (path.stat().st_mode, content)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("template", JOBS)
def test_no_near_miss_leaves_what_the_solution_leaves(template: str, tmp_path: Path) -> None:
    """At level 1 most often two states or words stand in the same files; so it is for prune and seed 0."""
    for seed in range(4):
        split = Split.TEST_TEMPLATE if template in HELD else Split.TRAIN
        task = SHELL.generate(TaskSpec(SHELL.name, template, level=1, seed=seed, split=split))
        right = left(task.solution, task.files, tmp_path / f"{seed} solution")
        for name, cheat in task.cheats.items():
            assert left(cheat, task.files, tmp_path / f"{seed} {name}") != right, (seed, name)


def test_another_measure_is_mostly_a_near_miss() -> None:
    tasks = [SHELL.generate(spec) for spec in SHELL.sample(60)]
    assert sum("by another measure" in task.cheats for task in tasks) > 40
