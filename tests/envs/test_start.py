"""Test the argument of ``start``: the generated task; in the signature of release 0.1, its specification."""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import turnwise as tw
from turnwise.envs.fork import Forks
from turnwise.envs.messages import Action, Observation
from turnwise.envs.wrappers.multi_attempt import MultiAttempt
from turnwise.errors import ContractError, TaskError

if TYPE_CHECKING:
    from turnwise.tasks.spec import TaskSpec

Spec = tw.TaskSpec
SEED = 5


@dataclass(frozen=True)
class Sum:
    left: int
    right: int


class Sums(tw.TaskFamily[Sum]):
    name = "sums"
    built = 0

    def build(self, spec: tw.TaskSpec, rng: tw.Rng) -> Sum:
        type(self).built += 1
        return Sum(rng.randint(1, 9), rng.randint(1, 9))


class Specs(tw.TaskFamily[tw.TaskSpec]):
    name = "specs"
    levels = (1, 2)

    def build(self, spec: tw.TaskSpec, rng: tw.Rng) -> tw.TaskSpec:
        return spec


TASK = Sums().generate(Sums().spec(SEED))
FIRST = f"{TASK.left} + {TASK.right}"


class Acts(tw.TurnEnv[Sum]):
    """All but ``start``."""

    family = Sums()
    max_turns = 3

    def act(self, action: tw.Action) -> tw.Step:
        return tw.running(f"{self.sum.left + self.sum.right} at {self.turn}")

    sum: Sum


class New(Acts):
    def start(self, task: Sum, rng: tw.Rng) -> str:
        self.sum = task
        return f"{task.left} + {task.right}"


def first(env: Any) -> str:
    observation, info = env.reset(seed=SEED)
    assert isinstance(observation, Observation)
    assert info["task"] == Sums().spec(SEED).to_json(), "what is recorded is the specification, whatever start() takes"
    return observation.text


def warned(make: Callable[[], Any]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert first(make()) == FIRST
    return seen


def old() -> type[tw.TurnEnv[Any]]:
    """Return a new class each time, since a class warns once."""

    class Old(Acts):
        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:  # type: ignore[override]
            self.sum = Sums().generate(task)
            return f"{self.sum.left} + {self.sum.right}"

    return Old


def test_a_quoted_annotation_under_postponed_evaluation_is_read() -> None:
    class Quoted(Acts):
        def start(self, task: "tw.TaskSpec", rng: tw.Rng) -> str:  # type: ignore[override]  # noqa: UP037
            self.sum = Sums().generate(task)
            return f"{self.sum.left} + {self.sum.right}"

    (warning,) = warned(Quoted)
    assert "Quoted.start() takes a TaskSpec" in str(warning.message)


@pytest.mark.parametrize("annotation", ["tw.TaskSpec | None", "typing.Optional[tw.TaskSpec]", tw.TaskSpec | None])
def test_an_optional_specification_is_the_old_signature(annotation: Any) -> None:
    def start(self: Any, task: Any, rng: tw.Rng) -> str:
        self.sum = Sums().generate(task)
        return f"{self.sum.left} + {self.sum.right}"

    start.__annotations__["task"] = annotation
    (warning,) = warned(type("Optional", (Acts,), {"start": start}))
    assert "Optional.start() takes a TaskSpec" in str(warning.message)


# -- the generated task ------------------------------------------------------------------------------------------


def test_start_receives_the_task_and_the_environment_keeps_its_specification() -> None:
    env = New()
    assert first(env) == FIRST
    assert env.sum == TASK
    assert env.task == Sums().spec(SEED)


def test_a_task_that_is_named_is_the_one_that_start_receives() -> None:
    env, spec = New(), Sums().spec(11)
    for given in (spec, spec.to_json()):
        env.reset(options={"task": given})
        assert (env.sum, env.task) == (Sums().generate(spec), spec)


def test_a_task_is_generated_once_per_reset() -> None:
    env, before = New(), Sums.built
    first(env)
    assert Sums.built == before + 1


async def test_an_async_start_receives_the_task() -> None:
    class Async(Acts):
        async def start(self, task: Sum, rng: tw.Rng) -> str:
            self.sum = task
            return f"{task.left} + {task.right}"

    observation, _ = await Async().areset(seed=SEED)
    assert observation.text == FIRST
    assert first(Async()) == FIRST


def test_without_a_family_the_task_is_the_specification() -> None:
    class Plain(tw.TurnEnv):
        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
            return f"{task.family} {task.seed}"

        def act(self, action: tw.Action) -> str:
            return "so"

    assert Plain().reset(seed=SEED)[0].text == "Plain 5"


def test_a_family_may_generate_specifications() -> None:
    class Levelled(tw.TurnEnv[tw.TaskSpec]):
        family = Specs()

        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
            return f"level {task.level}"

        def act(self, action: tw.Action) -> str:
            return "so"

    assert Levelled().reset(options={"level": 2})[0].text == "level 2", "nothing is deprecated here"


def test_a_family_of_the_instance_is_asked() -> None:
    class Other(Sums):
        def build(self, spec: tw.TaskSpec, rng: tw.Rng) -> Sum:
            return Sum(0, 0)

    class Chosen(New):
        def __init__(self) -> None:
            self.chosen = Other()
            super().__init__()

        def tasks(self) -> tw.TaskFamily[Sum]:  # type: ignore[override]
            return self.chosen

    assert first(Chosen()) == "0 + 0"


@pytest.mark.parametrize("forks", [Forks.COPY, Forks.REPLAY])
def test_forks_and_attempts_receive_the_task(forks: Forks) -> None:
    class Forking(New):
        pass

    Forking.forks = forks
    env = Forking()
    first(env)
    env.step("?")
    assert env.fork().step("?")[0].text == env.step("?")[0].text == f"{TASK.left + TASK.right} at 2"
    assert first(MultiAttempt(Forking(), attempts=2)).endswith(FIRST)


def test_a_task_that_cannot_be_generated_leaves_no_episode() -> None:
    class Broken(Sums):
        def build(self, spec: tw.TaskSpec, rng: tw.Rng) -> Sum:
            raise ZeroDivisionError("no task")

    class Bad(New):
        family = Broken()

    env = Bad()
    with pytest.raises(ContractError, match="raised ZeroDivisionError: no task"):
        env.reset(seed=SEED)
    with pytest.raises(ContractError, match="call reset"):
        env.step("?")


# -- annotations that say nothing, or the wrong thing ------------------------------------------------------------


def test_without_an_annotation_start_receives_the_task() -> None:
    class Bare(Acts):
        def start(self, task, rng):  # type: ignore[no-untyped-def]
            self.sum = task
            return f"{task.left} + {task.right}"

    assert first(Bare()) == FIRST


def test_a_wrong_annotation_changes_nothing() -> None:
    class Wrong(Acts):
        def start(self, task: list[str], rng: tw.Rng) -> str:  # type: ignore[override]
            return f"{task.left} + {task.right}"  # type: ignore[attr-defined]

    class Unknown(Acts):
        def start(self, task: NotThere, rng: tw.Rng) -> str:  # type: ignore[name-defined] # noqa: F821
            return f"{task.left} + {task.right}"

    assert (first(Wrong()), first(Unknown())) == (FIRST, FIRST)


def test_generating_a_generated_task_says_what_to_change() -> None:
    class Unannotated(Acts):
        def start(self, task, rng):  # type: ignore[no-untyped-def]
            return Sums().generate(task)

    with pytest.raises(TaskError, match=r"got a Sum. In start\(\), the argument is the generated task already"):
        Unannotated().reset(seed=SEED)


# -- the old signature -------------------------------------------------------------------------------------------


def test_the_old_signature_works_and_names_its_line_once_per_class() -> None:
    cls = old()
    seen = warned(cls)
    assert [one.category for one in seen] == [DeprecationWarning]
    line = inspect.getsourcelines(cls.start)[1]
    assert (seen[0].filename, seen[0].lineno) == (__file__, line)
    text = str(seen[0].message)
    assert "Old.start() takes a TaskSpec, which is deprecated" in text
    assert "Write start(self, task: Sum, rng), use task where you called generate(task)" in text
    assert f"(at {__file__}:{line} in " in text
    assert warned(cls) == [], "once per class"
    assert len(warned(old())) == 1, "and for each class"


def test_a_warning_that_is_an_error_stops_every_reset() -> None:
    env = old()()
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(DeprecationWarning, match=r"Old.start\(\) takes a TaskSpec"):
                env.reset(seed=SEED)
    assert len(warned(lambda: env)) == 1, "an error was not seen as a warning"


async def test_an_old_async_start_works() -> None:
    class Old(Acts):
        async def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:  # type: ignore[override]
            self.sum = Sums().generate(task)
            return f"{self.sum.left} + {self.sum.right}"

    with pytest.warns(DeprecationWarning, match="takes a TaskSpec"):
        observation, _ = await Old().areset(seed=SEED)
    assert observation.text == FIRST


def spec_says(self: Any, task: Any) -> str:
    self.sum = Sums().generate(task)
    return f"{self.sum.left} + {self.sum.right}"


def test_every_way_of_naming_the_specification_is_understood() -> None:
    class Aliased(Acts):
        def start(self, task: Spec, rng: tw.Rng) -> str:  # type: ignore[override]
            return spec_says(self, task)

    class OnlyForCheckers(Acts):
        def start(self, task: TaskSpec, rng: tw.Rng) -> str:  # type: ignore[override]
            return spec_says(self, task)

    class Evaluated(Acts):
        def start(self, task: Any, rng: tw.Rng) -> str:
            return spec_says(self, task)

    Evaluated.start.__annotations__["task"] = tw.TaskSpec
    for cls in (Aliased, OnlyForCheckers, Evaluated):
        assert len(warned(cls)) == 1, cls


# -- inheritance -------------------------------------------------------------------------------------------------


def test_the_nearest_annotation_decides() -> None:
    base = old()

    class Inherits(base):  # type: ignore[valid-type, misc]
        pass

    class Passes(base):  # type: ignore[valid-type, misc]
        def start(self, task, rng):  # type: ignore[no-untyped-def]
            return super().start(task, rng)

    class PassesAnything(base):  # type: ignore[valid-type, misc]
        def start(self, *arguments: Any) -> Any:
            return super().start(*arguments)

    class Moved(base):  # type: ignore[valid-type, misc]
        def start(self, task: Sum, rng: tw.Rng) -> str:
            return f"{task.left} + {task.right}"

    (one,) = warned(Inherits)
    assert "Old.start()" in str(one.message), "the class that has to change is named"
    assert warned(Passes) == warned(PassesAnything) == [], "it was named already"
    assert warned(Moved) == [], "a subclass moves on before its base"


def test_a_subclass_of_a_new_environment_may_say_nothing() -> None:
    class Passes(New):
        def start(self, *arguments: Any) -> str:
            return super().start(*arguments)

    assert warned(Passes) == []


# -- functions that are not plain methods ------------------------------------------------------------------------


def traced(function: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(function)
    def call(*arguments: Any) -> str:
        return function(*arguments)

    return call


def blind(function: Callable[..., str]) -> Callable[..., str]:
    def call(*arguments: Any) -> str:
        return function(*arguments)

    return call


def test_decorated_starts() -> None:
    class Traced(Acts):
        @traced
        def start(self, task: Sum, rng: tw.Rng) -> str:
            return f"{task.left} + {task.right}"

    class Blind(Acts):
        @blind
        def start(self, task: Sum, rng: tw.Rng) -> str:
            return f"{task.left} + {task.right}"

    class OldTraced(Acts):
        @traced
        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
            return spec_says(self, task)

    assert warned(Traced) == warned(Blind) == []
    assert [Path(one.filename).name for one in warned(OldTraced)] == ["test_start.py"]


def greeted(self: Any, task: Sum, rng: tw.Rng, *, plus: str) -> str:
    return f"{task.left} {plus} {task.right}"


def greeted_by_spec(self: Any, task: tw.TaskSpec, rng: tw.Rng, *, plus: str) -> str:
    return spec_says(self, task)


def test_partial_starts() -> None:
    class Partial(Acts):
        start = functools.partialmethod(greeted, plus="+")

    class OldPartial(Acts):
        start = functools.partialmethod(greeted_by_spec, plus="+")

    class Static(Acts):
        @staticmethod
        def start(task: Sum, rng: tw.Rng) -> str:
            return f"{task.left} + {task.right}"

    assert warned(Partial) == warned(Static) == []
    assert len(warned(OldPartial)) == 1


# -- the number of arguments -------------------------------------------------------------------------------------


class NoRng(Acts):
    def start(self, task: Sum) -> str:  # type: ignore[override]
        return ""


class OneMore(Acts):
    def start(self, task: Sum, rng: tw.Rng, more: int) -> str:  # type: ignore[override]
        return ""


class OnlyNamed(Acts):
    def start(self, *, task: Sum, rng: tw.Rng) -> str:  # type: ignore[override]
        return ""


@pytest.mark.parametrize("cls", [NoRng, OneMore, OnlyNamed])
def test_a_start_that_takes_other_arguments_is_refused_with_its_line(cls: Callable[[], tw.TurnEnv]) -> None:
    name, line = cls.__name__, inspect.getsourcelines(cls.start)[1]  # type: ignore[attr-defined]
    cure = f" cannot be called with 2 positional arguments; write start(self, task, rng) (at {__file__}:{line} "
    with pytest.raises(ContractError, match=rf"^{name}\.start\(.*{re.escape(cure)}"):
        cls()


def test_an_act_that_takes_other_arguments_is_refused() -> None:
    class Nothing(New):
        def act(self) -> str:  # type: ignore[override]
            return ""

    with pytest.raises(ContractError, match=r"Nothing.act\(\).* with 1 positional argument; write act\("):
        Nothing()


def test_more_arguments_with_defaults_are_the_authors_own() -> None:
    class More(New):
        def start(self, task: Sum, rng: tw.Rng, greeting: str = "") -> str:
            return greeting + super().start(task, rng)

        def act(self, action: Action, *rest: Sequence[str]) -> tw.Step:
            return super().act(action)

    assert first(More()) == FIRST
