"""The file of certificates: what a resumed certification tries again, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.commands.certificates import CertificateFile
from turnwise.envs.certify.report import Certificate, Verdict
from turnwise.errors import UsageError
from turnwise.verdicts import Status

Run = Callable[..., Any]
LAWS = ("held", "broken", "meaningless", "late")
VERDICTS = (
    Verdict("held", "a", Status.PASS, "a remark", seconds=1.5),
    Verdict("broken", "b", Status.FAIL, "it broke", "reset(seed=0)", traceback="line 3"),
    Verdict("meaningless", "c", Status.SKIP, "there are no tools"),
    Verdict("late", "d", Status.SKIP, "no time", unsettled=True),
)


def opened(
    path: Path, *, resume: bool = True, quick: bool = True, seed: int = 0, env_kwargs: dict[str, Any] | None = None
) -> CertificateFile:
    return CertificateFile(path, LAWS, quick=quick, seed=seed, resume=resume, env_kwargs=env_kwargs)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "new" / "certificates.jsonl"
    opened(path, resume=False).add("a/E-v0", Certificate(VERDICTS, "a/E-v0"))
    return path


def test_what_held_or_does_not_apply_is_settled(path: Path) -> None:
    file = opened(path)
    assert file.unsettled("a/E-v0", LAWS) == ("broken", "late")
    assert file.unsettled("a/E-v0", ["held", "late"]) == ("late",)
    assert file.unsettled("b/E-v0", LAWS) == LAWS, "an unknown environment has settled nothing"
    assert file.certificate("a/E-v0") == Certificate(VERDICTS, "a/E-v0"), "every verdict comes back as it was"


def test_later_verdicts_replace_earlier_ones_in_the_order_of_the_laws(path: Path) -> None:
    fixed = Verdict("broken", "b", Status.PASS)
    merged = opened(path).add("a/E-v0", Certificate((fixed,), "a/E-v0"))
    assert merged.verdicts == (VERDICTS[0], fixed, *VERDICTS[2:])
    assert merged.passed
    assert merged.unsettled == ("late",)
    assert opened(path).certificate("a/E-v0") == merged


def test_an_environment_that_ended_its_process_is_tried_again(path: Path) -> None:
    died = Verdict("survives", "an environment does not end its process", Status.FAIL, "exit code 3")
    file = opened(path)
    assert not file.add("b/E-v0", Certificate((died,), "b/E-v0")).passed
    assert opened(path).unsettled("b/E-v0", LAWS) == LAWS
    assert opened(path).add("b/E-v0", Certificate(VERDICTS[:1], "b/E-v0")).verdicts == VERDICTS[:1]


def test_a_line_that_was_not_finished_is_tried_again(path: Path) -> None:
    whole = path.read_text()
    path.write_text(whole + whole.replace("a/E-v0", "b/E-v0")[:-40])
    assert opened(path).unsettled("b/E-v0", LAWS) == LAWS
    assert path.read_text() == whole, "the next line must not continue the broken one"


def test_another_file_or_other_options_are_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--resume"):
        opened(path, resume=False)
    for options in ({"quick": False}, {"seed": 1}, {"env_kwargs": {"max_turns": 3}}):
        with pytest.raises(UsageError, match="was made with"):
            opened(path, **options)
    (tmp_path / "other.jsonl").write_text('{"name": "a"}\n')
    with pytest.raises(UsageError, match="line 1: not a certificate"):
        opened(tmp_path / "other.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["my only copy", '[\n{"a": 1}\n]', '{"env_id": 1}'])
def test_nothing_is_cut_from_a_file_of_something_else(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with pytest.raises(UsageError):
        opened(path)
    assert path.read_text() == text


def test_certify_resumes(run: Run) -> None:
    first = ["certify", "guess.py", "--quick", "--out", "c.jsonl", "--law", "begins"]
    assert run(*first).code == 0
    run(*first).refused("c.jsonl exists", "--resume")
    run("certify", "guess.py", "--resume").refused("--out")
    ran = run(*first, "--law", "no_global_rng", "--resume")
    assert ran.code == 0, ran.err + ran.out
    assert "guess.py 1/1 pass no_global_rng" in ran.err, "only the new law is tried"
    assert "2 laws hold" in ran.out, "the certificate has both"
    ran = run(*first, "--law", "no_global_rng", "--resume")
    assert "pass" not in ran.err, "nothing is left to try"
    assert "2 laws hold" in ran.out


def test_progress_says_which_passed_laws_have_a_note(run: Run) -> None:
    law = ("--law", "splits_overlap", "--law", "begins")
    ran = run("certify", "guess.py", "--quick", *law)
    assert ran.code == 0, ran.err
    assert "NOTE  splits_overlap" in ran.out
    assert "pass, with a note, splits_overlap" in ran.err
    assert " pass begins" in ran.err
