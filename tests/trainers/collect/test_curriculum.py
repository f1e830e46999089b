"""A curriculum draws by its formula, from counts that only finished steps change."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Episode, Outcome, Score
from turnwise.errors import ConfigError, UsageError
from turnwise.tasks.family import SeededFamily
from turnwise.tasks.spec import TaskSpec
from turnwise.trainers import loop
from turnwise.trainers.collect.curriculum import Curriculum, CurriculumSampler
from turnwise.trainers.learning.groups import Group, grouped
from turnwise.trainers.options import configured
from turnwise.trainers.run.metrics import read_metrics

from .. import small
from ..fakes import returning
from ..test_resume import same, state
from .test_sampler import Levelled


class Templated(Levelled):
    def templates(self, split: object) -> tuple[str, ...]:
        return ("plain", "twisted")


def sampler(**settings: Any) -> CurriculumSampler:
    more = {name: settings.pop(name) for name in ("max_tasks", "seed", "levels") if name in settings}
    return CurriculumSampler(Levelled(), Curriculum.model_validate(settings), **more)


def attempts(results: Sequence[tuple[TaskSpec, bool]]) -> list[Group]:
    made: list[Episode] = []
    for number, (task, solved) in enumerate(results):
        one = returning(float(solved), group=f"g{number}", name=f"g{number}-0")
        made.append(replace(one, task=task, score=Score(solved)))
    return grouped(made)


def level(number: int) -> TaskSpec:
    return Levelled().spec(0, level=number)


chance = st.floats(0.01, 0.99)


@given(st.lists(chance, min_size=2, max_size=6), st.floats(0, 1))
def test_kinds_are_drawn_as_two_attempts_differ(success: list[float], floor: float) -> None:
    kinds = [(number, None) for number in range(len(success))]
    shares = Curriculum(floor=floor).shares(kinds, success)
    worth = [p * (1 - p) for p in success]
    assert shares == pytest.approx([floor / len(kinds) + (1 - floor) * w / sum(worth) for w in worth])
    assert sum(shares) == pytest.approx(1)


@pytest.mark.parametrize(
    ("success", "wanted"),
    [
        ([0.5, 0.5, 0.5], [1.0, 0.0, 0.0]),
        ([0.9, 0.5, 0.9], [0.1, 0.9, 0.0]),
        ([0.9, 0.9, 0.5], [0.2 / 3, 0.2 / 3, 0.8 + 0.2 / 3]),
        ([0.9, 0.9, 0.9], [0.2 / 3, 0.2 / 3, 0.8 + 0.2 / 3]),
    ],
)
def test_a_ladder_stays_on_the_lowest_level_that_is_not_mastered(success: list[float], wanted: list[float]) -> None:
    kinds = [(number, None) for number in (1, 2, 3)]
    assert Curriculum(rule="ladder", floor=0.2).shares(kinds, success) == pytest.approx(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"floor": 1.0}, {"rule": "ladder"}])
def test_draws_have_the_stated_shares(settings: dict[str, Any]) -> None:
    drawn = sampler(**settings)
    drawn.observe(attempts([(level(1), True)] * 9 + [(level(2), True)] * 2 + [(level(2), False)] * 3))
    count = 4000
    found = Counter(task.level for task in drawn.peek(count))
    for (number, _), share in zip(drawn.kinds, drawn.shares, strict=True):
        deviation = math.sqrt(count * share * (1 - share))
        assert abs(found[number] - count * share) <= 4 * deviation, "seeded: it cannot fail by luck"


def test_success_is_laplaces_and_fades() -> None:
    drawn = sampler(memory=0.5)
    assert drawn.success == [0.5, 0.5, 0.5], "nothing is known"
    drawn.observe(attempts([(level(1), True), (level(1), True), (level(3), False)]))
    assert drawn.success == pytest.approx([3 / 4, 1 / 2, 1 / 3])
    drawn.observe([])
    assert drawn.success == pytest.approx([2 / 3, 1 / 2, 1 / 2.5]), "half of each count is forgotten"


def test_an_attempt_that_the_policy_did_not_finish_failed_and_a_lost_one_says_nothing() -> None:
    drawn = sampler(memory=1.0)
    for outcome in (Outcome.POLICY_FAILED, Outcome.INFRA_FAILED):
        drawn.observe(grouped([replace(returning(0.0, outcome=outcome), task=level(2))]))
        assert drawn.success == pytest.approx([1 / 2, 1 / 3, 1 / 2])


def test_a_restart_from_a_stored_task_of_another_kind_says_nothing() -> None:
    drawn = sampler(memory=1.0, levels=[1, 2])
    drawn.observe(attempts([(level(3), True), (level(1), True)]))
    assert drawn.success == pytest.approx([2 / 3, 1 / 2])


def test_templates_can_be_kinds() -> None:
    drawn = CurriculumSampler(Templated(), Curriculum(by="template", floor=0.0))
    assert len(drawn.kinds) == 6
    hard = Templated().spec(0, level=1, template="twisted")
    drawn.observe(attempts([(hard, False)] * 50))
    share = dict(zip(drawn.kinds, drawn.shares, strict=True))
    assert share[1, "twisted"] < 0.1 * share[1, "plain"]
    assert {task.template for task in drawn.peek(50)} == {"plain", "twisted"}


@given(st.lists(st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=4), max_size=4), st.integers(0, 3))
def test_a_resumed_sampler_draws_what_the_other_would(steps: list[list[tuple[int, bool]]], seed: int) -> None:
    straight = sampler(seed=seed, max_tasks=9)
    for step in steps:
        straight.draw(len(step))
        straight.observe(attempts([(level(number), solved) for number, solved in step]))
    resumed = sampler(seed=seed, max_tasks=9)
    resumed.load_state_dict(straight.state_dict())
    resumed.cursor = straight.cursor
    assert resumed.draw(8) == straight.draw(8)


def test_every_task_is_new_or_one_of_max_tasks() -> None:
    assert len(set(sampler().draw(200))) == 200
    assert len(set(sampler(max_tasks=7).draw(500))) == 6, "two of each of three levels"


def test_what_has_one_kind_has_no_curriculum() -> None:
    with pytest.raises(UsageError, match="offers 1 here"):
        CurriculumSampler(SeededFamily("any"), Curriculum())
    with pytest.raises(UsageError, match="max_tasks = 2"):
        sampler(max_tasks=2)


@pytest.mark.parametrize(
    ("word", "settings", "says"),
    [
        ("loop", ["curriculum.rule=ladder", "curriculum.by=template"], "templates have no order"),
        ("loop", ["curriculum.floor=0.2", "overlap.enabled=true"], "drawn ahead"),
        ("archer", ["curriculum.floor=0.2", "mode=offline", "actor=awr", "critic=iql"], "plays no tasks"),
        ("self-play", ["curriculum.floor=0.2"], "makes its own tasks"),
    ],
)
def test_settings_without_effect_are_refused(word: str, settings: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        configured(word, None, ["env=turnwise/Maze-v0", "model=m", *settings])


@pytest.mark.slow
@pytest.mark.shift
def test_n_plus_m_steps_are_n_then_resume_then_m(tmp_path: Path, cloned: Path) -> None:
    how: dict[str, Any] = {"env": "turnwise/Maze-v0", "levels": [1, 2], "curriculum": {"floor": 0.5}, "steps": 3}
    how |= {"eval": {"episodes": 0}, "tasks_per_step": 3, "group_size": 2}
    result = loop.train(small.looping(tmp_path / "straight", cloned / "model", **how))
    first, *_, last = [line for line in read_metrics(result.folder / "metrics.jsonl") if "episodes" in line]
    assert first["curriculum/share/1"] == 0.5
    assert last["curriculum/success/1"] != 0.5, "it was measured"
    loop.train(small.looping(tmp_path / "parts", cloned / "model", **how | {"steps": 2}))
    loop.train(small.looping(tmp_path / "parts", cloned / "model", **how, resume=True))
    one, other = (state(tmp_path / name, "loop") for name in ("straight", "parts"))
    assert one[0] == other[0]
    assert same(one[1][2]["kept"], other[1][2]["kept"]), "the counts"
