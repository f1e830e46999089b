"""Playing efficiency: less work earns the reward, and no way around the counting does."""

from __future__ import annotations

import pytest

from turnwise.envs.code import grading
from turnwise.envs.code.answers import SUBMIT, actions_of
from turnwise.envs.code.efficiency import CodeEfficiencyEnv
from turnwise.envs.code.workspace import Entry, Workspace
from turnwise.envs.messages import ToolCall
from turnwise.sandboxes.backend import Backend
from turnwise.tasks.code.efficiency.family import EFFICIENCY, LEVELS
from turnwise.tasks.code.efficiency.templates import TEMPLATES
from turnwise.tasks.code.task import Attempt, WorkCheck
from turnwise.tasks.code.trouble import Trouble
from turnwise.tasks.spec import Split, TaskSpec

from ...shifts import sampled
from ...tasks.code.slow_programs import slow_programs


def outcome(env: CodeEfficiencyEnv, spec: TaskSpec, source: str | None) -> tuple[bool, list[str]]:
    """Success and troubles of handing a source in; ``None`` hands in what is there."""
    env.reset(options={"task": spec})
    attempt = Attempt({"solution.py": source.encode()} if source is not None else {})
    for action in actions_of(env.work, attempt, "tools"):
        _, _, over, _, info = env.step(action)
    assert over
    return info["success"], info.get("troubles", [])


def test_a_fast_solution_wins_and_the_slow_one_does_not(backend: Backend) -> None:
    env, spec = CodeEfficiencyEnv(), EFFICIENCY.spec(0, level=1, template="distinct")
    fast = EFFICIENCY.generate(spec).solution.files["solution.py"].decode()
    assert outcome(env, spec, fast) == (True, [])
    won, troubles = outcome(env, spec, None)
    assert not won
    assert set(troubles) == {"too much work"}, "it is right, and nothing else is wrong with it"


@pytest.mark.slow
@pytest.mark.parametrize("template", ["pairs", "recurrence"])
def test_no_cheat_wins(template: str, backend: Backend) -> None:
    env, spec = CodeEfficiencyEnv(), EFFICIENCY.spec(0, level=1, template=template)
    for name, cheat in EFFICIENCY.generate(spec).cheats.items():
        won, troubles = outcome(env, spec, cheat.files["solution.py"].decode())
        assert not won, name
        assert troubles, name


def test_doing_the_work_while_it_is_imported_is_counted(backend: Backend) -> None:
    env, spec = CodeEfficiencyEnv(), EFFICIENCY.spec(0, level=1, template="distinct")
    fast = EFFICIENCY.generate(spec).solution.files["solution.py"].decode()
    idle = "TABLE = [number for number in range(300_000)]\n" + fast
    assert outcome(env, spec, idle) == (False, ["too much work"] * 3)


@pytest.mark.slow
def test_work_far_beyond_the_limit_is_stopped(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission that would run for ever costs no more than its limit; without the stop, only time would end it."""
    env, spec = CodeEfficiencyEnv(), EFFICIENCY.spec(0, level=1, template="distinct")
    name = EFFICIENCY.generate(spec).checks[0].name.split()[0]
    endless = f"def {name}(given):\n    while True:\n        pass\n"
    assert outcome(env, spec, endless) == (False, ["timeout", *["too much work"] * 3])
    monkeypatch.setattr(grading, "FAR", 10**12)
    assert outcome(CodeEfficiencyEnv(grading_seconds=3), spec, endless) == (False, ["timeout"] * 4)


@pytest.mark.parametrize("stop", [2**40, 1], ids=["ends in time", "is stopped"])
async def test_what_is_stopped_is_judged_like_what_ends_in_time(
    stop: int, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How soon the stop comes is luck; what the check says is not."""
    task = EFFICIENCY.generate(EFFICIENCY.spec(0, level=1, template="distinct"))
    check, job = task.checks[-1], grading._job
    assert isinstance(check, WorkCheck)
    monkeypatch.setattr(grading, "_job", lambda check: {**job(check), "stop": stop})
    files = {path: Entry("file", 0o644, content) for path, content in task.files.items()}
    (result,) = await grading.graded([check], task, Workspace(files), backend)
    text = f"it took more than 2 times the {check.most[0]} statements that are allowed"
    assert (result.trouble, result.detail) == (Trouble.WORK, text)


def test_a_wrong_answer_at_a_large_size_is_seen(backend: Backend) -> None:
    env, spec = CodeEfficiencyEnv(), EFFICIENCY.spec(0, level=1, template="distinct")
    task = EFFICIENCY.generate(spec)
    name = task.checks[0].name.split()[0]
    source = task.files["solution.py"].decode().replace(f"def {name}(", "def slow(")
    lazy = f"{source}\n\ndef {name}(given):\n    return slow(given) if len(given) < 50 else []\n"
    assert outcome(env, spec, lazy) == (False, ["wrong value"] * 3)


def judged_right(template: str, level: int) -> None:
    """Only the solution wins, neither the file as it was nor an empty one."""
    env = CodeEfficiencyEnv()
    split = Split.TRAIN if template in EFFICIENCY.templates(Split.TRAIN) else Split.TEST_TEMPLATE
    spec = EFFICIENCY.spec(7, level=level, template=template, split=split)
    solution = EFFICIENCY.generate(spec).solution.files["solution.py"].decode()
    assert outcome(env, spec, solution)[0], spec
    assert not outcome(env, spec, None)[0], spec
    assert not outcome(env, spec, "")[0], spec


@pytest.mark.slow
def test_some_templates_and_levels_in_sandboxes(backend: Backend) -> None:
    for template, level in sampled([(name, level) for name in TEMPLATES for level in LEVELS], 2, key="efficiency"):
        judged_right(template, level)


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_and_level_in_sandboxes(template: str, backend: Backend) -> None:
    for level in LEVELS:
        judged_right(template, level)


def test_only_submitting_earns_nothing(backend: Backend) -> None:
    env = CodeEfficiencyEnv()
    env.reset(seed=3)
    _, reward, over, _, _ = env.step(SUBMIT)
    assert (reward, over) == (0.0, True)


HIDDEN = {
    "a class that lies about its length": "class Lying(list):\n    def __len__(self):\n        return 0\n\n\n"
    "def touch(numbers):\n    return Lying(numbers).count(None)\n",
    "a container of the standard library": "from collections import UserList\n\n\n"
    "def touch(numbers):\n    return UserList(numbers).count(None)\n",
    "a refusal that is caught": "def touch(numbers):\n    try:\n        return '%.0s' % (numbers,)\n"
    "    except Exception:\n        return 0\n",
    "a pattern": "def touch(numbers):\n    match numbers:\n        case [*rest]:\n            return None\n",
}


@pytest.mark.parametrize("touch", HIDDEN.values(), ids=HIDDEN)
def test_work_that_cannot_be_counted_is_refused_with_a_reason(touch: str, backend: Backend) -> None:
    env, spec = CodeEfficiencyEnv(), EFFICIENCY.spec(0, level=1, template="distinct")
    task = EFFICIENCY.generate(spec)
    name = task.checks[0].name.split()[0]
    fast = task.solution.files["solution.py"].decode().replace(f"def {name}(", "def fast(")
    source = (
        f"{touch}\n\n{fast}\n\ndef {name}(given):\n    for _ in given:\n        touch(given)\n    return fast(given)\n"
    )
    won, troubles = outcome(env, spec, source)
    assert not won
    assert set(troubles) == {"forbidden language"}


def test_a_visible_test_says_why_work_was_refused(backend: Backend) -> None:
    env, spec = CodeEfficiencyEnv(), EFFICIENCY.spec(0, level=1, template="distinct")
    fast = EFFICIENCY.generate(spec).solution.files["solution.py"].decode()
    env.reset(options={"task": spec})
    env.step(ToolCall("write", {"path": "solution.py", "content": f"class L(list):\n    pass\n\n\n{fast}"}))
    observation, *_ = env.step(ToolCall("test", {}))
    assert "hold one as an attribute" in str(observation)


@pytest.mark.slow
def test_slow_programs_score_nothing_in_a_sandbox(backend: Backend) -> None:
    spec = EFFICIENCY.spec(0, level=1, template="distinct")
    task = EFFICIENCY.generate(spec)
    name = task.checks[0].name.split()[0]
    programs = [program for program in slow_programs() if program.name.startswith("distinct:")]
    for program in sampled(programs, 4, key="slow in a sandbox"):
        source = program.source.replace(f"def {program.function.name}(", f"def {name}(")
        won, troubles = outcome(CodeEfficiencyEnv(), spec, source)
        assert not won, program.name
        # On a busy machine, the seconds of a check may run out before its work does.
        assert troubles, program.name
        assert set(troubles) <= {"too much work", "forbidden language", "timeout", "recursion"}, program.name
