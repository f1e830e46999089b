"""The meaning of a plain answer, with any fences."""

from __future__ import annotations

import pytest

from turnwise.envs.code.answers import attempt_of
from turnwise.tasks.code.synthesis.family import MODULE, SYNTHESIS

TICKS = "`" * 3
WAYS = {
    "plain": "{code}",
    "fenced": TICKS + "python\n{code}" + TICKS,
    "with a space behind": TICKS + "python \n{code}" + TICKS,
    "with a title": TICKS + 'python title="solution.py"\n{code}' + TICKS + "\n",
    "with tildes": "~~~\n{code}~~~\n",
    "indented": "Here:\n  " + TICKS + "\n{code}  " + TICKS + "\nDone.",
    "cut off": "Here:\n" + TICKS + "python\n{code}",
    "with a mark": "\ufeff{code}",
    "the last counts": TICKS + "\nx = 1\n" + TICKS + "\nBetter:\n" + TICKS + "\n{code}" + TICKS,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_an_answer_is_what_it_says(way: str, ends: str) -> None:
    task = SYNTHESIS.generate(next(iter(SYNTHESIS.sample(1, level=2))))
    assert task.hole == "{answer}" or task.answer
    said = way.replace("{code}", task.answer if task.answer.endswith("\n") else f"{task.answer}\n").replace("\n", ends)
    expected = attempt_of(task, task.answer).files[MODULE]
    assert attempt_of(task, said).files[MODULE].strip() == expected.strip()
