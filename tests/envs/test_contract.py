"""``contract``: what certification checks, in one place; and the class attributes of release 0.1, which still work."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any, ClassVar

import pytest

import turnwise as tw
from turnwise.envs.deprecated import LIMITS
from turnwise.envs.wrappers.base import TurnWrapper
from turnwise.envs.wrappers.history import History
from turnwise.errors import ContractError


class Echo(tw.TurnEnv):
    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return "Say it."

    def act(self, action: tw.Action) -> str:
        return action.text


def seen(define: Callable[[], Any]) -> tuple[Any, list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        return define(), found


def test_the_defaults_hold_where_nothing_is_declared() -> None:
    assert Echo.contract == Echo().contract == tw.Contract(20_000, 10.0, 0.0, 0.1, {})


def test_a_contract_never_changes() -> None:
    with pytest.raises(FrozenInstanceError):
        Echo.contract.max_seconds = 3.0  # type: ignore[misc]


def test_every_field_is_documented() -> None:
    source = inspect.getsource(tw.Contract)
    for field in fields(tw.Contract):
        after = source.split(f"    {field.name}: ", 1)[1].split("\n", 2)[1]
        assert after.strip().startswith('"""'), f"Contract.{field.name} has no docstring"


def test_an_instance_may_have_a_contract_of_its_own() -> None:
    env = Echo()
    env.contract = replace(env.contract, max_seconds=1.0)
    assert (env.contract.max_seconds, Echo.contract.max_seconds) == (1.0, 10.0)


def test_what_is_not_a_contract_is_refused_with_its_line() -> None:
    with pytest.raises(ContractError, match=r"Lawyer.contract is the tw.Contract .*got a dict; .*contract.py:\d+ in"):

        class Lawyer(Echo):
            contract = {"max_seconds": 1.0}  # type: ignore[assignment] # noqa: RUF012

    class Agent(Echo):
        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
            self.contract = "I sell you a house."  # type: ignore[assignment]
            return "Sign it."

    with pytest.raises(ContractError, match=r"Agent.contract is a tw.Contract of the environment"):
        Agent().reset(seed=0)


def test_a_wrapper_has_the_contract_of_its_environment_or_a_wider_one() -> None:
    class Short(Echo):
        contract = tw.Contract(max_observation_chars=100, random_floor=0.3)

    assert TurnWrapper(Short()).contract == Short.contract
    wide = History(Short(), turns=2).contract
    assert wide.max_observation_chars > 300
    assert wide == replace(Short.contract, max_observation_chars=wide.max_observation_chars)


# -- release 0.1 -------------------------------------------------------------------------------------------------


def test_old_limits_in_the_class_body_work_and_name_their_line() -> None:
    def define() -> type[tw.TurnEnv]:
        class Old(Echo):
            max_turns = 3
            random_floor = 0.5
            exempt: ClassVar[dict[str, str]] = {"no_clock": "it is a clock"}

        return Old

    cls, found = seen(define)
    assert cls.contract == tw.Contract(random_floor=0.5, exempt={"no_clock": "it is a clock"})
    (one,) = found
    assert (one.category, one.filename) == (DeprecationWarning, __file__)
    assert "random_floor = 0.5" in inspect.getsource(inspect.getmodule(cls)).splitlines()[one.lineno - 1]  # type: ignore[arg-type]
    cure = "Write contract = tw.Contract(random_floor=0.5, exempt={'no_clock': 'it is a clock'})"
    assert f"Old sets random_floor, exempt in its class body, which is deprecated. {cure} (at " in str(one.message)
    assert Echo.contract == tw.Contract(), "the base keeps its own"


def test_an_old_limit_over_a_contract_changes_only_that() -> None:
    class Base(Echo):
        contract = tw.Contract(max_seconds=99.0)

    def below() -> type[tw.TurnEnv]:
        class Below(Base):
            null_floor = 0.2

        return Below

    def beside() -> type[tw.TurnEnv]:
        class Beside(Base):
            contract = tw.Contract(max_seconds=5.0)
            null_floor = 0.2

        return Beside

    cls, (one,) = seen(below)
    assert cls.contract == tw.Contract(max_seconds=99.0, null_floor=0.2)
    assert "Write contract = dataclasses.replace(Base.contract, null_floor=0.2)" in str(one.message)
    cls, (one,) = seen(beside)
    assert cls.contract == tw.Contract(max_seconds=5.0, null_floor=0.2)
    assert "Add null_floor=0.2 to its contract" in str(one.message)


def test_a_contract_replaces_the_old_limits_of_a_base() -> None:
    def define() -> Any:
        class Old(Echo):
            max_seconds = 3.0

        class New(Old):
            contract = tw.Contract(random_floor=0.4)

        return Old, New

    (old, new), found = seen(define)
    assert len(found) == 1
    assert (old.contract.max_seconds, new.contract) == (3.0, tw.Contract(random_floor=0.4))


def test_an_old_limit_of_a_mixin_counts() -> None:
    class Patient:
        max_seconds = 300.0

    def define() -> Any:
        class Waits(Patient, Echo):
            pass

        class Below(Waits):
            pass

        class Beyond(Waits):
            contract = tw.Contract(max_seconds=5.0)

        return Waits, Below, Beyond

    classes, found = seen(define)
    assert [cls.contract.max_seconds for cls in classes] == [300.0, 300.0, 5.0]
    assert len(found) == 1, "the mixin is named once"


def test_a_contract_over_a_mixin_holds_in_subclasses_too() -> None:
    class Patient:
        max_seconds = 300.0

    def define() -> Any:
        class Waits(Patient, Echo):
            pass

        class Strict(Waits):
            contract = tw.Contract(max_seconds=5.0)

        class Below(Strict):
            pass

        return Below

    below, found = seen(define)
    assert below.contract.max_seconds == 5.0
    assert len(found) == 1, "only the mixin over no contract"


def test_a_warning_that_is_an_error_names_the_line() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning, match=r"Old sets max_seconds .* \(at .*test_contract.py:\d+ in "):

            class Old(Echo):
                max_seconds = 3.0


def test_an_old_limit_that_is_computed_is_refused_with_the_cure() -> None:
    with pytest.raises(ContractError, match=r"Old.max_seconds is a field of the contract; write .* as a property"):

        class Old(Echo):
            @property
            def max_seconds(self) -> float:
                return 3.0


@pytest.mark.parametrize("name", LIMITS)
def test_old_names_can_be_read_and_set_on_instances(name: str) -> None:
    env: Any = Echo()
    with pytest.warns(DeprecationWarning, match=f"read contract.{name}"):
        assert getattr(env, name) == getattr(tw.Contract(), name)
    with pytest.warns(DeprecationWarning, match=f"read contract.{name}"):
        assert getattr(Echo, name) == getattr(tw.Contract(), name)
    value = {"all": "set"} if name == "exempt" else 7
    with pytest.warns(DeprecationWarning, match=rf"write self.contract = .*{name}=") as found:
        setattr(env, name, value)
    assert found[0].filename == __file__
    assert getattr(env.contract, name) == value
    assert getattr(Echo.contract, name) != value, "other instances keep theirs"


def test_old_limits_of_a_wrapper_work() -> None:
    class Doubles(TurnWrapper):
        @property
        def max_observation_chars(self) -> int:
            return 40_000

    wrapped = Doubles(Echo())
    with pytest.warns(DeprecationWarning, match=r"Doubles defines max_observation_chars, .* \(at .*test_contract.py:"):
        assert wrapped.contract == tw.Contract(max_observation_chars=40_000)
    assert wrapped.max_seconds == 10.0, "the rest is that of the environment"
