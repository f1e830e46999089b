"""Faulty environments: each fault is caught, named by the law that it breaks. The healthy twins pass every law."""

from __future__ import annotations

import re
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.certify.certify import LAWS, certify
from turnwise.envs.certify.report import Certificate, Verdict
from turnwise.errors import UsageError
from turnwise.verdicts import Status

from ...shifts import core_sample
from .faults_text import Exempt, OpenFiles, Password
from .faults_tools import FAULTS, Shelf
from .test_mistakes import MISTAKES


def examined(cls: type[tw.TurnEnv], law: str) -> Certificate:
    """The law that is meant, alone: a cause that comes before it would keep it from being tried."""
    return certify(cls, quick=True, laws=[law])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "law", "words"),
    core_sample(FAULTS, 20, key="broken laws", ids=[f"{cls.__name__}-{law}" for cls, law, _ in FAULTS]),
)
def test_a_planted_fault_is_caught_and_named(cls: type[tw.TurnEnv], law: str, words: str) -> None:
    try:
        certificate = examined(cls, law)
    finally:
        OpenFiles.tidy()
    assert not certificate.passed
    assert law in certificate.broken, f"{cls.__name__} must break {law}; it broke {certificate.broken}"
    verdict = next(verdict for verdict in certificate.verdicts if verdict.law == law)
    assert re.search(words, verdict.reason), f"the verdict must say what is wrong ({words}); it says: {verdict.reason}"


def test_every_law_has_a_planted_fault() -> None:
    planted = {law for _, law, _ in FAULTS} | {mistake.law for mistake in MISTAKES}
    assert {law.name for law in LAWS} - planted == {"splits_overlap", "blind_play"}, "only these report, and never fail"
    assert len({cls for cls, _, _ in FAULTS}) == len(FAULTS) >= 18


@pytest.mark.slow
@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.shift)], ids=["quick", "thorough"])
@pytest.mark.parametrize("cls", [Password, Shelf])
def test_the_healthy_twins_pass_every_law(cls: type[tw.TurnEnv], quick: bool) -> None:
    certificate = certify(cls, quick=quick)
    assert certificate.passed, str(certificate)
    skipped = {verdict.law for verdict in certificate.verdicts if verdict.status is Status.SKIP}
    expected = (
        {"answer_not_leaked"}
        if cls is Shelf
        else {law.name for law in LAWS if "tool" in law.name or "calls" in law.name}
    )
    assert skipped == expected, "nothing else may go untried"


def test_after_a_broken_gate_the_other_laws_are_skipped_with_the_reason() -> None:
    hanging = next(cls for cls, law, _ in FAULTS if law == "episodes_play")
    certificate = certify(hanging, quick=True)
    assert certificate.broken == ("episodes_play",)
    rest = [
        verdict for verdict in certificate.verdicts if verdict.law not in ("is_complete", "begins", "episodes_play")
    ]
    assert all(verdict.status is Status.SKIP and "episodes_play is broken" in verdict.reason for verdict in rest)


def test_an_exemption_is_reported_with_its_reason() -> None:
    verdict = certify(Exempt, quick=True, laws=["answer_not_leaked"]).verdicts[0]
    assert verdict.status is Status.SKIP
    assert verdict.reason == "exempt: it is a copying task"


def test_what_blind_play_scores_is_reported_and_breaks_nothing() -> None:
    class Fixed(Password):
        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
            first = super().start(task, rng)
            self.word = "swordfish"
            return first

    (verdict,) = certify(Fixed, quick=True, laws=["blind_play"]).verdicts
    assert verdict.status is Status.PASS
    assert "the solution of one task solves 5 of 5 tasks" in verdict.reason
    assert "random play" not in verdict.reason
    assert not certify(Password, quick=True, laws=["blind_play"]).verdicts[0].reason, "a task that has to be read"


def test_a_verdict_says_how_to_see_the_fault_again() -> None:
    faulty = next(cls for cls, law, _ in FAULTS if law == "seeds_matter")
    report = str(certify(faulty, quick=True, laws=["seeds_matter"]))
    assert "NOT certified" in report
    assert "the law: different seeds give different episodes" in report
    assert "reproduce: reset(seed=0)" in report


def test_another_seed_tries_other_tasks_and_reproduces_itself() -> None:
    faulty = next(cls for cls, law, _ in FAULTS if cls.__name__ == "HopelessOracle")
    verdicts = [certify(faulty, quick=True, seed=seed, laws=["oracle_solves"]).verdicts[0] for seed in (0, 40, 40)]
    assert '"seed": 0' in verdicts[0].reproduce
    assert '"seed": 40' in verdicts[1].reproduce
    assert verdicts[1].reproduce == verdicts[2].reproduce


def test_each_verdict_is_announced_as_it_falls() -> None:
    heard: list[Verdict] = []
    certificate = certify(Shelf, quick=True, laws=["begins", "oracle_solves"], on_verdict=heard.append)
    assert tuple(heard) == certificate.verdicts
    assert certificate.to_json()["passed"] is True


def test_an_unknown_law_is_refused_with_the_names_of_those_that_exist() -> None:
    with pytest.raises(UsageError, match=r"no law 'gravity'.*oracle_solves"):
        certify(Shelf, laws=["gravity"])


def test_what_cannot_even_be_made_breaks_every_law() -> None:
    def broken() -> tw.TurnEnv:
        raise RuntimeError("no world available")

    assert "cannot be created: RuntimeError: no world" in certify(broken, laws=["begins"]).verdicts[0].reason


def test_an_environment_of_a_function_is_not_sent_to_another_process() -> None:
    class Local(Password):
        pass

    verdict = certify(Local, quick=True, laws=["two_processes_agree"]).verdicts[0]
    assert verdict.status is Status.SKIP
    assert "defined inside a function" in verdict.reason


@pytest.mark.parametrize(
    ("secret", "shown", "leaks"),
    [
        ("pear", "The results appear here.", False),
        ("pear", "It says: 'Pear'.", True),
        ("42", "You have 420 words.", False),
        ("42", "The code_42.", True),
        ("swordfish", "XSWORDFISHX", True),
    ],
)
def test_a_short_secret_leaks_only_as_a_word(secret: str, shown: str, leaks: bool) -> None:
    class Shows(Password):
        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
            super().start(task, rng)
            return shown

        def secrets(self) -> tuple[str, ...]:
            return (secret,)

    verdict = certify(Shows, quick=True, laws=["answer_not_leaked"]).verdicts[0]
    assert (verdict.status is Status.FAIL) == leaks, verdict
