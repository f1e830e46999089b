"""Mistakes that authors make: each is one finding, which names the author's line and the cure."""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.certify import harness
from turnwise.envs.certify.certify import LAWS, certify
from turnwise.envs.certify.report import Certificate
from turnwise.errors import SandboxUnavailableError
from turnwise.verdicts import Status

TEXT = """\
import os, random, socket, time
import numpy as np
import turnwise as tw

class E(tw.TurnEnv):
    max_turns = 5
    def start(self, task, rng):
        self.word = rng.pick(["ab", "cd", "ef", "gh", "ij", "kl"])
        return "Say the word."
    def act(self, action):
        if action.word() == self.word:
            return tw.success("Yes.")
        return tw.running("No.")
    def oracle(self):
        return self.word
"""
TOOL = """\
import numpy as np
import turnwise as tw

class E(tw.ToolEnv):
    max_turns = 5
    def start(self, task, rng):
        self.goal, self.at = rng.randint(3, 99), 0
        return f"Go to {self.goal}."
    @tw.tool(ends=True)
    def go(self, n: int):
        '''Go there.

        Args:
            n: where to.
        '''
        self.at = n
        return "There."
    def judge(self):
        return tw.Score(success=self.at == self.goal)
    def oracle(self):
        return tw.ToolCall("go", {"n": self.goal})
"""


@dataclass(frozen=True)
class Mistake:
    """A mistake in one of the two environments above.

    Args:
        name: mistake of the author.
        law: the only finding that there must be.
        words: a pattern that it must match: the cause and the cure.
        line: a piece of the line that it must name.
        changes: replacements in the source.
        source: the environment without the mistake.
    """

    name: str
    law: str
    words: str
    line: str
    changes: dict[str, str]
    source: str = TEXT


ACT = TEXT[TEXT.index("    def act") : TEXT.index("    def oracle")]
START = TEXT[TEXT.index("    def start") : TEXT.index("    def act")]
NO, YES, PICK = 'tw.running("No.")', 'tw.success("Yes.")', 'rng.pick(["ab", "cd", "ef", "gh", "ij", "kl"])'
RETURNED = r"E.act\(\) returned {}; return text, tw.running"
RNG = r"{}.*; draw from the rng that start\(\) receives"
SHARED = r"shared by all instances, and changed: {}; set it in start\(\)"
JUDGE = "        return tw.Score(success=self.at == self.goal)\n"


def text(name: str, law: str, words: str, line: str, changes: dict[str, str]) -> Mistake:
    return Mistake(name, law, words, line, changes)


def tool(name: str, law: str, words: str, line: str, changes: dict[str, str]) -> Mistake:
    return Mistake(name, law, words, line, changes, TOOL)


MISTAKES = [
    # What is missing.
    text("no act", "is_complete", r"E has no act\(\); write act\(self, action\)", "class E", {ACT: ""}),
    text("no start", "is_complete", r"E has no start\(\); write start\(self, task, rng\)", "class E", {START: ""}),
    text("no oracle", "oracle_solves", r"write oracle\(\)", "class E", {"def oracle": "def best"}),
    tool("no tools", "is_complete", "E has no tools: mark its methods", "class E", {"    @tw.tool(ends=True)\n": ""}),
    tool("no end", "is_complete", r"no tool ends the episode: .*ends=True", "class E", {"ends=True": ""}),
    tool("no judge", "is_complete", r"E has no judge\(\)", "class E", {"    def judge(self):\n" + JUDGE: ""}),
    # What is returned.
    text("act returns a tuple", "episodes_play",
         RETURNED.format(r"a tuple, \('hi', 0.0, True\)"), "def act", {NO: '("hi", 0.0, True)'}),
    text("act returns a number", "episodes_play", RETURNED.format("an int, 3"), "def act", {NO: "3"}),
    text("act returns nothing", "episodes_play", RETURNED.format("nothing"), "def act", {f"        return {NO}\n": ""}),
    text("start returns a dict", "begins", r"E.start\(\) returned a dict.*; return the first observation: text",
         "def start", {'"Say the word."': '{"text": "Say"}'}),
    text("oracle returns a number", "episodes_play", "an action must be text, a ToolCall or an Action; got an int, 3",
         "def oracle", {"return self.word": "return 3"}),
    tool("judge returns nothing", "episodes_play", r"E.judge\(\) returned nothing; return tw.Score", "def judge",
         {JUDGE: "        return None\n"}),
    tool("a tool returns an array", "episodes_play", "'go' returned a ndarray, .* converted to JSON.*; return text",
         "@tw.tool", {'"There."': "np.arange(3)"}),
    tool("a tool returns an object", "episodes_play", "'go' returned a object, .* converted to JSON", "@tw.tool",
         {'"There."': "object()"}),
    text("reward None", "episodes_play", "reward None is not a finite number; return a float", "None)",
         {NO: 'tw.running("No.", None)'}),
    text("reward NaN", "episodes_play", "reward nan is not a finite number", "nan", {NO: 'tw.running("No.", np.nan)'}),
    text("reward as text", "episodes_play", "reward '1' is not a finite number", "'1'", {NO: "tw.running('No', '1')"}),
    text("terminated and truncated", "episodes_play", "never both", "tw.Step(",
         {NO: 'tw.Step(tw.Observation.of("No"), terminated=True, truncated=True)'}),
    # What is raised.
    text("start raises", "begins", r"reset\(\) raised KeyError: 'world'", "['world']", {PICK: "{}['world']"}),
    tool("a tool raises", "episodes_play",
         r"ValueError: internal bug .*; in the tool 'go'; .*raise tw.ToolError", "internal bug",
         {"self.at = n": "raise ValueError('internal bug')"}),
    text("act trusts its input", "any_action_is_answered", "raised ValueError.*; raise tw.UnparseableError", "int(",
         {"action.word() == self.word": "int(action.text) if action.text[:1] == '9' else action.word() == self.word"}),
    text("a near miss that succeeds", "near_misses_fail", "near miss 'shout' succeeds; make act.. or judge.. refuse it",
         "def near_misses", {"    def oracle": "    def near_misses(self):\n        return {'shout': [self.word]}\n"
                                               "    def oracle"}),
    # What is put in the place of the environment's own.
    text("self.task", "begins", r"E.task is a read-only property of the environment, and self.task = … .a str. would "
         "replace it; give your attribute another name", "self.task =",
         {"self.word = rng": "self.task = 'spell'\n        self.word = rng"}),
    text("self._turn", "episodes_play", "E._turn is a state of the environment", "self._turn",
         {"        if action": "        self._turn = 1\n        if action"}),
    tool("self.said", "begins", "E.said is a method of the environment, and self.said = … .a str.", "self.said",
         {"self.goal, self.at": "self.said = ''\n        self.goal, self.at"}),
    tool("self.tools in the constructor", "is_complete", "E.tools is a read-only property of the env", "self.tools",
         {"    max_turns = 5\n": "    def __init__(self, **k):\n        self.tools = []\n"
                                "        super().__init__(**k)\n"}),
    # How tools are written.
    tool("a tool without self", "is_complete",
         r"'go' has no self; write def go\(self", "@tw.tool", {"self, n: int": "n: int"}),
    tool("an unknown type", "is_complete",
         "tool 'go': a type in its signature cannot be resolved", "", {"n: int": "n: 'Intt'"}),
    tool("another type than the oracle's", "oracle_solves",
         "action of turn 1 was refused: .*Input should be a valid list",
         "def oracle", {"n: int": "n: list[int]"}),
    tool("a documented argument that does not exist", "is_complete",
         "describes 'm', which is not an argument .it takes n.",
         "@tw.tool", {"            n: where to.": "            m: where to."}),
    # What an episode may not depend on.
    text("the global generator", "no_global_rng", RNG.format("random.choice|random.getrandbits"), "random.choice",
         {PICK: "random.choice(['ab', 'cd'])"}),
    text("NumPy's global generator", "no_global_rng",
         RNG.format("numpy.random"), "", {PICK: "'abcdef'[np.random.randint(6)]"}),
    text("a generator of NumPy without a seed", "no_global_rng", RNG.format("urandom"), "default_rng",
         {PICK: "'abcdef'[np.random.default_rng().integers(6)]"}),
    text("a generator without a seed", "no_global_rng", RNG.format("without a seed"), "random.Random()",
         {PICK: "random.Random().choice(['ab', 'cd'])"}),
    text("a generator without a seed, made by the constructor", "no_global_rng",
         RNG.format("without a seed"), "Random()",
         {"    max_turns = 5\n": "    max_turns = 5\n    def __init__(self, **k):\n        super().__init__(**k)\n"
                                "        self.r = random.Random()\n", PICK: "self.r.choice(['ab', 'cd'])"}),
    text("the clock", "no_clock", r"reads the clock: time.time\(\).*; count turns", "time.time()",
         {NO: 'tw.running(f"It is {time.time()}.")'}),
    text("a shared list", "instances_are_separate", SHARED.format("E.said"), "",
         {"    max_turns = 5\n": "    max_turns = 5\n    said = []\n",
          NO: "self.said.append(1) or str(len(self.said))"}),
    text("a mutable default", "instances_are_separate", SHARED.format("a default argument of E.act"), "",
         {"def act(self, action)": "def act(self, action, said=[])", NO: "said.append(1) or str(len(said))"}),
    text("a global variable", "instances_are_separate", SHARED.format(r"\w+.COUNT"), "",
         {"class E": "COUNT = 0\n\nclass E", NO: "str(COUNT)",
          "        if action": "        global COUNT\n        COUNT += 1\n        if action"}),
    text("environment variables", "no_environment_variables", "os.environ.*; make it an argument", "os.environ",
         {NO: 'tw.running(os.environ.get("HOME", "No."))'}),
    text("the network", "no_network", "the address of 192.0.2.1:9.*; load what it needs before", "getaddrinfo",
         {NO: "socket.getaddrinfo('192.0.2.1', 9) and 'No.'"}),
    # What an agent and a reader see.
    text("print", "prints_nothing",
         r"print\('DEBUG'\).*; remove it, or use logging", "print(", {NO: "print('DEBUG') or 'No.'"}),
    text("a huge observation", "observations_bounded", "100,000 characters.*shorten what is shown", "def act",
         {NO: "'A' * 100_000"}),
    text("an ignored seed", "seeds_matter",
         r"the seed is ignored.*draw the task from rng", "def start", {PICK: "'ab'"}),
    text("an oracle that is wrong", "oracle_solves",
         r"stopped by the turn limit after 5 turns; .*check oracle\(\)", "def oracle",
         {"return self.word": "return self.word[::-1]"}),
]  # fmt: skip

LEFT_OUT = {"two_processes_agree", "leaks_nothing"}
"""Slow laws, which another process and many episodes try."""
QUICK_LAWS = [law.name for law in LAWS if law.name not in LEFT_OUT]
Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Import a source as a file of an author."""

    def load(source: str) -> ModuleType:
        path = tmp_path / "my_mistake.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location("my_mistake", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "my_mistake", module)
        spec.loader.exec_module(module)
        return module

    return load


def spoiled(mistake: Mistake) -> str:
    source = mistake.source
    for old, new in mistake.changes.items():
        assert source.count(old) == 1, f"{old!r} must stand once in the source"
        source = source.replace(old, new)
    return source


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_one_finding_with_its_line_and_its_cure(mistake: Mistake, load: Load) -> None:
    source = spoiled(mistake)
    certificate = certify(load(source).E, quick=True, laws=QUICK_LAWS)
    broken = [verdict for verdict in certificate.verdicts if verdict.status is Status.FAIL]
    assert [verdict.law for verdict in broken] == [mistake.law], certificate
    finding = broken[0].reason
    assert re.search(mistake.words, finding, re.DOTALL), f"the finding lacks {mistake.words!r}: {finding}"
    lines = [number for number, line in enumerate(source.splitlines(), 1) if mistake.line and mistake.line in line]
    named = [int(number) for number in re.findall(r"my_mistake.py:(\d+)", finding)]
    assert set(lines[:1]) <= set(named), f"the finding names the lines {named}, not {lines}: {finding}"


@pytest.mark.parametrize("source", [TEXT, TOOL], ids=["text", "tool"])
def test_without_a_mistake_there_is_no_finding(source: str, load: Load) -> None:
    assert certify(load(source).E, quick=True, laws=QUICK_LAWS).passed


@pytest.mark.parametrize("judged", ["self.at == self.goal", "tw.Score(success=np.bool_(self.at == self.goal))"])
def test_a_truth_value_of_any_kind_is_a_judgment(judged: str, load: Load) -> None:
    source = TOOL.replace("tw.Score(success=self.at == self.goal)", judged)
    certificate = certify(load(source).E, quick=True, laws=QUICK_LAWS)
    assert certificate.passed, certificate


@pytest.mark.slow
def test_a_tool_that_raises_is_one_finding_whatever_law_calls_it(load: Load) -> None:
    bug = "if n < 1:\n            raise ValueError('internal bug')\n        self.at = n"
    laws = ["tools_never_raise", "random_at_floor", "leaks_nothing"]
    certificate = certify(load(TOOL.replace("self.at = n", bug)).E, quick=True, laws=laws)
    assert certificate.broken == ("tools_never_raise",), certificate
    assert "raise tw.ToolError" in certificate.verdicts[0].reason, "the finding with the cure comes first"
    skipped = [verdict.reason for verdict in certificate.verdicts if verdict.status is Status.SKIP]
    assert skipped == ["it met the error that tools_never_raise reports; try it without that"] * 2


def test_what_could_not_be_tried_is_one_line(load: Load) -> None:
    certificate = certify(load(spoiled(MISTAKES[0])).E, quick=True)
    lines = [line for line in str(certificate).splitlines() if line.startswith("SKIP")]
    assert lines == [
        f"SKIP  {len(LAWS) - 1} laws: is_complete is broken, and they would only repeat that; "
        "they are tried once it holds"
    ]
    assert "my_mistake.py" in certificate.verdicts[0].reason


def test_a_verdict_carries_the_environments_own_traceback(load: Load) -> None:
    mistake = next(one for one in MISTAKES if one.name == "a tool raises")
    verdict = certify(load(spoiled(mistake)).E, quick=True, laws=["episodes_play"]).verdicts[0]
    assert "raise ValueError('internal bug')" in verdict.traceback
    assert "turnwise/envs" not in verdict.traceback, "it begins with the environment's code"


# -- time, by a clock that the test holds ------------------------------------------------------------------------

SLOW = TEXT.replace("class E", "NOW = [0.0]\n\nclass E").replace(
    "max_turns = 5", "max_turns, contract = 5, tw.Contract(max_seconds=60.0)"
)
SLOW = SLOW.replace("        if action", "        NOW[0] += SECONDS\n        if action")


def timed(load: Load, step: float, **more: Any) -> tuple[Certificate, float]:
    module = load(SLOW.replace("SECONDS", str(step)))
    certificate = certify(module.E, quick=True, laws=QUICK_LAWS, clock=lambda: module.NOW[0], **more)
    return certificate, module.NOW[0]


def test_an_act_that_is_too_slow_is_named(load: Load) -> None:
    certificate, _ = timed(load, 90)
    assert certificate.broken == ("episodes_play",)
    finding = next(one.reason for one in certificate.verdicts if one.law == "episodes_play")
    cure = r"step\(\) took 90.0 s; make act\(\) faster, or declare a larger max_seconds .*my_mistake.py:12"
    assert re.search(cure, finding), finding


def test_a_busy_machine_is_not_the_environments_fault(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "machine_load", lambda: 11.0)
    certificate, _ = timed(load, 90)
    assert certificate.passed, certificate
    finding = next(one for one in certificate.verdicts if one.law == "episodes_play")
    assert (finding.status, finding.unsettled) == (Status.SKIP, True), "a resumed certification tries it again"
    assert "took 90.0 s, and max_seconds is 60, while 11.0 processes shared each processor" in finding.reason


@pytest.mark.slow
def test_an_environment_that_hangs_on_a_busy_machine_is_not_waited_for(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "machine_load", lambda: 11.0)
    hangs = TEXT.replace("max_turns = 5", "max_turns, contract = 5, tw.Contract(max_seconds=0.5)")
    hangs = hangs.replace("        if action", "        __import__('threading').Event().wait()\n        if action")
    (verdict,) = certify(load(hangs).E, quick=True, laws=["episodes_play"]).verdicts
    assert (verdict.status, verdict.unsettled) == (Status.SKIP, True)
    assert "has not answered within 0.5 s" in verdict.reason


@pytest.mark.parametrize("ends", [True, False], ids=["which-ends", "which-hangs"])
def test_a_call_left_behind_breaks_no_other_law(load: Load, monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    """The first reset hangs until the second has failed with it, as games that share a process do."""
    monkeypatch.setattr(harness, "machine_load", lambda: 11.0)
    resets, go = [], threading.Event()

    class Shared(load(TEXT).E):  # type: ignore[misc]
        contract = tw.Contract(max_seconds=1.0)

        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
            resets.append(task)
            if len(resets) == 1:
                go.wait()
            if len(resets) == 2:
                if ends:
                    go.set()
                    for thread in [one for one in threading.enumerate() if one.name == "certify-begins"]:
                        thread.join(30)
                raise RuntimeError("the process died in the call of another game")
            return super().start(task, rng)

    certificate = certify(Shared, quick=True, laws=["begins", "episodes_play"])
    begins, plays = certificate.verdicts
    assert (begins.status, begins.unsettled) == (Status.SKIP, True)
    if ends:
        assert plays.status is Status.PASS, f"a law is tried again without the call: {plays}"
    else:
        assert (plays.status, plays.unsettled) == (Status.SKIP, True), plays
        assert "the call that begins left behind still runs, and may be the cause of this" in plays.reason
        assert "died in the call of another game" in plays.reason


def test_a_law_that_hangs_by_itself_is_broken_whatever_another_left_behind(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reset hangs on a busy machine and goes on; then every step hangs, and the machine is idle."""
    busy, go = [11.0], threading.Event()
    monkeypatch.setattr(harness, "machine_load", lambda: busy[0])
    resets: list[tw.TaskSpec] = []

    class Hanging(load(TEXT).E):  # type: ignore[misc]
        contract = tw.Contract(max_seconds=1.0)

        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
            resets.append(task)
            if len(resets) == 1:
                go.wait()
            busy[0] = 0.0
            return super().start(task, rng)

        def act(self, action: tw.Action) -> Any:
            go.set()
            threading.Event().wait()

    begins, plays = certify(Hanging, quick=True, laws=["begins", "episodes_play"]).verdicts
    assert begins.unsettled
    assert plays.status is Status.FAIL, plays
    assert "step() has not answered within max_seconds = 1 s" in plays.reason


def test_a_slow_environment_is_certified_in_the_time_that_there_is(load: Load) -> None:
    certificate, took = timed(load, 3, seconds=600)
    assert certificate.passed, certificate
    assert took < 660, "no more than what one law may need to notice"
    skipped = [one for one in certificate.verdicts if one.status is Status.SKIP and "--minutes" in one.reason]
    assert skipped, "what did not fit is said"
    held = {one.law for one in certificate.verdicts if one.status is Status.PASS}
    assert {"is_complete", "begins", "no_global_rng", "oracle_solves"} <= held, "the first things come first"


def test_time_that_runs_out_in_a_fork_is_not_the_environments_fault(load: Load) -> None:
    module = load(SLOW.replace("SECONDS", "3"))
    laws = ["fork_equals_original", "fork_is_independent"]
    budgets = range(30, 300, 30)
    found = [certify(module.E, quick=True, laws=laws, clock=lambda: module.NOW[0], seconds=each) for each in budgets]
    broken = [certificate.broken for certificate in found if certificate.broken]
    assert not broken, "what did not fit is skipped"
    assert any("--minutes" in verdict.reason for one in found for verdict in one.verdicts), "and something did not fit"


def test_a_missing_random_player_is_noted(load: Load) -> None:
    notes = [certify(load(source).E, quick=True, laws=["random_at_floor"]).verdicts[0] for source in (TEXT, TOOL)]
    assert [verdict.status for verdict in notes] == [Status.PASS, Status.PASS]
    assert notes[0].reason.startswith("random_action() is not written")
    assert not notes[1].reason, "tools are called at random by their schemas"


def test_a_start_of_release_0_1_is_certified_with_a_remark(load: Load) -> None:
    family = "class F(tw.TaskFamily):\n    name = 'f'\n    def build(self, spec, rng):\n        return 1\n\nclass E"
    source = TEXT.replace("class E", family).replace("max_turns = 5", "max_turns, family = 5, F()")
    module = load(source.replace("start(self, task, rng)", "start(self, task: tw.TaskSpec, rng)"))
    with pytest.warns(DeprecationWarning, match=r"E.start\(\) takes a TaskSpec"):
        certificate = certify(module.E, quick=True, laws=["is_complete", "begins"])
    assert certificate.passed, certificate
    (remark,) = [one.reason for one in certificate.verdicts if one.law == "is_complete"]
    assert re.search(r"Write start\(self, task: int, rng\), .* \(at .*my_mistake.py:\d+ in E.start\)", remark), remark


class Boxed(tw.TurnEnv):
    """An environment whose sandbox this machine lacks."""

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        raise SandboxUnavailableError("no engine runs here: start one")

    def act(self, action: tw.Action) -> tw.Step:
        return tw.success("Yes.")


def test_a_sandbox_that_the_machine_lacks_is_no_verdict() -> None:
    with pytest.raises(SandboxUnavailableError, match="no engine runs here"):
        certify(Boxed, quick=True, laws=["begins"])
