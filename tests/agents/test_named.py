"""The values of --policy, and the errors for unknown ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from turnwise.agents.chat import ChatAgent
from turnwise.agents.named import agent_from, fingerprint
from turnwise.agents.scripted import FunctionAgent, MixedAgent, NullAgent, OracleAgent, RandomAgent
from turnwise.agents.settings import AgentSettings
from turnwise.errors import ModelError, UsageError


@pytest.mark.parametrize(
    ("spec", "kind"),
    [("oracle", OracleAgent), ("random", RandomAgent), (" null ", NullAgent), ("mixed:0.35", MixedAgent)],
)
def test_scripted_agents_by_name(spec: str, kind: type) -> None:
    assert isinstance(agent_from(spec), kind)


def test_mixtures_may_name_several_skills() -> None:
    agent = agent_from("mixed:0,0.5,1")
    assert isinstance(agent, MixedAgent)
    assert (agent.skills, agent.habits) == ((0.0, 0.5, 1.0), 0.0)


def test_a_mixture_may_have_habits() -> None:
    agent = agent_from("mixed:0.45,0.55,habits=0.25")
    assert isinstance(agent, MixedAgent)
    assert (agent.skills, agent.habits) == ((0.45, 0.55), 0.25)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_policies_for_test.py").write_text(
        "from turnwise.agents.scripted import NullAgent\n"
        "def left(text): return 'left'\n"
        "class Mine(NullAgent): pass\n"
        "class Capped(NullAgent):\n"
        "    def __init__(self, cap): pass\n"
        "ready = NullAgent()\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_policies_for_test", raising=False)
    return "my_policies_for_test"


@pytest.mark.parametrize(("name", "kind"), [("left", FunctionAgent), ("Mine", NullAgent), ("ready", NullAgent)])
def test_functions_and_agents_are_imported_from_the_working_directory(module: str, name: str, kind: type) -> None:
    assert isinstance(agent_from(f"function:{module}:{name}"), kind)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{module}:number", "int, but must be a function or an agent"),
        ("{module}:nothing", "has no 'nothing'"),
        ("{module}:Capped", "cannot be created .*missing 1 required .* 'cap'.*name an object of it"),
        ("not_there_at_all:x", "cannot import"),
        ("{module}.py:left", "cannot import .*; the module of the file {module}.py is '{module}'"),
        ("{module}", "must have the form function:module:name"),
    ],
)
def test_wrong_imports_say_what_is_wrong(module: str, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.format(module=module)):
        agent_from("function:" + name.format(module=module))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "there is no policy ''; use oracle, random, null"),
        ("oracel", "use oracle, random, null"),
        ("careful", "for a function or class of yours, write function:MODULE:careful"),
        ("mixed:high", "a skill must be a number"),
        ("mixed:1.5", "a number from 0 to 1, e.g. mixed:0.35"),
        ("mixed:0.5,habits=often", "and so must habits, which come last"),
        ("mixed:habits=0.5", "and so must habits, which come last"),
        ("mixed:0.5,habits=2", "and so must habits"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9 cannot be reached"),
        ("http://", "must look like http://host:port"),
        ("http://127.0.0.1:9,http://127.0.0.1:9", "name each server once"),
        ("runs/none/model", "there is no model at runs/none/model"),
        ("openai/gpt-4o", "write openai:gpt-4o"),
    ],
)
def test_a_policy_that_does_not_exist_is_one_line_that_says_what_does(spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        agent_from(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("spec", ["oracle", " random", "null", "mixed:0,1", "function:{module}:left"])
@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"temperature": 0.0}, "temperature"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"agent": AgentSettings(top_p=0.5)}, "agent.top_p"),
        ({"agent": AgentSettings(temperature=1.0)}, "temperature"),
    ],
)
def test_what_is_not_a_model_has_no_temperature(module: str, spec: str, settings: dict[str, Any], name: str) -> None:
    given = spec.format(module=module)
    with pytest.raises(
        UsageError, match=f"^{name} has no effect on '{given.strip()}', which is not a model: .* folder"
    ):
        agent_from(given, **settings)
    assert agent_from(given, agent=AgentSettings()), "defaults are not set"


def test_settings_survive_and_are_the_defaults_where_there_are_none(tmp_path: Path) -> None:
    assert AgentSettings.beside(tmp_path) == AgentSettings()
    settings = AgentSettings(context="last:2", parser="tagged", temperature=0.0, system="Be brief.")
    settings.save(tmp_path)
    assert AgentSettings.beside(tmp_path) == settings


@pytest.mark.parametrize("content", ["{", '{"context": "all"}', '{"unknown": 1}', '{"temperature": -1}'])
def test_damaged_settings_are_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "agent.json").write_text(content)
    with pytest.raises(ModelError, match=r"agent\.json"):
        AgentSettings.beside(tmp_path)


def test_a_model_folder_becomes_an_agent_with_its_settings(tmp_path: Path) -> None:
    from turnwise.inference.models import save_model
    from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer

    nano = NanoConfig(size="0.1M", context_length=128)
    tokenizer = build_tokenizer("word", ["go left or right"])
    save_model(build_model(nano, tokenizer), tokenizer, tmp_path / "model")
    AgentSettings(context="last:1", max_tokens=5, temperature=0.5).save(tmp_path / "model")
    agent = agent_from(str(tmp_path / "model"), temperature=0.0)
    assert isinstance(agent, ChatAgent)
    assert (agent.sampling.max_tokens, agent.sampling.temperature) == (5, 0.0)
    assert type(agent.context).__name__ == "LastTurns"


def test_a_fingerprint_names_weights_and_settings_and_not_their_place(tmp_path: Path) -> None:
    for name, weights in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(weights)
    one, same, other = (fingerprint(str(tmp_path / name)) for name in "abc")
    assert one == same != other
    AgentSettings(temperature=0.5).save(tmp_path / "b")
    assert fingerprint(str(tmp_path / "b")) != one
    assert fingerprint("oracle") is fingerprint("mixed:0.5") is fingerprint(str(tmp_path / "none")) is None


@pytest.mark.slow
def test_scripted_policies_need_no_torch() -> None:
    """Evaluating an oracle must not wait for torch to load."""
    code = (
        "import sys; from turnwise.agents.named import agent_from; agent_from('oracle'); print('torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"
