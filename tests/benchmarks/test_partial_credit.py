"""The measure of partial credit on code: it grades as the environment does, and counts groups without a signal."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

import turnwise as tw
from turnwise.envs.code.synthesis import CodeSynthesisEnv
from turnwise.errors import SandboxUnavailableError
from turnwise.tasks.code.synthesis.family import SYNTHESIS

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)


def test_a_group_without_a_signal_is_one_that_earns_the_same(bench: Any) -> None:
    assert bench.equal_group([0.5, 0.5, 0.5], 8) == 1
    assert bench.equal_group([0.0, 1.0], 3) == pytest.approx(2 / 8)
    assert bench.equal_group([0.0, 0.25, 0.25, 1.0], 2) == pytest.approx((1 + 4 + 1) / 16)


@pytest.mark.parametrize("partial", [True, "cases"])
def test_a_missing_step_earns_what_the_environment_pays(bench: Any, partial: bool | Literal["cases"]) -> None:
    spec = SYNTHESIS.spec(4, split="train", level=2)
    sources = dict(bench.answers(SYNTHESIS.generate(spec)))
    source = sources["a step is missing"]
    found = bench.credit(SYNTHESIS.generate(spec), source)
    expected = found.by_case if partial == "cases" else found.by_check
    env = CodeSynthesisEnv(partial=partial)
    try:
        env.reset(options={"task": spec})
    except SandboxUnavailableError as error:
        pytest.skip(f"NOT TESTED, for want of a sandbox: {error}")
    env.step(tw.ToolCall("write", {"path": "solution.py", "content": source}))
    assert env.step(tw.ToolCall("submit"))[1] == pytest.approx(expected)
    env.close()
    assert 0 < found.by_check < found.by_case < 1, "this program tells the two apart"
