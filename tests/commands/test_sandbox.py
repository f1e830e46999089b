"""``turnwise sandbox`` over the backend that works everywhere."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from turnwise.config import load_config
from turnwise.envs.code.backends import spec_for
from turnwise.errors import SandboxUnavailableError
from turnwise.evals.settings import EvalConfig
from turnwise.sandboxes.backend import Capabilities
from turnwise.sandboxes.named import BY_ITSELF
from turnwise.sandboxes.spec import SandboxSpec
from turnwise.sandboxes.unconfined import UnconfinedBackend

Run = Callable[..., Any]


def test_list_says_what_holds_and_that_nothing_is_confined(run: Run) -> None:
    ran = run("sandbox", "list", "unconfined")
    assert ran.code == 0, ran.err
    assert "confines nothing: for trusted code only" in ran.out
    assert "absent" in ran.out
    (listed,) = json.loads(run("sandbox", "list", "unconfined", "--json").out)
    assert listed["limits"]["memory"]["holds"] == "absent"
    assert listed["confines"] is False


def test_list_shows_markup_as_it_stands_and_no_table_of_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def missing(self: UnconfinedBackend) -> Any:
        return Capabilities("unconfined", False, True, "the SDK is missing: pip install 'turnwise[docker]'")

    monkeypatch.setattr(UnconfinedBackend, "probe", missing)
    assert run("sandbox", "list", "unconfined").out.splitlines() == [
        "unconfined: does not work here",
        "  the SDK is missing: pip install 'turnwise[docker]'",
    ]


def test_all_limits_that_are_missing_are_named_at_once_with_the_setting() -> None:
    found = asyncio.run(UnconfinedBackend().probe())
    with pytest.raises(SandboxUnavailableError, match="cannot limit memory, pids, cpus, disk, inodes") as caught:
        found.demand(SandboxSpec())
    setting = re.search(r"'(env_kwargs\.relaxed=[^']*)'", str(caught.value))
    assert setting is not None, caught.value
    config = load_config(EvalConfig, None, ["env=turnwise/CodeRepair-v3", setting[1]])
    found.demand(spec_for(None, config.env_kwargs["relaxed"]))


def test_check_shows_verdicts_and_passes(run: Run) -> None:
    ran = run("sandbox", "check", "unconfined", "--case", "102", "--case", "fork bomb")
    assert ran.code == 0, ran.err
    assert "a pipe, a variable, both streams" in ran.out
    assert "not promised" in ran.out
    assert "102 text is for the shell: pass" in ran.err, "progress is told as it comes"


def test_a_failed_case_is_exit_code_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(self: UnconfinedBackend) -> Any:
        return dataclasses.replace(await honest(self), limits={})

    honest = UnconfinedBackend.probe
    monkeypatch.setattr(UnconfinedBackend, "probe", silent)
    ran = run("sandbox", "check", "unconfined", "--case", "46", "--json")
    assert ran.code == 1
    (report,) = json.loads(ran.out)
    assert report["passed"] is False
    assert "does not say how well these hold: memory" in report["verdicts"][0]["evidence"]


def test_cases_are_listed(run: Run) -> None:
    lines = run("sandbox", "check", "--cases").out.splitlines()
    assert lines[0].startswith("  1  fork bomb: ")
    assert len(lines) > 80


def test_reap_counts(run: Run) -> None:
    assert "unconfined: removed" in run("sandbox", "reap", "unconfined").out
    assert set(json.loads(run("sandbox", "reap", "unconfined", "--json").out)["unconfined"]) >= {"sandboxes"}


def test_wrong_words_are_refused(run: Run) -> None:
    run("sandbox", "destroy").refused("choose from check, list, reap")
    run("sandbox", "check", "bublewrap").refused("did you mean bubblewrap?")
    run("sandbox", "check", "unconfined", "--case", "fork bob").refused("did you mean 'fork bomb'?")


def test_where_nothing_works_each_backend_says_what_it_lacks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere(UnconfinedBackend):
        async def probe(self) -> Any:
            return Capabilities("nowhere", False, True, "install it with apt-get")

    monkeypatch.setattr("turnwise.commands.sandbox.backend_named", lambda name: Nowhere())
    run("sandbox", "check").refused("bubblewrap: install it with apt-get", "docker: install it with apt-get")
    assert BY_ITSELF == ("bubblewrap", "docker", "podman"), "what confines nothing is never tried by itself"
