"""Certification through a server: planted faults are found there, too, and every law that is not tried says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents.named import agent_from
from turnwise.cli import main
from turnwise.envs.certify.certify import LAWS, certify
from turnwise.envs.certify.over_the_wire import BY_PROTOCOL, TURNWISE
from turnwise.envs.certify.report import UNASKED
from turnwise.errors import UsageError
from turnwise.evals.evaluation import run_evaluation
from turnwise.evals.settings import EvalConfig
from turnwise.verdicts import Status

from ...service.environment_servers import OPERATOR, TOKEN, serving
from ...shifts import core_sample
from .faults_text import Password
from .faults_tools import FAULTS, Shelf

UNSEEN = {
    "StepAfterEnd": "a server refuses the step itself",
    "LivingInfo": "JSON is a copy",
    "OracleBelowMaximum": "the largest return stays on the server",
    "TruncatedAsTerminated": "the limit does not move",
    "OwnLimitTruncates": "the limit does not move",
    "WearsOut": "the author's own attacks stay on the server",
}
"""Planted faults of tried laws, which a client cannot see."""
ELSEWHERE = {"SharedList": "same_seed_same_episode", "SharedDefault": "same_seed_same_episode"}
"""Faults that another law names, since a client does not see what instances share."""
ASKED = [(cls, ELSEWHERE.get(cls.__name__, law)) for cls, law, _ in FAULTS if law not in TURNWISE]
SET_ORDER = next(cls for cls, _ in ASKED if cls.__name__ == "SetOrder")
"""It shows only where a server has several processes."""
IN_THREADS = [each for each in ASKED if each[0] is not SET_ORDER]


def id_of(cls: type[tw.TurnEnv]) -> str:
    id = f"wire/{cls.__name__}-v0"
    tw.register(id, cls)
    return id


def address(server: Any, cls: type[tw.TurnEnv]) -> str:
    return f"turnwise://{server.address.removeprefix('ws://')}/{id_of(cls)}"


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with serving([id_of(cls) for cls, _ in IN_THREADS] + [id_of(Password), id_of(Shelf)], capacity=8) as server:
        yield server


@pytest.fixture(autouse=True)
def operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_TOKEN", OPERATOR)


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "law"), IN_THREADS, ids=[f"{cls.__name__}-{law}" for cls, law in IN_THREADS])
def test_a_planted_fault_is_found_through_the_wire(server: Any, cls: type[tw.TurnEnv], law: str) -> None:
    (verdict,) = certify(address(server, cls), quick=True, laws=[law]).verdicts
    if cls.__name__ in UNSEEN:
        assert verdict.status is Status.PASS, "a fault that is found now must leave UNSEEN"
    else:
        assert verdict.status is Status.FAIL, f"{cls.__name__} must break {law}: {verdict.reason}"
        assert "envs/remote" not in verdict.reason, "no line of the client's is the author's"


@pytest.mark.slow
def test_an_order_of_sets_is_found_since_another_process_of_the_server_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))  # where the server's processes find this module
    with serving([id_of(SET_ORDER)], isolation="process", capacity=2) as server:
        certificate = certify(address(server, SET_ORDER), quick=True, laws=["two_processes_agree"])
    assert certificate.broken == ("two_processes_agree",), str(certificate)


@pytest.mark.slow
@pytest.mark.parametrize("cls", core_sample([Password, Shelf], 1, key="healthy, over the wire", ids=["text", "tools"]))
def test_a_healthy_environment_is_certified_and_each_unasked_law_is_named(server: Any, cls: type[tw.TurnEnv]) -> None:
    certificate = certify(address(server, cls), quick=True)
    assert certificate.passed, str(certificate)
    skipped = {verdict.law: verdict.reason for verdict in certificate.verdicts if verdict.status is Status.SKIP}
    no_tools = {law.name for law in LAWS if "tool" in law.name or "calls" in law.name}
    assert set(skipped) == set(TURNWISE) | (no_tools if cls is Password else set())
    assert all(skipped[law].startswith(UNASKED) for law in TURNWISE)
    assert all(law in str(certificate) for law in TURNWISE), "each by its name, however many share a reason"
    partly = {verdict.law for verdict in certificate.verdicts if verdict.status is Status.PASS and verdict.reason}
    assert partly >= {"limits_end", "oracle_solves", "no_way_out"}, "a law of which a part was asked must say so"


def test_every_unasked_law_exists() -> None:
    for laws in BY_PROTOCOL.values():
        assert set(laws) < {law.name for law in LAWS}


def test_a_client_without_the_operators_key_does_not_ask_the_oracle(
    server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert tw.make(address(server, Password)).has_oracle
    monkeypatch.setenv("TURNWISE_TOKEN", TOKEN)
    laws = ["oracle_solves", "oracle_changes_nothing", "replay_equals_original"]
    verdicts = {verdict.law: verdict for verdict in certify(address(server, Password), quick=True, laws=laws).verdicts}
    assert verdicts.pop("replay_equals_original").status is Status.PASS, "laws that need no oracle are asked"
    assert all(verdict.status is Status.SKIP for verdict in verdicts.values())
    assert all("operator's key" in verdict.reason for verdict in verdicts.values())
    assert not tw.make(address(server, Password)).has_oracle
    config = EvalConfig(env=address(server, Password), policy="oracle", n=1)
    with pytest.raises(UsageError, match=r"Password-v0: the oracle needs the operator's key"):
        run_evaluation(config, agent_from("oracle"), store=tmp_path / "store")


def test_limits_and_exemptions_of_the_author_hold_over_the_wire(server: Any) -> None:
    cls = next(cls for cls, law in ASKED if law == "observations_bounded")
    assert tw.make(address(server, cls)).contract.max_observation_chars == cls.contract.max_observation_chars

    class Excused(cls):  # type: ignore[misc, valid-type]
        contract = tw.Contract(exempt={"observations_bounded": "it is a log"})

    with serving([id_of(Excused)]) as another:
        (verdict,) = certify(address(another, Excused), quick=True, laws=["observations_bounded"]).verdicts
    assert (verdict.status, verdict.reason) == (Status.SKIP, "exempt: it is a log")


def test_a_server_with_few_places_is_asked_what_fits() -> None:
    short = {"fork_equals_original", "fork_is_independent", "seeds_do_not_interfere", "group_identical_reset"}
    with serving([id_of(Password)], capacity=1) as server:
        certificate = certify(address(server, Password), quick=True, laws=[*short, "begins", "turns_counted"])
    assert certificate.passed, str(certificate)
    untried = {verdict.law: verdict.reason for verdict in certificate.verdicts if verdict.status is Status.SKIP}
    assert set(untried) == short
    assert all("the server has 1 places" in reason for reason in untried.values())


def test_the_command_certifies_a_served_environment(server: Any, capfd: pytest.CaptureFixture[str]) -> None:
    laws = ["--law", "begins", "--law", "no_clock"]
    with pytest.raises(SystemExit) as ended:
        main(["certify", address(server, Password), "--quick", *laws])
    output = capfd.readouterr().out
    assert not ended.value.code, output
    assert "certified (1 law holds, 0 broken, 1 not tried" in output
    assert "no_clock: cannot be tried over the wire" in output
